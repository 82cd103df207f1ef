"""What stopping early saves and costs, on recorded lists: candidates are drawn in rounds until the choice is safe.

    python -m benchmarks.choice_quality.adaptive_drawing JUDGED CAPTIONS MODEL KEPT [--captions 500] [--utility chrf]

JUDGED is a folder of systems files with MQM (the systems in random order stand for draws, five orders per segment),
CAPTIONS the file and MODEL the folder of `caption_model`; KEPT keeps samples and matrices. Captions: 64 samples each at
temperatures 1 and 0.5, four lists of 16 and one of 64.

"Saved" is the share of the cap that is not drawn. "Loss" is the expected loss of the choice under the full list, the
mean over its candidates r of u(r, r) - u(choice, r), above that of the choice from the full list, in per cent of it.
The other columns are the change of scores that were not optimised. "Same number" is the loss of drawing a fixed number
that saves as much; "hindsight" is the most that could be saved at a loss of 1 % by who knew the loss after every
round. Intervals are by caption, or by document (TED: blocks of ten segments); the seven sets are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from benchmarks.support.recorded_lists import (
    RecordedSet,
    against_references,
    arguments,
    caption_samples,
    judged_sets,
    resampled,
    utilities,
)
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.choice import in_order
from discorank.rerank.stopping_rule import outlook

BOUNDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
ORDERS = 5


class Replay(NamedTuple):
    """Drawing from one list, round by round, down to the cap.

    Args:
        drawn: candidates so far, [rounds].
        probability: the rule's, [rounds], 0 at the cap.
        loss: of the choice under the full list, [rounds].
        others: scores of the choice that were not optimised, [rounds, scores].
    """

    drawn: IntArray
    probability: FloatArray
    loss: FloatArray
    others: FloatArray


class Study(NamedTuple):
    """All replays of a set, with the group of each for the bootstrap."""

    name: str
    cap: int
    replays: list[Replay]
    groups: list[str]


def replay(u: FloatArray, others: FloatArray, rounds: Sequence[int]) -> Replay:
    """Draws in the order of a list's rows; `others` is [N, scores]."""
    cap = len(u)
    losses = np.diagonal(u).mean() - u.mean(axis=1)
    probabilities, chosen = [], []
    for n in rounds:
        seen = u[:n, :n]
        chosen.append(next(in_order(seen.mean(axis=1))))
        ones = np.ones(n, np.int64)
        probabilities.append(outlook(seen, ones, cap).probability if n < cap else 0.0)
    return Replay(np.array(rounds), np.array(probabilities), losses[chosen], others[chosen])


def rounds_to(cap: int, first: int, step: int) -> list[int]:
    return [*range(first, cap, step), cap]


def judged_study(data: RecordedSet, spec: str, kept: Path) -> Study:
    """The systems of a set in random orders; the other score is MQM."""
    random = np.random.default_rng(1)
    replays, groups = [], []
    matrices = utilities(data, spec, kept)
    for u, errors, group in zip(matrices, data.errors, data.groups, strict=True):
        for _ in range(ORDERS):
            order = random.permutation(len(u))
            rounds = rounds_to(len(u), 4, 2)
            replays.append(replay(u[np.ix_(order, order)], errors[order, None], rounds))
            groups.append(group)
    return Study(data.name, len(matrices[0]), replays, groups)


def caption_study(data: RecordedSet, spec: str, kept: Path, cap: int, step: int) -> Study:
    """Disjoint lists of `cap` samples in the order in which they were drawn; other scores are against references."""
    names = ("bleu", "ter")
    scores = [against_references(data, name) for name in names]
    replays, groups = [], []
    for i, u in enumerate(utilities(data, spec, kept)):
        others = np.stack([own[i] for own in scores], axis=1)
        for start in range(0, len(u), cap):
            part = slice(start, start + cap)
            replays.append(replay(u[part, part], others[part], rounds_to(cap, step, step)))
            groups.append(data.groups[i])
    return Study(f"{data.name}, {cap} samples", cap, replays, groups)


def stopped(study: Study, stops: Callable[[Replay, int], bool]) -> FloatArray:
    """By replay: share drawn, loss, loss of the full list, change of the other scores, and these of the full list."""
    rows = []
    for own in study.replays:
        last = len(own.drawn) - 1
        at = next((i for i in range(last) if stops(own, i)), last)
        share = own.drawn[at] / own.drawn[last]
        changes = own.others[at] - own.others[last]
        rows.append([share, own.loss[at], own.loss[last], *changes, *own.others[last]])
    return np.array(rows)


def below(bound: float) -> Callable[[Replay, int], bool]:
    """The rule."""
    return lambda own, i: bool(own.probability[i] < bound)


def at_price(price: float) -> Callable[[Replay, int], bool]:
    """Stops where draws and loss together cost least, which nobody can know; a loss of 1 costs `price` caps."""

    def stops(own: Replay, i: int) -> bool:
        cost = own.drawn / own.drawn[-1] + price * own.loss
        return i == int(np.argmin(cost))

    return stops


def in_hindsight(studies: Sequence[Study], extra: float = 1.0) -> Callable[[Replay, int], bool]:
    """The most that can be saved at an average of so much more loss, in per cent."""
    loss = np.mean([own.loss[-1] for study in studies for own in study.replays])
    for price in np.geomspace(0.05, 500, 60) / loss:
        stops = at_price(price)
        means = [summary(stopped(study, stops).mean(axis=0)) for study in studies]
        if np.mean(means, axis=0)[1] <= extra:
            return stops
    return at_share(1.0)


