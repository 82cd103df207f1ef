"""ROUGE-Lsum: the worked example of Lin (2004), rouge_score on any text, documents as their sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer as Peer  # type: ignore[import-untyped]

from discorank.metrics.lexical.rouge import RougeLsum, common_places
from discorank.metrics.registry import load_metric
from discorank.metrics.text.texts import Document

LINES = st.lists(
    st.lists(st.sampled_from("abcde"), max_size=7).map(" ".join), min_size=1, max_size=4
)


def test_the_example_of_the_paper() -> None:
    # section 3.2: the union of w1 w2 and w1 w3 w5 has four of the five words of the reference
    found = RougeLsum().score(["w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5"], ["w1 w2 w3 w4 w5"])
    assert found.tolist() == pytest.approx([2 * 4 / (10 + 5)])


@given(st.lists(st.tuples(LINES.map("\n".join), LINES.map("\n".join)), min_size=1, max_size=4))
def test_values_are_those_of_rouge_score(pairs: list[tuple[str, str]]) -> None:
    peer = Peer(["rougeLsum"])
    expected = [peer.score(reference, text)["rougeLsum"].fmeasure for text, reference in pairs]
    metric = RougeLsum(tokenizer="rouge_score")
    texts, references = zip(*pairs, strict=True)
    assert metric.score(texts, references).tolist() == pytest.approx(expected)
    pairwise = metric.pairwise(texts, references)
    assert [pairwise[i, i] for i in range(len(pairs))] == pytest.approx(expected)


@given(LINES, LINES)
def test_sentences_of_documents_are_lines(text: list[str], reference: list[str]) -> None:
    metric = RougeLsum()
    lines = metric.score(["\n".join(text)], ["\n".join(reference)])
    assert metric.score([Document(text)], [Document(reference)]).tolist() == lines.tolist()


@given(
    st.lists(st.sampled_from("abc"), max_size=12).map(tuple),
    st.lists(st.sampled_from("abc"), max_size=70).map(tuple),
)
def test_places_are_a_longest_common_subsequence(
    reference: tuple[str, ...], candidate: tuple[str, ...]
) -> None:
    places = sorted(common_places(reference, candidate))
    rest = iter(candidate)
    assert all(reference[place] in rest for place in places)
    lengths = [0] * (len(candidate) + 1)
    for word in reference:
        before = list(lengths)
        for j, other in enumerate(candidate, 1):
            lengths[j] = before[j - 1] + 1 if word == other else max(before[j], lengths[j - 1])
    assert len(places) == lengths[-1]


@pytest.mark.parametrize("name", ["rouge-lsum", "rougeLsum", "rougelsum"])
def test_names(name: str) -> None:
    assert load_metric(name).signature() == "rouge-lsum"
