"""Candidate lists in the n-best formats of other tools, of which nothing is lost unnoticed.

Every list that is written is read back from its bytes by the reader of the format and compared with what went in, so
what a format cannot say (``|||`` in a text of Moses, a line break, a field that is not a number) is an error with its
place, and never another list. What a format has no place for is refused, or left out where that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import islice
from typing import Any

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.line_source import LineSource
from ...metrics.text.texts import Text
from ...rerank.choice import Ranking, in_order
from ...rerank.lists import Candidate, CandidateList, write_list
from ...rerank.runs.resumable import as_line
from .format_table import FEATURE, ListWriting, Order, writer_of
from .readers.nbest_lines import SCORE

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
_STEP = 1e-6  # relative: between candidates without a value, well over what counts as a tie
_JSON = "Write JSON lines"


@dataclass
class ListWriter:
    """Writes lists one after another.

    Args:
        format: its name; JSON lines, which hold all that a list has, if it is None.
        lossy: whether what the format has no place for is left out; an error if not.
        elsewhere: parts of a list, such as "source", that are in files of their own and are left out.
        left_out: how many lists lost each part or field.
        shape: what all lists must have alike: how many candidates or columns; that of the first list.

    Raises:
        InputError: lists are not written in the format of this name.
    """

    format: str | None = None
    lossy: bool = False
    elsewhere: Iterable[str] = ()
    left_out: dict[str, int] = field(default_factory=dict)
    shape: Any = None
    num_lists: int = 0
    writing: ListWriting | None = field(init=False)

    def __post_init__(self) -> None:
        self.writing = None if self.format is None else writer_of(self.format)

    def written(self, record: CandidateList) -> bytes:
        """The lines of the next list.

        Raises:
            InputError: the format cannot say what is in it; with the place.
        """
        writing = self.writing
        if writing is None:
            return as_line(write_list(record))
        reduced = self._reduced(record, writing)
        lines = list(writing.lines(reduced))
        try:
            data = "".join(f"{line}\n" for line in lines).encode()
        except UnicodeEncodeError:
            raise InputError("holds half of a surrogate pair", where="text", fix=_JSON) from None
        back = read_back(writing, data, len(reduced.candidates))
        if writing.holds is None:
            back = replace(back, id=reduced.id)
        _check_same(reduced, back)
        shape = writing.shape(lines)
        if self.shape not in (None, shape):
            problem = f"{shape} {writing.shape_name}, the lists before have {self.shape}"
            fix = "Give all the same, or write JSON lines"
            raise InputError(problem, where="candidates", fix=fix)
        self.shape = shape
        self.num_lists += 1
        return data

    def _reduced(self, record: CandidateList, writing: ListWriting) -> CandidateList:
        """The list without what the format has no place for; raises InputError where it may not be left out."""
        kept = CandidateList(record.id, record.candidates)
        for name in PARTS:
            if getattr(record, name) != getattr(kept, name) and name not in self.elsewhere:
                self._leave_out(name, name)
        if writing.holds is None and record.id != str(self.num_lists):
            self._leave_out("id", "id")
            kept = replace(kept, id=str(self.num_lists))
        candidates = [self._reduced_candidate(c, i) for i, c in enumerate(record.candidates)]
        return replace(kept, candidates=tuple(candidates))

    def _reduced_candidate(self, candidate: Candidate, i: int) -> Candidate:
        """The candidate without fields for which the format has no place."""
        holds = self.writing.holds if self.writing else None
        kept = {}
        for name, value in candidate.fields.items():
            if holds is not None and holds(name, value):
                kept[name] = value
            else:
                self._leave_out(name, f"candidates[{i}].{name}")
        logprob = candidate.logprob
        if holds is None and logprob is not None:
            self._leave_out("logprob", f"candidates[{i}].logprob")
            logprob = None
        return Candidate(candidate.text, logprob, kept)

    def _leave_out(self, name: str, where: str) -> None:
        """Counts what is left out; raises InputError where it may not be."""
        if not self.lossy:
            problem = f"{self.format} has no place for it"
            raise InputError(problem, where=where, fix="Leave it out: --lossy")
        self.left_out[name] = self.left_out.get(name, 0) + 1


def read_back(writing: ListWriting, data: bytes, num_candidates: int) -> CandidateList:
    """The list that the reader of a format makes of the lines of one; InputError where it does not make one list."""
    entries = list(writing.read(LineSource("the line", file=BytesIO(data)), num_candidates))
    errors = [entry.error for entry in entries if entry.error is not None]
    if errors:
        where = errors[0].where.partition(": ")[2]
        problem = f"would be read back with an error: {errors[0].problem}"
        raise InputError(problem, where=where, fix=_JSON)
    if len(entries) != 1 or entries[0].record is None:
        raise InputError(f"would be read back as {len(entries)} lists", fix=_JSON)
    return entries[0].record


def _check_same(record: CandidateList, back: CandidateList) -> None:
    """Raises InputError for what would be read back otherwise, with the first such place."""
    pairs: list[tuple[str, Any, Any]] = [("id", record.id, back.id)]
    pairs.append(("number of candidates", len(record.candidates), len(back.candidates)))
    for i, (one, other) in enumerate(zip(record.candidates, back.candidates, strict=False)):
        own = {"text": one.text, "logprob": one.logprob, **one.fields}
        read = {"text": other.text, "logprob": other.logprob, **other.fields}
        for name in own | read:
            pairs.append((f"candidates[{i}].{name}", own.get(name), read.get(name)))
    for where, value, other_value in pairs:
        if value != other_value:
            problem = f"{excerpt(value)} would be read back as {excerpt(other_value)}"
            raise InputError(problem, where=where, fix=f"{_JSON}, or leave it out")


@dataclass
class DecidedRows:
    """A `RowForm`: every candidate of a list in a format, with its own features and the decision as one more.

        discorank= mu(h)
    is the value that the text of the candidate was ranked by. Candidates without one (left out by a shortlist, or not
    finite) stand below the lowest value of their list, in the order of the ranking, so that the feature alone gives the
    choice; one that is not the best of its list, as its document was searched, stands above the highest value. Where no
    candidate has a score, the decision is that too. What a list has beside its candidates is not written: the input has
    it.

    Args:
        format: its name.
        order: whether candidates stay where they were, or are best first; flat text holds nothing else.
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
    writer: ListWriter = field(init=False)
    writing: ListWriting = field(init=False)

    def __post_init__(self) -> None:
        self.writing = writer_of(self.format)
        self.writer = self._new_writer()
        if self.order == "kept" and self.writing.holds is None:
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
        return self._new_writer().written(self._decided(ranking))

    def chosen(self, lines: Iterator[str], record: CandidateList) -> Text:
        """The chosen text of a list, whose lines are the next that `row` made, one for every candidate."""
        num_candidates = len(record.candidates)
        data = "".join(islice(lines, num_candidates)).encode()
        candidates = read_back(self.writing, data, num_candidates).candidates
        if self.order == "choice":
            return candidates[0].text
        return candidates[first_of([float(c.fields[self.feature]) for c in candidates])].text

    def resume(self, lines: Iterator[str], counts: Mapping[str, int]) -> None:
        """Takes the shape of the lists from what an earlier run has written."""
        self.writer.shape = self.writing.earlier_shape(lines, counts)

    def _new_writer(self) -> ListWriter:
        return ListWriter(self.format, lossy=self.lossy or self.writing.holds is None)

    def _decided(self, ranking: Ranking) -> CandidateList:
        """The candidates as they are written."""
        candidates: Sequence[Candidate] = ranking.candidates
        if self.writing.holds is not None:
            has_total = any(SCORE in candidate.fields for candidate in candidates)
            values = decision_values(ranking)
            candidates = [
                self._with_value(candidate, value, f"candidates[{i}]", has_total)
                for i, (candidate, value) in enumerate(zip(candidates, values, strict=True))
            ]
        if self.order == "choice":
            candidates = [candidates[i] for i in best_first(ranking)]
        return CandidateList(ranking.id, tuple(candidates))

    def _with_value(
        self, candidate: Candidate, value: float, where: str, has_total: bool
    ) -> Candidate:
        """The candidate with the decision as a feature."""
        if self.feature in candidate.fields:
            problem = "a field of the decision's name"
            fix = "Name the decision: --feature"
            raise InputError(problem, where=f"{where}.{self.feature}", fix=fix)
        total = {} if has_total else {SCORE: value}
        fields = {**candidate.fields, **total, self.feature: value}
        return replace(candidate, fields=fields)


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
