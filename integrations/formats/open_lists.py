"""Opens candidate lists in any format by its name, with the same checks over all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from ...metrics.errors import InputError, unknown
from ...metrics.storage.line_source import LineSource, NumberedLines
from ...rerank.runs.input_lines import Lines
from ...rerank.runs.output_checks import check_beside
from ..arrow.open_rows import open_rows, placed_entries
from ..files.entries import OWN_LIST_ID, ListEntry, RecordOrder, with_order_errors
from .form_names import DOCUMENT_FORMS
from .jsonl import JsonEntries, entry_of_line, read_jsonl


class Lists:
    """The entries of one file, in a single pass; a context manager that closes it.

    Args:
        sources: the files read, the one with the candidates first.
        entries: what a reader makes of them.
        lower: names of human scores of which lower ones are better.
    """

    def __init__(
        self,
        sources: Sequence[NumberedLines],
        entries: Iterator[ListEntry],
        lower: frozenset[str],
    ) -> None:
        self._sources = sources
        self.name = sources[0].name
        self.lower = lower
        order = RecordOrder(OWN_LIST_ID)
        self._ordered = with_order_errors(entries, self.name, order)
        self._entries = placed_entries(sources[0], self._ordered)
        # the entries not yet read, as lines that others can read; None where an entry is not one line of a text file
        self.lines: Lines | None = None
        if isinstance(entries, JsonEntries) and isinstance(sources[0], LineSource):
            size = partial(_text_bytes, sources[0])
            self.lines = Lines(entries.lines, entry_of_line, order.fault, size)

    def __iter__(self) -> Iterator[ListEntry]:
        """The entries not yet read."""
        return self._entries

    def fraction(self) -> float | None:
        """The share of the file read so far, None where its end is not known."""
        return self._sources[0].fraction()

    def close(self) -> None:
        """Closes the files; also done at their end."""
        self._ordered.close()
        for source in self._sources:
            source.close()

    def __enter__(self) -> Lists:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Closes the files."""
        self.close()


def _text_bytes(source: LineSource) -> int | None:
    """How much text a file holds, where that is known by now."""
    return source.text_bytes


OpenedFiles = tuple[list[NumberedLines], Iterator[ListEntry]]
OpenFormat = Callable[[str | Path, Mapping[str, Any]], OpenedFiles]  # of a path and the options


@dataclass(frozen=True, slots=True)
class _Format:
    """A format: what it is in words, how its files are opened, and the options it has."""

    about: str
    open: OpenFormat
    options: frozenset[str] = frozenset()


def _one_file(reader: str) -> OpenFormat:
    """How to open a format of one file that is read without options, by ``module:function``."""

    def open_file(path: str | Path, options: Mapping[str, Any]) -> OpenedFiles:
        module, _, name = reader.partition(":")
        read = getattr(import_module(f".{module}", __package__), name)
        source = LineSource(path)
        return [source], read(source)

    return open_file


def _open_jsonl(path: str | Path, options: Mapping[str, Any]) -> OpenedFiles:
    if os.path.isdir(path):
        _check_folder(path)
    source = open_rows(path, options["columns"], "list")
    return [source], read_jsonl(source)


def _check_folder(path: str | Path) -> None:
    """Raises InputError for a folder whose format can be told."""
    from .mtme.eval_set_folder import is_eval_set_folder

    if is_eval_set_folder(path):
        problem, fix = "is the folder of a test set of mt-metrics-eval", "Add --from mtme"
        raise InputError(problem, where=str(path), fix=fix)


def _open_flat(path: str | Path, options: Mapping[str, Any]) -> OpenedFiles:
    from .flat import count_candidates, read_flat

    num_candidates = count_candidates(path, options["sources"], options["num_candidates"])
    candidates = LineSource(path)
    if options["sources"] is None:
        return [candidates], read_flat(candidates, num_candidates)
    sources = LineSource(options["sources"])
    return [candidates, sources], read_flat(candidates, num_candidates, sources)


def _open_fairseq(path: str | Path, options: Mapping[str, Any]) -> OpenedFiles:
    from .fairseq_log import read_fairseq
    from .flat import count_lines

    num_sentences = None if options["sources"] is None else count_lines(options["sources"])
    source = LineSource(path)
    return [source], read_fairseq(source, num_sentences)


def _open_systems(path: str | Path, options: Mapping[str, Any]) -> OpenedFiles:
    from .document_forms import open_documents
    from .human_scores import HumanKey
    from .systems import SystemsOptions, read_systems

    keys = tuple(map(HumanKey.read, options["human"]))
    systems_options = SystemsOptions(keys, options["as_systems"], options["include"])
    source = open_documents(path, columns=options["columns"])
    return [source], read_systems(source, systems_options)


def _of_form(form: str) -> OpenFormat:
    """How to open documents with systems in another form than the systems file."""

    def open_file(path: str | Path, options: Mapping[str, Any]) -> OpenedFiles:
        from .document_forms import open_documents
        from .human_scores import HumanKey
        from .systems import SystemsOptions, read_systems

        keys = tuple(map(HumanKey.read, options["human"]))
        source = open_documents(path, form, options["language_pair"])
        return [source], read_systems(source, SystemsOptions(keys, options["as_systems"]))

    return open_file


