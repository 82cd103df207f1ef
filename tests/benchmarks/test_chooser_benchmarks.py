"""How choosers are measured: draws of judged segments, rules for the single system, intervals against the found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.choosers.expected_differences import Replays
from benchmarks.choosers.judged_draws import FOLDS, single_draws, splits
from benchmarks.choosers.score_sums import KeptSums, Sums
from benchmarks.choosers.ship_rules import NEVER, OWN, best_rule, ratio_of, rows_of
from benchmarks.support.measured_sets import MeasuredSet
from discorank.rerank.chooser.measured import MeasuredTexts


def measured(documents: int = 30, size: int = 4) -> MeasuredSet:
    """A set of documents of so many segments and three systems, of which nothing is measured."""
    n = documents * size
    number = np.repeat(np.arange(documents), size)
    scores = np.arange(3.0 * n).reshape(n, 3)
    data = MeasuredTexts(np.zeros((n, 3, 3)), np.zeros((n, 3, 0)), scores, number, scores)
    ids = [str(i) for i in range(n)]
    return MeasuredSet("ted.en-de", data, np.arange(n) // 10, list("ABC"), ids, np.zeros((n, 4)))


def test_documents_are_judged_or_chosen() -> None:
    data = measured()
    drawn = list(splits(data, "50", 5))
    assert len(drawn) == 5
    for train, test in drawn:
        assert len(train) == 50
        documents = [set(data.data.document[rows].tolist()) for rows in (train, test)]
        assert not documents[0] & documents[1]
    assert len({tuple(train.tolist()) for train, _ in drawn}) == 5


def test_folds_choose_every_segment_once() -> None:
    data = measured()
    folds = list(splits(data, "all", 1))
    chosen = np.concatenate([test for _, test in folds[:FOLDS]])
    assert sorted(chosen.tolist()) == list(range(len(data.ids)))


def test_segments_drawn_one_by_one() -> None:
    for train, test in single_draws(measured(), 20, 3):
        assert (len(train), len(test)) == (20, 100)
        assert not set(train.tolist()) & set(test.tolist())


def test_sums_come_back_from_their_folder(tmp_path: Path) -> None:
    data, kept = measured(1), KeptSums(tmp_path, __file__)

    def make() -> Sums:
        sums = Sums(len(data.ids))
        sums.times[:2] = 2
        sums.add("random", np.arange(2), np.array([4.0, 6.0]))
        sums.said.append((1.0, 0.9, 1.1, 1.05))
        return sums

    first = kept.read_or_made(data, ("rows", "20"), make)
    again = kept.read_or_made(data, ("rows", "20"), lambda: pytest.fail("made again"))
    assert again.said == first.said == [(1.0, 0.9, 1.1, 1.05)]
    assert again.means()["random"].tolist()[:2] == [2.0, 3.0]
    assert np.isnan(again.means()["random"][2:]).all()


REPLAYS = np.array(
    [
        [np.log(0.9), 0.1, 8.0, 10.0],
        [np.log(1.1), 0.1, 14.0, 10.0],
        [np.nan, np.nan, 9.0, 10.0],
    ]
)


def test_rules_by_hand() -> None:
    assert ratio_of(REPLAYS, NEVER) == pytest.approx(31 / 30)
    assert ratio_of(REPLAYS, OWN) == pytest.approx(27 / 30)
    # .9 is not below 1 by two deviations of .1; where nothing is known the single system is not taken
    assert ratio_of(REPLAYS, (1.0, 2.0)) == pytest.approx(29 / 30)


def test_the_limit_comes_before_the_mean() -> None:
    ratios = {(1.0, 0.0): np.array([0.5, 1.1]), (1.0, 1.0): np.array([1.0, 1.01])}
    assert best_rule(ratios) == (1.0, 1.0)
    ratios[(1.0, 0.5)] = np.array([0.9, 1.02])
    assert best_rule(ratios) == (1.0, 0.5)
    assert best_rule({rule: own + 1 for rule, own in ratios.items()}) == (1.0, 1.0)


def test_the_last_row_is_of_other_sets() -> None:
    rows = rows_of([REPLAYS, REPLAYS])
    assert rows[0] == ["never", "1.033", "1.033", "1.033", "1.033"]
    assert rows[-1][0] == "best on the other sets"
    assert float(rows[-1][3]) <= float(rows[0][3])


def test_the_noise_of_what_was_found_widens_an_interval() -> None:
    replays = Replays(
        expected=np.array([0.0, 0.0, 0.0, 9.0]),
        deviation=np.array([0.1, 0.1, 0.1, np.inf]),
        found=np.array([0.1, 0.3, 0.5, 0.0]),
        noise=np.array([0.1, 0.2, 0.1, 0.1]),
        ships=np.array([0.0, 1.0, 0.0, 0.0]),
    )
    assert replays.inside(noise=False) == pytest.approx(1 / 3)
    assert replays.inside(noise=True) == pytest.approx(2 / 3)
    assert replays.cells() == ["3 of 4", "+0.000", "+0.300", "0.33", "0.67", "0.25", "+0.300"]
