"""The choices in which two runs differ: which lists, their texts with the words marked, the context of each.

A word that only one of two texts has is marked: ``[-It-]{+She+} has been on time.``
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from ..metrics.text.texts import Text
from ..printable import printable
from ..rerank.lists import CandidateList
from ..tables import aligned

NEWLINE = "\n"
CONTEXT = 2  # sentences before a list that are shown
Kind = Literal["same", "first", "second"]
Part = tuple[Kind, str]  # words that stand in both texts, or in one alone


class Difference(NamedTuple):
    """A list of which two runs chose different texts.

    Args:
        id: of the list.
        texts: the choice of each run.
        source: of the list, where lists are known.
        context: the sentences before it, as the first run chose them and as the second did.
    """

    id: str
    texts: tuple[str, str]
    source: str | None = None
    context: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


def marked_words(first: str, second: str) -> list[Part]:
    """The words that two texts share, and those that one has alone.

    >>> marked_words("It is on time", "She is on time")
    [('first', 'It'), ('second', 'She'), ('same', 'is on time')]
    """
    a, b = first.split(), second.split()
    parts: list[Part] = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            parts.append(("same", " ".join(a[a0:a1])))
            continue
        if a1 > a0:
            parts.append(("first", " ".join(a[a0:a1])))
        if b1 > b0:
            parts.append(("second", " ".join(b[b0:b1])))
    return parts


def differences(
    chosen: tuple[Mapping[str, Text], Mapping[str, Text]], records: Iterable[CandidateList] = ()
) -> list[Difference]:
    """The lists of which two runs chose different texts, in the order of the first run.

    Args:
        chosen: the texts of each run, by id.
        records: the lists, for sources and contexts; none if they are not known.
    """
    first, second = chosen
    known = {one.id: one for one in _placed(records, chosen)}
    return [
        known.get(name) or Difference(name, (str(text), str(second[name])))
        for name, text in first.items()
        if name in second and str(text) != str(second[name])
    ]


def _placed(
    records: Iterable[CandidateList], chosen: tuple[Mapping[str, Text], Mapping[str, Text]]
) -> Iterator[Difference]:
    """Every list with its source and the sentences before it."""
    document: str | None = None
    before: tuple[list[str], list[str]] = ([], [])
    for record in records:
        if record.document != document or record.document is None:
            document, before = record.document, ([], [])
        first, second = (str(run.get(record.id, record.candidates[0].text)) for run in chosen)
        context = (tuple(before[0][-CONTEXT:]), tuple(before[1][-CONTEXT:]))
        source = None if record.source is None else str(record.source)
        yield Difference(record.id, (first, second), source, context)
        before[0].append(first)
        before[1].append(second)


def difference_lines(
    names: tuple[str, str],
    chosen: tuple[Mapping[str, Text], Mapping[str, Text]],
    differing: Sequence[Difference],
    limit: int | None = None,
) -> Iterator[str]:
    """The differences as text, in lines.

    Args:
        names: of the runs.
        chosen: the texts of each run, by id.
        differing: from `differences`.
        limit: how many are shown.
    """
    num_shared = len(chosen[0].keys() & chosen[1].keys())
    same = "" if differing else ": both chose the same"
    yield f"{len(differing)} of {num_shared} choices differ{same}"
    yield f"[-words of {names[0]} alone-] {{+words of {names[1]} alone+}}"
    for name, texts in zip(names, chosen, strict=True):
        if alone := len(texts) - num_shared:
            yield f"{alone} lists are in {name} alone"
    shown = differing[:limit]
    for one in shown:
        pairs = [("before", pair) for pair in zip(*one.context, strict=True)]
        rows = [["  source", one.source]] if one.source else []
        for head, pair in [*pairs, ("chosen", one.texts)]:
            rows.append([f"  {head}", in_marks(marked_words(*pair))])
        yield f"\n{printable(one.id)}\n{printable(aligned(rows), keep=NEWLINE)}"
    if len(shown) < len(differing):
        yield f"\nand {len(differing) - len(shown)} more: raise --limit"


def in_marks(parts: Sequence[Part]) -> str:
    """Words as text with marks.

    >>> in_marks([("first", "It"), ("second", "She"), ("same", "is on time")])
    '[-It-]{+She+} is on time'
    """
    marks: Mapping[Kind, str] = {"same": "{}", "first": "[-{}-]", "second": "{{+{}+}}"}
    words = " ".join(marks[kind].format(text) for kind, text in parts)
    return words.replace("-] {+", "-]{+")


def difference_data(one: Difference) -> dict[str, Any]:
    """A difference as values of JSON."""
    return {
        "id": one.id,
        "source": one.source,
        "context": [list(side) for side in one.context],
        "texts": list(one.texts),
        "parts": [list(part) for part in marked_words(*one.texts)],
    }