def _open_batch(path: str | Path, options: Mapping[str, Any]) -> OpenedFiles:
    from .batch import read_batch

    source = LineSource(path)
    if options["requests"] is None:
        return [source], read_batch(source)
    requests = LineSource(options["requests"])
    return [source, requests], read_batch(source, requests)


_NUMBERED = frozenset({"sources", "documents"})
_FORMATS = {
    "jsonl": _Format(
        "JSON lines, one candidate list per line, or the rows of a Parquet or Arrow file",
        _open_jsonl,
        frozenset({"columns"}),
    ),
    "flat": _Format("text, N lines per source", _open_flat, _NUMBERED | {"num_candidates"}),
    "fairseq": _Format("log of fairseq-generate or fairseq-interactive", _open_fairseq, _NUMBERED),
    "marian": _Format(
        "Marian n-best list: id ||| text ||| F0= logprob ||| score",
        _one_file("marian:read_marian"),
        _NUMBERED,
    ),
    "moses": _Format(
        "Moses n-best list: id ||| text ||| features ||| score",
        _one_file("moses:read_moses"),
        _NUMBERED,
    ),
    "sockeye": _Format(
        "JSON lines of sockeye-translate --nbest-size",
        _one_file("sockeye:read_sockeye"),
        _NUMBERED,
    ),
    "batch": _Format(
        "output of OpenAI's batch service or of vLLM's run-batch",
        _open_batch,
        frozenset({"requests"}),
    ),
    "lm-eval": _Format("samples of lm-evaluation-harness", _one_file("harness:read_harness")),
    "systems": _Format(
        "systems file, one document per line with the texts of several systems",
        _open_systems,
        frozenset({"human", "as_systems", "include", "columns"}),
    ),
    **{
        form: _Format(about, _of_form(form), frozenset({"human", "as_systems", "language_pair"}))
        for form, about in DOCUMENT_FORMS.items()
    },
}
_ABOUT = {name: format.about for name, format in _FORMATS.items()}
FORMATS: Mapping[str, str] = MappingProxyType(_ABOUT)


def open_lists(
    path: str | Path,
    format: str = "jsonl",
    *,
    num_candidates: int | None = None,
    sources: str | Path | None = None,
    documents: str | Path | None = None,
    requests: str | Path | None = None,
    human: Sequence[str] = (),
    as_systems: Sequence[str] = (),
    include: Sequence[str] = (),
    columns: Sequence[str] = (),
    language_pair: str | None = None,
) -> Lists:
    """The candidate lists in a file.

    Args:
        path: a file, plain or gzip; ``-`` is standard input.
        format: one of `FORMATS`.
        num_candidates: of ``flat``: lines per list; may be left out where there are sources.
        sources, documents: of formats whose ids are numbers of lines: files with the source and the document id of
            every list, one per line.
        requests: of ``batch``: the file of requests.
        human, as_systems, include: of ``systems``: keys of human scores (``mqm:lower``), references to be read as
            systems, keys with further systems.
        columns: of ``jsonl`` and ``systems`` in a Parquet or Arrow file: ``KEY=COLUMN``.
        language_pair: of ``mtme``: the language pair of the folder.

    Raises:
        InputError: the format or an option is not known, the file cannot be opened, or it is the output of a run and
            not what the run file beside it says. Iterating raises it where the file must be refused whole; a bad
            record is an error entry.
    """
    if format not in _FORMATS:
        raise unknown("format", format, _FORMATS)
    options: dict[str, Any] = {
        "num_candidates": num_candidates,
        "sources": sources,
        "documents": documents,
        "requests": requests,
        "human": _names(human),
        "as_systems": _names(as_systems),
        "include": _names(include),
        "columns": _names(columns),
        "language_pair": language_pair,
    }
    _check_options(options, format)
    if [str(name) for name in (path, sources, documents, requests)].count("-") > 1:
        raise InputError(
            "standard input twice",
            where="sources",
            fix="Give one of them as a file",
        )
    check_beside(path)
    opened, entries = _FORMATS[format].open(path, options)
    aligned = _aligned_files(options, format)
    opened += aligned.values()
    if aligned:
        from .aligned_files import with_aligned_lines

        every_line = format != "fairseq"
        entries = with_aligned_lines(entries, opened[0].name, aligned, every_line)
    return Lists(opened, entries, _lower(options["human"]))


def _lower(human: Sequence[str]) -> frozenset[str]:
    """The names of those human scores of which lower ones are better."""
    if not human:
        return frozenset()
    from .human_scores import HumanKey

    return frozenset(key.name for key in map(HumanKey.read, human) if key.lower)


def _names(value: Sequence[str]) -> tuple[str, ...]:
    """The names in an option, which may be a single one."""
    return (value,) if isinstance(value, str) else tuple(value)


def _check_options(options: Mapping[str, Any], format: str) -> None:
    """Raises InputError for an option that is given and that the format does not have."""
    known = _FORMATS[format].options
    for key, value in options.items():
        if key not in known and value not in (None, ()):
            raise InputError(
                f"not an option of the format {format!r}",
                where=key,
                fix=f"Its options: {', '.join(sorted(known)) or 'none'}",
            )


def _aligned_files(options: Mapping[str, Any], format: str) -> dict[str, LineSource]:
    """The files of one line per list; the flat format reads its sources itself."""
    paths = {
        "source": None if format == "flat" else options["sources"],
        "document": options["documents"],
    }
    return {column: LineSource(path) for column, path in paths.items() if path is not None}
