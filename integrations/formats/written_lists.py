"""Candidate lists in the formats of other tools: what `open_lists` reads, written, and nothing lost without a word.

Every list that is written is read back from its bytes by the reader of the format and compared with what went in, so
what cannot be said in a format (``|||`` in a text of Moses, a line break, a field that is no number) is an error with
its place, and never another list. What a format has no place for is refused, or left out where that is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import islice
from math import isclose
from typing import Any, Protocol

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.line_source import LineSource
from ...metrics.text.texts import Document, Text
from ...rerank.choice import Ranking, in_order
from ...rerank.lists import Candidate, CandidateList, write_list
from ...rerank.runs.resumable import as_line
from .format_table import FEATURE, ListWriting, Order, writer_of
from .readers.nbest_lines import BAR, SCORE, is_feature

# what a list may have beside its id and its candidates
PARTS = (
    "source",
    "document",
    "position",
    "pseudo_references",
    "references",
    "context_only",
    "extra",
)
_LAST_PLACES = 4e-16  # relative: a logarithm to another base and back
_STEP = 1e-6  # relative: between candidates without a value, well over what counts as a tie
_JSON = "Write JSON lines"
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair
# characters that no line holds
_NOT_IN_LINES = {"\n": "a line break", "\0": "a NUL character"}


class ListWriter(Protocol):
    """Writes lists one after another."""

    left_out: dict[str, int]

    def written(self, record: CandidateList) -> bytes:
        """The lines of the next list; raises InputError where it cannot be written."""


class JsonWriter:
    """Lists as JSON lines, which hold all that a list has."""

    def __init__(self) -> None:
        self.left_out: dict[str, int] = {}

    def written(self, record: CandidateList) -> bytes:
        """The line of a list."""
        return as_line(write_list(record))


@dataclass
class FormatWriter:
    """Lists in a format.

    Args:
        format: its name.
        lossy: whether what it has no place for is left out; an error if not.
        elsewhere: parts of a list, such as "source", that stand in files of their own and are left out.
        left_out: how many lists lost each part or field.
        shape: what all lists must have alike: how many candidates, or which lines; that of the first list.
    """

    format: str
    lossy: bool = False
    elsewhere: frozenset[str] = frozenset()
    left_out: dict[str, int] = field(default_factory=dict)
    shape: Any = None
    num_lists: int = 0
    writing: ListWriting = field(init=False)

    def __post_init__(self) -> None:
        self.writing = writer_of(self.format)

    def written(self, record: CandidateList) -> bytes:
        """The lines of the next list.

        Raises:
            InputError: the format cannot say what is in it; with the place.
        """
        writing = self.writing
        reduced = self._reduced(record)
        _check_texts(reduced, writing.ends_columns)
        data = "".join(f"{line}\n" for line in writing.lines(reduced)).encode()
        back = read_back(writing, data, len(reduced.candidates))
        if writing.numbers_lists:
            back = replace(back, id=reduced.id)
        _check_same(reduced, back, writing.rounds)
        self._check_shape(reduced)
        self.num_lists += 1
        return data

    def _reduced(self, record: CandidateList) -> CandidateList:
        """The list without what the format has no place for; raises InputError where it may not be left out."""
        kept = self.writing.kept(record)
        for name in PARTS:
            if getattr(record, name) != getattr(kept, name) and name not in self.elsewhere:
                self._leave_out(name, name)
        number = str(self.num_lists)
        if self.writing.numbers_lists and record.id != number:
            self._leave_out("id", "id")
            kept = replace(kept, id=number)
        candidates = [self._reduced_candidate(c, i) for i, c in enumerate(record.candidates)]
        return replace(kept, candidates=tuple(candidates))

    def _reduced_candidate(self, candidate: Candidate, i: int) -> Candidate:
        """The candidate without fields for which the format has no place."""
        own_fields = self.writing.own_fields
        if own_fields is not None and not self.lossy:
            return candidate  # what is no feature is refused where it is written
        kept = {}
        for name, value in candidate.fields.items():
            if own_fields is not None and (name in own_fields or is_feature(value)):
                kept[name] = value
            else:
                self._leave_out(name, f"candidates[{i}].{name}")
        if own_fields is None and candidate.logprob is not None:
            self._leave_out("logprob", f"candidates[{i}].logprob")
            return Candidate(candidate.text)
        return replace(candidate, fields=kept)

    def _leave_out(self, name: str, where: str) -> None:
        """Counts what is left out; raises InputError where it may not be."""
        if not self.lossy:
            problem = f"{self.format} has no place for it"
            raise InputError(problem, where=where, fix="Leave it out: --lossy")
        self.left_out[name] = self.left_out.get(name, 0) + 1

    def _check_shape(self, record: CandidateList) -> None:
        """Raises InputError for a list that a reader could not tell from its neighbours, or would take for cut off."""
        if self.writing.shape is None:
            return
        shape, what = self.writing.shape(record)
        if self.shape not in (None, shape):
            problem = f"{what}, the lists before: {self.shape}, this one: {shape}"
            raise InputError(problem, where="candidates", fix="Write moses")
        self.shape = shape


def read_back(writing: ListWriting, data: bytes, num_candidates: int) -> CandidateList:
    """The list that the reader of a format makes of the lines of one; InputError where it makes none of them."""
    source = LineSource("the line", file=BytesIO(data))
    entries = list(writing.read(source, num_candidates))
    entry = entries[-1] if entries else None  # in a log, gaps in the ids come first
    if entry is None or entry.record is None:
        error = None if entry is None else entry.error
        problem, where = "nothing is read back of it", ""
        if error is not None:
            problem = f"would be read back with an error: {error.problem}"
            where = error.where.partition(": ")[2]
        raise InputError(problem, where=where, fix=_JSON)
    return entry.record


def list_writer(
    format: str | None, lossy: bool = False, elsewhere: Iterable[str] = ()
) -> ListWriter:
    """The writer of lists in a format; JSON lines without one.

    Raises:
        InputError: lists are not written in the format of this name.
    """
    if format is None:
        return JsonWriter()
    return FormatWriter(format, lossy, frozenset(elsewhere))


def _check_texts(record: CandidateList, ends_columns: bool) -> None:
    """Raises InputError for texts that no line holds."""
    texts: dict[str, Text] = {"id": record.id}
    texts |= {f"candidates[{i}].text": c.text for i, c in enumerate(record.candidates)}
    texts |= {f"references[{i}]": text for i, text in enumerate(record.references)}
    if record.source is not None:
        texts["source"] = record.source
    bar = BAR.strip()
    for where, text in texts.items():
        if isinstance(text, Document):
            problem = "a text of several sentences, and a line is one text"
            raise InputError(problem, where=where, fix=_JSON)
        problems = [f"holds {name}" for mark, name in _NOT_IN_LINES.items() if mark in text]
        if text.startswith("\ufeff"):
            problems.append("begins with a byte order mark, which readers take away")
        if ends_columns and bar in text:
            problems.append(f"holds {bar}, which ends a column")
        if _HALF.search(text):
            problems.append("holds half of a surrogate pair, which is no character")
        if problems:
            raise InputError(problems[0], where=where, fix=_JSON)


def _check_same(record: CandidateList, back: CandidateList, rounds: bool) -> None:
    """Raises InputError for what would be read back otherwise, with the first such place."""
    counts = len(record.candidates), len(back.candidates)
    if counts[0] != counts[1]:
        problem = f"{counts[0]} candidates would be read back as {counts[1]}"
        raise InputError(problem, where="candidates", fix=_JSON)
    pairs = [(name, getattr(record, name), getattr(back, name)) for name in ("id", *PARTS)]
    for i, (one, other) in enumerate(zip(record.candidates, back.candidates, strict=True)):
        own = {"text": one.text, "logprob": one.logprob, **one.fields}
        read = {"text": other.text, "logprob": other.logprob, **other.fields}
        for name in own | read:
            pairs.append((f"candidates[{i}].{name}", own.get(name), read.get(name)))
    for where, value, read in pairs:
        if value != read and not (rounds and _is_near(value, read)):
            problem = f"{excerpt(value)} would be read back as {excerpt(read)}"
            raise InputError(problem, where=where, fix=f"{_JSON}, or leave it out")


def _is_near(value: Any, read: Any) -> bool:
    """Whether two numbers are the same but for the last places of a logarithm."""
    are_numbers = isinstance(value, float | int) and isinstance(read, float | int)
    return are_numbers and isclose(value, read, rel_tol=_LAST_PLACES, abs_tol=1e-320)


@dataclass
class DecidedRows:
    """A `RowForm`: every candidate of a list in a format, with its own features and the decision as one more.

        discorank= mu(h)
    is the value that the text of the candidate was ranked by. Candidates without one (left out by a shortlist or a
    budget, or not finite) stand below the lowest value of their list, in the order of the ranking, so that the feature
    alone gives the choice; one that is not the best of its list, as its document was searched, stands above the highest
    value. Where no candidate has a score, the total of Moses and Marian, the decision is that too. What a list has
    beside its candidates and the format no place for is not written: the input has it.

    Args:
        format: its name.
        order: whether candidates stay where they were, or stand best first; flat text holds nothing else.
        feature: the name of the decision.
        lossy: whether fields of candidates for which the format has no place are left out.

    Raises:
        InputError: candidates where they were in a format without features; a format that is not written.
    """

    format: str
    order: Order
    feature: str = FEATURE
    lossy: bool = False
    one_line: bool = field(default=False, init=False)
    writer: FormatWriter = field(init=False)

    def __post_init__(self) -> None:
        self.writer = self._writer()
        if self.order == "kept" and not self._has_features:
            problem = f"{self.format} has no place for the decision but the order"
            raise InputError(problem, where="--order", fix="Leave it out")

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that the bytes depend on."""
        named = {"format": self.format, "order": self.order, "feature": self.feature}
        return {**named, **({"lossy": True} if self.lossy else {})}

    def row(self, ranking: Ranking) -> bytes:
        """The lines of a list.

        Raises:
            InputError: a candidate cannot be written in this format, or has a field of the feature's name, or the list
                is of another shape than those before.
        """
        return self.writer.written(self._decided(ranking))

    def accept(self, ranking: Ranking) -> object:
        """Raises InputError for what cannot be written, whatever stands before it."""
        return self._writer().written(self._decided(ranking))

    def chosen(self, lines: Iterator[str], record: CandidateList) -> Text:
        """The chosen text of a list, whose lines are the next that `row` made."""
        writer = self._writer()
        undecided = self._with_values(writer.writing.kept(record), [0.0] * len(record.candidates))
        num_lines = writer.written(undecided).count(b"\n")
        data = "".join(islice(lines, num_lines)).encode()
        candidates = read_back(writer.writing, data, len(record.candidates)).candidates
        if self.order == "choice":
            return candidates[0].text
        values = [float(candidate.fields[self.feature]) for candidate in candidates]
        return candidates[first_of(values)].text

    def resume(self, lines: Iterator[str], counts: Mapping[str, int]) -> None:
        """Takes the shape of the lists from what an earlier run has written."""
        if self.writer.writing.earlier_shape is not None:
            self.writer.shape = self.writer.writing.earlier_shape(lines, counts)

    @property
    def _has_features(self) -> bool:
        """Whether candidates have features, so that the decision can be one."""
        return writer_of(self.format).own_fields is not None

    def _writer(self) -> FormatWriter:
        return FormatWriter(self.format, lossy=self.lossy or not self._has_features)

    def _decided(self, ranking: Ranking) -> CandidateList:
        """The list as it is written."""
        texts = (ranking.id, ranking.candidates, ranking.source)
        record = CandidateList(*texts, references=ranking.references, extra=ranking.extra)
        kept = self.writer.writing.kept(record)
        decided = self._with_values(kept, decision_values(ranking))
        if self.order == "kept":
            return decided
        candidates = [decided.candidates[i] for i in best_first(ranking)]
        return replace(decided, candidates=tuple(candidates))

    def _with_values(self, record: CandidateList, values: Sequence[float]) -> CandidateList:
        """The list with the decision beside every candidate."""
        if not self._has_features:
            return record
        has_total = any(SCORE in candidate.fields for candidate in record.candidates)
        candidates = []
        for i, (candidate, value) in enumerate(zip(record.candidates, values, strict=True)):
            if self.feature in candidate.fields:
                problem = "a field of the decision's name"
                where = f"candidates[{i}].{self.feature}"
                raise InputError(problem, where=where, fix="Name the decision: --feature")
            is_total = self.writer.writing.has_total and not has_total
            total = {SCORE: value} if is_total else {}
            fields = {**candidate.fields, **total, self.feature: value}
            candidates.append(Candidate(candidate.text, candidate.logprob, fields))
        return replace(record, candidates=tuple(candidates))


