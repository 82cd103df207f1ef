"""What every feature beside consensus is worth: a chooser with all, without each and with each alone.

    python -m benchmarks.choosers.feature_ablation FOLDER --work WORK [--draws 10]

Sets, draws, defaults and figures are those of `chooser_tables`. First what weights of features are worth that other
sets teach, without judgements; then, by number of judged segments, the macro mean and its difference from no features.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet, measured_sets
from benchmarks.support.resampling import ends
from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser.chooser_fit import fit
from discorank.rerank.chooser.defaults import defaults_of
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY
from .judged_draws import JUDGED, splits
from .score_sums import KeptSums, Sums, chosen
from .set_beliefs import Others, without_features
from .set_ratios import line, ratios


def ablated(data: MeasuredSet, judged: str, others: Others, draws: int) -> Sums:
    """The chooser with all features, without each, and with each alone."""
    sums = Sums(len(data.ids))
    for train, test in splits(data, judged, draws):
        sums.times[test] += 1
        sums.add("random", test, data.data.scores[test].mean(axis=1))
        everything = range(len(SURFACE))
        kept = {"all": list(everything), "none": []}
        for i in everything:
            kept[f"without {SURFACE[i]}"] = [j for j in everything if j != i]
            kept[f"{SURFACE[i]} alone"] = [i]
        for name, features in kept.items():
            own = data._replace(data=data.data._replace(columns=data.data.columns[:, :, features]))
            learned = fit(own.data.rows(train), without_features(others.defaults, len(features)))
            sums.add(name, test, chosen(own, test, learned))
    return sums


def show_ablation(
    sets: Sequence[MeasuredSet], others: Sequence[Others], kept: KeptSums, draws: int
) -> None:
    columns: dict[str, list[str]] = {}
    for judged in JUDGED[1:]:
        sums = [
            kept.read_or_made(
                d, ("ablation", judged, str(draws)), partial(ablated, d, judged, o, draws)
            )
            for d, o in zip(sets, others, strict=True)
        ]
        means = [own.means() for own in sums]
        for name in means[0]:
            if name != "random":
                cells = columns.setdefault(name, [name])
                cells.append(_difference(sets, means, name))
    print(f"\n{table(['features', *JUDGED[1:]], list(columns.values()))}")


def show_transfer(sets: Sequence[MeasuredSet]) -> None:
    """Without judgements, features weighted as the other sets teach."""
    everything = list(range(len(SURFACE)))
    kept = {"none": [], "all": everything, **{SURFACE[i]: [i] for i in everything}}
    rows = [["no judgements, weights of the other sets", *(data.name for data in sets), "macro"]]
    for name, features in kept.items():
        data = [own.data._replace(columns=own.data.columns[:, :, features]) for own in sets]
        means = []
        for i, own in enumerate(data):
            defaults = defaults_of(data[:i] + data[i + 1 :])
            learned = fit(own.rows(np.arange(0)), defaults)
            found = own.scores[np.arange(len(own.scores)), learned.choices(own)]
            means.append({"found": found, "random": own.scores.mean(axis=1)})
        rows.append([name, *line(sets, means, "found", "random")])
    print(f"\n{table(rows[0], rows[1:])}", flush=True)


def _difference(
    sets: Sequence[MeasuredSet], means: Sequence[dict[str, FloatArray]], name: str
) -> str:
    """The macro mean, and its difference from no features."""
    own = [ratios(data, m[name], m["random"]) for data, m in zip(sets, means, strict=True)]
    none = [ratios(data, m["none"], m["random"]) for data, m in zip(sets, means, strict=True)]
    value = np.mean([a for a, _ in own])
    difference = value - np.mean([a for a, _ in none])
    draws = np.mean([a - b for (_, a), (_, b) in zip(own, none, strict=True)], axis=0)
    low, high = ends(draws)
    return f"{value:.3f}; {difference:+.3f} [{low:+.3f}, {high:+.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    sets = measured_sets(options.folder, UTILITY, SURFACE, options.work)
    show_transfer(sets)
    others = [Others(data, sets) for data in sets]
    show_ablation(sets, others, KeptSums(options.work, __file__), options.draws)


if __name__ == "__main__":
    main()
