"""Annotators, marked spans, and the rankings of WMT's organisers against an implementation of their own."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import NormalDist, mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.metrics.errors import InputError
from discorank.rerank.selection.organisers_ranking import OrganisersRanking, organisers_ranking
from discorank.rerank.selection.ratings import (
    ErrorFree,
    SpanComparison,
    character_counts,
    error_free,
    rater_agreement,
    rater_figures,
    waves,
    z_scores,
)
from discorank.rerank.selection.system_scores import (
    DocumentOutputs,
    RatedSpan,
    RatedTexts,
    TextRating,
)

TEXT = "0123456789"


def rated(*scores: Sequence[float | None], spans: tuple[RatedSpan, ...] = ()) -> RatedTexts:
    """Segments, each with the scores of annotators a, b, ..."""
    texts = []
    for of_segment in scores:
        named = zip("abcdef", of_segment, strict=False)
        texts.append(tuple(None if s is None else TextRating(r, s, spans) for r, s in named))
    return tuple(texts)


def document(**by_system: RatedTexts) -> DocumentOutputs:
    segments = len(next(iter(by_system.values())))
    texts = dict.fromkeys(by_system, (TEXT,) * segments)
    return DocumentOutputs("d", False, None, texts, {}, {}, {"esa": by_system}, "news")


# -- annotators --


def test_annotators_in_figures() -> None:
    one = document(A=rated((10, 20), (30, None)), B=rated((50, None), (70, None)))
    a, b = rater_figures([one], "esa")
    assert (a.rater, a.ratings, a.systems, a.mean) == ("a", 4, 2, 40.0)
    assert a.deviation == pytest.approx(stdev([10, 30, 50, 70]))
    assert (b.systems, b.deviation, b.error_free) == (1, None, 1.0)


def test_agreement_of_two_annotators() -> None:
    spans = (RatedSpan(0, 4, "major"),)
    half = (TextRating("a", 1.0, spans), TextRating("b", 2.0, (RatedSpan(2, 6, "major"),)))
    one = document(
        A=(half, (TextRating("a", 5.0), TextRating("b", 4.0))),
        B=(
            (TextRating("a", 3.0, ()), TextRating("b", 6.0, ())),
            (TextRating("a", 9.0), TextRating("b", 1.0)),
        ),
    )
    everyone, pair = rater_agreement([one], "esa")
    assert (pair.a, pair.b, pair.texts) == ("a", "b", 4)
    x, y = [1, 5, 3, 9], [2, 4, 6, 1]
    covariance = sum((p - mean(x)) * (q - mean(y)) for p, q in zip(x, y, strict=True)) / 3
    assert pair.pearson == pytest.approx(covariance / stdev(x) / stdev(y))
    # one segment is ordered alike, the other the other way round
    assert pair.tau == 0.0
    # two of four characters on either side
    assert pair.span_f1 == 0.5
    assert everyone.texts == 4
    both = x + y, y + x
    covariance = (
        sum((p - mean(both[0])) * (q - mean(both[1])) for p, q in zip(*both, strict=True)) / 7
    )
    assert everyone.pearson == pytest.approx(covariance / stdev(both[0]) / stdev(both[1]))


def test_nobody_rated_the_same_texts() -> None:
    assert rater_agreement([document(A=rated((1, None)), B=rated((None, 2)))], "esa") == []


def test_z_scores_take_strictness_off() -> None:
    strict = document(A=rated((10, 60)), B=rated((20, 80)))
    (changed,) = z_scores([strict], "esa")
    one = 1 / math.sqrt(2)
    assert [changed.human["esa"][s] for s in "AB"] == [
        pytest.approx((-one,)),
        pytest.approx((one,)),
    ]
    (constant,) = z_scores([document(A=rated((5,)), B=rated((5,)))], "esa")
    assert constant.human["esa"]["A"] == (0.0,)


def test_error_free_share() -> None:
    marked = rated((1, 2), spans=(RatedSpan(None, None, "minor"),))
    shares = error_free([document(A=rated((1, 2)), B=marked)], "esa")
    assert shares == {"A": ErrorFree(2, 2), "B": ErrorFree(2, 0)}
    assert shares["B"].share == 0.0


def test_waves_keep_missing_ratings_in_their_place() -> None:
    one = document(A=rated((1, 2), (None, 3)), B=rated((4, None), (5, 6)))
    assert waves([one], "esa") == {
        "A": [[1, None], [2, 3]],
        "B": [[4, 5], [None, 6]],
    }
    plain = DocumentOutputs("d", False, None, {"A": ("x", "y")}, {}, {"mqm": {"A": (1.0, None)}})
    assert waves([plain], "mqm") == {"A": [[1.0, None]]}


# -- spans --

SPANS = st.lists(
    st.builds(
        lambda start, length, severity: RatedSpan(start, min(10, start + length), severity),
        st.integers(0, 9),
        st.integers(0, 6),
        st.sampled_from(["minor", "major", "critical", "neutral", None]),
    ),
    max_size=4,
)


def plain_counts(gold: list[RatedSpan], predicted: list[RatedSpan]) -> tuple[float, float, float]:
    """The counts character by character, as the equation says."""
    credit = in_gold = in_predicted = 0.0
    for place in range(len(TEXT)):

        def count(spans: list[RatedSpan], *severities: str, place: int = place) -> int:
            return sum(
                s.severity in severities and (s.start or 0) <= place < (s.end or 0) for s in spans
            )

        m, n = count(gold, "major", "critical"), count(gold, "minor")
        m2, n2 = count(predicted, "major", "critical"), count(predicted, "minor")
        credit += min(m, m2) + min(n, n2)
        rest = max(0, m - m2) + max(0, n - n2), max(0, m2 - m) + max(0, n2 - n)
        credit += 0.5 * min(rest)
        in_gold += m + n
        in_predicted += m2 + n2
    return credit, in_gold, in_predicted


@given(gold=SPANS, predicted=SPANS)
def test_characters_are_counted_as_the_task_counts(
    gold: list[RatedSpan], predicted: list[RatedSpan]
) -> None:
    counts = character_counts(TEXT, gold, predicted)
    assert tuple(counts) == pytest.approx(plain_counts(gold, predicted))
    back = character_counts(TEXT, predicted, gold)
    assert (back.f1, back.precision) == pytest.approx((counts.f1, counts.recall))


def test_spans_without_a_place_cover_nothing() -> None:
    gold = [RatedSpan(None, None, "major"), RatedSpan(0, 3, "major", in_source=True)]
    counts = character_counts(TEXT, gold, [RatedSpan(0, 1, "minor")])
    assert (counts.precision, counts.recall, counts.f1) == (0.0, 1.0, 0.0)


def test_error_free_texts_are_detected() -> None:
    found = SpanComparison()
    some = [RatedSpan(0, 1, "minor")]
    for gold, predicted in [([], []), ([], some), (some, []), (some, some), ([], [])]:
        found.add(TEXT, gold, predicted)
    free = found.agreement.error_free
    assert (free.texts, free.gold, free.predicted, free.both) == (5, 3, 3, 2)
    assert (free.precision, free.recall, free.f1) == pytest.approx((2 / 3, 2 / 3, 2 / 3))


# -- the organisers' rankings, once more from their description --

Scores = list[float | None]


def signed_rank_p(differences: Sequence[float], one_sided: bool) -> float:
    """Wilcoxon's test by hand: exact for up to 50 differences without ties, else normal with ties corrected."""
    d = [x for x in differences if x != 0]
    if not d:
        return 1.0
    n, sizes = len(d), sorted(abs(x) for x in d)
    average = {x: mean(i + 1 for i, y in enumerate(sizes) if y == x) for x in set(sizes)}
    plus = sum(average[abs(x)] for x in d if x > 0)
    if n <= 50 and len(average) == n and len(d) == len(differences):
        counts = [1.0]
        for rank in range(1, n + 1):
            longer = counts + [0.0] * rank
            for total, ways in enumerate(counts):
                longer[total + rank] += ways
            counts = longer
        above = sum(counts[int(plus) :]) / 2**n
        below = sum(counts[: int(plus) + 1]) / 2**n
        return float(above if one_sided else min(1.0, 2 * min(above, below)))
    ties = sum(k**3 - k for k in (sizes.count(x) for x in average))
    spread = math.sqrt((n * (n + 1) * (2 * n + 1) - ties / 2) / 24)
    z = (plus - n * (n + 1) / 4) / spread
    above = 1 - NormalDist().cdf(z)
    return above if one_sided else 2 * min(above, 1 - above)


