"""Whether what a chooser says of itself is true: the gain it expects, `ship`, expected errors, probabilities.

    python -m benchmarks.choosers.chooser_calibration FOLDER --work WORK [--draws 5]

Sets, draws of judged segments and beliefs are those of `chooser_tables`; what is said is held against the segments that
were not judged, with 95 % intervals by document (TED: by blocks of ten segments). First table: the expected ratio of
errors to the single system's and the one found; how often the found one lay in the expected interval, and in it widened
by the noise of what was found (jackknife over documents): the latter should be .95. Then `ship SYSTEM`: how often it
was said, and the ratio then and else. Second table: by fifths of the expected errors, expected over found MQM, and the
probability of being as good as any that was said, less the share found. What was said is kept in WORK.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from benchmarks.support.kept_arrays import KeptArrays
from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet, measured_sets
from benchmarks.support.resampling import Resampling, shown
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.chooser import chooser_fit, difficulty, gains, training
from discorank.rerank.chooser.gains import NORMAL_95, ErrorRatio, jackknife
from discorank.rerank.chooser.training import learn
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY
from .chooser_uncertainty import believed, said_of
from .judged_draws import JUDGED, splits
from .set_beliefs import Others

PARTS = 5  # of the expected errors
TIMES, EXPECTED, FOUND, PROBABILITY, BEST = range(5)  # of a segment in such a part
SHIPS, STAYS = 0, 1
SAID_TIMES, CHOSEN, SINGLE = range(3)  # of a segment where it was said, or not


class Record(NamedTuple):
    """What was said of one set, and found.

    Args:
        of_draws: the expected log ratio, its deviation, the found one, its noise, whether `ship` was said, [draws, 5].
        of_parts: sums over draws, [n, PARTS, 5].
        of_advice: sums over draws, [n, 2, 3].
    """

    of_draws: FloatArray
    of_parts: FloatArray
    of_advice: FloatArray


def recorded(
    data: MeasuredSet, sets: Sequence[MeasuredSet], others: Others, judged: str, draws: int
) -> Record:
    """A chooser for every draw, and what became of its words."""
    defaults, default_difficulty = believed(data, sets)
    size = len(data.ids)
    of_draws = []
    of_parts, of_advice = np.zeros((size, PARTS, 5)), np.zeros((size, 2, 3))
    for train, test in splits(data, judged, draws):
        known = data.data.rows(train)
        _, gain = learn(known, defaults, others.gain)
        said = said_of(data, train, test, defaults, default_difficulty)
        order = np.argsort(said.expected, kind="stable")
        for part, places in enumerate(np.array_split(order, PARTS)):
            values = [
                np.ones(len(said.found)),
                said.expected,
                said.found,
                said.probability,
                said.best,
            ]
            of_parts[test[places], part] += np.stack(values, axis=1)[places]
        single = data.data.scores[test, int(known.errors.mean(axis=0).argmin())]
        found = jackknife(said.found, single, documents(data, test))
        ships = gain.as_good
        of_draws.append([*gain, *found, float(ships)])
        words = np.stack([np.ones(len(test)), said.found, single], axis=1)
        of_advice[test, SHIPS if ships else STAYS] += words
    return Record(np.array(of_draws), of_parts, of_advice)


def documents(data: MeasuredSet, rows: IntArray) -> IntArray:
    """What the bootstrap draws together, numbered from 0."""
    return np.unique(data.groups[rows], return_inverse=True)[1]


class KeptRecords:
    """Records in a folder; made anew where the code that decides has changed."""

    def __init__(self, folder: Path) -> None:
        self.arrays = KeptArrays(folder)
        modules = (chooser_fit, difficulty, gains, training)
        code = [Path(str(module.__file__)).read_bytes() for module in modules]
        self.code = sha256(b"".join([*code, Path(__file__).read_bytes()])).hexdigest()

    def recorded(
        self,
        data: MeasuredSet,
        sets: Sequence[MeasuredSet],
        others: Others,
        judged: str,
        draws: int,
    ) -> Record:
        """As `recorded`."""
        key = f"{self.code} {data.name} {data.ids} {judged} {draws}"
        made: list[Record] = []

        def field(name: str) -> FloatArray:
            def compute() -> FloatArray:
                if not made:
                    made.append(recorded(data, sets, others, judged, draws))
                return np.asarray(getattr(made[0], name))

            what = f"calibration.{data.name}.{judged}.{name}"
            return np.asarray(self.arrays.array(what, key, compute))

        return Record(*map(field, Record._fields))


def resamplings(sets: Sequence[MeasuredSet]) -> list[Resampling]:
    """Of every set."""
    return [
        Resampling([str(number) for number in data.groups], seed=crc32(data.name.encode()))
        for data in sets
    ]


def ratio_of(
    records: Sequence[FloatArray], drawn: Sequence[Resampling], top: int, base: int
) -> str:
    """The geometric mean over sets of a ratio of sums; sets that have none are left out."""
    logs, log_draws = [], []
    for sums, resampling in zip(records, drawn, strict=True):
        total = sums.sum(axis=0)
        if total[base] > 0 and total[top] > 0:
            of_draws = resampling.sums(sums)
            logs.append(np.log(total[top] / total[base]))
            log_draws.append(np.log((of_draws[:, top] + 1e-9) / (of_draws[:, base] + 1e-9)))
    if not logs:
        return "-"
    draws = np.exp(np.mean(log_draws, axis=0))
    return shown(float(np.exp(np.mean(logs))), draws)


def difference_of(records: Sequence[FloatArray], drawn: Sequence[Resampling]) -> str:
    """The mean over sets of the probability said less the share found."""
    values, draws = [], []
    for sums, resampling in zip(records, drawn, strict=True):
        total, of_draws = sums.sum(axis=0), resampling.sums(sums)
        values.append((total[PROBABILITY] - total[BEST]) / total[TIMES])
        draws.append((of_draws[:, PROBABILITY] - of_draws[:, BEST]) / of_draws[:, TIMES])
    return shown(float(np.mean(values)), np.mean(draws, axis=0), 3, "+")


def of_gain(records: Sequence[Record], drawn: Sequence[Resampling]) -> list[str]:
    """What was said of the gain, and of shipping one system."""
    said = np.concatenate([own.of_draws for own in records])
    expected, deviation, found, noise, ships = said.T
    distance = np.abs(expected - found)
    inside = (distance <= NORMAL_95 * deviation).mean()
    widened = np.hypot(deviation, np.where(np.isfinite(noise), noise, 0.0))
    inside_widened = (distance <= NORMAL_95 * widened).mean()
    of_both = [own.of_advice.sum(axis=1) for own in records]
    by_advice = [[own.of_advice[:, advice] for own in records] for advice in (SHIPS, STAYS)]
    mean = ErrorRatio(float(expected.mean()), 0.0).ratio
    return [
        f"{mean:.3f}",
        ratio_of(of_both, drawn, CHOSEN, SINGLE),
        f"{inside:.2f}",
        f"{inside_widened:.2f}",
        f"{ships.mean():.2f}",
        *(ratio_of(own, drawn, CHOSEN, SINGLE) for own in by_advice),
    ]


def of_errors(
    records: Sequence[Record], drawn: Sequence[Resampling]
) -> tuple[list[str], list[str]]:
    """Expected over found MQM, and probability less share, by fifths."""
    ratios, differences = [], []
    for part in range(PARTS):
        sums = [own.of_parts[:, part] for own in records]
        ratios.append(ratio_of(sums, drawn, EXPECTED, FOUND))
        differences.append(difference_of(sums, drawn))
    return ratios, differences


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    sets = measured_sets(options.folder, UTILITY, SURFACE, options.work)
    others = [Others(data, sets) for data in sets]
    kept, drawn = KeptRecords(options.work), resamplings(sets)
    gain_rows, error_rows = [], []
    for judged in JUDGED[1:]:
        records = [
            kept.recorded(data, sets, own, judged, options.draws)
            for data, own in zip(sets, others, strict=True)
        ]
        gain_rows.append([judged, *of_gain(records, drawn)])
        ratios, differences = of_errors(records, drawn)
        error_rows.append([f"{judged}: expected over found", *ratios])
        error_rows.append([f"{judged}: probability less share", *differences])
    heads = ["judged", "expected ratio", "found", "in the interval", "with the noise of the found"]
    print(table([*heads, "said to ship", "found then", "else"], gain_rows))
    parts = [f"fifth {part + 1}" for part in range(PARTS)]
    print(f"\n{table(['judged', *parts], error_rows)}")


if __name__ == "__main__":
    main()
