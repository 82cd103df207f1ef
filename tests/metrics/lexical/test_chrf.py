"""chrF beside the table of cases: its names, fastchrf, and what white space is."""

from __future__ import annotations

from typing import Any, cast

import fastchrf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

import discorank
from discorank import load_metric
from discorank.metrics.quoted_signature import quoted
from discorank.metrics.text.texts import Item

from .test_lexical_metrics import BOUNDED, any_texts

lists = st.lists(any_texts, min_size=1, max_size=5)


def test_names() -> None:
    assert load_metric("chrf++") == load_metric("chrf", word_order=2)
    assert cast(Any, load_metric("chrf")).beta == 2.0
    assert load_metric("chrf++", beta=1) == load_metric("chrf(beta=1.0,word_order=2)")


@given(
    hypotheses=lists, references=lists, beta=st.sampled_from([1.0, 2.0]), whitespace=st.booleans()
)
@BOUNDED
def test_pairwise_equals_fastchrf(
    hypotheses: list[str], references: list[str], beta: float, whitespace: bool
) -> None:
    """Texts without what fastchrf cannot take (surrogates) or reads otherwise (its white space is Rust's)."""
    clean = str.maketrans(dict.fromkeys("\ud800\udfff\x1c\x1d\x1e\x1f"))
    hypotheses, references = (
        [text.translate(clean) for text in side] for side in (hypotheses, references)
    )
    try:
        peer = fastchrf.pairwise_chrf(
            [hypotheses], [references], beta=beta, remove_whitespace=not whitespace
        )[0]
    except UnicodeEncodeError:
        return
    matrix = load_metric("chrf", beta=beta, whitespace=whitespace).pairwise(hypotheses, references)
    np.testing.assert_allclose(matrix, peer, rtol=0, atol=1e-3)  # it counts in float32


@given(st.lists(st.text(st.sampled_from("ab \t\n\r\x1c\x85\u00a0\u200b\u2028\u3000")), max_size=5))
def test_every_white_space_is_removed(texts: list[str]) -> None:
    scorer = load_metric("chrf").parts[0][1].load()
    reps, lengths = scorer.prepare([Item(text) for text in texts])
    expected = ["".join(text.split()) for text in texts]
    assert lengths.tolist() == [len(text) for text in expected]
    assert reps["points"].values.tolist() == [ord(c) for text in expected for c in text]


@given(
    pairs=st.lists(st.tuples(any_texts, any_texts), min_size=1, max_size=4),
    word_order=st.sampled_from([0, 2]),
)
@BOUNDED
def test_epsilon_smoothing_is_that_of_sacrebleu(
    pairs: list[tuple[str, str]], word_order: int
) -> None:
    metric = load_metric("chrf", eps_smoothing=True, word_order=word_order)
    peer = CHRF(word_order=word_order, eps_smoothing=True)
    hypotheses, references = zip(*pairs, strict=True)
    expected = [peer.sentence_score(h, [r]).score for h, r in pairs]
    assert metric.score(hypotheses, references).tolist() == pytest.approx(expected)
    matrix = metric.pairwise(hypotheses, references)
    assert matrix.diagonal().tolist() == pytest.approx(expected)
    corpus = discorank.score(list(hypotheses), list(references), metric).corpus
    assert corpus == pytest.approx(peer.corpus_score(hypotheses, [references]).score)


def test_smoothing_is_in_the_signature() -> None:
    assert load_metric("chrf").signature() == "chrf"
    smoothed = load_metric("chrf", eps_smoothing=True).signature()
    assert smoothed == "chrf(eps_smoothing=true)"
    assert "|eff:no|" in quoted(smoothed, "1.0", 1)