def beats_in_2025(a: list[Scores], b: list[Scores]) -> bool:
    """One-sided at .025, every wave against both."""
    pairs = [(x, y) for x, y in zip(a, b, strict=True)]
    if len(a) == 2:
        pairs += [(a[0], b[1]), (a[1], b[0])]
    differences = [
        x - y
        for one, other in pairs
        for x, y in zip(one, other, strict=True)
        if x is not None and y is not None
    ]
    return signed_rank_p(differences, one_sided=True) < 0.025


def ranks_of_2025(
    table: dict[str, list[Scores]],
) -> tuple[list[str], list[tuple[int, int]], list[int]]:
    """Order, ranks and clusters, by the walk up and down of the organisers."""
    score = {
        s: mean(x for wave in waves_ for x in wave if x is not None) for s, waves_ in table.items()
    }
    order = sorted(table, key=lambda s: -score[s])
    ranks = []
    for i, system in enumerate(order):
        low = high = i + 1
        for other in reversed(order[:i]):
            if beats_in_2025(table[other], table[system]):
                break
            low -= 1
        for other in order[i + 1 :]:
            if beats_in_2025(table[system], table[other]):
                break
            high += 1
        ranks.append((low, high))
    clusters = [1]
    for i in range(1, len(order)):
        apart = max(high for _, high in ranks[:i]) <= i and min(low for low, _ in ranks[i:]) > i
        clusters.append(clusters[-1] + apart)
    return order, ranks, clusters