def at_share(share: float) -> Callable[[Replay, int], bool]:
    """Stops at a fixed number, the first round that has this share of the cap."""
    return lambda own, i: bool(own.drawn[i] >= share * own.drawn[-1] - 1e-9)


def summary(rows: FloatArray) -> FloatArray:
    """Saved and extra loss in per cent, and changes of the others: absolute, from means [..., columns]."""
    num_others = (rows.shape[-1] - 3) // 2
    saved = 100 * (1 - rows[..., 0])
    extra = 100 * (rows[..., 1] / rows[..., 2] - 1)
    return np.stack([saved, extra, *np.moveaxis(rows[..., 3 : 3 + num_others], -1, 0)], axis=-1)


def averaged(studies: Sequence[Study], stops: Callable[[Replay, int], bool]) -> FloatArray:
    """The summary averaged over sets, [1 + draws, columns]: first of all replays, then of every draw."""
    tables = []
    for study in studies:
        rows = stopped(study, stops)
        means = np.concatenate([rows.mean(axis=0)[None], resampled(study.groups, rows)])
        tables.append(summary(means))
    return np.asarray(np.mean(tables, axis=0))


def interval(draws: FloatArray) -> str:
    low, high = np.quantile(draws[1:], [0.025, 0.975])
    return f"{draws[0]:+6.2f} [{low:+.2f}, {high:+.2f}]"


def show(title: str, studies: Sequence[Study], others: Sequence[str]) -> None:
    """A table of fixed numbers and of the rule by its bound."""
    print(f"\n{title}")
    heads = "".join(f"{name:>24}" for name in ("loss, %", *others))
    print(f"{'':12} {'saved, %':>9}{heads}   same number, %")
    fixed = {}
    for share in (0.25, 0.375, 0.5, 0.625, 0.75, 0.875):
        table = averaged(studies, at_share(share))
        fixed[float(table[0, 0])] = float(table[0, 1])
        cells = "".join(f"{interval(table[:, i]):>24}" for i in range(1, table.shape[1]))
        print(f"share {share:6.3f} {table[0, 0]:9.1f}{cells}", flush=True)
    savings = [0.0, *sorted(fixed)]
    losses = [0.0, *(fixed[saved] for saved in sorted(fixed))]
    for bound in BOUNDS:
        table = averaged(studies, below(bound))
        cells = "".join(f"{interval(table[:, i]):>24}" for i in range(1, table.shape[1]))
        same = float(np.interp(float(table[0, 0]), savings, losses))
        print(f"bound {bound:6.2f} {table[0, 0]:9.1f}{cells}   {same:+.2f}", flush=True)
    table = averaged(studies, in_hindsight(studies))
    cells = "".join(f"{interval(table[:, i]):>24}" for i in range(1, table.shape[1]))
    print(f"{'hindsight':12} {table[0, 0]:9.1f}{cells}", flush=True)


def show_calibration(studies: Sequence[Study]) -> None:
    """How often the choice did change by more than the margin, by the predicted probability."""
    predicted, found = [], []
    for study in studies:
        for own in study.replays:
            is_better = own.loss[:-1] - own.loss[-1] > 0.01 * own.loss[:-1]
            predicted += own.probability[:-1].tolist()
            found += is_better.tolist()
    edges = (0, 0.05, 0.2, 0.4, 0.6, 0.8, 1.01)
    place = np.digitize(predicted, edges) - 1
    cells = []
    for i in range(len(edges) - 1):
        inside = place == i
        if inside.any():
            share = np.array(found)[inside].mean()
            cells.append(f"{np.array(predicted)[inside].mean():.2f}: {share:.2f} of {inside.sum()}")
    print(f"predicted: found better by more than 1 %   {'; '.join(cells)}", flush=True)


def show_cost(matrices: Sequence[FloatArray]) -> None:
    """What the rule itself costs, for lists of different texts."""
    cells = []
    for drawn, cap in ((4, 16), (8, 16), (16, 64), (48, 64)):
        seconds = []
        for u in matrices[:100]:
            start = perf_counter()
            outlook(u[:drawn, :drawn], np.ones(drawn, np.int64), cap)
            seconds.append(perf_counter() - start)
        cells.append(f"{drawn} of {cap} drawn: {1000 * float(np.median(seconds)):.2f}")
    print(f"\nmilliseconds of the rule, median of 100 lists: {'; '.join(cells)}")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--utility", default="chrf")
    options = parser.parse_args()
    options.kept.mkdir(parents=True, exist_ok=True)
    print(f"utility {options.utility}")
    spec, kept = options.utility, options.kept
    judged = [judged_study(data, spec, kept) for data in judged_sets(options.judged)]
    show("seven sets of 8 to 15 systems", judged, ["MQM"])
    show_calibration(judged)
    for temperature in (1.0, 0.5):
        samples = caption_samples(options.data, options.model, kept, options.captions, temperature)
        for cap, step in ((16, 4), (64, 8)):
            study = caption_study(samples, spec, kept, cap, step)
            show(study.name, [study], ["BLEU", "TER"])
            show_calibration([study])
    show_cost(utilities(samples, spec, kept))


if __name__ == "__main__":
    main()
