"""When votes may stop: draws saved, and how often the answer is another than that of all 16, rule beside rule.

    python -m benchmarks.choice_quality.stopping_votes

The Beta rule (adaptive consistency, Aggarwal et al. 2023) stops where P(q > 1/2) reaches a bound, q ~ Beta(v_1 + 1,
v_2 + 1) of the two leading answers; it does not know the cap. Two simulations, of 2 to 7 answers: questions with a
likely answer, shares from Dirichlet(4, .5, ..., .5), and harder ones, shares from Dirichlet(1, ..., 1). Both rules see
the same draws, one by one after the first ones. Intervals of shares are Wilson's, of 95 %.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from scipy.stats import beta  # type: ignore[import-untyped, unused-ignore]

from discorank import StoppingRule

CAP, NUM_QUESTIONS, NUM_HARDER = 16, 400, 2000
Rule = Callable[[Sequence[int]], bool]  # whether to stop after these counts, in order of appearance


def likely(kinds: int) -> list[float]:
    """Parameters of the shares where one answer is likely."""
    return [4.0, *[0.5] * (kinds - 1)]


def flat(kinds: int) -> list[float]:
    """Parameters of shares that may be anything."""
    return [1.0] * kinds


def simulated(
    number: int, parameters: Callable[[int], list[float]], seed: int = 0
) -> list[list[int]]:
    """Lists of the answers of `CAP` draws."""
    random = np.random.default_rng(seed)
    lists = []
    for _ in range(number):
        shares = random.dirichlet(parameters(int(random.integers(2, 8))))
        lists.append(random.choice(len(shares), CAP, p=shares).tolist())
    return lists


def beta_rule(bound: float) -> Rule:
    """The Beta rule."""

    @lru_cache(None)
    def probability(first: int, second: int) -> float:
        return float(beta.sf(0.5, first + 1, second + 1))

    def stops(counts: Sequence[int]) -> bool:
        first, second, *_ = sorted([*counts, 0], reverse=True)
        return probability(first, second) >= bound

    return stops


def our_rule(rule: StoppingRule) -> Rule:
    """The rule of the project."""

    def stops(counts: Sequence[int]) -> bool:
        return rule.is_safe(rule.outlook(np.eye(len(counts)), np.array(counts)))

    return stops


def vote(answers: Sequence[int]) -> int:
    """The answer with the most votes, of equal ones the first."""
    distinct = list(dict.fromkeys(answers))
    return max(distinct, key=answers.count)


def replayed(lists: Sequence[Sequence[int]], stops: Rule, first: int) -> Iterator[tuple[int, bool]]:
    """For each list how many draws are made, and whether the answer is another than that of all."""
    for answers in lists:
        drawn = first
        while drawn < len(answers):
            seen = list(answers[:drawn])
            if stops([seen.count(answer) for answer in dict.fromkeys(seen)]):
                break
            drawn += 1
        yield drawn, vote(answers[:drawn]) != vote(answers)


def interval(successes: int, number: int) -> tuple[float, float]:
    """Wilson's interval of 95 %."""
    z, share = 1.96, successes / number
    middle = share + z**2 / (2 * number)
    half = z * (share * (1 - share) / number + z**2 / (4 * number**2)) ** 0.5
    return (middle - half) / (1 + z**2 / number), (middle + half) / (1 + z**2 / number)


def row(name: str, lists: Sequence[Sequence[int]], stops: Rule, first: int) -> str:
    """A line of the table."""
    results = list(replayed(lists, stops, first))
    saved = 1 - np.mean([drawn for drawn, _ in results]) / CAP
    others = sum(is_other for _, is_other in results)
    low, high = interval(others, len(lists))
    return (
        f"| {name} | {first} | {100 * saved:.1f} % "
        f"| {100 * others / len(lists):.2f} % [{100 * low:.2f}, {100 * high:.2f}] |"
    )


def table(title: str, lists: Sequence[Sequence[int]], firsts: Sequence[int]) -> Iterator[str]:
    """The lines of a simulation."""
    yield f"\n{title}: {len(lists)} questions, cap {CAP}\n"
    yield "| rule | first | draws saved | other answers |"
    yield "|---|---|---|---|"
    for first in firsts:
        for least in (0.95, 0.9, 0.85):
            yield row(f"Beta {least:.2f}", lists, beta_rule(least), first)
        for bound in (0.01, 0.02, None, 0.05, 0.1):
            rule = StoppingRule(cap=CAP, first=first, bound=bound)
            shown = "default" if bound is None else f"bound {bound}"
            yield row(f"StoppingRule, {shown}", lists, our_rule(rule), first)


if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    for line in table("a likely answer", simulated(NUM_QUESTIONS, likely, seed), (2, 4)):
        print(line)
    for line in table("harder", simulated(NUM_HARDER, flat, seed), (2, 4)):
        print(line, flush=True)