def drawn_table(seed: int, systems: int, num_waves: int, segments: int) -> dict[str, list[Scores]]:
    draw = random.Random(seed)
    table: dict[str, list[Scores]] = {}
    for s in range(systems):
        middle = draw.choice([60, 65, 70, 90])
        table[f"S{s}"] = [
            [
                None if draw.random() < 0.15 else float(round(draw.gauss(middle, 20)))
                for _ in range(segments)
            ]
            for _ in range(num_waves)
        ]
    return table


def told(ranking: OrganisersRanking) -> tuple[list[str], list[tuple[int, int]], list[int]]:
    systems = ranking.systems
    return [s.system for s in systems], [s.ranks for s in systems], [s.cluster for s in systems]


@pytest.mark.parametrize("num_waves", [1, 2])
@pytest.mark.parametrize("seed", range(15))
def test_clusters_of_2025(seed: int, num_waves: int) -> None:
    table = drawn_table(seed, 6, num_waves, 60)
    ranking = organisers_ranking(table, ["news"] * 60, "wmt25")
    assert told(ranking) == ranks_of_2025(table)


@given(differences=st.lists(st.integers(-200, 200), min_size=8, max_size=50, unique_by=abs))
def test_few_differences_are_tested_exactly(differences: list[int]) -> None:
    differences = [x for x in differences if x]
    table: dict[str, list[Scores]] = {
        "S": [[100.0 + x for x in differences]],
        "T": [[100.0] * len(differences)],
    }
    if sum(differences) <= 0:
        return
    ranking = organisers_ranking(table, [None] * len(differences), "wmt25")
    (p,) = ranking.p_values.values()
    assert p == pytest.approx(signed_rank_p(differences, one_sided=True))


