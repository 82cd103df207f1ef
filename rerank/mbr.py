"""Minimum Bayes risk decoding: the candidate with the highest expected utility against pseudo-references.

    h* = argmax_h mu(h)               (Kumar and Byrne 2004; Eikema and Aziz 2020 for samples)
    mu(h) = sum_r w(r) u(h, r) / W,   W = sum_r w(r)      O(N^2) comparisons of N candidates
    mu(h) = u(h, sum_r w(r) phi(r) / W)                   O(N), where u depends on r through phi(r) alone, linearly

Each text is represented once. With a shortlist, a cheap utility or a reference-free metric first keeps the `top_k` best
(as candidates and pseudo-references) and the expensive utility decides among them. With a budget, some of the pairs are
computed (`budgeted_list`). `expectation` computes both forms of mu from an engine's comparisons, `choice` the argmax
with its ties, `diverse` a k-best list of texts that are unlike; `pseudo_references` says what r and w are.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..metrics.errors import InputError
from ..metrics.execution.by_sentence import is_joined
from ..metrics.mixture import Utility
from ..metrics.representations import FloatArray, IntArray
from ..metrics.text.texts import Context
from .budget.settings import Budget
from .choice import Spent, choose
from .decider import combined_matrix, combined_values
from .distinct import Distinct
from .diverse import diverse
from .engines.interface import Result, Task
from .lists import CandidateList
from .normalization import Normalize
from .pseudo_references import Weigh, human_references, pseudo_references
from .scheduler import Program


class Expected(NamedTuple):
    """Expected utilities [H], what the list's reader should know, and the utility matrix [H, R] if it was kept.

    Under a budget also what was computed, and which hypotheses were given up.
    """

    values: FloatArray
    flags: tuple[str, ...]
    matrix: FloatArray | None
    spent: Spent | None = None
    given_up: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class MBR:
    """The algorithm over loaded utilities; `MBRDecoder` is its settings.

    Args:
        utility: u.
        weigh: the weights w of pseudo-references.
        self_pair: whether a candidate is a pseudo-reference for itself.
        nbest: how many places a ranking has; None for every distinct text.
        shortlist: the utility of a first stage, if there is one.
        top_k: how many distinct texts the first stage keeps.
        oracle: decide against the human references instead.
        keep_matrix: whether rankings carry their utility matrix.
        diverse: lambda of a diverse list; None for the best places.
        budget: which pairs are computed; None for all.
        normalize: what is done to each part's expected utilities within a list.
    """

    utility: Utility
    weigh: Weigh
    self_pair: bool = True
    nbest: int | None = 1
    shortlist: Utility | None = None
    top_k: int = 16
    oracle: bool = False
    keep_matrix: bool = False
    diverse: float | None = None
    budget: Budget | None = None
    normalize: Normalize = "none"

    def program(self, record: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        """The decision of one list: a shortlist if it is long, expected utilities, the argmax."""
        if self.diverse is not None and record.pseudo_references:
            problem = "candidates are compared with these, and a diverse list needs them compared with each other"
            raise InputError(
                problem, where="pseudo_references", fix="Leave out --diverse, or these"
            )
        distinct = Distinct(record.candidates)
        kept = np.arange(len(distinct))
        if self.shortlist is not None and len(distinct) > self.top_k:
            kept, flags = yield from self._shortlisted(
                self.shortlist, record, distinct, context, flags
            )
        expected = yield from self.expected(record, distinct, kept, context, flags)
        values, left_out = expected.values, set[int]()
        if len(kept) < len(distinct):
            values = np.full(len(distinct), np.nan)
            values[kept] = expected.values
            left_out.update(set(range(len(distinct))) - set(kept.tolist()))
        left_out.update(kept[i] for i in expected.given_up)
        if self.diverse is not None:
            left_out.update(kept[self._unlike(expected, self.diverse)].tolist())
        matrix = expected.matrix if self.keep_matrix else None
        return choose(
            record,
            values[distinct.of],
            self.nbest,
            expected.flags,
            matrix,
            distinct,
            left_out,
            budget=expected.spent,
            context=context,
        )

    def _unlike(self, expected: Expected, penalty: float) -> IntArray:
        """The numbers of the texts that are not in the diverse list."""
        values, matrix = expected.values, expected.matrix
        if matrix is None:
            return np.empty(0, np.int64)
        places = diverse(values, matrix, len(values) if self.nbest is None else self.nbest, penalty)
        return np.setdiff1d(np.arange(len(values)), places)

    def expected(
        self,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        context: Context,
        flags: tuple[str, ...],
    ) -> Generator[Task, Result, Expected]:
        """Expected utilities of the kept ones of a list's distinct texts, without a shortlist."""
        task = self._task(self.utility, record, distinct, kept, context)
        parts = [part for _, part in self.utility.parts]
        if any(map(is_joined, parts, task.comparisons)):
            flags = (*flags, "joined")
        for part, comparison in zip(parts, task.comparisons, strict=True):
            flags = (*flags, *(flag for flag in part.remarks(comparison) if flag not in flags))
        task = task._replace(keep_matrix=self.keep_matrix or self.diverse is not None)
        if self.budget is not None:
            return (
                yield from self._estimated(
                    self.budget, task, record, distinct, kept, context, flags
                )
            )
        result = yield task
        flags = (*flags, *(flag for flag in result.flags if flag not in flags))
        values = combined_values(self.utility, result, self.normalize)
        return Expected(values, flags, combined_matrix(self.utility, result))

    def _estimated(
        self,
        budget: Budget,
        task: Task,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        context: Context,
        flags: tuple[str, ...],
    ) -> Generator[Task, Result, Expected]:
        """Expected utilities from as many pairs of a task as the budget has."""
        from .budgeted_list import estimated

        cheap = None
        if budget.cheap is not None:
            cheap = self._task(budget.cheap, record, distinct, kept, context)
        square = not (record.pseudo_references or self.oracle)
        of_list = yield from estimated(budget, task, cheap, self.nbest, square)
        flags = (*flags, *(flag for flag in of_list.flags if flag not in flags))
        given_up = of_list.given_up.tolist()
        return Expected(of_list.values, flags, of_list.matrix, of_list.spent, given_up)

    def _shortlisted(
        self,
        utility: Utility,
        record: CandidateList,
        distinct: Distinct,
        context: Context,
        flags: tuple[str, ...],
    ) -> Generator[Task, Result, tuple[IntArray, tuple[str, ...]]]:
        """The numbers of the `top_k` best distinct texts by the cheap utility, in order of appearance."""
        everything = np.arange(len(distinct))
        result = yield self._task(utility, record, distinct, everything, context)
        values = combined_values(utility, result, self.normalize)[distinct.of]
        places = choose(record, values, self.top_k, distinct=distinct).ranking
        kept = np.unique([distinct.of[place.index] for place in places])
        return kept, (*flags, *result.flags, "shortlisted")

    def _task(
        self,
        utility: Utility,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        context: Context,
    ) -> Task:
        """The kept texts against the list's pseudo-references, as each part of the utility reads them."""
        hypotheses = tuple(distinct.texts[i] for i in kept.tolist())
        if self.oracle:
            pool = human_references(record)
        else:
            pool = pseudo_references(record, distinct, kept, self.weigh)
        # the same object where they are the hypotheses: the comparison is then known to be square
        references = pool.texts or hypotheses
        comparisons = tuple(
            part.comparison(hypotheses, references, record.source, context.last(part.reads.context))
            for _, part in utility.parts
        )
        own = None if self.self_pair else pool.own
        return Task(record.id, utility, comparisons, pool.weights, own)
