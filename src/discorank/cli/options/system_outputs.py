"""Outputs of systems as commands read them, and whose judgements of them count.

Outputs stand in files of their own, in folders of mt-metrics-eval or in systems files; judgements in these or in files
of their own, of one rater or several, or as preferences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from ...integrations.formats.document_outputs import read_documents, read_each
from ...integrations.formats.human_scores import HumanKey
from ...integrations.formats.open_lists import open_documents, recognised_documents
from ...integrations.formats.readers.systems import SystemsOptions
from ...integrations.formats.system_texts import AlignedOutputs, OutputFiles, read_outputs
from ...integrations.formats.wmt.judgements import read_judged, read_rankings, with_judged
from ...integrations.formats.wmt.pearmut import read_judged_by_pearmut
from ...integrations.formats.wmt.rated_rows import Judgement
from ...integrations.formats.wmt.rating_table import is_appraise, read_appraise
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Rare, settings
from ...metrics.storage.line_source import LineSource, NumberedLines
from ...rerank.selection.judged_systems import is_judged
from ...rerank.selection.system_scores import DocumentOutputs
from ...rerank.training.prior_estimation import (
    PREFERENCES,
    with_one_score,
    with_preferences,
)
from ..terminal.console import say

if TYPE_CHECKING:
    pass


@settings
class OutputFileOptions:
    """Systems' outputs in files of their own.

    Args:
        hypotheses: files with the outputs of a system each, in place of a systems file: text with a segment per line,
            what decode wrote, n-best lists (the first candidates count), or systems files.
        references: files of references, for --hypotheses or a table of ratings: a line per segment.
        sources: the file of sources, one per line.
        documents: the file of document ids, one per line; without it every segment of --hypotheses is a document of
            its own.
    """

    heading: ClassVar = "input"

    hypotheses: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    sources: str | None = None
    documents: str | None = None

    def named(self, input: str | None, human: tuple[str, ...] = ()) -> OutputFiles | None:
        """The files that --hypotheses and the options beside it name, None without.

        Args:
            input: an input that is given.
            human: files of human scores.

        Raises:
            InputError: an input beside files.
        """
        if not self.hypotheses:
            return None
        if input:
            fix = "Name all files after --hypotheses"
            raise InputError("is given beside --hypotheses", where=input, fix=fix)
        return OutputFiles(self.hypotheses, self.references, self.sources, self.documents, human)


def aligned_outputs(files: OutputFiles) -> AlignedOutputs:
    """The documents of the files, errors as `read_outputs`; says where ids lack, and what is left out."""
    outputs = read_outputs(files)
    if not outputs.has_documents:
        say(
            "every segment is a document of its own; where segments share documents, give ids with --documents"
        )
    if outputs.left_out:
        say(f"left out: {', '.join(outputs.left_out)}")
    return outputs


@settings
class EvalSetTexts:
    """Which texts of test sets are read.

    Args:
        language_pair: the language pairs that are read: of a folder of mt-metrics-eval all if not given, of a file
            the only one.
        mqm_weights: what errors of MQM tables count, such as major=10 minor/style=0, where not as at WMT.
    """

    heading: ClassVar = "input"

    language_pair: tuple[str, ...] = ()
    mqm_weights: Annotated[tuple[str, ...], Rare()] = ()


def checked_rows(
    path: str,
    format: str,
    language_pair: str | None,
    keys: Sequence[HumanKey] = (),
    as_systems: Sequence[str] = (),
    references: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """The documents of a file or folder as rows of a systems file, checked, with human scores by dimension.

    Raises:
        InputError: the first document that cannot be read.
    """
    source = open_documents(path, format, language_pair=language_pair, references=references)
    return checked_lines(source, keys, as_systems)


def checked_lines(
    source: NumberedLines, keys: Sequence[HumanKey] = (), as_systems: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """The lines of a systems file as `checked_rows`."""
    for _, document in read_each(source, SystemsOptions(tuple(keys), tuple(as_systems))):
        row = {**document.row, "id": document.id}
        for key, columns in (("systems", document.systems), ("references", document.references)):
            if columns:
                row[key] = {
                    name: texts[0] if document.whole else list(texts)
                    for name, texts in columns.items()
                }
        yield {**row, "human": dict(document.human)} if document.human else row


@settings
class JudgementOptions:
    """What people judged, and who.

    Args:
        human: the key of the human scores, such as mqm:lower.
        judged: files of judgements, a line per segment or document: {"id": "d7:3", "mqm": {"A": 1}, "rater": "anna"},
            or what Pearmut and Appraise write; they join those of the systems file.
        raters: the keys of --human are raters who judged the same thing; how strict each is, is taken off.
        rankings: a JSONL of preferences in place of scores, {"id": "d7:3", "ranks": {"A": 1, "B": 2}}, rank 1 is best.
        as_systems: references to treat as systems.
        include: further keys that hold systems.
        language_pair: the language pair that is read, of files with several.
        mqm_weights: what errors of MQM tables count, such as major=10 minor/style=0, where not as at WMT.
    """

    heading: ClassVar = "judgements"

    human: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    raters: bool = False
    rankings: str | None = None
    as_systems: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    language_pair: Annotated[str | None, Rare()] = None
    mqm_weights: Annotated[tuple[str, ...], Rare()] = ()


class JudgedDocuments(NamedTuple):
    """Documents with one dimension of judgements.

    Args:
        documents: with their judgements.
        dimension: its name.
        lower: whether lower is better.
    """

    documents: list[DocumentOutputs]
    dimension: str
    lower: bool


def judged_documents(path: str, options: JudgementOptions) -> JudgedDocuments:
    """The documents of a systems file, judged as the options say.

    Raises:
        InputError: judgements of several things, or none where they are named.
    """
    judged = _documents(path, options)
    if not is_judged(judged.documents, judged.dimension):
        fix = "Have some segments judged (documents drawn at random will do); decode without --prior needs none"
        raise InputError("nobody judged a text", where=f"{path}: {judged.dimension}", fix=fix)
    return judged


def _documents(path: str, options: JudgementOptions) -> JudgedDocuments:
    """As `judged_documents`, with or without scores."""
    keys = _keys(options)
    texts = SystemsOptions(tuple(keys), options.as_systems, options.include)
    source = open_documents(
        path, language_pair=options.language_pair, mqm_weights=options.mqm_weights
    )
    documents = list(read_documents(source, texts))
    if options.rankings:
        rankings = read_rankings(LineSource(options.rankings))
        return JudgedDocuments(with_preferences(documents, rankings), PREFERENCES, lower=True)
    name, lower = keys[0].name, keys[0].lower
    rows = [row for file in options.judged for row in read_judged_file(file, name)]
    if rows:
        documents = with_judged(documents, rows, name)
    dimensions = sorted({name for document in documents for name in document.human})
    if options.raters or any(row.rating["rater"] is not None for row in rows):
        return JudgedDocuments(with_one_score(documents, dimensions, lower, name), name, lower)
    if len(dimensions) > 1:
        one = dimensions[0] + lower * ":lower"
        fix = f"Name one, such as --human {one}; or, of raters of one thing, --raters"
        raise InputError(f"found {', '.join(dimensions)}", where="--human", fix=fix)
    return JudgedDocuments(documents, (dimensions or [name])[0], lower)


def read_judged_file(path: str, key: str) -> list[Judgement]:
    """The judgements of a file: rows whose scores stand under a key, annotations of Pearmut, or CSV of Appraise.

    Raises:
        InputError: it is of none of these forms; with file and line.

    Warns:
        LeftOutWarning: something was left out.
    """
    form = recognised_documents(path)
    if form == "pearmut":
        return read_judged_by_pearmut(path)
    if form == "rating-table":
        taken = "lines of judgements, or what Pearmut and Appraise write"
        fix = f"Give it as the input, as it has the texts too; --judged takes {taken}"
        raise InputError("is a table of ratings", where=f"--judged {path}", fix=fix)
    if path != "-":
        with closing(LineSource(path)) as source:
            first = next(iter(source), (0, b""))[1]
        if is_appraise(first):
            return read_appraise(path)
    return read_judged(LineSource(path), key)


def _keys(options: JudgementOptions) -> list[HumanKey]:
    """The keys of scores; raises InputError where they do not fit what else is given."""
    keys = [HumanKey.read(name) for name in options.human]
    if options.rankings:
        others = [name for name in ("human", "judged", "raters") if getattr(options, name)]
        if others:
            problem = f"cannot be combined with --{others[0]}"
            raise InputError(problem, where="rankings", fix="Give scores or preferences")
        return []
    if not keys:
        fix = "Give the key of scores, such as mqm:lower"
        raise InputError("is not given", where="human", fix=fix)
    if len({key.lower for key in keys}) > 1:
        problem = "of some keys lower is better, of others higher"
        raise InputError(problem, where="human", fix="Give raters of one thing")
    if len(keys) > 1 and not options.raters:
        names = ", ".join(key.name for key in keys)
        one = options.human[0]
        fix = f"Name one, such as --human {one}; or, of raters of one thing, --raters"
        raise InputError(f"found {names}", where="human", fix=fix)
    return [replace(key, may_lack=True) for key in keys] if options.judged else keys
