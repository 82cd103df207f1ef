"""The choices in which two runs differ: which lists, their texts with the words marked, the context of each.

A word that only one of two texts has is marked: ``[-It-]{+She+} has been on time.``
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from ..metrics.text.texts import Text
from ..printable import printable
from ..rerank.lists import CandidateList
from ..tables import aligned

CONTEXT = 2  # sentences before a list that are shown
Kind = Literal["same", "first", "second"]
Part = tuple[Kind, str]  # words that stand in both texts, or in one alone


@dataclass(frozen=True)
class Difference:
    """A list of which two runs chose different texts.

    Args:
        id: of the list.
        texts: what each run chose.
        source: of the list, where lists are known.
        context: the sentences before it, as the first run chose them and as the second did.
    """

    id: str
    texts: tuple[str, str]
    source: str | None = None
    context: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def parts(self) -> list[Part]:
        """The words of both texts, in order."""
        return marked_words(*self.texts)

    @property
    def before(self) -> list[list[Part]]:
        """The words of the sentences before, in order."""
        return [marked_words(a, b) for a, b in zip(*self.context, strict=True)]


@dataclass(frozen=True)
class Differences:
    """Two runs side by side.

    Args:
        names: of the runs.
        differing: the lists that differ, in the order of the first run.
        num_lists: how many lists both runs decided.
        alone: how many lists each run decided that the other did not.
    """

    names: tuple[str, str]
    differing: tuple[Difference, ...]
    num_lists: int
    alone: tuple[int, int] = (0, 0)

    @property
    def headline(self) -> str:
        """How many lists differ."""
        number = len(self.differing)
        same = "" if number else ": both chose the same"
        return f"{number} of {self.num_lists} choices differ{same}"


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
    names: tuple[str, str],
    texts: tuple[Mapping[str, Text], Mapping[str, Text]],
    records: Iterable[CandidateList] = (),
) -> Differences:
    """The lists of which two runs chose different texts.

    Args:
        names: of the runs.
        texts: what each chose, by id.
        records: the lists, for sources and contexts; none if they are not known.
    """
    first, second = chosen = (_plain(texts[0]), _plain(texts[1]))
    shared = [name for name in first if name in second]
    known = {one.id: one for one in _placed(records, chosen)}
    differing = []
    for name in shared:
        if first[name] != second[name]:
            pair = (first[name], second[name])
            differing.append(known.get(name) or Difference(name, pair))
    alone = (len(first) - len(shared), len(second) - len(shared))
    return Differences(names, tuple(differing), len(shared), alone)


def _plain(texts: Mapping[str, Text]) -> dict[str, str]:
    return {name: str(text) for name, text in texts.items()}


def _placed(
    records: Iterable[CandidateList], chosen: tuple[Mapping[str, str], Mapping[str, str]]
) -> Iterator[Difference]:
    """Every list with its source and the sentences before it."""
    document: str | None = None
    before: tuple[list[str], list[str]] = ([], [])
    for record in records:
        if record.document != document or record.document is None:
            document, before = record.document, ([], [])
        plain = str(record.candidates[0].text)
        texts = (chosen[0].get(record.id, plain), chosen[1].get(record.id, plain))
        context = (tuple(before[0][-CONTEXT:]), tuple(before[1][-CONTEXT:]))
        source = None if record.source is None else str(record.source)
        yield Difference(record.id, texts, source, context)
        for side, text in zip(before, texts, strict=True):
            side.append(text)


def difference_lines(two_runs: Differences, limit: int | None = None) -> Iterator[str]:
    """The differences for people, in lines."""
    yield two_runs.headline
    yield f"[-words of {two_runs.names[0]} alone-] {{+words of {two_runs.names[1]} alone+}}"
    for number, name in zip(two_runs.alone, two_runs.names, strict=True):
        if number:
            yield f"{number} lists are in {name} alone"
    shown = two_runs.differing[:limit]
    for one in shown:
        yield ""
        yield printable(one.id)
        rows = [["  source", one.source]] if one.source else []
        rows += [["  before", in_marks(parts)] for parts in one.before]
        rows.append(["  chosen", in_marks(one.parts)])
        yield printable(aligned([[cell or "" for cell in row] for row in rows]), keep="\n")
    if len(shown) < len(two_runs.differing):
        yield f"\nand {len(two_runs.differing) - len(shown)} more: raise --limit"


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
        "parts": [list(part) for part in one.parts],
    }
