"""Files that comparing systems reads in addition to their texts: decisions, and contrastive items.

Decisions are rows as ``discorank decode`` and ``rerank`` write them, in any order. A row holds ``id`` (``d1:3`` for
segment 3 of document d1, ``d1`` for a whole document) and the chosen ``text``, or instead of it the ``system`` whose
text was chosen.

    {"id", "context_source": [...], "context_target": [...], "source", "correct", "contrastive": [...],
     "phenomenon", "distance", "reference"}
is a contrastive item; `source`, `phenomenon`, `distance` and `reference` may be left out, other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...metrics.errors import InputError, unknown
from ...metrics.storage.line_source import LineSource
from ...rerank.selection.contrastive import ContrastiveItem, read_item
from ...rerank.selection.system_scores import DocumentOutputs, Judgements
from ..files.entries import SeenKeys, each_line, json_object, typed
from .readers.jsonl import id_of, object_of


def with_chosen(
    source: LineSource, documents: Sequence[DocumentOutputs], name: str
) -> list[DocumentOutputs]:
    """The documents with the texts of a file as one more system.

    A text has the human score of the system that wrote it: the mean of several, none if no judged system did.

    Args:
        source: the rows that were decided.
        documents: with the systems that were chosen from.
        name: of the new system.

    Raises:
        InputError: a row that is not a choice, or is of another list; a segment without a choice or with two; a
            system of that name.
    """
    changed = []
    chosen_texts = _decided_texts(source, documents)
    if name in documents[0].systems:
        problem = f"there is a system {name!r:.80}"
        raise InputError(problem, where=source.name, fix="Rename the file")
    for document, chosen in zip(documents, chosen_texts, strict=True):
        human = dict(document.human)
        for dimension, scores in document.human.items():
            if (score := _score_of(chosen, document, scores)) is not None:
                human[dimension] = {**scores, name: score}
        systems = {**document.systems, name: chosen}
        changed.append(replace(document, systems=systems, human=human))
    return changed


def _decided_texts(
    source: LineSource, documents: Sequence[DocumentOutputs]
) -> list[tuple[str, ...]]:
    """The chosen text of every segment, by document."""
    texts: list[list[str | None]] = [[None] * document.segments for document in documents]
    places = _places(documents)

    def take(_: int, line: bytes) -> None:
        row = json_object(line)
        list_id = _id_among(row, places)
        d, segments = places[list_id]
        if any(text is not None for text in texts[d][segments]):
            fix = "Choose once from every list"
            raise InputError(f"{list_id!r:.80} was there before", where="id", fix=fix)
        texts[d][segments] = _chosen_texts(row, documents[d], segments)

    list(each_line(source, take))
    for document, of_document in zip(documents, texts, strict=True):
        if None in of_document:
            problem = f"nothing chosen for {document.id!r:.80}, segment {of_document.index(None)}"
            fix = "Decode the same systems file, with --max-errors 0"
            raise InputError(problem, where=source.name, fix=fix)
    return [tuple(text for text in own if text is not None) for own in texts]


def _places(documents: Sequence[DocumentOutputs]) -> dict[str, tuple[int, slice]]:
    """The document and the segments of every id."""
    places: dict[str, tuple[int, slice]] = {}
    for d, document in enumerate(documents):
        if not document.whole:
            for i in range(document.segments):
                places[f"{document.id}:{i}"] = (d, slice(i, i + 1))
        places[document.id] = (d, slice(0, document.segments))
    return places


def _id_among(row: Any, places: Mapping[str, object]) -> str:
    """The id of a row; raises InputError where there is none, or it names nothing that could be chosen from."""
    list_id = id_of(row)
    if list_id is None:
        raise InputError("found no id, expected an object with id and text", where="id")
    if list_id not in places:
        problem = f"no segment or document {list_id!r:.80}"
        problem += f", but ones such as {next(iter(places))!r:.80}"
        raise InputError(problem, where="id", fix="Decode the same systems file")
    return list_id


def _chosen_texts(
    row: Mapping[str, Any], document: DocumentOutputs, segments: slice
) -> Sequence[str]:
    """The texts that a row chose, one per segment."""
    if "text" not in row and isinstance(row.get("system"), str):
        system = row["system"]
        if system not in document.systems:
            raise unknown("system", system, document.systems, where="system")
        return document.systems[system][segments]
    text, expected = row.get("text"), segments.stop - segments.start
    if expected == 1 and isinstance(text, str):
        return [text]
    texts: list[str] = typed(list[str], text, "text")
    if len(texts) != expected:
        raise InputError(f"found {len(texts)} sentences, expected {expected}", where="text")
    return texts


def _score_of(
    chosen: tuple[str, ...], document: DocumentOutputs, scores: Mapping[str, Judgements]
) -> Judgements | None:
    """The human score of chosen texts: of the whole document where all are one system's, else of each segment."""
    judged = [
        (document.systems[name], own) for name, own in scores.items() if name in document.systems
    ]
    whole = [own for texts, own in judged if not isinstance(own, tuple) and texts == chosen]
    if whole:
        return sum(whole) / len(whole)
    by_segment: list[float | None] = []
    for i, text in enumerate(chosen):
        same = [own[i] for texts, own in judged if isinstance(own, tuple) and texts[i] == text]
        known = [score for score in same if score is not None]
        by_segment.append(sum(known) / len(known) if known else None)
    return None if by_segment.count(None) == len(by_segment) else tuple(by_segment)


def read_contrastive(path: str | Path | LineSource) -> Iterator[ContrastiveItem]:
    """The items of a file (``-`` is standard input), streamed.

    Raises:
        InputError: it cannot be opened; while iterating, with file and line, at the first line that is no item and at
            an id that was there before.
    """
    return _items(path if isinstance(path, LineSource) else LineSource(path))


def _items(source: LineSource) -> Iterator[ContrastiveItem]:
    seen = SeenKeys()

    def item_of(_: int, line: bytes) -> ContrastiveItem:
        item = read_item(object_of(line))
        if not seen.add(item.id):
            problem = f"{item.id!r:.80} was there before, expected a new id"
            raise InputError(problem, where="id", fix="Give every item its own")
        return item

    return each_line(source, item_of)
