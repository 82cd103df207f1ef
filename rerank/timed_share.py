"""The share of all pairs that can be computed in some seconds, from the time that some lists take.

A budget in seconds would make results depend on the speed of a machine at every list. So it is made a share once,
before the run; the share stands in the run file, and everything else depends on it alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

from ..metrics.errors import DiscorankError, InputError
from ..metrics.registry import load_metric
from .budget.plan import num_pairs
from .budget.settings import Budget, load_budget, two_texts_are_one_pair
from .distinct import Distinct
from .engines.interface import Engine
from .lists import CandidateList
from .mbr_decoder import MBRDecoder

PROBED_LISTS = 8
FIRST_SHARE, SECOND_SHARE = 0.02, 0.1


class Totals:
    """The texts and pairs of the lists so far, as a decoder compares them."""

    def __init__(self, decoder: MBRDecoder) -> None:
        self.top_k = None if decoder.shortlist is None else decoder.top_k
        self.one_pair = two_texts_are_one_pair(load_metric(decoder.utility), force=True)
        self.texts = 0
        self.pairs = 0

    def add(self, record: CandidateList) -> None:
        """Counts one list."""
        num_texts = len(Distinct(record.candidates))
        kept = num_texts if self.top_k is None else min(num_texts, self.top_k)
        num_references = len(Distinct(record.pseudo_references)) or kept
        self.texts += num_texts + (num_references if record.pseudo_references else 0)
        is_symmetric = self.one_pair and not record.pseudo_references
        self.pairs += num_pairs(kept, num_references, is_symmetric)


def timed_share(
    decoder: MBRDecoder,
    records: Sequence[CandidateList],
    totals: Totals,
    seconds: float,
    engine: Engine,
) -> float:
    """The share of all pairs that takes about some seconds, to three digits.

    The first pass over the records is that in which texts are represented; the second has more pairs of the same texts.

    Args:
        decoder: with a budget.
        records: some lists.
        totals: of all lists.
        seconds: for all lists.
        engine: what values them.

    Raises:
        InputError: the texts alone take longer.
    """
    probed = Totals(decoder)
    for record in records:
        probed.add(record)
    if not probed.pairs:
        return 1.0
    engine.load(decoder.metrics)
    first_pairs, first_seconds = _timed(decoder, records, FIRST_SHARE, engine)
    second_pairs, second_seconds = _timed(decoder, records, SECOND_SHARE, engine)
    if not (first_pairs and second_pairs):
        return 1.0  # the run says what is wrong with the lists
    of_pair = second_seconds / second_pairs
    of_text = max(0.0, first_seconds - first_pairs * of_pair) / probed.texts
    left = seconds - of_text * totals.texts
    if left <= 0:
        needed = of_text * totals.texts
        problem = f"{seconds:g} s, but reading all texts once takes about {needed:.3g} s"
        raise InputError(problem, where="budget_seconds", fix="Give more")
    return min(1.0, float(f"{left / (of_pair * totals.pairs):.3g}"))


def _timed(
    decoder: MBRDecoder, records: Sequence[CandidateList], share: float, engine: Engine
) -> tuple[int, float]:
    """How many pairs a share of them is, and the seconds that they took; lists that fail count nothing."""
    budget = load_budget(decoder.budget) or Budget(share)
    probe = replace(decoder, budget=replace(budget, share=share, confidence=None, regret=None))
    independent = [replace(record, id=str(i)) for i, record in enumerate(records)]
    start, pairs = perf_counter(), 0
    for _, outcome in probe.outcomes(enumerate(independent), engine):
        if outcome is not None and not isinstance(outcome, DiscorankError):
            pairs += outcome.budget.pairs if outcome.budget is not None else 0
    return pairs, perf_counter() - start
