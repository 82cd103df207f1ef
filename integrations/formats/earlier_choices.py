"""What was chosen before, as ``discorank decode`` and ``rerank`` write it, as a chooser among the systems' outputs.

A line holds ``id`` (``d1:3`` for segment 3 of document d1, ``d1`` for a whole document) and the chosen ``text``, or in
its place the ``system`` whose text was chosen. Lines may stand in any order; every list has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metrics.errors import InputError, unknown
from ...metrics.text.line_source import LineSource, without_trailing_blanks
from ...metrics.text.texts import Document, Text
from ...rerank.selection.system_choices import Choices, Chosen
from ..files.strict_json import parse_json
from .jsonl import identity


def read_chosen(
    source: LineSource, given: Choices, name: str, by: frozenset[str] = frozenset()
) -> Chosen:
    """The choices in a file.

    Args:
        source: the file.
        given: what there was to choose.
        name: of the chooser.
        by: the metrics by which it chose, as in `Chosen`.

    Raises:
        InputError: a line that is no choice, of an unknown list or one that was there before; a list without one.
    """
    numbers = {record.id: i for i, record in enumerate(given.lists)}
    texts: dict[int, Text] = {}
    for number, line in without_trailing_blanks(source):
        try:
            data = parse_json(line)
            at = _list_of(data, numbers, given.what)
            if at in texts:
                raise InputError(
                    f"{data['id']!r:.80} was there before",
                    where="id",
                    fix="Choose once from every list",
                )
            texts[at] = _text(data, at, given)
        except RecursionError:
            raise source.refusal(number, "nested too deeply") from None
        except InputError as error:
            raise error.inside(f"{source.name}:{number}") from None
    if missing := [record.id for i, record in enumerate(given.lists) if i not in texts]:
        found = (
            f"nothing chosen for {missing[0]!r:.80}, nor for {len(missing) - 1} other {given.what}"
        )
        raise InputError(
            found, where=source.name, fix="Decode the same systems file, with --max-errors 0"
        )
    return Chosen(name, tuple(texts[i] for i in range(len(given.lists))), by)


def _list_of(data: Any, numbers: Mapping[str, int], what: str) -> int:
    """The number of the list that a line is about."""
    name = identity(data)
    if name is None:
        raise InputError("found no id, expected an object with id and text", where="id")
    if name not in numbers:
        found = f"{name!r:.80} is none of the {len(numbers)} {what}, such as {next(iter(numbers))!r:.80}"
        raise InputError(
            found,
            where="id",
            fix="Decode the same systems file; whole documents: --choice document",
        )
    return numbers[name]


def _text(data: Mapping[str, Any], at: int, given: Choices) -> Text:
    """The chosen text, of the same kind as the candidates."""
    candidates = given.lists[at].candidates
    if "text" not in data and isinstance(data.get("system"), str):
        if data["system"] not in given.systems:
            raise unknown("candidate system", data["system"], given.systems, where="system")
        return candidates[given.systems.index(data["system"])].text
    text, first = data.get("text"), candidates[0].text
    if isinstance(first, str):
        if not isinstance(text, str):
            raise InputError(f"found {type(text).__name__}, expected a string", where="text")
        return text
    n = len(first.sentences)
    if not isinstance(text, list) or len(text) != n:
        found = f"{len(text)} sentences" if isinstance(text, list) else type(text).__name__
        raise InputError(f"found {found}, expected a list of {n} sentences", where="text")
    return Document(text)
