"""Forward passes counted before a run: those that are run, their FLOP by hand, and without weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from discorank import Metric, load_metric
from discorank.cli.commands.check import PassCounts
from discorank.metrics.neural.models.encoder import Encoder, Stack
from discorank.metrics.representations import Ragged

from ....support.learned_golden import GOLDEN

DOCMETRICS = GOLDEN / "docmetrics" / "models"
METRICX = {
    "model": str(GOLDEN / "metricx" / "models" / "tiny-metricx-24"),
    "tokenizer_path": str(GOLDEN / "metricx" / "models" / "tiny-mt5-tokenizer"),
    "regression_token_id": 11,
}
XCOMET = {
    "model": str(GOLDEN / "xcomet" / "models" / "tiny-xcomet"),
    "encoder_path": str(GOLDEN / "xcomet" / "models" / "tiny-xlmr-xl"),
}
COMET = {"encoder_path": str(DOCMETRICS / "tiny-xlmr")}
# Settings, and passes for 3 hypotheses, 2 references and a source.
CASES: dict[str, tuple[dict[str, Any], int]] = {
    "metricx": (METRICX, 6),
    "metricx-qe": (METRICX, 3),
    "bleurt": ({"model": str(GOLDEN / "bleurt" / "models" / "tiny-bleurt-20")}, 6),
    "xcomet": (XCOMET, 15),
    "xcomet-qe": (XCOMET, 3),
    "comet": ({**COMET, "model": str(DOCMETRICS / "tiny-unite")}, 15),
    "comet-qe": ({**COMET, "model": str(DOCMETRICS / "tiny-cometkiwi")}, 3),
    "doc-comet": ({**COMET, "model": str(DOCMETRICS / "tiny-comet-ref")}, 6),
    "embedding": ({"model": str(GOLDEN / "sentence_embedding" / "models" / "tiny-st-mean")}, 5),
    "bertscore": ({"model": str(DOCMETRICS / "tiny-bert"), "layer": 2}, 5),
}
HYPOTHESES = ["the cat sat on the mat", "a cat", "the old mill turns and turns " * 9]
REFERENCES = ["a cat sat on a mat", ""]
SOURCE = "die Katze sass auf der Matte"


@pytest.mark.parametrize(
    ("stack", "tokens", "tera_flop"),
    [
        (Stack(24, 1024, 1024, 2816, 3), 120, 0.075),  # mT5 large
        (Stack(24, 2048, 2048, 5120, 3), 120, 0.281),  # XL
        (Stack(24, 4096, 4096, 10240, 3), 120, 1.117),  # XXL
        (Stack(32, 1152, 1152, 4608), 80, 0.082),  # RemBERT
        (Stack(36, 2560, 2560, 10240), 80, 0.455),  # XLM-R XL
        (Stack(36, 2560, 2560, 10240), 120, 0.685),
        (Stack(48, 4096, 4096, 16384), 80, 1.55),  # XXL
        (Stack(6, 384, 384, 1536), 40, 0.00086),  # MiniLM
    ],
)
def test_flop_of_known_models(stack: Stack, tokens: int, tera_flop: float) -> None:
    flops = stack.flops(np.array([tokens]))
    assert flops / 1e12 == pytest.approx(tera_flop, rel=0.01)
    assert stack.flops(np.array([tokens] * 3)) == 3 * flops
    assert stack.flops(np.array([], np.int64)) == 0


def test_flop_of_one_layer_by_hand() -> None:
    config = SimpleNamespace(hidden_size=4, intermediate_size=8)
    stack = Stack.of_encoder(config, 1)
    tokens = 3
    of_matrices = tokens * (4 * 4 * 4 + 2 * 4 * 8)
    of_attention = 2 * 4 * tokens * tokens
    assert stack.flops(np.array([tokens])) == 2 * (of_matrices + of_attention)


@pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")
@pytest.mark.filterwarnings("ignore:xcomet. .* tokens are read together")
@pytest.mark.parametrize("name", CASES)
def test_passes_are_those_that_are_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from discorank.metrics.neural.metricx.t5 import T5Regression

    settings, expected = CASES[name]
    metric = load_metric(name, **settings)
    assert isinstance(metric, Metric)
    run: list[int] = []
    plain_states, plain_scores = Encoder.states, T5Regression.scores

    def states(encoder: Encoder, ids: Ragged, *more: Any, **settings: Any) -> Any:
        run.extend(ids.lengths.tolist())
        return plain_states(encoder, ids, *more, **settings)

    def scores(network: T5Regression, ids: Ragged) -> Any:
        run.extend(ids.lengths.tolist())
        return plain_scores(network, ids)

    monkeypatch.setattr(Encoder, "states", states)
    monkeypatch.setattr(T5Regression, "scores", scores)
    unloaded = metric.unloaded()
    assert unloaded is not None
    counts = PassCounts(metric, unloaded)
    counts.add(HYPOTHESES, REFERENCES, SOURCE)
    assert run == []
    parts: Any = unloaded
    network = getattr(parts, "network", None)  # no weights are held
    held = [network.row] if network else parts.encoder.model.parameters()
    assert all(weight.is_meta for weight in held)
    metric.pairwise(HYPOTHESES, REFERENCES, SOURCE)
    assert counts.passes == len(run) == expected
    assert counts.tokens == sum(run)
    assert counts.flops > 0
    again = PassCounts(metric, unloaded)
    for _ in range(2):
        again.add(HYPOTHESES, REFERENCES, SOURCE)
    assert (again.passes, again.flops) == (2 * counts.passes, 2 * counts.flops)


def test_likelihoods_count_both_directions_once() -> None:
    metric = load_metric("prism", model=str(DOCMETRICS / "tiny-mbart50"), lang="en")
    assert isinstance(metric, Metric)
    unloaded: Any = metric.unloaded()
    assert all(weight.is_meta for weight in unloaded.model.model.parameters())
    square, oblong = PassCounts(metric, unloaded), PassCounts(metric, unloaded)
    texts = ["the cat sat", "a cat", "it slept"]
    # Three texts encoded and nine ordered pairs decoded; five texts and two times six pairs.
    square.add(texts, texts, None)
    assert square.passes == 3 + 9
    oblong.add(texts, ["the dog sat", "a dog"], None)
    assert oblong.passes == 5 + 12


def test_documents_count_by_sentence_and_metrics_without_a_model_count_nothing() -> None:
    from discorank import Document

    metric = load_metric("bleurt", **CASES["bleurt"][0])
    assert isinstance(metric, Metric)
    unloaded = metric.unloaded()
    assert unloaded is not None
    counts = PassCounts(metric, unloaded)
    documents = [Document(["a cat.", "it sat."]), Document(["the cat.", "it slept."])]
    counts.add(documents, documents, None)
    assert counts.passes == 2 * 4
    plain = load_metric("chrf")
    assert isinstance(plain, Metric)
    assert plain.unloaded() is None
