"""Documents with the outputs of systems, as comparisons of systems read them; and the human scores that they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...metrics.errors import InputError
from ...metrics.storage.line_source import NumberedLines
from ...rerank.selection.system_scores import (
    DocumentOutputs,
    Judgements,
    RatedSpan,
    RatedTexts,
    TextRating,
)
from ..files.entries import SeenKeys
from .human_scores import HumanKey
from .readers.systems import (
    RatingRow,
    SystemsDocument,
    SystemsOptions,
    Texts,
    each_document,
)


def read_each(
    source: NumberedLines, options: SystemsOptions | None = None
) -> Iterator[tuple[int, SystemsDocument]]:
    """The documents of a systems file, with their numbers.

    Raises:
        InputError: the first line that is not a document; with file, line, document and system.
    """
    for number, _, document in each_document(source, options):
        if not isinstance(document, SystemsDocument):
            raise document.error or InputError("nothing was read", where=source.name)
        yield number, document


def read_documents(
    source: NumberedLines, options: SystemsOptions | None = None
) -> Iterator[DocumentOutputs]:
    """The documents of a systems file, all their segments.

    Raises:
        InputError: as `read_each`, and at a document that lacks a text or has the id of an earlier one.
    """
    seen = SeenKeys()
    for number, document in read_each(source, options):
        try:
            outputs = outputs_of(document)
            if not seen.add(outputs.id):
                problem = "there was a document of this id before"
                raise InputError(problem, where="id", fix="Give each its own")
        except InputError as error:
            raise error.inside(f"{source.name}:{number}: document {document.id!r:.80}") from None
        yield outputs


def outputs_of(document: SystemsDocument) -> DocumentOutputs:
    """A document as the comparison of systems reads it; raises InputError where a text is missing."""

    def complete(texts: Texts, where: str) -> tuple[str, ...]:
        return tuple([document.text(texts, i, where) for i in range(len(texts))])

    human: dict[str, dict[str, Judgements]] = {}
    for dimension, scores in document.human.items():
        human[dimension] = {
            name: tuple(own) if isinstance(own, list) else own
            for name, own in scores.items()
            if own is not None
        }
    ratings: dict[str, Mapping[str, RatedTexts]] = {}
    for dimension, by_system in document.ratings.items():
        ratings[dimension] = {
            name: tuple([tuple(map(_rating, of_text or ())) for of_text in rated])
            for name, rated in by_system.items()
        }
    return DocumentOutputs(
        document.id,
        document.whole,
        None if document.source is None else complete(document.source, "source"),
        {name: complete(own, f"systems.{name}") for name, own in document.systems.items()},
        {name: complete(own, f"references.{name}") for name, own in document.references.items()},
        human,
        ratings,
    )


def _rating(row: RatingRow | None) -> TextRating | None:
    if row is None:
        return None
    spans = None
    if row.spans is not None:
        spans = tuple(
            RatedSpan(
                span.get("start"),
                span.get("end"),
                span.get("severity"),
                span.get("category"),
                bool(span.get("in_source")),
            )
            for span in row.spans
        )
    return TextRating(row.rater, row.score, spans, row.seconds)


def human_dimensions(
    documents: Sequence[DocumentOutputs], keys: Sequence[HumanKey]
) -> list[tuple[str, bool]]:
    """All dimensions of human scores in order of appearance, with whether lower is better."""
    lower_by_key = {key.name: key.lower for key in keys}
    names = dict.fromkeys(name for document in documents for name in document.human)
    # keys that are no dimension hold several dimensions, or no score
    rest = {key.name: key.lower for key in keys if key.name not in names}
    unnamed = [name for name in names if name not in lower_by_key]
    if rest and not unnamed:
        where = f"human.{next(iter(rest))}"
        raise InputError("no system has a score", where=where, fix="Leave the key out")
    if len(set(rest.values())) > 1:
        problem = f"do all of {', '.join(unnamed)} have one direction?"
        fix = "Name the dimensions, each with its direction"
        raise InputError(problem, where="--human", fix=fix)
    lower_of_unnamed = True in rest.values()
    return [(name, lower_by_key.get(name, lower_of_unnamed)) for name in names]