def decision_values(ranking: Ranking) -> list[float]:
    """The value of every candidate [N]: finite, and in the order of the ranking."""
    value_of: dict[Text, float] = {}
    lowest = min((p.utility for p in ranking.ranking if p.utility is not None), default=0.0)
    step = _STEP * max(1.0, abs(lowest))
    num_below = 0
    for ranked in ranking.ranking:
        if ranked.utility is None:
            num_below += 1
        value_of[ranked.text] = (
            lowest - num_below * step if ranked.utility is None else ranked.utility
        )
    below_all = lowest - (num_below + 1) * step
    return [value_of.get(candidate.text, below_all) for candidate in ranking.candidates]


def best_first(ranking: Ranking) -> list[int]:
    """Every candidate in the order of its text, the copy that was ranked before the others."""
    rank_of = {ranked.text: (rank, ranked.index) for rank, ranked in enumerate(ranking.ranking)}
    last = (len(rank_of), -1)

    def key(i: int) -> tuple[int, bool, int]:
        rank, ranked_copy = rank_of.get(ranking.candidates[i].text, last)
        return rank, i != ranked_copy, i

    return sorted(range(len(ranking.candidates)), key=key)


def first_of(values: Sequence[float]) -> int:
    """The candidate that values choose, by the rule of ties."""
    import numpy as np

    return next(in_order(np.array(values)))
