"""BARTScore and its faithfulness: golden values of the released code, directions, several references, refusals."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank import Context, InputError, Metric, ModelLoadError, load_metric
from discorank.metrics.execution.store import Store
from discorank.metrics.neural.likelihood import BARTScore, BARTScoreFaithfulness
from discorank.metrics.neural.models.pretrained import pretrained, tokenizer_of

BOUNDED = bounded(max_examples=6, deadline=None, database=None, print_blob=True)
GOLDEN = Path(__file__).parents[2] / "golden" / "docmetrics"
MODEL = GOLDEN / "models" / "tiny-bart"
CASES = {
    case["id"]: case
    for case in json.loads((GOLDEN / "cases.json").read_text(encoding="utf-8"))["cases"]
    if case["metric"] == "bartscore"
}
PAIRS, SEVERAL = CASES["bartscore/src2hyp"], CASES["bartscore/multiref_mean"]

cuts = pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")


@cache
def bartscore(name: str = "bartscore", **settings: Any) -> Metric:
    metric = load_metric(name, model=str(MODEL), **settings)
    assert isinstance(metric, Metric)
    return metric


@cache
def plain() -> tuple[Any, Any]:
    return tokenizer_of(MODEL), pretrained(MODEL, "AutoModelForSeq2SeqLM")


def likelihood(target: str, condition: str) -> float:
    """Mean log-probability of a text given another, from one run of the whole model."""
    tokenizer, model = plain()
    x, y = (tokenizer(text, return_tensors="pt").input_ids for text in (condition, target))
    with torch.inference_mode():
        return -float(model(input_ids=x, labels=y, use_cache=False).loss)


@cuts
@pytest.mark.parametrize("kind", ["precision", "recall", "faithfulness"])
def test_golden(kind: str) -> None:
    conditions, targets = PAIRS["srcs"], PAIRS["tgts"]
    if kind == "faithfulness":
        scores = bartscore("bartscore-faithfulness").score(targets, sources=conditions)
    elif kind == "precision":
        scores = bartscore(direction="precision").score(targets, conditions)
    else:
        scores = bartscore(direction="recall").score(conditions, targets)
    np.testing.assert_allclose(scores, PAIRS["scores"], atol=1e-5)


@cuts
def test_golden_ids() -> None:
    metric = bartscore(direction="recall")
    store = Store(metric.scorer)
    blocks = store.add(
        [
            metric.comparison([s], [t], None, Context())
            for s, t in zip(PAIRS["srcs"], PAIRS["tgts"], strict=True)
        ]
    )
    assert [store.reps["ids"][b.references].values.tolist() for b in blocks] == PAIRS["tgt_ids"]
    assert [
        metric.scorer.describe(store.reps, b, 0, 0)["reference_given_hypothesis"] for b in blocks
    ] == pytest.approx(PAIRS["scores"], abs=1e-5)


def test_several_references() -> None:
    texts, references = SEVERAL["srcs"], SEVERAL["tgts_multi"]
    mean = bartscore(direction="recall").score(texts, references)
    np.testing.assert_allclose(mean, SEVERAL["scores"], atol=1e-5)
    each = np.array(
        [
            bartscore(direction="recall").pairwise([t], r)[0]
            for t, r in zip(texts, references, strict=True)
        ]
    )
    best = bartscore(direction="recall", agg="max").score(texts, references)
    assert np.array_equal(best, each.max(axis=1))
    assert (best > mean).all()
    assert bartscore(agg="max").signature().endswith(',agg="max")')


words = st.sampled_from(["The", "storm", "boats.", "harbour", "x", "的猫", "\u00e9", ""])
some = st.lists(words, max_size=12).map(lambda drawn: " ".join(drawn).strip())


@given(h=some, r=some)
@BOUNDED
def test_equal_to_the_equation(h: str, r: str) -> None:
    p, q = likelihood(h, r), likelihood(r, h)
    wanted = {"precision": p, "recall": q, "f": (p + q) / 2}
    for direction, value in wanted.items():
        assert bartscore(direction=direction).pairwise([h], [r])[0, 0] == pytest.approx(
            value, abs=1e-5
        )
    assert bartscore("bartscore-faithfulness").score([h], sources=[r])[0] == pytest.approx(
        p, abs=1e-5
    )


def test_directions_of_one_list() -> None:
    texts = ["The storm came.", "", "Two boats", "It came late this morning, two boats sank."]
    precision, recall, f = (
        bartscore(direction=d).pairwise(texts, texts) for d in ("precision", "recall", "f")
    )
    assert np.array_equal(precision, recall.T)
    assert np.array_equal(f, (precision + recall) / 2)
    assert np.array_equal(f, f.T)
    assert bartscore() == BARTScore(model=str(MODEL), direction="f")


def test_faithfulness_reads_each_text_once() -> None:
    metric = bartscore("bartscore-faithfulness")
    texts, source = ["The storm came.", "", "Two boats"], "A storm came in the night."
    u = metric.pairwise(texts, (), source)
    assert u.shape == (3, 1)
    alone = [metric.pairwise([text], (), source).tobytes() for text in texts]
    assert [row.tobytes() for row in u] == alone
    store = Store(metric.scorer)
    (block,) = store.add([metric.comparison(texts, (), source, Context())])
    assert store.reps["states"].lengths[block.hypotheses].tolist() == [0, 0, 0]
    assert store.reps["states"].lengths[block.source] == len(plain()[0](source).input_ids)
    lengths = store.reps["ids"].lengths[block.hypotheses]
    # the end is not read, the start once
    assert metric.scorer.pair_cost(store.reps, block) == lengths.sum() - len(texts) + 1
    assert list(metric.scorer.describe(store.reps, block, 2, 0)) == ["hypothesis_given_source"]
    assert metric.scorer.describe(store.reps, block, 2, 0)["hypothesis_given_source"] == u[2, 0]


@cuts
def test_too_long_texts_keep_their_end() -> None:
    text = "storm " * 30
    kept = [*plain()[0](text.strip()).input_ids[:9], 2]
    metric = bartscore(direction="precision", max_tokens=10)
    store = Store(metric.scorer)
    (block,) = store.add([metric.comparison([text], ["boats"], None, Context())])
    assert store.reps["ids"][block.hypotheses].values.tolist() == kept
    assert metric.score([text], ["boats"])[0] < 0


@pytest.mark.parametrize("kind", [BARTScore, BARTScoreFaithfulness])
@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"context": 1}, "context"),
        ({"model": str(GOLDEN / "models" / "tiny-bert")}, "tiny-bert"),
        ({"model": "/nowhere"}, "nowhere"),
        ({"direction": "both"}, "direction"),
    ],
)
def test_refusals(kind: Any, settings: dict[str, Any], found: str) -> None:
    with pytest.raises((InputError, ModelLoadError), match=found):
        kind(**settings).scorer  # noqa: B018