def ranks_of_2024(
    order: Sequence[str], apart: dict[tuple[str, str], bool]
) -> tuple[list[tuple[int, int]], list[int]]:
    """Ranks by wins and losses, and clusters by how far undecided pairs reach."""
    ranks, clusters, until, number = [], [], -1, 1
    for i, system in enumerate(order):
        losses = sum(apart[other, system] for other in order[:i])
        wins = sum(apart[system, other] for other in order[i + 1 :])
        ranks.append((losses + 1, len(order) - wins))
        until = -1 if until <= i else until
        undecided = [j for j in range(i + 1, len(order)) if not apart[system, order[j]]]
        until = max([until, *undecided])
        clusters.append(number)
        number += until == -1
    return ranks, clusters


@pytest.mark.parametrize("seed", range(8))
def test_clusters_of_2024(seed: int) -> None:
    table = drawn_table(seed, 5, 1, 180)
    domains = ["news", "social", "speech"] * 60
    ranking = organisers_ranking(table, domains, "wmt24")

    def by_domain(system: str) -> dict[str, list[tuple[int, float]]]:
        found: dict[str, list[tuple[int, float]]] = {}
        for i, (x, domain) in enumerate(zip(table[system][0], domains, strict=True)):
            if x is not None:
                found.setdefault(domain, []).append((i, x))
        return found

    score = {s: mean(mean(x for _, x in own) for own in by_domain(s).values()) for s in table}
    order = sorted(table, key=lambda s: -score[s])

    def p_of(one: str, other: str) -> float:
        z = 0.0
        for domain in sorted(set(domains)):
            theirs = dict(by_domain(other)[domain])
            both = [x - theirs[i] for i, x in by_domain(one)[domain] if i in theirs]
            z += NormalDist().inv_cdf(1 - signed_rank_p(both, one_sided=False))
        return 1 - NormalDist().cdf(z / math.sqrt(3))

    apart = {(a, b): p_of(a, b) < 0.05 for a in order for b in order if a != b}
    ranks, clusters = ranks_of_2024(order, apart)
    assert told(ranking) == (order, ranks, clusters)
    assert ranking.systems[0].score == pytest.approx(score[order[0]])


@pytest.mark.parametrize("seed", range(5))
def test_clusters_of_2026(seed: int) -> None:
    table = drawn_table(seed, 4, 2, 60)
    ranking = organisers_ranking(table, [None] * 60, "wmt26")
    order, ranks, clusters = told(ranking)
    beats = ranking.beats
    for i, system in enumerate(order):
        above = [n for n in range(i) if (order[n], system) in beats]
        below = [n for n in range(i + 1, 4) if (system, order[n]) in beats]
        last = 4 if i == 3 else 3  # as the organisers' script prints it
        assert ranks[i] == (above[-1] + 2 if above else 1, below[0] if below else last)
    for i in range(1, 4):
        is_apart = all((a, b) in beats for a in order[:i] for b in order[i:])
        assert clusters[i] == clusters[i - 1] + is_apart
    # far apart and equal systems are decided whatever the draws
    clear: dict[str, list[Scores]] = {"best": [[90.0 + x % 3 for x in range(40)]]}
    clear |= {"worst": [[10.0 + x % 3 for x in range(40)]], "same": clear["best"]}
    order, ranks, clusters = told(organisers_ranking(clear, [None] * 40, "wmt26"))
    assert (order[-1], clusters) == ("worst", [1, 1, 2])


def test_lower_scores_may_be_better() -> None:
    table: dict[str, list[Scores]] = {"A": [[5.0] * 30], "B": [[1.0] * 30]}
    ranking = organisers_ranking(table, ["x"] * 30, "wmt25", higher_is_better=False)
    assert [(s.system, s.score) for s in ranking.systems] == [("B", 1.0), ("A", 5.0)]
    assert ranking.systems[0].domains == {"x": 1.0}


def test_a_ranking_needs_scores() -> None:
    with pytest.raises(InputError, match="no system has a score"):
        organisers_ranking({}, [], "wmt25")
