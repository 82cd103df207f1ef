"""Decided lists, and which of their texts are preferred to which: pairs of unequal texts, by their values.

    z(h) = (mu(h) - mean) / sd        over the candidates of the list, copies counted
    gap(h, h') = z(h) - z(h')
The mean and the standard deviation are those of the list, so that a margin means the same in lists that are easy and
in lists that are hard. Texts whose values are as good as each other by the rule of ties are in no pair. A decided list
is every distinct text with its value, from a ranking, or from the rows of a run and its input.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from heapq import nlargest
from itertools import combinations, islice
from math import log2, sqrt
from typing import Any, Literal, NamedTuple

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import LineSource
from ...metrics.text.texts import Text
from ...rerank.choice import TIE, Ranking
from ...rerank.lists import CandidateList, finite
from ..files.entries import ListEntry

CLASSES_PER_OCTAVE = 4


class LengthBalance:
    """Counts all pairs first, and then says of each, in the same order, whether it is kept.

    Args:
        seed: of the draws.
    """

    def __init__(self, seed: int = 0) -> None:
        self._draw = random.Random(seed)
        self._left: Counter[int] = Counter()  # by class: pairs still to come
        self._wanted: Counter[int] = Counter()  # and how many of them are kept

    def count(self, pair: PreferencePair) -> None:
        """Counts a pair."""
        self._left[length_class(pair)] += 1

    def counted(self) -> None:
        """Ends the counting."""
        for number, count in self._left.items():
            self._wanted[number] = min(count, self._left.get(-number, 0))

    def keeps(self, pair: PreferencePair) -> bool:
        """Whether the next pair is kept."""
        number = length_class(pair)
        is_kept = self._draw.random() * self._left[number] < self._wanted[number]
        self._left[number] -= 1
        self._wanted[number] -= is_kept
        return is_kept


def length_class(pair: PreferencePair) -> int:
    """How much longer the preferred text is, in quarters of an octave; below 0 where it is shorter."""
    chosen, rejected = len(pair.chosen.text) + 1, len(pair.rejected.text) + 1
    return round(CLASSES_PER_OCTAVE * log2(chosen / rejected))


Selection = Literal["best-worst", "best-each", "all"]
MAX_PAIRS = 1_000_000  # of one list that are looked at


class Valued(NamedTuple):
    """A text with its value and its standardised value."""

    text: str
    utility: float
    standardised: float


class PreferencePair(NamedTuple):
    """A text that is preferred to another."""

    chosen: Valued
    rejected: Valued

    @property
    def gap(self) -> float:
        """By how much, in units of the utility."""
        return self.chosen.utility - self.rejected.utility

    @property
    def standardised_gap(self) -> float:
        """By how many standard deviations of the list."""
        return self.chosen.standardised - self.rejected.standardised


def valued(standings: Sequence[Standing]) -> list[Valued]:
    """The texts that have a value, best first.

    >>> [text.standardised for text in valued([Standing("a", 1, 3.0), Standing("b", 1, 1.0)])]
    [1.0, -1.0]
    """
    known = [(one.text, one.utility, one.copies) for one in standings if one.utility is not None]
    total = sum(copies for _, _, copies in known)
    mean = sum(utility * copies for _, utility, copies in known) / max(1, total)
    square = sum((utility - mean) ** 2 * copies for _, utility, copies in known) / max(1, total)
    deviation = sqrt(square) or 1.0
    texts = [Valued(text, utility, (utility - mean) / deviation) for text, utility, _ in known]
    return sorted(texts, key=lambda text: -text.utility)


def pairs_in(
    standings: Sequence[Standing],
    selection: Selection = "best-worst",
    margin: float = 0.0,
    max_pairs: int | None = None,
) -> tuple[list[PreferencePair], int]:
    """The pairs of a list, the widest gap first, and how many more there are than `max_pairs`.

    Args:
        standings: the texts of the list.
        selection: the best against the worst, against each other, or all pairs.
        margin: the least standardised gap.
        max_pairs: how many pairs are kept.

    Raises:
        InputError: more pairs than are looked at.
    """
    texts = valued(standings)
    if selection == "all" and len(texts) * (len(texts) - 1) // 2 > MAX_PAIRS:
        problem = f"{len(texts)} texts have more than {MAX_PAIRS} pairs"
        raise InputError(problem, where="pairs", fix="Take best-each")
    pairs = [pair for pair in _all_pairs(texts, selection) if _is_clear(pair, margin)]
    kept = nlargest(len(pairs) if max_pairs is None else max_pairs, pairs, key=_width)
    return kept, len(pairs) - len(kept)


def are_equal(one: float, other: float) -> bool:
    """Whether two values are as good as each other."""
    better, worse = max(one, other), min(one, other)
    return worse >= better - TIE * abs(better)


def _all_pairs(texts: Sequence[Valued], selection: Selection) -> Iterator[PreferencePair]:
    """The pairs of texts that are sorted, best first."""
    if selection == "all":
        yield from (PreferencePair(better, worse) for better, worse in combinations(texts, 2))
    elif len(texts) > 1:
        others = texts[1:] if selection == "best-each" else texts[-1:]
        yield from (PreferencePair(texts[0], worse) for worse in others)


def _is_clear(pair: PreferencePair, margin: float) -> bool:
    """Whether one of two texts is preferred."""
    chosen, rejected = pair
    if are_equal(chosen.utility, rejected.utility) or chosen.text == rejected.text:
        return False
    return pair.standardised_gap >= margin


def _width(pair: PreferencePair) -> float:
    return pair.standardised_gap


_FIX = "Give the input that the run had: --input FILE"


class Standing(NamedTuple):
    """A distinct text of a list: how often it is there, and the value that it was ranked by, None if it has none."""

    text: str
    copies: int
    utility: float | None


@dataclass(frozen=True, slots=True)
class DecidedList:
    """A list with what was decided.

    Args:
        id: of the list.
        source: of the list.
        extra: its other keys.
        standings: its texts, the chosen one first.
        gap: how much better the first is than the second.
    """

    id: str
    source: Text | None
    extra: Mapping[str, Any]
    standings: tuple[Standing, ...]
    gap: float | None

    @classmethod
    def of(cls, ranking: Ranking) -> DecidedList:
        """The list of a ranking, with as many texts as it has places."""
        places = ranking.ranking
        standings = tuple(Standing(str(p.text), p.count, p.utility) for p in places)
        return cls(ranking.id, ranking.source, ranking.extra, standings, ranking.gap)


class InputDigest(NamedTuple):
    """How many entries of its input a run has read, and their digest."""

    entries: int
    digest: str


def decided_lists(
    rows: LineSource, entries: Iterable[ListEntry], name: str, read: InputDigest
) -> Iterator[DecidedList]:
    """The lists of a run, streamed.

    Args:
        rows: the rows of the run.
        entries: its input.
        name: the name of the input.
        read: what the run says of the input that it read.

    Raises:
        InputError: a line that is no row, or an input that is not that of the run.
    """
    digest = blake2b(digest_size=16)
    num_entries = 0
    lines = iter(rows)
    number, row = _next_row(lines, rows.name)
    for entry in islice(entries, read.entries):
        digest.update(entry.raw + b"\n")
        num_entries += 1
        record = entry.record
        if record is None or record.context_only or row is None or row["id"] != record.id:
            continue
        try:
            decided = _decided(record, row)
        except InputError as error:
            raise error.inside(f"{rows.name}:{number}") from None
        yield decided
        number, row = _next_row(lines, rows.name)
    if row is not None:
        problem = f"no list {row['id']!r:.80} where {rows.name}:{number} has it"
        raise InputError(problem, where=name, fix=_FIX)
    if (num_entries, digest.hexdigest()) != read:
        raise InputError(f"is not the input that {rows.name} was made from", where=name, fix=_FIX)


def _next_row(lines: Iterator[tuple[int, bytes]], name: str) -> tuple[int, dict[str, Any] | None]:
    """The number and the value of the next line; None behind the last."""
    number, line = next(lines, (0, None))
    if line is None:
        return 0, None
    try:
        row = parse_json(line)
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise InputError(f"found {excerpt(row)}, expected a row of decode or rerank")
    except InputError as error:
        raise error.inside(f"{name}:{number}") from None
    return number, row


def _decided(record: CandidateList, row: Mapping[str, Any]) -> DecidedList:
    """A list with what its row says."""
    places = row.get("ranking")
    if not isinstance(places, list) or not places:
        raise InputError(f"found {excerpt(places)}, expected places", where="ranking")
    standings = []
    for i, place in enumerate(places):
        where = f"ranking[{i}]"
        values = place if isinstance(place, dict) else {}
        index, count = values.get("index"), values.get("count", 1)
        if type(index) is not int or not 0 <= index < len(record.candidates):
            problem = f"found {excerpt(index)}, expected one of {len(record.candidates)} candidates"
            raise InputError(problem, where=f"{where}.index")
        if type(count) is not int or count < 1:
            raise InputError(f"found {excerpt(count)}, expected a count", where=f"{where}.count")
        text = str(record.candidates[index].text)
        standings.append(Standing(text, count, finite(values.get("utility"))))
    gap = finite(row.get("gap"))
    return DecidedList(record.id, record.source, record.extra, tuple(standings), gap)
