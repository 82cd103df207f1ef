"""Segments judged one by one over all documents, beside as many of whole documents.

    python -m benchmarks.choosers.single_draws FOLDER --work WORK [--draws 10]

Sets, defaults and figures are those of `chooser_tables`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet, measured_sets
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.chooser.chooser_fit import Defaults, fit
from discorank.rerank.chooser.defaults import defaults_of
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY
from .judged_draws import JUDGED, single_draws, splits
from .score_sums import Sums, chosen
from .set_beliefs import without_features
from .set_ratios import line


def show_single_draws(sets: Sequence[MeasuredSet], draws: int) -> None:
    """The chooser and the single system after segments drawn one by one, beside draws by documents."""
    rows = [["judged", "drawn", "best single system by the judged", "chooser"]]
    beliefs = []
    for i in range(len(sets)):
        plain = [own.data._replace(columns=own.data.columns[:, :, :0]) for own in sets]
        defaults = defaults_of(plain[:i] + plain[i + 1 :])
        beliefs.append(without_features(defaults, sets[i].data.columns.shape[2]))
    for judged in JUDGED[1:-1]:
        for how in ("by documents", "one by one"):
            means = []
            for data, defaults in zip(sets, beliefs, strict=True):
                by_one = how == "one by one"
                pairs = (
                    single_draws(data, int(judged), draws)
                    if by_one
                    else splits(data, judged, draws)
                )
                means.append(_both(data, defaults, pairs))
            cells = [line(sets, means, name, "random")[-1] for name in ("single", "chooser")]
            rows.append([judged, how, *cells])
    print(table(rows[0], rows[1:]))


def _both(
    data: MeasuredSet,
    defaults: Defaults,
    pairs: Iterator[tuple[IntArray, IntArray]],
) -> dict[str, FloatArray]:
    """Mean MQM of every segment when it is not judged."""
    sums = Sums(len(data.ids))
    for train, test in pairs:
        known, scores = data.data.rows(train), data.data.scores[test]
        sums.times[test] += 1
        sums.add("random", test, scores.mean(axis=1))
        sums.add("single", test, scores[:, int(known.errors.mean(axis=0).argmin())])
        sums.add("chooser", test, chosen(data, test, fit(known, defaults)))
    return sums.means()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    show_single_draws(measured_sets(options.folder, UTILITY, SURFACE, options.work), options.draws)


if __name__ == "__main__":
    main()
