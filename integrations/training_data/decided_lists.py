"""Decided lists: every distinct text with its value, from a ranking, or from the rows of a run and its input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import LineSource
from ...metrics.text.texts import Text
from ...rerank.choice import Ranking
from ...rerank.lists import CandidateList, finite
from ..files.entries import ListEntry

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
