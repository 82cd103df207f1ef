"""Sentence embeddings: golden values of sentence-transformers, both file forms, prompts, context, what is refused."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from discorank import InputError, Metric, ModelLoadError, load_metric
from discorank.metrics.errors import TruncationWarning
from discorank.metrics.neural.embedding.sentence_transformer import Mode, SentencePooling
from discorank.metrics.neural.models.attention import Packing
from discorank.metrics.neural.models.files.model_files import BUNDLED
from discorank.metrics.text.texts import Item

from ...support.learned_golden import GOLDEN, cases_of, column, copy_of, grouped, with_json

MODELS = GOLDEN / "sentence_embedding" / "models"
GROUPS = grouped(cases_of("sentence_embedding"), "model", "encode_options")
MINILM = "all-MiniLM-L6-v2"


@cache
def tiny(model: str = "tiny-st-mean", name: str = "embedding", **more: Any) -> Metric:
    if model == MINILM:
        pytest.importorskip(BUNDLED["minilm"].packages[0])
    metric = load_metric(name, model="minilm" if model == MINILM else str(MODELS / model), **more)
    assert isinstance(metric, Metric)
    return metric


@pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")
@pytest.mark.parametrize("group", GROUPS)
def test_golden_values(group: tuple[str, str]) -> None:
    model, options = group
    cases, settings = GROUPS[group], json.loads(options)
    hypotheses = column(cases, "hyp")
    metric = tiny(model, **settings)
    cosines = metric.score(hypotheses, column(cases, "ref"))
    np.testing.assert_allclose(cosines, column(cases, "cos_hyp_ref"), rtol=0, atol=1e-6)
    with_source = tiny(model, "embedding-qe", **settings).score(
        hypotheses, None, column(cases, "src")
    )
    np.testing.assert_allclose(with_source, column(cases, "cos_src_hyp"), rtol=0, atol=1e-6)
    prepared, _ = metric.scorer.prepare([Item(text) for text in hypotheses])
    reps = metric.scorer.represent(prepared)
    np.testing.assert_allclose(reps["norm"], column(cases, "norm_hyp"), rtol=0, atol=1e-5)
    expected = column(cases, "emb_hyp_first8")
    np.testing.assert_allclose(reps["embedding"][:, :8], expected, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")
def test_the_new_file_form_has_the_values_of_the_old_one() -> None:
    texts = column(cases_of("sentence_embedding")[:20], "hyp")
    old, new = tiny().pairwise(texts, texts), tiny("tiny-st-mean-v6format").pairwise(texts, texts)
    assert old.tobytes() == new.tobytes()


def test_pooling_by_hand() -> None:
    x = torch.tensor([[1.0, -4.0], [2.0, 8.0], [6.0, 0.0], [0.0, 1.0]])
    counted = torch.tensor([False, True, True, True])
    packing = Packing(np.array([4]), torch.device("cpu"))
    expected: dict[Mode, list[float]] = {
        "cls": [2, 8],
        "max": [6, 8],
        "mean": [8 / 3, 3],
        "mean_sqrt_len_tokens": [8 / 3**0.5, 9 / 3**0.5],
        "weightedmean": [(2 * 2 + 3 * 6) / 9, (2 * 8 + 4 * 1) / 9],
        "lasttoken": [0, 1],
    }
    for mode, vector in expected.items():
        pooled = SentencePooling([mode], includes_prompt=True).vectors(packing, x, counted)
        np.testing.assert_allclose(pooled[0].numpy(), vector, rtol=1e-6)
    both = SentencePooling(["cls", "mean"], includes_prompt=True).vectors(packing, x, counted)
    np.testing.assert_allclose(both[0].numpy(), expected["cls"] + expected["mean"], rtol=1e-6)


def test_context_changes_only_what_the_tokens_mean() -> None:
    metric = tiny(context=1)
    alone = tiny().score(["the mill"], ["a mill"])
    np.testing.assert_allclose(
        metric.score(["the mill"], ["a mill"], None, ["d"]), alone, atol=1e-6
    )
    first, second = metric.score(
        ["it rained", "the mill"], ["it rained", "a mill"], None, ["d", "d"]
    )
    assert first == pytest.approx(1)
    assert abs(second - alone[0]) > 1e-6


def test_context_is_refused_where_it_means_nothing() -> None:
    with pytest.raises(ModelLoadError, match=r"context.*cls"):
        _ = tiny("tiny-st-cls-prompt", context=1, prompt="").scorer
    with pytest.raises(ModelLoadError, match=r"context.*prompt="):
        _ = tiny("tiny-st-mean-noprompt", context=1).scorer


def test_long_texts_are_counted() -> None:
    with pytest.warns(TruncationWarning, match="of 1 comparisons, 1 lost text"):
        tiny().score(["word " * 100], ["a"])


def test_prompts() -> None:
    with pytest.raises(InputError, match=r"'pasage'.*'passage'"):
        _ = tiny("tiny-st-cls-prompt", prompt_name="pasage").scorer
    with pytest.raises(InputError, match="both given"):
        tiny("tiny-st-cls-prompt", prompt_name="passage", prompt="x")
    with pytest.raises(InputError, match="the prompt has"):
        _ = tiny("tiny-st-mean-noprompt", prompt="word " * 100).scorer


def test_a_folder_without_modules_is_averaged_with_a_warning(tmp_path: Path) -> None:
    folder = copy_of(MODELS / "tiny-st-mean", tmp_path / "plain")
    (folder / "modules.json").unlink()
    metric = load_metric("embedding", model=str(folder))
    assert isinstance(metric, Metric)
    with pytest.warns(UserWarning, match=r"modules\.json"):
        plain = metric.score(["the mill"], ["a mill"])
    np.testing.assert_allclose(plain, tiny().score(["the mill"], ["a mill"]), atol=1e-6)


def modules(*types: str, path: str = "") -> list[dict[str, str]]:
    return [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind in types]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (modules("Transformer", "WordWeights"), "WordWeights"),
        (modules("Pooling"), "modules 'Pooling'"),
        (modules("Transformer", "Dense"), "modules 'Transformer Dense'"),
        (modules("Transformer", path="../other"), r"\.\./other"),
        ([], "modules"),
    ],
)
def test_modules_that_are_refused(content: Any, found: str, tmp_path: Path) -> None:
    folder = copy_of(MODELS / "tiny-st-mean", tmp_path / "model")
    (folder / "modules.json").write_text(json.dumps(content))
    with pytest.raises(ModelLoadError, match=found):
        _ = tiny(str(folder)).scorer


@pytest.mark.parametrize(
    ("model", "part", "change", "found"),
    [
        ("tiny-st-mean", "1_Pooling", {"pooling_mode_mean_tokens": False}, "pooling"),
        ("tiny-st-dense", "2_Dense", {"activation_function": "os.system"}, r"os\.system"),
    ],
)
def test_settings_of_modules_that_are_refused(
    model: str, part: str, change: dict[str, Any], found: str, tmp_path: Path
) -> None:
    folder = copy_of(MODELS / model, tmp_path / "model")
    with_json(folder / part, "config.json", **change)
    with pytest.raises(ModelLoadError, match=found):
        _ = tiny(str(folder)).scorer


def test_the_signature_sees_every_file(tmp_path: Path) -> None:
    folder = copy_of(MODELS / "tiny-st-dense", tmp_path / "model")
    before = load_metric("embedding", model=str(folder)).signature()
    with_json(folder, "sentence_bert_config.json", do_lower_case=False)
    middle = load_metric("embedding", model=str(folder)).signature()
    with_json(folder / "1_Pooling", "config.json", include_prompt=False)
    after = load_metric("embedding", model=str(folder)).signature()
    assert len({before, middle, after}) == 3
