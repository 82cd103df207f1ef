"""Makes the defaults of choosers from sets of translations with MQM.

    python -m benchmarks.choosers.chooser_defaults FOLDER --work WORK -o rerank/chooser/defaults.json

FOLDER holds systems files ``mt_mqm_<set>.<pair>.jsonl.gz``; utilities are kept in WORK. What is written has numbers
alone: weights of consensus, losses by strength and the gain over the best single system, each with its spread from set
to set. Printed is what they are.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.support.measured_sets import MeasuredSet, measured_sets
from discorank.metrics.registry import load_metric
from discorank.metrics.storage.checksums import with_checksum
from discorank.rerank.chooser.chooser_fit import STRENGTHS, fit
from discorank.rerank.chooser.defaults import defaults_of
from discorank.rerank.chooser.difficulty import difficulty_of_sets
from discorank.rerank.chooser.gains import ErrorRatio, measured_gain
from discorank.rerank.chooser.shipped import Shipped

UTILITY = "chrf + 100*rouge-l"


def between_sets(gains: Sequence[ErrorRatio]) -> ErrorRatio:
    """What is believed of another set: the mean of these, and their spread, noise and all."""
    logs = np.array([gain.log_ratio for gain in gains])
    return ErrorRatio(float(logs.mean()), float(logs.std(ddof=1)))


def made(sets: Sequence[MeasuredSet]) -> Shipped:
    """The defaults of some sets, features left out."""
    plain = [data._replace(columns=data.columns[:, :, :0]) for data in (own.data for own in sets)]
    defaults = defaults_of(plain)
    gains = []
    for i, data in enumerate(plain):
        others = defaults_of(plain[:i] + plain[i + 1 :])
        gains.append(measured_gain(data, others))
        print(f"{sets[i].name}: ratio {gains[-1].ratio:.3f} {gains[-1].interval}")
    learned = [fit(own, defaults) for own in plain]
    difficulty = difficulty_of_sets(
        [own.traits for own in sets],
        [own.errors for own in plain],
        [own.held_out for own in learned],
        [own.sigma for own in learned],
    )
    segments = sum(len(data.errors) for data in plain)
    names = ", ".join(own.name for own in sets)
    return Shipped(
        utility=load_metric(UTILITY).signature(),
        consensus=defaults.weights[:, 0],
        losses=defaults.losses,
        spreads=defaults.spreads,
        difficulty=difficulty,
        gain=between_sets(gains),
        provenance=f"{segments} segments with MQM of {len(sets)} public sets: {names}",
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    sets = measured_sets(options.folder, UTILITY, (), options.work)
    shipped = made(sets)
    print("strength   consensus    loss  spread")
    for row in zip(STRENGTHS, shipped.consensus, shipped.losses, shipped.spreads, strict=True):
        print("{:8g} {:11.3f} {:7.3f} {:7.3f}".format(*row))
    print(f"gain {shipped.gain.ratio:.3f} {shipped.gain.interval}; {shipped.provenance}")
    content = with_checksum(shipped.as_json())
    options.output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
