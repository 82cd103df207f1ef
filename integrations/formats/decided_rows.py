"""N-best lists back: every candidate of a decided list with its own features and the decision as one more.

    discorank= mu(h)
is the value that the text of the candidate was ranked by. Candidates without one (left out by a shortlist or a budget,
or not finite) stand below the lowest value of their list, in the order of the ranking, so that the feature alone gives
the choice; one that is not the best of its list, as its document was searched, stands above the highest value. Where no
candidate has a score, the total of Moses and Marian, the decision is that too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ...metrics.errors import InputError
from ...metrics.text.texts import Text
from ...rerank.choice import Ranking, in_order
from ...rerank.lists import Candidate, CandidateList
from .fairseq_blocks import RECORD
from .output_forms import FEATURE, Order
from .written_columns import SCORE
from .written_lists import FormWriter, read_back

_STEP = 1e-6  # relative: between candidates without a value, well over what counts as a tie
_LOG_KEYS = ("seconds", "constraints")


@dataclass
class DecidedRows:
    """A `RowForm`: lists in one of the forms of `written_lists`, with what was decided.

    What a list has beside its candidates and the form no place for is not written: the input has it.

    Args:
        form: the form.
        order: whether candidates stay where they were, or stand best first; flat text holds nothing else.
        feature: the name of the decision.
        lossy: whether fields of candidates for which the form has no place are left out.

    Raises:
        InputError: flat text with candidates where they were.
    """

    form: str
    order: Order
    feature: str = FEATURE
    lossy: bool = False
    one_line: bool = field(default=False, init=False)
    writer: FormWriter = field(init=False)

    def __post_init__(self) -> None:
        if self.form == "flat" and self.order == "kept":
            problem = "flat text has no place for the decision but the order"
            raise InputError(problem, where="--order", fix="Leave it out")
        self.writer = self._writer()

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that the bytes depend on."""
        named = {"format": self.form, "order": self.order, "feature": self.feature}
        return {**named, **({"lossy": True} if self.lossy else {})}

    def row(self, ranking: Ranking) -> bytes:
        """The lines of a list.

        Raises:
            InputError: a candidate cannot be written in this form, or has a field of the feature's name, or the list
                is of another shape than those before.
        """
        return self.writer.written(self._decided(ranking))

    def accept(self, ranking: Ranking) -> object:
        """Raises InputError for what cannot be written, whatever stands before it."""
        return self._writer().written(self._decided(ranking))

    def chosen(self, lines: Iterator[str], record: CandidateList) -> Text:
        """The chosen text of a list, whose lines are the next that `row` made."""
        undecided = self._with_values(self._reduced(record), [0.0] * len(record.candidates))
        num_lines = self._writer().written(undecided).count(b"\n")
        data = "".join(islice(lines, num_lines)).encode()
        candidates = read_back(self.form, data, len(record.candidates)).candidates
        if self.order == "choice":
            return candidates[0].text
        values = [float(candidate.fields[self.feature]) for candidate in candidates]
        return candidates[first_of(values)].text

    def resume(self, lines: Iterator[str], counts: Mapping[str, int]) -> None:
        """Takes the shape of the lists from what an earlier run has written."""
        if self.form == "flat":
            self.writer.shape = counts["candidates"] // counts["rows"]
        if self.form == "fairseq":
            self.writer.shape = _log_shape(lines)

    def _writer(self) -> FormWriter:
        return FormWriter(self.form, lossy=self.lossy or self.form == "flat")

    def _decided(self, ranking: Ranking) -> CandidateList:
        """The list as it is written."""
        record = CandidateList(
            ranking.id,
            ranking.candidates,
            ranking.source,
            references=ranking.references,
            extra=ranking.extra,
        )
        decided = self._with_values(self._reduced(record), decision_values(ranking))
        if self.order == "kept":
            return decided
        candidates = [decided.candidates[i] for i in best_first(ranking)]
        return replace(decided, candidates=tuple(candidates))

    def _reduced(self, record: CandidateList) -> CandidateList:
        """The list with nothing beside its candidates that the form has no place for."""
        if self.form != "fairseq":
            return CandidateList(record.id, record.candidates)
        references = record.references if len(record.references) == 1 else ()
        extra = {key: value for key, value in record.extra.items() if key in _LOG_KEYS}
        return CandidateList(
            record.id, record.candidates, record.source, references=references, extra=extra
        )

    def _with_values(self, record: CandidateList, values: Sequence[float]) -> CandidateList:
        """The list with the decision beside every candidate."""
        if self.form == "flat":
            return record
        has_total = any(SCORE in candidate.fields for candidate in record.candidates)
        candidates = []
        for i, (candidate, value) in enumerate(zip(record.candidates, values, strict=True)):
            if self.feature in candidate.fields:
                problem = "a field of the decision's name"
                where = f"candidates[{i}].{self.feature}"
                raise InputError(problem, where=where, fix="Name the decision: --feature")
            total = {} if has_total or self.form == "fairseq" else {SCORE: value}
            fields = {**candidate.fields, **total, self.feature: value}
            candidates.append(Candidate(candidate.text, candidate.logprob, fields))
        return replace(record, candidates=tuple(candidates))


def decision_values(ranking: Ranking) -> list[float]:
    """The value of every candidate [N]: finite, and in the order of the ranking."""
    value_of: dict[Text, float] = {}
    lowest = min((p.utility for p in ranking.ranking if p.utility is not None), default=0.0)
    step = _STEP * max(1.0, abs(lowest))
    num_below = 0
    for place in ranking.ranking:
        if place.utility is None:
            num_below += 1
        value_of[place.text] = lowest - num_below * step if place.utility is None else place.utility
    below_all = lowest - (num_below + 1) * step
    return [value_of.get(candidate.text, below_all) for candidate in ranking.candidates]


def best_first(ranking: Ranking) -> list[int]:
    """Every candidate in the order of its text, the copy that was ranked before the others."""
    place_of = {place.text: (rank, place.index) for rank, place in enumerate(ranking.ranking)}
    last = (len(place_of), -1)

    def key(i: int) -> tuple[int, bool, int]:
        rank, ranked_copy = place_of.get(ranking.candidates[i].text, last)
        return rank, i != ranked_copy, i

    return sorted(range(len(ranking.candidates)), key=key)


def first_of(values: Sequence[float]) -> int:
    """The candidate that values choose, by the rule of ties."""
    import numpy as np

    return next(in_order(np.array(values)))


def _log_shape(lines: Iterator[str]) -> Any:
    """The kinds of lines that the first list of a log has, as `FormWriter` has them."""
    kinds: list[str] = []
    first_id = None
    for line in lines:
        record = RECORD.match(line.rstrip("\n").encode())
        if record is None:
            continue
        first_id = first_id or record[2]
        if record[2] != first_id:
            break
        kinds.append(record[1].decode())
    return tuple(kind for kind in "SP" if kind in kinds)
