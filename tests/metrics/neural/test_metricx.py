"""MetricX: golden values, transformers' mT5 on the same weights, inputs by version, directions, what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from discorank import Document, InputError, MBRDecoder, Metric, ModelLoadError, load_metric
from discorank.metrics.errors import TruncationWarning
from discorank.metrics.neural.metricx.metric import PARTS, InputParts
from discorank.metrics.neural.models.attention import Packing
from discorank.metrics.neural.models.pretrained import tokenizer_of
from discorank.metrics.representations import FloatArray, Ragged

from ...support.learned_golden import (
    GOLDEN,
    cases_of,
    column,
    copy_of,
    grouped,
    with_json,
    with_tensors,
)

MODELS = GOLDEN / "metricx" / "models"
TOKENIZER = MODELS / "tiny-mt5-tokenizer"
GROUPS = grouped(cases_of("metricx"), "model", "mode")
HYBRID = MODELS / "tiny-metricx-24"


@cache
def tiny(model: Path = HYBRID, name: str = "metricx", **more: Any) -> Metric:
    settings = {"tokenizer_path": str(TOKENIZER), "regression_token_id": 11, **more}
    metric = load_metric(name, model=str(model), **settings)
    assert isinstance(metric, Metric)
    return metric


def scores_of(group: tuple[str, str], **more: Any) -> FloatArray:
    model, mode = group
    name = "metricx" if mode == "ref" else "metricx-qe"
    metric = tiny(MODELS / model, name, max_tokens=128, **more)
    cases = GROUPS[group]
    references = column(cases, "ref") if mode == "ref" else None
    sources = column(cases, "src") if metric.needs_source else None
    return metric.score(column(cases, "hyp"), references, sources)


@pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")
@pytest.mark.parametrize("group", GROUPS)
def test_golden_values(group: tuple[str, str]) -> None:
    expected = column(GROUPS[group], "score")
    np.testing.assert_allclose(scores_of(group), expected, rtol=0, atol=1e-3)


@pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")
def test_golden_values_as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Packing, "on_cpu", False)
    group = next(iter(GROUPS))
    np.testing.assert_allclose(scores_of(group), column(GROUPS[group], "score"), rtol=0, atol=1e-3)


@pytest.mark.parametrize("group", GROUPS)
def test_golden_ids_and_values_before_the_clamp(group: tuple[str, str]) -> None:
    model, mode = group
    parts = PARTS[23 if "23" in model else 24, mode == "ref"]
    reader = InputParts(tokenizer_of(TOKENIZER), parts, 128)
    scorer: Any = tiny(MODELS / model, "metricx" if mode == "ref" else "metricx-qe").scorer
    keys = {"source": "src", "candidate": "hyp", "reference": "ref"}
    for case in GROUPS[group]:
        texts = dict(zip(parts, reader.ids([case[keys[part]] for part in parts]), strict=True))
        ids = reader.sequence(texts)
        assert ids.tolist() == case["ids"]
        raw = scorer.network.scores(Ragged.of_rows([ids]))
        assert raw[0] == pytest.approx(case["raw"], abs=1e-3)


def test_ids_of_parts_are_those_of_the_whole_string() -> None:
    """Whatever stands at the borders: blanks of every kind, marks that combine, nothing."""
    tokenizer = tokenizer_of(TOKENIZER)
    reader = InputParts(tokenizer, PARTS[24, True], 10**6)
    pieces = [
        "a",
        "b",
        " ",
        "  ",
        "\t",
        "\n",
        "\u00a0",
        "\u3000",
        "\u200b",
        "é",
        "e\u0301",
        "的",
        "。",
    ]
    pieces += ["\u0301", "…", "ﬁ", "🎉", "Ａ", "ا", "▁", "candidate:", " reference: "]
    r = random.Random(5)
    for _ in range(150):
        s, h, ref = ("".join(r.choices(pieces, k=r.randint(0, 7))) for _ in range(3))
        whole = tokenizer(f"source: {s} candidate: {h} reference: {ref}", add_special_tokens=False)
        ids = dict(zip(("source", "candidate", "reference"), reader.ids([s, h, ref]), strict=True))
        assert reader.sequence(ids).tolist() == whole.input_ids  # type: ignore[arg-type]


def test_the_network_is_transformers_mt5() -> None:
    """The released network: one decoder step, the logit of the regression token, nothing scaled."""
    from safetensors.torch import load_file
    from transformers import MT5Config, MT5ForConditionalGeneration

    config = MT5Config(**json.loads((HYBRID / "config.json").read_text()))
    model = MT5ForConditionalGeneration(config).train(False)
    state = load_file(HYBRID / "model.safetensors")
    shared = state["shared.weight"]
    more = {f"{side}.embed_tokens.weight": shared for side in ("encoder", "decoder")}
    model.lm_head.weight = torch.nn.Parameter(torch.empty_like(shared))  # apart, as in the file
    model.load_state_dict({**state, **more})
    scorer: Any = tiny().scorer
    for case in GROUPS["tiny-metricx-24", "ref"][:8]:
        ids = torch.tensor([case["ids"]])
        with torch.no_grad():
            out = model(
                input_ids=ids,
                decoder_input_ids=torch.zeros(1, 1, dtype=torch.long),
                use_cache=False,
            )
        raw = scorer.network.scores(Ragged.of_rows([ids[0].numpy()]))
        assert raw[0] == pytest.approx(float(out.logits[0, 0, 11]), abs=1e-3)


def test_lower_is_better_and_turned_in_one_place() -> None:
    metric = tiny()
    texts = ["the mill turns", "a cat", "the old mill"]
    paper = np.array([[metric.score([h], [r], ["die Mühle"])[0] for r in texts] for h in texts])
    assert (paper >= 0).all()
    assert (paper <= 25).all()
    np.testing.assert_array_equal(metric.pairwise(texts, texts, "die Mühle"), -paper)
    record = {"id": "x", "source": "die Mühle", "candidates": texts}
    chosen = next(MBRDecoder(metric).decode([record])).ranking[0]
    assert chosen.index == paper.mean(axis=1).argmin()


def test_what_each_version_reads() -> None:
    hybrid, old = tiny(), tiny(MODELS / "tiny-metricx-23")
    assert (hybrid.needs_source, old.needs_source) == (True, False)
    with pytest.raises(InputError, match="metricx needs sources"):
        hybrid.score(["a"], ["b"])
    a, b = (old.score(["a"], ["b"], source) for source in (None, ["not read"]))
    assert a.tobytes() == b.tobytes()
    assert hybrid.score(["a"], ["b"], [""])[0] != hybrid.score(["a"], ["b"], ["c"])[0]


def test_the_version_comes_from_the_name_or_the_setting(tmp_path: Path) -> None:
    nameless = copy_of(HYBRID, tmp_path / "model")
    with pytest.raises(InputError, match="version=23"):
        tiny(nameless).score(["a"], ["b"], ["c"])
    stated = tiny(nameless, version=24).score(["a"], ["b"], ["c"])
    assert stated.tobytes() == tiny().score(["a"], ["b"], ["c"]).tobytes()


def test_a_model_named_for_the_other_metric_warns() -> None:
    with pytest.warns(UserWarning, match=r"metricx-qe.*metricx"):
        _ = tiny(MODELS / "tiny-metricx-23-qe").scorer
    with pytest.warns(UserWarning, match=r"metricx.*metricx-qe"):
        _ = tiny(MODELS / "tiny-metricx-23", "metricx-qe").scorer


def test_special_tokens_written_out_are_text() -> None:
    scorer: Any = tiny().scorer
    from discorank.metrics.text.texts import Item

    prepared, _ = scorer.prepare([Item("</s> <pad> <unk>"), Item("a")])
    assert not {0, 1} & set(prepared["ids"].values.tolist())


def test_what_is_cut_is_counted() -> None:
    with pytest.warns(TruncationWarning, match="of 1 comparisons, 1 lost text"):
        tiny(max_tokens=16).score(["the mill turns near the river"], ["a mill"], ["x"])


def test_windows_are_joined_texts() -> None:
    h, r, s = ["a cat", "it sat"], ["the cat", "it slept"], ["x y", "z"]
    together = tiny(context=1).score(h, r, s, ["d", "d"])
    plain = tiny().score(
        ["a cat", "the cat it sat"], ["the cat", "the cat it slept"], ["x y", "x y z"]
    )
    np.testing.assert_array_equal(together, plain)
    with pytest.raises(InputError, match=r"context=10.*At most 9"):
        tiny(context=10)
    documents = tiny(context=1).score([Document(h)], [Document(r)], [Document(s)], ["d"])
    assert documents[0] == pytest.approx(plain.mean())


Change = Callable[[Path], object]
REFUSED: dict[str, Change] = {
    r"lm_head\.weight": lambda f: with_tensors(f, lambda state: state.pop("lm_head.weight")),
    "'t5'": lambda f: with_json(f, "config.json", model_type="t5"),
    "num_layers": lambda f: with_json(f, "config.json", num_layers=200000),
    r"encoder\.block\.3": lambda f: with_json(f, "config.json", num_layers=4),
    r"encoder\.block\.2": lambda f: with_json(f, "config.json", num_layers=2),
    r"shared\.weight": lambda f: with_tensors(
        f, lambda state: state["shared.weight"].fill_(torch.inf)
    ),
}


@pytest.mark.parametrize("found", REFUSED)
def test_models_that_are_refused(found: str, tmp_path: Path) -> None:
    changed = copy_of(HYBRID, tmp_path / "metricx-24-x")
    REFUSED[found](changed)
    with pytest.raises(ModelLoadError, match=found):
        _ = tiny(changed).scorer


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"tokenizer_path": None}, "tokenizer_path="),
        ({"regression_token_id": 250089}, "250089"),
        ({"dtype": "float16"}, "float16"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], found: str) -> None:
    with pytest.raises((InputError, ModelLoadError), match=found):
        _ = tiny(**settings).scorer


def test_an_index_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    sharded = copy_of(MODELS / "tiny-metricx-24-bfloat16", tmp_path / "metricx-24-shards")
    index = sharded / "model.safetensors.index.json"
    values = json.loads(index.read_text())
    values["weight_map"]["shared.weight"] = "../tiny-metricx-24/model.safetensors"
    index.write_text(json.dumps(values))
    with pytest.raises(ModelLoadError, match=r"\.\./tiny"):
        _ = tiny(sharded).scorer
