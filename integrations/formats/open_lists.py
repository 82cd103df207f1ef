"""Opens candidate lists in any format by its name, with the same checks over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from ...metrics.errors import InputError, unknown
from ...metrics.text.line_source import LineSource
from ..files.entries import Entry, checked
from .aligned_files import attached
from .fairseq_log import read_fairseq
from .flat import count_candidates, count_lines, read_flat
from .human_scores import HumanKey
from .jsonl import read_jsonl
from .marian import read_marian
from .moses import read_moses
from .sockeye import read_sockeye
from .systems import SystemsOptions, read_systems


class Lists:
    """The entries of one file, in a single pass; a context manager that closes it.

    Args:
        sources: the files read, the one with the candidates first.
        entries: what a reader makes of them.
        lower: names of human scores of which lower ones are better.
    """

    def __init__(
        self, sources: Sequence[LineSource], entries: Iterator[Entry], lower: frozenset[str]
    ) -> None:
        self._sources = sources
        self.name = sources[0].name
        self.lower = lower
        self._entries = checked(entries, self.name)

    def __iter__(self) -> Iterator[Entry]:
        """The entries not yet read."""
        return self._entries

    def fraction(self) -> float | None:
        """The share of the file read so far, None where its end is not known."""
        return self._sources[0].fraction()

    def close(self) -> None:
        """Closes the files; also done at their end."""
        self._entries.close()
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


@dataclass(frozen=True, slots=True)
class _Format:
    about: str
    read: Callable[[str | Path, Mapping[str, Any]], tuple[list[LineSource], Iterator[Entry]]]
    options: frozenset[str] = frozenset()


def _plain(reader: Callable[[LineSource], Iterator[Entry]]) -> Any:
    """How to open a format of one file without options."""

    def read(
        path: str | Path, options: Mapping[str, Any]
    ) -> tuple[list[LineSource], Iterator[Entry]]:
        source = LineSource(path)
        return [source], reader(source)

    return read


def _flat(path: str | Path, options: Mapping[str, Any]) -> tuple[list[LineSource], Iterator[Entry]]:
    sources = options["sources"]
    num_candidates = count_candidates(path, sources, options["num_candidates"])
    opened = [LineSource(path)]
    if sources is not None:
        opened.append(LineSource(sources))
    return opened, read_flat(opened[0], num_candidates, *opened[1:])


def _fairseq(
    path: str | Path, options: Mapping[str, Any]
) -> tuple[list[LineSource], Iterator[Entry]]:
    num_sentences = None if options["sources"] is None else count_lines(options["sources"])
    source = LineSource(path)
    return [source], read_fairseq(source, num_sentences)


def _with_lines(
    opened: list[LineSource], entries: Iterator[Entry], options: Mapping[str, Any], format: str
) -> Iterator[Entry]:
    """The entries with what stands in the files of one line per list; these are added to the opened ones."""
    paths = {
        "source": None if format == "flat" else options["sources"],
        "document": options["documents"],
    }
    files = {column: LineSource(path) for column, path in paths.items() if path is not None}
    opened += files.values()
    return (
        attached(entries, opened[0].name, files, every_line=format != "fairseq")
        if files
        else entries
    )


def _systems(
    path: str | Path, options: Mapping[str, Any]
) -> tuple[list[LineSource], Iterator[Entry]]:
    keys = tuple(map(HumanKey.read, options["human"]))
    source = LineSource(path)
    return [source], read_systems(
        source, SystemsOptions(keys, options["as_systems"], options["include"])
    )


_NUMBERED = frozenset({"sources", "documents"})
_FORMATS = {
    "jsonl": _Format("JSON lines, one candidate list per line", _plain(read_jsonl)),
    "flat": _Format("text, N lines per source", _flat, _NUMBERED | {"num_candidates"}),
    "fairseq": _Format("log of fairseq-generate or fairseq-interactive", _fairseq, _NUMBERED),
    "marian": _Format(
        "Marian n-best list: id ||| text ||| F0= logprob ||| score", _plain(read_marian), _NUMBERED
    ),
    "moses": _Format(
        "Moses n-best list: id ||| text ||| features ||| score", _plain(read_moses), _NUMBERED
    ),
    "sockeye": _Format(
        "JSON lines of sockeye-translate --nbest-size", _plain(read_sockeye), _NUMBERED
    ),
    "systems": _Format(
        "systems file, one document per line with the texts of several systems",
        _systems,
        frozenset({"human", "as_systems", "include"}),
    ),
}
FORMATS: Mapping[str, str] = MappingProxyType(
    {name: found.about for name, found in _FORMATS.items()}
)


def open_lists(
    path: str | Path,
    format: str = "jsonl",
    *,
    num_candidates: int | None = None,
    sources: str | Path | None = None,
    documents: str | Path | None = None,
    human: Sequence[str] = (),
    as_systems: Sequence[str] = (),
    include: Sequence[str] = (),
) -> Lists:
    """The candidate lists in a file.

    Args:
        path: a file, plain or gzip; ``-`` is standard input.
        format: one of `FORMATS`.
        num_candidates: of ``flat``: lines per list; may be left out where there are sources.
        sources, documents: of formats whose ids are numbers of lines: files with the source and the document id of
            every list, one per line.
        human, as_systems, include: of ``systems``: keys of human scores (``mqm:lower``), references to be read as
            systems, keys with further systems.

    Raises:
        InputError: the format or an option is not known, or the file cannot be opened. Iterating raises it where the
            file must be refused whole; a bad record is an error entry.
    """
    if format not in _FORMATS:
        raise unknown("format", format, _FORMATS)
    several = {"human": human, "as_systems": as_systems, "include": include}
    options: dict[str, Any] = {
        "num_candidates": num_candidates,
        "sources": sources,
        "documents": documents,
    }
    options |= {
        key: (value,) if isinstance(value, str) else tuple(value) for key, value in several.items()
    }
    used = _FORMATS[format].options
    for key, value in options.items():
        if key not in used and value not in (None, ()):
            raise InputError(
                f"not an option of the format {format!r}",
                where=key,
                fix=f"Its options: {', '.join(sorted(used)) or 'none'}",
            )
    if [str(name) for name in (path, sources, documents)].count("-") > 1:
        raise InputError("standard input twice", where="sources", fix="Give one of them as a file")
    opened, entries = _FORMATS[format].read(path, options)
    entries = _with_lines(opened, entries, options, format)
    return Lists(
        opened,
        entries,
        frozenset(key.name for key in map(HumanKey.read, options["human"]) if key.lower),
    )
