"""The benchmark of judges: its figures by hand, and its tables on small files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.metric_quality.judge_agreement import (
    Pair,
    accuracy,
    best_shares,
    correlation,
    gained,
    signs,
    systems,
    ties,
)
from benchmarks.metric_quality.judges import read_pairs, tables
from benchmarks.support.judged_lists import JudgedLists, read_judged
from benchmarks.support.resampling import Resampling, ends, groups_of, shown
from discorank.rerank.lists import Candidate, CandidateList

# [segments, candidates] of two judges
GOOD = np.array([[90.0, 80.0, 80.0], [50.0, 60.0, 70.0]])
POOR = np.array([[1.0, 1.0, 0.0], [2.0, 4.0, 3.0]])


@pytest.fixture
def pair() -> Pair:
    records = [
        CandidateList(f"d:{i}", tuple(map(Candidate, ("a b", "a b c", "a d")))) for i in range(2)
    ]
    scores = np.stack([GOOD, POOR], axis=2)
    data = JudgedLists("en-de", records, ["A", "B", "C"], ["good", "poor"], scores, ["d", "e"])
    return Pair(data, Resampling(data.documents), "good")


def test_ties_of_candidates_count_as_a_verdict(pair: Pair) -> None:
    assert signs(GOOD).tolist() == [[1, 1, 0], [-1, -1, -1]]
    # alike on: A over C, A under B, A under C
    assert accuracy(pair, GOOD, POOR).value == pytest.approx(3 / 6)
    assert ties(pair, GOOD).value == pytest.approx(1 / 6)


def test_correlation_leaves_out_what_segments_differ_in(pair: Pair) -> None:
    shifted = GOOD + np.array([[100.0], [0.0]])
    assert correlation(pair, GOOD, shifted).value == pytest.approx(1.0)
    a, b = GOOD - GOOD.mean(axis=1, keepdims=True), POOR - POOR.mean(axis=1, keepdims=True)
    expected = (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())
    assert correlation(pair, GOOD, POOR).value == pytest.approx(expected)


def test_systems_are_compared_by_their_means(pair: Pair) -> None:
    expected = np.corrcoef(GOOD.mean(axis=0), POOR.mean(axis=0))[0, 1]
    assert systems(pair, GOOD, POOR).value == pytest.approx(expected)


def test_tied_best_candidates_share_a_choice_or_are_told_apart() -> None:
    assert best_shares(POOR).tolist() == [[0.5, 0.5, 0], [0, 1, 0]]
    among = np.array([[1.0, 2.0, 9.0], [9.0, 1.0, 1.0]])
    assert best_shares(POOR, among).tolist() == [[0, 1, 0], [0, 1, 0]]


def test_gain_is_0_at_random_and_100_at_the_judges_own_choice(pair: Pair) -> None:
    assert gained(pair, best_shares(GOOD), GOOD).value == pytest.approx(100)
    assert gained(pair, np.full((2, 3), 1 / 3), GOOD).value == pytest.approx(0)
    # chosen: 85 and 60 of means 250/3 and 60, of bests 90 and 70
    expected = 100 * (85 - 250 / 3) / (90 - 250 / 3 + 10)
    assert gained(pair, best_shares(POOR), GOOD).value == pytest.approx(expected)


def test_an_average_divides_each_judge_by_its_deviation(pair: Pair) -> None:
    expected = (GOOD / GOOD.std() + POOR / POOR.std()) / 2
    assert pair.scores("good+poor") == pytest.approx(expected)


def test_consensus_breaks_the_ties_of_a_judge(pair: Pair) -> None:
    chosen = pair.by_consensus("poor")
    assert chosen[0, 2] == 0
    assert chosen[1].tolist() == [0, 1, 0]
    best = np.where(pair.expected[0, :2] == pair.expected[0, :2].max(), 1, 0)
    assert chosen[0, :2].tolist() == best.tolist()


CHEAP = ("Dav3-DA-src", "Dav3-SQM-src", "Turbo-DA-src")


def judged_file(folder: Path, pair: str) -> None:
    random = np.random.default_rng(len(pair) + ord(pair[-1]))
    lines = []
    for d in range(4):
        systems = {name: [f"{name} text {d} {i}" for i in range(3)] for name in "ABC"}
        row = {"id": f"wmt22.{pair}.doc{d}", "source": [f"s {i}" for i in range(3)]}
        row |= {"references": {"refA": ["r"] * 3}, "systems": systems}  # type: ignore[dict-item]
        for judge in ("GPT4-DA-refA", *CHEAP):
            scores = {name: random.integers(70, 100, 3).tolist() for name in (*"ABC", "refA")}
            row[judge] = scores  # type: ignore[assignment]
        lines.append(json.dumps(row) + "\n")
    path = folder / f"judged_wmt22.{pair}.jsonl.gz"
    path.write_bytes(gzip.compress("".join(lines).encode()))


def test_a_file_has_lists_of_systems_without_references(tmp_path: Path) -> None:
    judged_file(tmp_path, "en-de")
    data = read_judged(tmp_path / "judged_wmt22.en-de.jsonl.gz")
    assert data.judges == ["GPT4-DA-refA", *CHEAP]
    assert data.scores.shape == (12, 3, 4)
    assert data.documents[:4] == ["doc0", "doc0", "doc0", "doc1"]


def test_pairs_draw_the_same_documents(tmp_path: Path) -> None:
    judged_file(tmp_path, "en-de")
    judged_file(tmp_path, "en-ru")
    first, second = read_pairs(tmp_path, ["en-de", "en-ru"], "GPT4-DA-refA")
    assert (first.resampling.counts == second.resampling.counts).all()
    markdown = tables(tmp_path, ["en-de", "en-ru"], "GPT4-DA-refA")
    assert "12 segments of 3 systems" in markdown
    assert "4 documents" in markdown
    assert markdown.count("| Dav3-DA-src+Dav3-SQM-src |") == 1


def test_draws_are_of_whole_groups() -> None:
    rows = np.array([1.0, 1.0, 1.0, 5.0])
    means = Resampling(["a", "a", "a", "b"], resamples=200).means(rows)
    # of two groups: both a, both b, or one of each
    assert set(means.tolist()) == {1.0, 5.0, 2.0}
    low, high = ends(means)
    assert (low, high) == (1.0, 5.0)
    assert shown(2.0, means, 1) == "2.0 [1.0, 5.0]"


def test_few_documents_are_resampled_by_blocks_of_ten_segments() -> None:
    assert groups_of(["a"] * 12 + ["b"]) == ["a/0"] * 10 + ["a/1"] * 2 + ["b/0"]
    many = [f"d{i}" for i in range(10)]
    assert groups_of(many) == many
