"""Documents with the outputs of systems, as comparisons of systems read them; and the human scores that they have."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from ...metrics.errors import InputError
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import NumberedLines, without_trailing_blanks
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
    advised,
    in_document,
    read_document,
)


def read_documents(
    source: NumberedLines, options: SystemsOptions | None = None
) -> Iterator[DocumentOutputs]:
    """The documents of a systems file, all their segments.

    Raises:
        InputError: the first line that is no document or has the id of an earlier one; with file, line, document and
            system.
    """
    seen = SeenKeys()
    for number, line in without_trailing_blanks(source):
        data = None
        try:
            data = parse_json(line)
            outputs = outputs_of(read_document(data, options, number))
            if not seen.add(outputs.id):
                problem = "there was a document of this id before"
                raise InputError(problem, where="id", fix="Give each its own")
        except RecursionError:
            raise source.refusal(number, "nested too deeply") from None
        except InputError as error:
            choose = shlex.join(["discorank", "decode", source.name, "-u", "chrf"])
            error = advised(error, data, source.name, f"to choose among them: {choose}")
            raise in_document(error, data).inside(f"{source.name}:{number}") from None
        yield outputs


def outputs_of(document: SystemsDocument) -> DocumentOutputs:
    """A document as the comparison of systems reads it; raises InputError where a text is missing."""
    texts: dict[str, dict[str, tuple[str, ...]]] = {}
    for key, by_name in (("systems", document.systems), ("references", document.references)):
        texts[key] = {
            name: document.all_texts(own, f"{key}.{name}") for name, own in by_name.items()
        }
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
    source = None
    if document.source is not None:
        source = document.all_texts(document.source, "source")
    return DocumentOutputs(
        document.id,
        document.segments is None,
        source,
        texts["systems"],
        texts["references"],
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
