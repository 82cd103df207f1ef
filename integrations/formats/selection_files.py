"""Files that comparing systems reads beside their texts: what a chooser chose, and contrastive items.

What was chosen is as ``discorank decode`` and ``rerank`` write it. A line holds ``id`` (``d1:3`` for segment 3 of
document d1, ``d1`` for a whole document) and the chosen ``text``, or in its place the ``system`` whose text was chosen.
Lines may stand in any order; every list has one. Where whole documents are chosen, the lines of ``decode --choice
document``, one per segment, are read too: what they say of their document.

    {"id", "context_source": [...], "context_target": [...], "source", "correct", "contrastive": [...],
     "phenomenon", "distance", "reference"}
is a contrastive item; `source`, `phenomenon`, `distance` and `reference` may be left out, other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...metrics.errors import InputError, unknown
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import LineSource, without_trailing_blanks
from ...metrics.text.texts import Document, Text
from ...rerank.selection.choosers import Choices, Chosen
from ...rerank.selection.contrastive import ContrastiveItem, read_item
from ...rerank.whole_documents import CHOSEN, SYSTEM
from ..files.entries import SeenKeys, in_line
from .readers.jsonl import id_of


def read_chosen(
    source: LineSource,
    choices: Choices,
    name: str,
    by: frozenset[str] = frozenset(),
) -> Chosen:
    """The choices in a file.

    Args:
        source: the file.
        choices: what there was to choose.
        name: of the chooser.
        by: the metrics by which it chose, as in `Chosen`.

    Raises:
        InputError: a line that is no choice, of an unknown list or one that was there before; a list without one.
    """
    number_of_list = {record.id: i for i, record in enumerate(choices.lists)}
    texts: dict[int, Text] = {}
    seen: set[tuple[str, str]] = set()  # documents and systems that lines of segments name
    for line_number, line in without_trailing_blanks(source):
        with in_line(source, line_number):
            row = parse_json(line)
            if choices.whole and (of_document := _of_document(row)) is not None:
                document = (of_document["id"], of_document["system"])
                if document in seen:
                    continue
                seen.add(document)
                row = of_document
            i = _list_of(row, number_of_list, choices.what)
            if i in texts:
                raise InputError(
                    f"{row['id']!r:.80} was there before",
                    where="id",
                    fix="Choose once from every list",
                )
            texts[i] = _chosen_text(row, i, choices)
    _check_complete(texts, choices, source.name)
    chosen = tuple(texts[i] for i in range(len(choices.lists)))
    return Chosen(name, chosen, by)


def _of_document(row: Any) -> dict[str, str] | None:
    """A line on the document of a segment, from the line of the segment; None where that says nothing."""
    about = row.get(CHOSEN) if isinstance(row, Mapping) else None
    if not isinstance(about, Mapping):
        return None
    document, system = about.get("document"), about.get(SYSTEM)
    if not isinstance(document, str) or not isinstance(system, str):
        return None
    return {"id": document, SYSTEM: system}


def _check_complete(texts: Mapping[int, Text], choices: Choices, name: str) -> None:
    """Raises InputError if nothing was chosen from some list."""
    missing = [record.id for i, record in enumerate(choices.lists) if i not in texts]
    if missing:
        problem = (
            f"nothing chosen for {missing[0]!r:.80}, "
            f"nor for {len(missing) - 1} other {choices.what}"
        )
        raise InputError(
            problem,
            where=name,
            fix="Decode the same systems file, with --max-errors 0",
        )


def _list_of(row: Any, number_of_list: Mapping[str, int], what: str) -> int:
    """The number of the list that a line is about."""
    list_id = id_of(row)
    if list_id is None:
        raise InputError("found no id, expected an object with id and text", where="id")
    if list_id not in number_of_list:
        example = next(iter(number_of_list))
        problem = (
            f"{list_id!r:.80} is none of the {len(number_of_list)} {what}, such as {example!r:.80}"
        )
        raise InputError(
            problem,
            where="id",
            fix="Decode the same systems file; whole documents: --choice document",
        )
    return number_of_list[list_id]


def _chosen_text(row: Mapping[str, Any], i: int, choices: Choices) -> Text:
    """The text chosen from list i, of the same kind as its candidates."""
    candidates = choices.lists[i].candidates
    if "text" not in row and isinstance(row.get("system"), str):
        system = row["system"]
        if system not in choices.systems:
            raise unknown("candidate system", system, choices.systems, where="system")
        return candidates[choices.systems.index(system)].text
    text = row.get("text")
    example = candidates[0].text
    if isinstance(example, str):
        if not isinstance(text, str):
            raise InputError(f"found {type(text).__name__}, expected a string", where="text")
        return text
    num_sentences = len(example.sentences)
    if not isinstance(text, list) or len(text) != num_sentences:
        shown = f"{len(text)} sentences" if isinstance(text, list) else type(text).__name__
        problem = f"found {shown}, expected a list of {num_sentences} sentences"
        raise InputError(problem, where="text")
    return Document(text)


def read_contrastive(path: str | Path | LineSource) -> Iterator[ContrastiveItem]:
    """The items of a file (``-`` is standard input), streamed.

    Raises:
        InputError: it cannot be opened; while iterating, with file and line, at the first line that is no item and at
            an id that was there before.
    """
    return _items(path if isinstance(path, LineSource) else LineSource(path))


def _items(source: LineSource) -> Iterator[ContrastiveItem]:
    seen = SeenKeys()
    for number, line in without_trailing_blanks(source):
        with in_line(source, number):
            if not line.strip():
                raise InputError("empty line", fix="Write one item per line")
            item = read_item(parse_json(line))
            if not seen.add(item.id):
                raise InputError(
                    f"{item.id!r:.80} was there before, expected a new id",
                    where="id",
                    fix="Give every item its own",
                )
        yield item
