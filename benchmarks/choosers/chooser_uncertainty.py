"""What a chooser's expected errors and probabilities are worth, and what is left when a share goes to people.

    python -m benchmarks.choosers.chooser_uncertainty FOLDER --work WORK [--draws 5]

Sets, draws and defaults are those of `chooser_tables`. Printed: expected and found MQM of what is chosen, and the
errors left when the share of segments with the most expected errors is taken out, over all errors, beside the longest
segments taken out; what share is flagged where a fifth is asked for, as `decode --abstain 0.2` does it, and by the
threshold that leaves a fifth of the judged segments above; and how often the chosen text was as good as any, by tenths
of the probability that was said.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet, measured_sets
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.chooser.abstaining import threshold
from discorank.rerank.chooser.chooser_fit import Defaults, fit
from discorank.rerank.chooser.defaults import defaults_of
from discorank.rerank.chooser.difficulty import (
    Difficulty,
    difficulty_of_sets,
    learned_difficulty,
)
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY
from .judged_draws import splits
from .set_beliefs import without_features

NUMBERS = ("0", "15", "20", "50", "100", "all")
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)
ASKED = 0.2
TENTHS = 10


class Said(NamedTuple):
    """What was said of chosen texts, and what was found, [n] each.

    Args:
        expected: MQM.
        probability: to be as good as any.
        found: MQM.
        best: whether it was as good as any.
        length: log characters.
        errors: expected, in sigma.
        of_judged: the same of the judged segments, by what other documents teach; of any number.
    """

    expected: FloatArray
    probability: FloatArray
    found: FloatArray
    best: FloatArray
    length: FloatArray
    errors: FloatArray
    of_judged: FloatArray


def believed(data: MeasuredSet, sets: Sequence[MeasuredSet]) -> tuple[Defaults, Difficulty]:
    """What the other sets teach."""
    others = [own for own in sets if own is not data]
    plain = [own.data._replace(columns=own.data.columns[:, :, :0]) for own in others]
    defaults = defaults_of(plain)
    learned = [fit(own, defaults) for own in plain]
    difficulty = difficulty_of_sets(
        [own.traits for own in others],
        [own.errors for own in plain],
        [own.held_out for own in learned],
        [own.sigma for own in learned],
    )
    return without_features(defaults, data.data.columns.shape[2]), difficulty


def said_of(
    data: MeasuredSet,
    train: IntArray,
    test: IntArray,
    defaults: Defaults,
    default: Difficulty,
) -> Said:
    """What a chooser of some segments says of others."""
    known, others = data.data.rows(train), data.data.rows(test)
    learned = fit(known, defaults)
    difficulty, of_judged = default, np.zeros(0)
    if len(train):
        held_out = learned.held_out
        difficulty = learned_difficulty(
            data.traits[train], known.errors, held_out, learned.sigma, True, default
        )
        of_judged = difficulty.errors(
            data.traits[train], held_out.max(axis=1) - held_out.mean(axis=1)
        )
    values = learned.values(others)
    rows, picks = np.arange(len(test)), learned.choices(others)
    leads = values[rows, picks] - values.mean(axis=1)
    errors = difficulty.errors(data.traits[test], leads)
    found = others.scores[rows, picks]
    return Said(
        difficulty.scores(errors, learned.sigma, True),
        np.array([difficulty.probability(float(error)) for error in errors]),
        found,
        (found <= others.scores.min(axis=1)).astype(float),
        data.traits[test][:, 0],
        errors,
        of_judged,
    )


def left(order_by: FloatArray, found: FloatArray, share: float) -> float:
    """The errors left without the segments of the largest values, over all."""
    order = np.argsort(-order_by, kind="stable")
    kept = order[round(share * len(order)) :]
    return float(found[kept].sum() / found.sum())


def flagged(said: Sequence[Said]) -> list[str]:
    """The share that is flagged where `ASKED` is asked for, by both thresholds: mean, least and most over draws."""
    of_run = [(own.errors > threshold(own.errors, ASKED)).mean() for own in said]
    of_judged = []
    for own in said:
        if len(own.of_judged):
            of_judged.append((own.errors > np.quantile(own.of_judged, 1 - ASKED)).mean())
    cells = []
    for shares in (of_run, of_judged):
        spread = f"{min(shares):.2f} to {max(shares):.2f}" if shares else ""
        cells.append(f"{np.mean(shares):.2f}, {spread}" if shares else "-")
    return cells


def show(sets: Sequence[MeasuredSet], draws: int) -> None:
    beliefs = [believed(data, sets) for data in sets]
    shares = []
    rows = [["judged", "of", "expected over found", *(f"{share:.0%} sent" for share in SHARES)]]
    tenths = [["judged", *map(str, range(1, TENTHS + 1))]]
    for judged in NUMBERS:
        said: list[list[Said]] = []
        for data, belief in zip(sets, beliefs, strict=True):
            said.append([said_of(data, *pair, *belief) for pair in splits(data, judged, draws)])
        for name, field in (("expected errors", "expected"), ("length", "length")):
            cells = [f"{_macro(said, field, share):.3f}" for share in SHARES]
            ratio = np.mean([_ratio(of_set) for of_set in said])
            has_unit = field == "expected" and judged != "0"
            rows.append([judged, name, f"{ratio:.2f}" if has_unit else "-", *cells])
        everything = [own for of_set in said for own in of_set]
        tenths += _tenths(judged, everything)
        shares.append([judged, *flagged(everything)])
    head = ["judged", "flagged by `--abstain 0.2`", "above a fifth of the judged segments"]
    print(f"{table(rows[0], rows[1:])}\n\n{table(head, shares)}\n\n{table(tenths[0], tenths[1:])}")


def _macro(said: Sequence[Sequence[Said]], field: str, share: float) -> float:
    """Errors left, the mean over draws and sets."""
    of_sets = []
    for of_set in said:
        of_sets.append(np.mean([left(getattr(own, field), own.found, share) for own in of_set]))
    return float(np.mean(of_sets))


def _ratio(of_set: Sequence[Said]) -> float:
    return float(sum(own.expected.sum() for own in of_set) / sum(own.found.sum() for own in of_set))


def _tenths(judged: str, said: Sequence[Said]) -> list[list[str]]:
    """Probabilities said and shares found, by tenths of what was said."""
    probability = np.concatenate([own.probability for own in said])
    best = np.concatenate([own.best for own in said])
    parts = np.array_split(np.argsort(probability, kind="stable"), TENTHS)
    means = [[f"{values[part].mean():.2f}" for part in parts] for values in (probability, best)]
    return [[f"{judged}: said", *means[0]], [f"{judged}: found", *means[1]]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    sets = measured_sets(options.folder, UTILITY, SURFACE, options.work)
    show(sets, options.draws)


if __name__ == "__main__":
    main()
