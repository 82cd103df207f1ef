"""What a chooser gains by how many segments were judged, on sets of translations with MQM, by nested cross-validation.

    python -m benchmarks.choosers.chooser_tables FOLDER --work WORK [--draws 20]

FOLDER holds systems files ``mt_mqm_<set>.<pair>.jsonl.gz``; what was measured and chosen is kept in WORK, so that the
same command goes on. Only segments whose every system is rated count. 20, 50 or 100 segments are drawn by documents
(sets of fewer than 25: by blocks of ten) and all others are chosen; "all" is five folds of documents, ten draws.
Defaults are of the six other sets, weights and strengths of the judged segments. A figure is the mean MQM of what is
chosen over that of a random system; intervals are by document (TED: by blocks of ten segments).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet, measured_sets
from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser.chooser_fit import fit
from discorank.rerank.chooser.gains import LEVEL, SMOOTH, shipping
from discorank.rerank.chooser.training import learn
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY
from .judged_draws import JUDGED, splits
from .score_sums import KeptSums, Sums, chosen
from .set_beliefs import Others, without_features
from .set_ratios import line

PLAIN_STRENGTH = 6.0
ROWS = {
    "random": "random system",
    "single": "best single system by the judged",
    "hindsight": "best single system in hindsight",
    "mbr": "MBR",
    "prior": "prior, strength 6",
    "plain": "chooser, no features",
    "chooser": "chooser",
    "careful": "chooser, or the single system where it says so",
    "oracle": "oracle",
}


def decided(data: MeasuredSet, judged: str, others: Others, draws: int) -> Sums:
    """All rows of the table for one set and number of judged segments."""
    sums = Sums(len(data.ids))
    num_features = data.data.columns.shape[2]
    defaults = without_features(others.defaults, num_features)
    scores = data.data.scores
    hindsight = int(scores.mean(axis=0).argmin())
    for train, test in splits(data, judged, draws):
        known = data.data.rows(train)
        sums.times[test] += 1
        learned, gain = learn(known, defaults, others.gain)
        consensus = np.eye(1 + num_features)[0]
        plain = fit(known._replace(columns=known.columns * 0), defaults)
        rows = {
            "random": scores[test].mean(axis=1),
            "oracle": scores[test].min(axis=1),
            "hindsight": scores[test, hindsight],
            "mbr": chosen(data, test, learned._replace(strength=0.0, weights=consensus)),
            "plain": chosen(data, test, plain),
            "chooser": chosen(data, test, learned),
        }
        if len(train):
            rows["single"] = scores[test, int(known.errors.mean(axis=0).argmin())]
            rows["prior"] = chosen(
                data, test, learned._replace(strength=PLAIN_STRENGTH, weights=consensus)
            )
            careful = shipping(learned) if gain.as_good else learned
            rows["careful"] = chosen(data, test, careful)
            found = (rows["chooser"].sum() + SMOOTH) / (rows["single"].sum() + SMOOTH)
            sums.said.append((gain.ratio, *gain.interval, float(found)))
        for name, values in rows.items():
            sums.add(name, test, values)
    return sums


def show(sets: Sequence[MeasuredSet], others: Sequence[Others], kept: KeptSums, draws: int) -> None:
    names = [data.name for data in sets]
    said = []
    for judged in JUDGED:
        sums = [
            kept.read_or_made(
                d, ("rows", judged, str(draws)), partial(decided, d, judged, o, draws)
            )
            for d, o in zip(sets, others, strict=True)
        ]
        means = [own.means() for own in sums]
        rows = [[f"{judged} judged", *names, "macro"]]
        for name, label in ROWS.items():
            if name in means[0]:
                rows.append([label, *line(sets, means, name, "random")])
        print(f"\n{table(rows[0], rows[1:])}", flush=True)
        if judged == "0":
            continue
        rows = [["against the single system", *names, "macro"]]
        for name in ("prior", "plain", "chooser", "careful"):
            rows.append([ROWS[name], *line(sets, means, name, "single")])
        rows.append(["chooser against the prior", *line(sets, means, "chooser", "prior")])
        print(f"\n{table(rows[0], rows[1:])}", flush=True)
        said.append([judged, *calibration([row for own in sums for row in own.said])])
    head = [
        "judged",
        "expected ratio",
        "found",
        "in the interval",
        "said to ship",
        "found then",
        "else",
    ]
    print(f"\nWhat the chooser says of itself\n\n{table(head, said)}")


def calibration(said: Sequence[tuple[float, float, float, float]]) -> list[str]:
    """Mean expected and found ratios, the share within the interval, and what was found where it says to ship."""
    ratio, low, high, found = np.array(said).T
    inside = ((low <= found) & (found <= high)).mean()
    ships = low >= LEVEL
    of_ships = f"{_mean(found[ships]):.3f}" if ships.any() else "-"
    of_rest = f"{_mean(found[~ships]):.3f}" if not ships.all() else "-"
    return [
        f"{_mean(ratio):.3f}",
        f"{_mean(found):.3f}",
        f"{inside:.2f}",
        f"{ships.mean():.2f}",
        of_ships,
        of_rest,
    ]


def _mean(ratios_of_draws: FloatArray) -> float:
    """The geometric mean."""
    return float(np.exp(np.log(ratios_of_draws).mean()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    sets = measured_sets(options.folder, UTILITY, SURFACE, options.work)
    others = [Others(data, sets) for data in sets]
    show(sets, others, KeptSums(options.work, __file__), options.draws)


if __name__ == "__main__":
    main()
