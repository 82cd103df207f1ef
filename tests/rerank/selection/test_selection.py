"""System selection: fast resampling against the plain way, tests against brute force and sacrebleu, agreement."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest
from scipy import stats  # type: ignore[import-untyped]

from discorank import InputError, load_metric
from discorank.metrics.mixture import Utility
from discorank.metrics.representations import FloatArray
from discorank.rerank.selection import system_scores as scores
from discorank.rerank.selection.agreement import (
    perm_both,
    perm_both_segments,
    segment_agreement,
    system_agreement,
    williams,
    with_ties,
)
from discorank.rerank.selection.comparison import compare_systems
from discorank.rerank.selection.judged_systems import human_layer
from discorank.rerank.selection.significance import (
    SystemPair,
    Verdicts,
    blocks,
    clusters,
    corrected,
    in_units,
    judge,
    segments_of_unit,
)
from discorank.rerank.selection.statistics import PairDifferences
from discorank.rerank.selection.system_scores import (
    DocumentOutputs,
    Layer,
    Part,
    check_systems,
    score_systems,
    with_references,
)

from ...support.contextual import Echo

TEXT = "the cat sat on a mat and saw dogs run by it , then slept ."
WORDS = TEXT.split()


def text(random: np.random.Generator, n: int = 8) -> str:
    return " ".join(random.choice(WORDS, size=n))


def noisy(random: np.random.Generator, given: str, rate: float) -> str:
    return " ".join(
        str(random.choice(WORDS)) if random.random() < rate else word for word in given.split()
    )


def corpus(
    documents: int, segments: int = 2, rates: tuple[float, ...] = (0.3, 0.35), seed: int = 0
) -> Any:
    """Documents whose systems spoil the reference at a rate each."""
    random = np.random.default_rng(seed)
    outputs = []
    for d in range(documents):
        reference = tuple(text(random) for _ in range(segments))
        systems = {
            f"S{i}": tuple(noisy(random, one, rate) for one in reference)
            for i, rate in enumerate(rates)
        }
        second = tuple(noisy(random, one, 0.2) for one in reference)
        outputs.append(
            DocumentOutputs(f"d{d}", False, reference, systems, {"A": reference, "B": second}, {})
        )
    return outputs


def plain(metric: Utility, documents: Any, chosen: list[str], copies: list[int]) -> float:
    """The corpus score of texts written out, document d by chosen[d], copies[d] times."""
    texts: list[str] = []
    references: list[Any] = []
    for document, system, n in zip(documents, chosen, copies, strict=True):
        texts += list(document.systems[system]) * n
        references += list(zip(*document.references.values(), strict=True)) * n
    return metric.corpus(texts, [list(several) for several in references])


PAIRS = [(0, 1), (0, 2), (1, 2)]
METRICS = ["chrf", "chrf++", "bleu", "ter", "rouge-l", "meteor", "chrf + 0.5*ter"]


@pytest.mark.parametrize("name", METRICS)
def test_system_scores_are_corpus_scores(name: str) -> None:
    documents, metric = corpus(6), load_metric(name)
    scores = score_systems(metric, documents).system_scores()
    assert scores == pytest.approx(
        [plain(metric, documents, [s] * 6, [1] * 6) for s in ("S0", "S1")], abs=1e-9
    )


@pytest.mark.parametrize("name", METRICS)
@hypothesis_settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_resamples_and_swaps_are_those_of_the_texts(name: str, data: st.DataObject) -> None:
    documents, metric = corpus(4, rates=(0.2, 0.6, 0.9)), load_metric(name)
    scored = score_systems(metric, documents)
    copies = data.draw(st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any))
    scores = scored.resampled(np.array([copies]))[:, 0]
    assert scores == pytest.approx(
        [plain(metric, documents, [s] * 4, copies) for s in scored.systems], abs=1e-9
    )
    mask = data.draw(st.lists(st.integers(0, 1), min_size=4, max_size=4))
    x, y = next(scored.swaps(np.array([mask]))).pair(0, 2)
    first = ["S2" if bit else "S0" for bit in mask]
    second = ["S0" if bit else "S2" for bit in mask]
    assert x[0] == pytest.approx(plain(metric, documents, first, [1] * 4), abs=1e-9)
    assert y[0] == pytest.approx(plain(metric, documents, second, [1] * 4), abs=1e-9)


def test_scores_that_sums_do_not_tell_are_made_from_rows() -> None:
    class Median:
        def aggregate(self, statistics: FloatArray) -> float:
            return float(np.median(statistics[:, 0]))

        def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> None:
            return None

    rows = np.array([[[1.0], [5.0], [2.0]], [[4.0], [0.0], [9.0]]])
    scored = Layer("median", True, ("A", "B"), (Part(1.0, Median(), rows, np.array([0, 0, 1])),))
    assert scored.resampled(np.array([[1, 1], [1, 0], [0, 3]])).tolist() == [[2, 3, 2], [4, 2, 9]]
    x, y = next(scored.swaps(np.array([[0, 1]]))).pair(0, 1)
    assert (x.tolist(), y.tolist()) == ([5.0], [2.0])
    verdicts = judge(scored, draws=8)  # swapping the second document: |5 - 2| >= |2 - 4|
    assert (verdicts.exact, verdicts.pairs[0].p) == (True, 1.0)


@pytest.mark.parametrize("cells", [1, 60, 100])
def test_draws_that_come_in_pieces_are_the_same_draws(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = score_systems(load_metric("chrf"), corpus(12, rates=(0.2, 0.4, 0.6)))
    whole = judge(scored, 50)
    monkeypatch.setattr(scores, "CELLS", cells)
    assert len(list(scored.swaps(np.zeros((50, 12), np.int64)))) > 10
    verdicts = judge(scored, 50)
    assert verdicts.pairs == whole.pairs
    assert (verdicts.low, verdicts.high) == (whole.low, whole.high)


def test_a_metric_of_documents_reads_segments_as_sentences() -> None:
    documents = corpus(5, segments=3)
    scored = score_systems(load_metric("cohesion"), documents)
    assert scored.segments is None
    assert scored.document_scores().shape == (2, 5)
    assert scored.system_scores() == pytest.approx(scored.document_scores().mean(axis=1))


@pytest.mark.parametrize("name", ["chrf", "bleu"])
def test_randomisation_is_brute_force_where_that_is_possible(name: str) -> None:
    documents = corpus(7, segments=1, seed=3)
    verdicts = judge(score_systems(load_metric(name), with_references(documents, ["A"])), draws=128)
    peer: Any = {"chrf": CHRF(), "bleu": BLEU()}[name]
    references = [[document.references["A"][0] for document in documents]]

    def gap(mask: tuple[int, ...]) -> float:
        sides: list[list[str]] = [[], []]
        for document, bit in zip(documents, mask, strict=True):
            sides[bit].append(document.systems["S0"][0])
            sides[1 - bit].append(document.systems["S1"][0])
        a, b = (peer.corpus_score(side, references).score for side in sides)
        return abs(float(a) - float(b))

    observed = gap((0,) * 7)
    large = sum(gap(mask) >= observed - 1e-7 for mask in product((0, 1), repeat=7))
    assert verdicts.exact
    assert verdicts.pairs[0].p == large / 128


@pytest.mark.parametrize(("name", "peer"), [("chrf", CHRF()), ("bleu", BLEU())])
def test_p_values_agree_with_sacrebleu(name: str, peer: Any) -> None:
    documents, draws = (
        with_references(corpus(60, segments=1, rates=(0.3, 0.34), seed=5), ["A"]),
        10_000,
    )
    pair = judge(score_systems(load_metric(name), documents), draws=draws).pairs[0]
    systems: Any = [
        (name, [document.systems[name][0] for document in documents]) for name in ("S0", "S1")
    ]
    references = [[document.references["A"][0] for document in documents]]
    for kind, own in (("ar", pair.p), ("bs", pair.p_bootstrap)):
        _, scores = PairedTest(systems, {"x": peer}, references, kind, draws)()
        ((_, results),) = [(key, value) for key, value in scores.items() if key != "System"]
        theirs = float(results[1].p_value)  # type: ignore[union-attr,arg-type]
        assert own is not None
        assert 0.005 < theirs < 0.7
        assert abs(own - theirs) < 4 * np.sqrt(2 * theirs * (1 - theirs) / draws)


def false_positives(tests: int, documents: int, draws: int) -> float:
    """The share of significant tests of two systems that spoil the same texts at the same rate.

    The texts of all tests are scored at once; each test has its own documents.
    """
    several = with_references(corpus(tests * documents, 1, (0.3, 0.3)), ["A"])
    scored = score_systems(load_metric("chrf"), several)
    rows, significant = scored.parts[0].rows, 0
    for seed in range(tests):
        own = rows[:, seed * documents : (seed + 1) * documents]
        part = replace(scored.parts[0], rows=own, owner=np.arange(documents))
        significant += judge(replace(scored, parts=(part,)), draws, seed).pairs[0].p < 0.05
    return significant / tests


def test_false_positives_are_few() -> None:
    assert false_positives(100, 30, 100) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 100)


@pytest.mark.slow
def test_false_positives_are_five_percent() -> None:
    assert false_positives(1000, 30, 1000) == pytest.approx(0.05, abs=0.015)


def test_a_clear_difference_is_found_and_intervals_hold_the_scores() -> None:
    verdicts = judge(
        score_systems(load_metric("ter"), corpus(40, rates=(0.5, 0.1, 0.51))), draws=500
    )
    assert verdicts.clusters == (2, 1, 2)
    low, scores, high = np.array([verdicts.low, verdicts.scores, verdicts.high], float)
    assert (low < scores).all()
    assert (scores < high).all()
    assert verdicts.pairs[0].p == pytest.approx(1 / 501)
    assert (verdicts.pairs[0].low or 0) > 0  # TER of S0 is larger
    again = judge(score_systems(load_metric("ter"), corpus(40, rates=(0.5, 0.1, 0.51))), draws=500)
    assert again.pairs == verdicts.pairs


def test_equal_systems_do_not_differ() -> None:
    (pair,) = judge(
        score_systems(load_metric("bleu"), corpus(20, rates=(0.0, 0.0))), draws=50
    ).pairs
    assert (pair.difference, pair.p) == (0, 1)


def clustered(scores: tuple[float, ...], apart: list[tuple[int, int]]) -> tuple[int, ...]:
    """Clusters of three systems of which some pairs differ."""
    pairs = tuple(
        SystemPair(a, b, scores[a] - scores[b], 0.01 if (a, b) in apart else 1.0, None, None)
        for a, b in PAIRS
    )
    verdicts = Verdicts("x", True, ("A", "B", "C"), scores, scores, scores, (), pairs, True)
    return clusters(verdicts, 0.05)


def test_clusters_need_a_line() -> None:
    assert clustered((3.0, 2.0, 1.0), [(0, 2)]) == (1, 1, 1)
    assert clustered((1.0, 2.0, 3.0), [(0, 2), (0, 1)]) == (2, 1, 1)
    assert clustered((3.0, 2.0, 1.0), [(0, 2), (0, 1)]) == (1, 2, 2)


def test_other_systems_and_missing_references_are_named() -> None:
    documents = corpus(2)
    other = DocumentOutputs("odd", False, None, {"S0": ("a", "b")}, {}, {})
    with pytest.raises(InputError, match="document 'odd': systems: no text of system 'S1'"):
        check_systems([*documents, other])
    with pytest.raises(InputError, match="document 'd0': systems: found the system 'S1'"):
        check_systems([other, *documents])
    with pytest.raises(InputError, match="document 'odd': references: chrf needs a reference"):
        score_systems(load_metric("chrf"), [other])
    with pytest.raises(InputError, match="document 'd0': references: unknown reference 'C'"):
        with_references(documents, ["C"])
    with pytest.raises(InputError, match="no documents"):
        compare_systems([load_metric("chrf")], [])


# units and corrections


def test_draws_of_blocks_are_those_of_documents_cut_into_blocks() -> None:
    documents, metric = corpus(3, segments=5), load_metric("bleu")
    cut = [
        DocumentOutputs(
            f"{d.id}/{i}", False, None, _sliced(d.systems, i), _sliced(d.references, i), {}
        )
        for d in documents
        for i in range(0, 5, 2)
    ]
    scored = in_units(score_systems(metric, documents), [5] * 3, 2)
    assert (scored.unit, scored.n_documents) == ("2 segments", 9)
    assert judge(scored, 200).pairs == judge(score_systems(metric, cut), 200).pairs


def _sliced(texts: Any, i: int) -> dict[str, tuple[str, ...]]:
    return {name: segments[i : i + 2] for name, segments in texts.items()}


def test_context_is_that_of_whole_documents_whatever_the_unit() -> None:
    documents = corpus(3, segments=4)
    scored = score_systems(Echo(context=2), documents)
    by_segment = in_units(scored, [4] * 3, 1)
    assert (by_segment.unit, by_segment.n_documents) == ("segment", 12)
    assert by_segment.system_scores().tolist() == scored.system_scores().tolist()
    assert judge(by_segment, 50).scores == judge(scored, 50).scores


def test_metrics_of_documents_are_drawn_by_document() -> None:
    documents = corpus(6, segments=3)
    comparison = compare_systems(
        [load_metric("cohesion"), load_metric("chrf")], documents, draws=20, unit="segment"
    )
    assert [(v.unit, v.units) for v in comparison.metrics] == [("document", 6), ("segment", 18)]


@pytest.mark.parametrize("given", ["sentence", "0", 0, -1, True, "1.5", ""])
def test_units_are_named_or_counted(given: Any) -> None:
    with pytest.raises(InputError, match="unit"):
        segments_of_unit(given)


@hypothesis_settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=6), st.integers(1, 4))
def test_blocks_by_a_plain_loop(segments: list[int], size: int) -> None:
    expected, number = [], -1
    for n in segments:
        for i in range(n):
            number += i % size == 0
            expected.append(number)
    assert blocks(segments, size).tolist() == expected


@hypothesis_settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-4, 1), min_size=1, max_size=12))
def test_corrections_reject_what_the_procedures_reject(given: list[float]) -> None:
    p = np.array(given)
    m, order = len(p), np.argsort(p, kind="stable")
    assert corrected(p, "none") is p
    for level in (0.01, 0.05, 0.2):
        steps = [p[i] <= level / (m - rank) for rank, i in enumerate(order)]
        holm = {int(i) for rank, i in enumerate(order) if all(steps[: rank + 1])}
        close = np.isclose(corrected(p, "holm"), level)
        assert {
            int(i) for i in np.flatnonzero((corrected(p, "holm") <= level) & ~close)
        } == holm - {int(i) for i in np.flatnonzero(close)}
        last = max(
            (rank for rank, i in enumerate(order) if p[i] <= level * (rank + 1) / m), default=-1
        )
        close = np.isclose(corrected(p, "fdr"), level)
        rejected = {int(i) for i in np.flatnonzero((corrected(p, "fdr") <= level) & ~close)}
        assert rejected == {int(i) for i in order[: last + 1]} - {
            int(i) for i in np.flatnonzero(close)
        }


def test_clusters_need_corrected_p() -> None:
    scored = score_systems(load_metric("chrf"), corpus(30, 1, (0.1, 0.3, 0.35, 0.4), 1))
    plain, holm = judge(scored, 500, level=0.01), judge(scored, 500, level=0.01, correction="holm")
    assert [pair.p for pair in plain.pairs] == [pair.p_uncorrected for pair in holm.pairs]
    assert holm.p(0, 1) == pytest.approx(plain.p(1, 0) * 6)
    assert (max(plain.clusters), max(holm.clusters)) == (2, 1)
    with pytest.raises(InputError, match="unknown correction 'bonferoni'"):
        judge(scored, 10, correction="bonferoni")  # type: ignore[arg-type]


# agreement with people


def test_human_scores_are_means_of_what_is_rated() -> None:
    scores: list[Any] = [
        {"m": {"X": (1.0, None), "Y": 4.0}},
        {"m": {"X": (None, 5.0), "Z": (None, None)}},
    ]
    documents = [
        DocumentOutputs(
            "a", False, None, {"X": ("t", "t"), "Y": ("t", "t"), "Z": ("t", "t")}, {}, human
        )
        for human in scores
    ]
    scored = human_layer("m", True, documents)
    assert scored.systems == ("X", "Y")
    assert scored.system_scores() == pytest.approx(
        [7 / 3, 16 / 3]
    )  # X - Y = -3 on a.0; segments 2.5, 2.5, 6.5
    assert scored.segments is not None
    assert np.isnan(scored.segments).tolist() == [
        [False, True, True, False],
        [False, False, True, True],
    ]
    assert not scored.higher_is_better
    with pytest.raises(InputError, match=r"human\.other: no system has a score"):
        human_layer("other", False, documents)


class Mean:
    def aggregate(self, statistics: FloatArray) -> float:
        return float(statistics[:, 0].mean())

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray:
        return np.asarray(sums[:, 0] / rows)


def scored_of(values: FloatArray, higher: bool = True) -> Layer:
    """Scores [S, D] as a metric whose corpus score is the mean."""
    part = Part(1.0, Mean(), values[:, :, None], np.arange(values.shape[1]))
    return Layer("x", higher, tuple(f"S{i}" for i in range(len(values))), (part,), values)


def test_system_agreement_is_that_of_scipy_in_either_direction() -> None:
    random = np.random.default_rng(1)
    metric, human = random.normal(size=(6, 30)), random.normal(size=(6, 30))
    human += metric.mean(axis=1, keepdims=True)
    x, y = metric.mean(axis=1), human.mean(axis=1)
    up = system_agreement(judge(scored_of(metric), 200), judge(scored_of(human), 200))
    assert up.pearson == pytest.approx(stats.pearsonr(x, y).statistic)
    assert up.spearman == pytest.approx(stats.spearmanr(x, y).statistic)
    assert up.kendall == pytest.approx(stats.kendalltau(x, y).statistic)
    assert up.pairwise_accuracy == pytest.approx((stats.kendalltau(x, y).statistic + 1) / 2)
    down = system_agreement(judge(scored_of(metric), 200), judge(scored_of(-human, False), 200))
    assert vars(down) == pytest.approx(vars(up))


def test_what_only_rounding_tells_apart_is_tied() -> None:
    values = np.array([[0.1 + 0.2, np.nan, 5.0], [0.3, -1.0, 5.0 + 1e-9]])
    tied = with_ties(values)
    assert tied[0, 0] == tied[1, 0]
    assert tied[0, 2] < tied[1, 2]
    assert np.isnan(tied[0, 1])
    assert tied == pytest.approx(values, nan_ok=True)
    noisy = np.array([[0.1 + 0.2], [0.3], [0.5]])
    clean = np.array([[1.0], [1.0], [2.0]])
    assert system_agreement(
        judge(scored_of(noisy), 8), judge(scored_of(clean), 8)
    ).kendall == pytest.approx(1)
    assert segment_agreement(noisy, clean).kendall_b == pytest.approx(1)


def test_soft_pairwise_accuracy_of_brute_force() -> None:
    random = np.random.default_rng(2)
    metric, human = random.normal(size=(3, 5)), random.normal(size=(3, 5))

    def at_least(values: FloatArray, a: int, b: int) -> float:
        signs = np.array(list(product((1, -1), repeat=5)))
        drawn = signs @ (values[a] - values[b])
        return float((drawn >= (values[a] - values[b]).sum() - 1e-9).mean())

    gaps = [
        abs(at_least(metric, a, b) - at_least(human, a, b)) for a, b in ((0, 1), (0, 2), (1, 2))
    ]
    agreement = system_agreement(
        judge(scored_of(metric), 32), judge(scored_of(human), 32)
    ).soft_pairwise_accuracy
    # ties of the statistic are halved otherwise
    assert agreement == pytest.approx(1 - np.mean(gaps), abs=1 / 32)


coarse = st.sampled_from([np.nan, 0.0, 0.5, 1.0, 2.0])


@hypothesis_settings(max_examples=60, deadline=None)
@given(st.integers(2, 4), st.integers(1, 4), st.data())
def test_segment_agreement_by_pairs(systems: int, segments: int, data: st.DataObject) -> None:
    def drawn() -> FloatArray:
        cells = st.lists(coarse, min_size=systems * segments, max_size=systems * segments)
        return np.array(data.draw(cells)).reshape(systems, segments)

    metric, human = drawn(), drawn()
    agreement = segment_agreement(metric, human)
    taus, judged = [], []
    for m, h in zip(metric.T, human.T, strict=True):
        known = ~np.isnan(m) & ~np.isnan(h)
        judged.append(int(known.sum()) > 1)
        if len(set(m[known])) > 1 and len(set(h[known])) > 1:
            taus.append(stats.kendalltau(m[known], h[known]).statistic)
    assert agreement.segments == sum(judged)
    assert agreement.kendall_b == (pytest.approx(np.mean(taus)) if taus else None)
    pairs = PairDifferences.within_segments(metric, human)
    tried = [(pairs.accuracy(epsilon), -epsilon) for epsilon in (0, 0.5, 1, 1.5, 2)]
    if any(judged):
        best = max((round(accuracy or 0, 9), epsilon) for accuracy, epsilon in tried)
        assert pairs.calibrated() == pytest.approx((best[0], -best[1]))
    else:
        assert pairs.calibrated() is None


def test_segment_agreement_by_hand() -> None:
    metric = np.array([[1.0, 5.0], [2.0, 5.1], [3.0, 7.0]])
    human = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    agreement = segment_agreement(metric, human)  # first: 01< 02< 12=; second: 01= 02> 12>
    assert (agreement.kendall_wmt12, agreement.kendall_wmt14, agreement.segments) == (0, 0, 2)
    assert agreement.accuracy == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert agreement.epsilon == pytest.approx(0.1)
    pairs = PairDifferences.within_segments(metric, human)
    assert pairs.accuracy(0) == pytest.approx((2 / 3 + 0) / 2)
    assert pairs.accuracy(1) == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert pairs.accuracy(2) == pytest.approx((1 / 3 + 1 / 3) / 2)
    with pytest.raises(InputError, match=r"\(3, 2\), \(2, 2\)"):
        segment_agreement(metric, human[:2])


def test_draws_without_a_score_do_not_make_p_small() -> None:
    """One of four documents is rated for B: many draws have no score of it."""
    ratings = [{"A": 0.0, "B": 0.5}, {"A": 1.0}, {"A": 0.0}, {"A": 1.0}]
    texts = {"A": ("x",), "B": ("y",)}
    documents = [
        DocumentOutputs(f"d{d}", True, None, texts, {}, {"q": rated})
        for d, rated in enumerate(ratings)
    ]
    (pair,) = judge(human_layer("q", False, documents), draws=400).pairs
    assert (pair.difference, pair.common, pair.p) == (-0.5, 1, 1.0)
    assert (pair.p_bootstrap, pair.low, pair.high) == (None, None, None)


@pytest.mark.parametrize("statistic", ["pearson", "pairwise_accuracy"])
def test_perm_both_is_brute_force_where_that_is_possible(statistic: Any) -> None:
    random = np.random.default_rng(4)
    x, y, human = (
        random.normal(size=(3, 3)),
        5 * random.normal(size=(3, 3)) + 9,
        random.normal(size=3),
    )
    a, b = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()

    def agree(scores: FloatArray) -> float:
        means = scores.mean(axis=1)
        if statistic == "pearson":
            return float(stats.pearsonr(means, human).statistic)
        return float(stats.kendalltau(means, human).statistic + 1) / 2

    observed, large = abs(agree(a) - agree(b)), 0
    for bits in product((False, True), repeat=9):
        mask = np.array(bits).reshape(3, 3)
        large += abs(agree(np.where(mask, b, a)) - agree(np.where(mask, a, b))) >= observed - 1e-9
    assert perm_both(x, y, human, statistic, draws=512) == pytest.approx(large / 512)


def test_perm_both_ties_what_only_rounding_tells_apart() -> None:
    """Coarse scores, whose means tie often, against brute force on rounded numbers."""
    random, tried = np.random.default_rng(12), 0
    for _ in range(12):
        x, y = random.integers(3, size=(2, 3, 2)).astype(np.float64)
        human = random.integers(3, size=3).astype(np.float64)
        if not (np.ptp(x) and np.ptp(y) and np.ptp(human)):
            continue
        a, b = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()

        def agree(scores: FloatArray, human: FloatArray = human) -> float:
            means = scores.mean(axis=1).round(9)
            return float(
                np.mean(
                    [np.sign(means[i] - means[j]) == np.sign(human[i] - human[j]) for i, j in PAIRS]
                )
            )

        masks = [np.array(bits).reshape(3, 2) for bits in product((False, True), repeat=6)]
        gaps = [abs(agree(np.where(mask, b, a)) - agree(np.where(mask, a, b))) for mask in masks]
        large = sum(gap >= gaps[0] - 1e-9 for gap in gaps)
        assert perm_both(x, y, human, "pairwise_accuracy", draws=64) == large / 64
        tried += 1
    assert tried > 5


def test_perm_both_of_segments_ties_what_only_rounding_tells_apart() -> None:
    """Two metrics that give the same scores in other units, exchanged on some segments, tie as they did before."""
    x = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    human = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [2.0, 1.0, 0.0]])
    y = x[:, [1, 0, 2]]
    for scale in (0.1, 0.3, 0.7, 1 / 3):
        p = perm_both_segments(x, scale * y + 0.1, human, draws=512)
        assert p == perm_both_segments(x, y, human, draws=512)


def test_perm_both_of_segments_is_brute_force_where_that_is_possible() -> None:
    random = np.random.default_rng(8)
    x = random.integers(4, size=(3, 2)).astype(np.float64)
    y: FloatArray = 7 * random.integers(3, size=(3, 2)).astype(np.float64) + 1
    human = random.normal(size=(3, 2)).round()
    human[1, 0] = np.nan
    a, b = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()

    def agree(scores: FloatArray) -> float:
        known = [~np.isnan(column) for column in human.T]
        taus = [
            stats.kendalltau(m[k], h[k]).statistic
            for m, h, k in zip(scores.T, human.T, known, strict=True)
        ]
        return float(np.nanmean(taus))

    observed, large = abs(agree(a) - agree(b)), 0
    for bits in product((False, True), repeat=6):
        mask = np.array(bits).reshape(3, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of segments without a tau
            gap = abs(agree(np.where(mask, b, a)) - agree(np.where(mask, a, b)))
        large += not gap < observed - 1e-9
    assert 0 < large < 64
    assert perm_both_segments(x, y, human, draws=64) == pytest.approx(large / 64)


def test_perm_both_of_segments_tells_a_good_metric_from_noise() -> None:
    random = np.random.default_rng(0)
    human = random.normal(size=(5, 60))
    good, noise = human + random.normal(size=(5, 60)), random.normal(size=(5, 60))
    assert (perm_both_segments(good, noise, human) or 1) < 0.05
    assert (perm_both_segments(good, good + 0.01 * noise, human) or 0) > 0.05
    assert perm_both_segments(good, np.ones((5, 60)), human) is None
    assert perm_both_segments(good, noise, np.ones((5, 60))) is None
    with pytest.raises(InputError, match="agreement"):
        perm_both_segments(good, noise, human[:2])


def test_perm_both_tells_a_good_metric_from_noise() -> None:
    random = np.random.default_rng(0)
    human = random.normal(size=12)
    good = human[:, None] + random.normal(size=(12, 60))
    noise = random.normal(size=(12, 60))
    assert (perm_both(good, noise, human) or 1) < 0.05
    assert (perm_both(good, good + 0.01 * noise, human) or 0) > 0.05
    assert perm_both(good, np.ones((12, 60)), human) is None
    with pytest.raises(InputError, match="agreement"):
        perm_both(good, noise[:3], human)
    with pytest.raises(InputError, match="unknown statistic 'pearsn'"):
        perm_both(good, noise, human, "pearsn")  # type: ignore[arg-type]


def test_williams_by_the_determinant() -> None:
    random = np.random.default_rng(6)
    rows = random.normal(size=(3, 12)) + random.normal(size=12)
    human, first, second = rows
    r: Any = np.corrcoef(rows)
    mean, n = (r[0, 1] + r[0, 2]) / 2, 12
    variance = 2 * (n - 1) / (n - 3) * np.linalg.det(r) + mean**2 * (1 - r[1, 2]) ** 3
    t = (r[0, 1] - r[0, 2]) * np.sqrt((n - 1) * (1 + r[1, 2]) / variance)
    assert williams(first, second, human) == pytest.approx(2 * stats.t.sf(abs(t), 9))
    assert williams(first, first, human) == 1
    assert williams(first[:3], second[:3], human[:3]) is None


def test_williams_rejects_at_its_level() -> None:
    random = np.random.default_rng(7)
    rejected = 0
    for _ in range(400):
        human = random.normal(size=15)
        first, second = (human + random.normal(size=15) for _ in range(2))
        rejected += (williams(first, second, human) or 1) < 0.05
    assert abs(rejected / 400 - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 400)
