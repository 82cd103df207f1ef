"""Whether the difference that a chooser expects of scores without a ratio is the one that is found.

    python -m benchmarks.choosers.expected_differences FOLDER --work WORK [--draws 40] [--sets SET ...]

Sets of summaries, draws of judged articles and beliefs are those of `summary_chooser` ("all": five folds, ten draws).
By leaving judged articles out a chooser says how much better choosing is than the best single system by them, in
standard deviations within an article, with an interval of 95 %; here that is held against the articles that were not
judged, by what choosing gives (the rule that takes the single system is not applied). Printed: in how many draws it
said anything, the mean expected and found difference, how often the found one lay in the interval, and in it widened
by the noise of what was found (by article): the latter should be .95; and in how many draws `ship` was said, and what
was found then.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.choice_quality.summary_choice import SETS
from benchmarks.support.kept_arrays import KeptArrays
from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet
from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser import chooser_fit, gains, training
from discorank.rerank.chooser.chooser_fit import clustered_mean, fit
from discorank.rerank.chooser.gains import NORMAL_95, deviation_within
from discorank.rerank.chooser.shipped import shipped
from discorank.rerank.chooser.training import learn_by_scores
from discorank.rerank.surface import SURFACE

from .judged_draws import splits
from .summary_chooser import FEWEST, JUDGED, summaries

HEAD = (
    *("set", "judged", "said", "expected", "found", "in the interval"),
    *("with the noise of the found", "said to ship", "found then"),
)


class Replays(NamedTuple):
    """What was said in every draw, and found, [draws] each; a deviation that is infinite says nothing."""

    expected: FloatArray
    deviation: FloatArray
    found: FloatArray
    noise: FloatArray
    ships: FloatArray

    def inside(self, noise: bool) -> float:
        """How often what was found lay in the interval that was said, widened by its noise or not."""
        said = np.isfinite(self.deviation)
        wide = np.hypot(self.deviation, self.noise) if noise else self.deviation
        distance = np.abs(self.expected - self.found)[said]
        return float((distance <= NORMAL_95 * wide[said]).mean())

    def cells(self) -> list[str]:
        """Of a row of the table."""
        said, ships = np.isfinite(self.deviation), self.ships > 0
        shipped_found = f"{self.found[ships].mean():+.3f}" if ships.any() else ""
        return [
            f"{said.sum()} of {len(said)}",
            f"{self.expected[said].mean():+.3f}",
            f"{self.found[said].mean():+.3f}",
            f"{self.inside(noise=False):.2f}",
            f"{self.inside(noise=True):.2f}",
            f"{ships.mean():.2f}",
            shipped_found,
        ]


def replayed(data: MeasuredSet, judged: str, draws: int) -> FloatArray:
    """The columns of `Replays`, [5, draws]."""
    defaults = shipped().defaults(data.data.columns.shape[2])
    unit = deviation_within(data.data.scores)
    rows = []
    for train, test in splits(data, judged, draws):
        known, others = data.data.rows(train), data.data.rows(test)
        _, gain = learn_by_scores(known, defaults)
        picks = fit(known, defaults).choices(others)
        single = int(known.errors.mean(axis=0).argmin())
        chosen = others.scores[np.arange(len(test)), picks]
        differences = (others.scores[:, single] - chosen) / unit
        found, variance = clustered_mean(differences, others.document)
        rows.append([*gain, found, variance**0.5, float(gain.as_good)])
    return np.array(rows).T


def show(names: Sequence[str], folder: Path, kept: KeptArrays, draws: int) -> None:
    modules = (chooser_fit, gains, training)
    code = [Path(str(module.__file__)).read_bytes() for module in modules]
    digest = sha256(b"".join([*code, Path(__file__).read_bytes()])).hexdigest()
    rows = []
    for name in names:
        data = summaries(folder, name, {}, kept).measured
        for judged in JUDGED:
            if judged != "all" and int(judged) > len(data.ids) - FEWEST:
                continue
            content = sha256(data.data.utilities.tobytes() + data.data.errors.tobytes()).hexdigest()
            key = f"{digest} {content} {SURFACE} {judged} {draws}"
            array = kept.array(
                f"differences.{name}.{judged}", key, partial(replayed, data, judged, draws)
            )
            rows.append([name, judged, *Replays(*np.asarray(array)).cells()])
    print(table(HEAD, rows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    options = parser.parse_args()
    show(options.sets, options.folder, KeptArrays(options.work), options.draws)


if __name__ == "__main__":
    main()
