"""BLEURT: golden values, transformers' own classes on the same weights, the cut, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from discorank import InputError, Metric, ModelLoadError, load_metric
from discorank.metrics.errors import TruncationWarning
from discorank.metrics.neural.bleurt.metric import SPECIAL, kept_lengths, tokens_of

from ...support.learned_golden import (
    GOLDEN,
    cases_of,
    column,
    copy_of,
    grouped,
    with_json,
    with_tensors,
)

MODELS = GOLDEN / "bleurt" / "models"
CASES = grouped(cases_of("bleurt"), "model")
BLEURT_20, WORDPIECE = MODELS / "tiny-bleurt-20", MODELS / "tiny-bleurt-wordpiece"


@cache
def tiny(model: Path = BLEURT_20, **more: Any) -> Metric:
    metric = load_metric("bleurt", model=str(model), **more)
    assert isinstance(metric, Metric)
    return metric


@pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")
@pytest.mark.parametrize(("gelu", "key"), [("erf", "score"), ("tanh", "score_tanh_gelu")])
@pytest.mark.parametrize("model", CASES)
def test_golden_values(model: tuple[str], gelu: str, key: str) -> None:
    cases = CASES[model]
    metric = tiny(MODELS / model[0], gelu=gelu)
    scores = metric.score(column(cases, "hyp"), column(cases, "ref"))
    np.testing.assert_allclose(scores, column(cases, key), rtol=0, atol=1e-5)


@pytest.mark.parametrize("model", CASES)
def test_golden_ids(model: tuple[str]) -> None:
    tokens = tokens_of(MODELS / model[0])
    max_tokens = json.loads((MODELS / model[0] / "config.json").read_text())[
        "max_position_embeddings"
    ]
    for case in CASES[model]:
        reference, hypothesis = tokens.ids([case["ref"], case["hyp"]])
        lengths = np.array([len(reference)]), np.array([len(hypothesis)])
        (num_r,), (num_h,) = kept_lengths(*lengths, max_tokens)
        ids = [tokens.cls, *reference[:num_r], tokens.sep, *hypothesis[:num_h], tokens.sep]
        assert ids == case["ids"]


@given(st.integers(0, 40), st.integers(0, 40), st.integers(SPECIAL, 60))
def test_the_longer_text_loses_tokens_and_the_hypothesis_first(r: int, h: int, most: int) -> None:
    kept = kept_lengths(np.array([r]), np.array([h]), most)
    while r + h + SPECIAL > most:
        if r > h:
            r -= 1
        else:
            h -= 1
    assert (kept.reference[0], kept.hypothesis[0]) == (r, h)


def test_the_older_form_is_transformers_bert() -> None:
    from transformers import BertConfig, BertForSequenceClassification

    config = json.loads((WORDPIECE / "config.json").read_text())
    del config["model_type"], config["architectures"]
    from safetensors.torch import load_file

    model = BertForSequenceClassification(BertConfig(**{**config, "num_labels": 1})).train(False)
    state = load_file(WORDPIECE / "model.safetensors")
    renamed = {name.replace("bleurt.", "bert.", 1): weight for name, weight in state.items()}
    renamed = {name: weight for name, weight in renamed.items() if "position_ids" not in name}
    model.load_state_dict(renamed)
    for case in CASES["tiny-bleurt-wordpiece",][:5]:
        ids, types = torch.tensor([case["ids"]]), torch.tensor([case["types"]])
        with torch.no_grad():
            expected = float(model(ids, token_type_ids=types).logits)
        assert tiny(WORDPIECE).score([case["hyp"]], [case["ref"]])[0] == pytest.approx(
            expected, abs=1e-5
        )


def test_order_of_the_two_texts_matters() -> None:
    matrix = tiny().pairwise(["a cat", "the mill turns"], ["the mill turns", "a cat"])
    assert abs(matrix[0, 0] - matrix[1, 1]) > 1e-4


def test_special_tokens_written_out_are_text() -> None:
    for model in (BLEURT_20, WORDPIECE):
        tokens = tokens_of(model)
        (ids,) = tokens.ids(["[CLS] a [SEP]"])
        assert not {tokens.cls, tokens.sep} & set(ids.tolist())


def test_long_pairs_are_counted() -> None:
    with pytest.warns(TruncationWarning, match="of 1 comparisons, 1 lost text"):
        tiny().score(["word " * 100], ["a"])


def test_short_models_read_128_tokens(tmp_path: Path) -> None:
    short = copy_of(BLEURT_20, tmp_path / "bleurt-tiny-128")
    longer = with_json(short, "config.json", max_position_embeddings=200)
    wider = torch.zeros(200, 16)
    name = "bleurt.embeddings.position_embeddings.weight"
    with_tensors(longer, lambda state: state.update({name: wider}))
    scorer: Any = tiny(longer).scorer
    assert scorer.max_tokens == 128
    explicit: Any = tiny(longer, max_tokens=150).scorer
    assert explicit.max_tokens == 150


def test_windows_are_joined_texts() -> None:
    metric = tiny(context=1)
    together = metric.score(["a cat", "it sat"], ["the cat", "it slept"], None, ["d", "d"])
    plain = tiny().score(["a cat", "the cat it sat"], ["the cat", "the cat it slept"])
    np.testing.assert_array_equal(together, plain)
    with pytest.raises(InputError, match="context=3"):
        tiny(context=3)


Change = Callable[[Path], object]
REFUSED: list[tuple[str, Change]] = [
    ("'bert'", lambda f: with_json(f, "config.json", model_type="bert")),
    ("'swish'", lambda f: with_json(f, "config.json", hidden_act="swish")),
    ("num_hidden_layers", lambda f: with_json(f, "config.json", num_hidden_layers=200000)),
    ("hidden_size", lambda f: with_json(f, "config.json", hidden_size=None)),
    (r"spm\.model", lambda f: (f / "spm.model").unlink()),
    ("SentencePiece", lambda f: (f / "spm.model").write_bytes(b"?")),
    ("no weights", lambda f: (f / "pytorch_model.bin").unlink()),
    ("zip", lambda f: (f / "pytorch_model.bin").write_bytes(b"PK")),
    (
        r"Missing.*classifier\.bias",
        lambda f: with_tensors(f, lambda state: state.pop("classifier.bias")),
    ),
    (
        r"more\.weight",
        lambda f: with_tensors(f, lambda state: state.update({"more.weight": torch.zeros(2)})),
    ),
    (
        r"classifier\.bias.*finite",
        lambda f: with_tensors(f, lambda state: state["classifier.bias"].fill_(torch.nan)),
    ),
    ("TensorFlow", lambda f: (f / "saved_model.pb").write_bytes(b"")),
]


@pytest.mark.parametrize(("found", "change"), REFUSED)
def test_models_that_are_refused(found: str, change: Change, tmp_path: Path) -> None:
    changed = copy_of(BLEURT_20, tmp_path / "model")
    if found == "TensorFlow":
        (changed / "config.json").unlink()
        (changed / "pytorch_model.bin").unlink()
    change(changed)
    with pytest.raises(ModelLoadError, match=found):
        _ = tiny(changed).scorer
