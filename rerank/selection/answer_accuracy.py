"""How good choosing among k candidates is, from n of them whose answers are known to be right or wrong.

k of the n candidates are drawn without replacement, in random order:

    pass@k = 1 - C(n - c, k) / C(n, k)          c right ones; the chance that one of the k is right (Chen et al. 2021)
    maj@k  = sum_{a right} P(a is the answer of the majority)

The majority is decided as `vote` decides it: texts without an answer have no vote, and of answers with equally many the
one that comes first wins, which in a random order is each of t such answers with the chance 1 / t. With n_a texts of
answer a, and x_a of them among the k,

    P(a) = sum_m sum_{x : x_a = m, x_b <= m} 1 / t(x) prod_b C(n_b, x_b) / C(n, k),    t(x) = |{b : x_b = m}|

The inner sum is taken by a table over how many texts are drawn and how many answers have m of them, answer by answer:
O(n k^2 log k) at the most. Where no text drawn has an answer, the choice is wrong.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from ...metrics.errors import InputError
from ...metrics.lexical.vote import Vote
from ...metrics.representations import FloatArray
from ..lists import CandidateList

MAX_DRAWN = 256  # k


class Answers(NamedTuple):
    """The answers of a list.

    Args:
        right: how many candidates have each of the right answers.
        wrong: how many have each of the others.
        without: how many have none.
    """

    right: tuple[int, ...]
    wrong: tuple[int, ...]
    without: int = 0

    @property
    def candidates(self) -> int:
        """n, how many there are in all."""
        return sum(self.right) + sum(self.wrong) + self.without


def answers_of(record: CandidateList, metric: Vote) -> Answers:
    """The answers of a list's candidates, right where a reference has the same.

    Raises:
        InputError: no reference has an answer.
        DiscorankError: as `Vote.answer_of`.
    """
    if not any(str(reference).strip() for reference in record.references):
        fix = "Give what is right, or leave the list out"
        raise InputError("no reference has an answer", where="references", fix=fix)
    texts = [candidate.text for candidate in record.candidates]
    in_list = metric.in_list(texts)
    keys = in_list.keys_of(texts)
    text_of = dict(zip(keys, texts, strict=True))
    counts = Counter(keys)
    without = counts.pop(None, 0)
    right_keys = {key for key in counts if in_list.is_right(text_of[key], record.references)}
    right = tuple(n for key, n in counts.items() if key in right_keys)
    wrong = tuple(n for key, n in counts.items() if key not in right_keys)
    return Answers(right, wrong, without)


def pass_at(answers: Answers, k: int) -> float:
    """The chance that one of k candidates is right.

    >>> pass_at(Answers(right=(1,), wrong=(3,)), 2)
    0.5

    Raises:
        InputError: there are fewer than k, or k is not from 1 to `MAX_DRAWN`.
    """
    _check(answers, k)
    n, num_right = answers.candidates, sum(answers.right)
    drawn = np.arange(k)
    none_right = np.maximum(n - num_right - drawn, 0) / (n - drawn)
    return float(1 - none_right.prod())


def majority_at(answers: Answers, k: int) -> float:
    """The chance that the majority of k candidates is right; errors as `pass_at`.

    >>> majority_at(Answers(right=(2,), wrong=(1,)), 3), majority_at(Answers(right=(1,), wrong=(1,)), 2)
    (1.0, 0.5)
    """
    _check(answers, k)
    chance = 0.0
    for i, size in enumerate(answers.right):
        rivals = (*answers.right[:i], *answers.right[i + 1 :], *answers.wrong)
        chance += _wins(size, rivals, answers.without, k)
    return min(1.0, chance)


def _check(answers: Answers, k: int) -> None:
    if not 1 <= k <= MAX_DRAWN:
        raise InputError(f"found {k}, expected 1 to {MAX_DRAWN}", where="at", fix="Change it")
    if k > answers.candidates:
        problem = f"{answers.candidates} candidates, fewer than {k}"
        raise InputError(problem, where="candidates", fix="Give a smaller k")


def _wins(size: int, rivals: tuple[int, ...], without: int, k: int) -> float:
    """The chance that an answer of `size` texts has the majority of k, among rivals of these sizes.

    C(n_b, x) stands as the binomial probability of x with p = k / n: the factors that this adds are the same for all x
    that sum to k, so they cancel, and nothing overflows.
    """
    n = size + sum(rivals) + without
    p = k / n
    own = _binomial(size, p)
    largest_rival = max(rivals, default=0)
    chance = 0.0
    for votes in range(1, min(size, k) + 1):
        left = k - votes
        if votes > largest_rival:  # whatever else is drawn
            others = _binomial(n - size, p)
            chance += own[votes] * (others[left] if left < len(others) else 0.0)
        else:
            chance += own[votes] * _beaten(rivals, without, votes, left, p)
    return float(chance / _binomial(n, p)[k])


def _beaten(rivals: tuple[int, ...], without: int, votes: int, left: int, p: float) -> float:
    """The chance that `left` further draws give no rival more than `votes`, shared among those that have as many."""
    max_ties = left // votes
    # by texts drawn and rivals with as many votes
    table: FloatArray = np.zeros((left + 1, max_ties + 1))
    silent = _binomial(without, p)[: left + 1]
    table[: len(silent), 0] = silent
    for size in rivals:
        chances = _binomial(size, p)
        fewer: FloatArray = np.zeros_like(table)
        for x in range(min(votes, size + 1, left + 1)):
            fewer[x:] += chances[x] * table[: left + 1 - x]
        if votes <= min(size, left):
            fewer[votes:, 1:] += chances[votes] * table[: left + 1 - votes, :-1]
        table = fewer
    shares = 1 / np.arange(1, max_ties + 2)
    return float(table[left] @ shares)


def _binomial(n: int, p: float) -> FloatArray:
    """The probabilities of 0 to n successes, [n + 1]."""
    if p >= 1:
        return np.asarray(np.eye(1, n + 1, n)[0], np.float64)
    # x successes from x - 1: times (n - x + 1) / x p / (1 - p), in logarithms
    x = np.arange(1, n + 1)
    steps = np.log((n - x + 1) / x) + np.log(p) - np.log1p(-p)
    logs = np.concatenate(([0.0], np.cumsum(steps))) + n * np.log1p(-p)
    return np.asarray(np.exp(logs))
