"""COMET checkpoints: golden models, and every refusal by its text."""

from __future__ import annotations

import pickle
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from discorank.metrics.errors import ModelLoadError
from discorank.metrics.neural.comet.checkpoint import CometCheckpoint, read_checkpoint
from discorank.metrics.neural.models.pretrained import from_state

GOLDEN = Path(__file__).parents[2] / "golden"
MODELS = GOLDEN / "docmetrics" / "models"
LAYERS, WIDTH = 3, 32  # of the tiny encoder
REF, QE, UNIFIED = "regression_metric", "referenceless_regression_metric", "unified_metric"


@cache
def loaded(name: str) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(
        MODELS / name / "checkpoints" / "model.ckpt", weights_only=True
    )
    return content


def model(
    folder: Path,
    *,
    base: str = "tiny-comet-ref",
    state: dict[str, Any] | None = None,
    held: dict[str, Any] | None = None,
    beside: dict[str, Any] | None = None,
    **more: Any,
) -> Path:
    """A COMET folder like a golden one, with changed tensors and settings; a value None takes a key away."""
    content = loaded(base)
    settings = yaml.safe_load((MODELS / base / "hparams.yaml").read_text())
    (folder / "checkpoints").mkdir()
    (folder / "hparams.yaml").write_text(yaml.safe_dump(without({**settings, **(beside or {})})))
    tensors = without({**content["state_dict"], **(state or {})})
    hyper = without({**content["hyper_parameters"], **(held or {})})
    torch.save(
        {**content, "state_dict": tensors, "hyper_parameters": hyper, **more},
        folder / "checkpoints/model.ckpt",
    )
    return folder


def without(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


GOLDEN_SETTINGS = {
    "tiny-comet-ref": (REF, "avg", "mix", "softmax", True, None, (), [192, 48, 24]),
    "tiny-comet-legacy": (REF, "avg", "mix", "softmax", True, None, (), [192, 48, 24]),
    "tiny-comet22-ref": (REF, "avg", "mix", "sparsemax", False, None, (), [192, 48, 24]),
    "tiny-comet-qe": (QE, "avg", "mix", "softmax", True, None, (), [128, 40, 20]),
    "tiny-comet-qe-layer2": (QE, "avg", 2, "softmax", False, "Sigmoid", (), [128, 40]),
    "tiny-cometkiwi": (
        *(UNIFIED, "cls", "mix", "sparsemax", False, None, ("mt", "src")),
        [32, 32, 16],
    ),
    "tiny-unite": (
        *(UNIFIED, "cls", "mix", "sparsemax", True, None, ("mt", "src", "ref")),
        [32, 32, 16],
    ),
}


@pytest.mark.parametrize("name", GOLDEN_SETTINGS)
def test_golden(name: str) -> None:
    kind, pool, layer, transformation, norm, final, segments, widths = GOLDEN_SETTINGS[name]
    checkpoint = read_checkpoint(MODELS / name)
    assert (checkpoint.kind, checkpoint.settings.pool, checkpoint.settings.layer) == (
        kind,
        pool,
        layer,
    )
    assert (checkpoint.settings.layer_transformation, checkpoint.settings.layer_norm) == (
        transformation,
        norm,
    )
    assert (checkpoint.settings.activations, checkpoint.settings.final_activation) == (
        "Tanh",
        final,
    )
    assert checkpoint.settings.input_segments == list(segments)
    assert (checkpoint.settings.encoder_model, checkpoint.settings.pretrained_model) == (
        "XLM-RoBERTa",
        "tiny-xlmr",
    )
    trained = checkpoint.trained_layers(LAYERS, WIDTH)
    linear = trained["estimator"]["ff"].values()
    assert [layer.in_features for layer in linear] == widths
    assert [layer.out_features for layer in linear] == [*widths[1:], 1]
    assert checkpoint.encoder.keys() == {
        key
        for key in load_file(MODELS / "tiny-xlmr" / "model.safetensors")
        if not key.startswith("pooler")
    }
    assert ("layerwise_attention" in trained) == (layer == "mix")


def tensors_of(checkpoint: CometCheckpoint) -> dict[str, Any]:
    return {**checkpoint.encoder, **checkpoint.state}


def assert_equal(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert actual[name].dtype == value.dtype, name
        assert torch.equal(actual[name], value), name


def test_legacy_files_name_classes_that_torch_refuses_and_hold_the_same() -> None:
    path = MODELS / "tiny-comet-legacy" / "checkpoints" / "model.ckpt"
    with pytest.raises(pickle.UnpicklingError, match="pytorch_lightning"):
        torch.load(path, weights_only=True)
    legacy, modern = read_checkpoint(path), read_checkpoint(MODELS / "tiny-comet-ref")
    assert_equal(tensors_of(legacy), tensors_of(modern))
    assert "pytorch_lightning" not in sys.modules


@pytest.mark.parametrize(
    ("name", "layers", "width"),
    [
        ("tiny-comet-ref", 3, 48),
        ("tiny-comet-qe", 3, 48),
        ("tiny-unite", 3, 48),
        ("tiny-comet-ref", 4, 32),
        ("tiny-comet-qe-layer2", 1, 32),
    ],
)
def test_an_encoder_that_does_not_fit(name: str, layers: int, width: int) -> None:
    with pytest.raises(ModelLoadError, match=r"size mismatch|Missing|encoder with 1 layers"):
        read_checkpoint(MODELS / name).trained_layers(layers, width)


def test_where_files_may_stand(tmp_path: Path) -> None:
    folder = model(tmp_path)
    ckpt = folder / "checkpoints" / "model.ckpt"
    for path in (folder, str(folder), ckpt, str(ckpt)):
        assert read_checkpoint(path).kind == "regression_metric"
    other = ckpt.rename(ckpt.with_name("epoch=1.ckpt"))
    assert read_checkpoint(folder).path == other
    (folder / "hparams.yaml").rename(other.with_name("hparams.yaml"))
    assert read_checkpoint(other).settings.layer_norm
    other.with_name("last.ckpt").touch()
    for path in (folder, other.parent, tmp_path / "nothing"):
        with pytest.raises(ModelLoadError):
            read_checkpoint(path)


def test_a_file_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(
        model(tmp_path, base="tiny-comet-qe", held={"class_identifier": None}) / "checkpoints"
    )
    assert read_checkpoint("model.ckpt").kind == QE


def test_settings_come_from_either_file(tmp_path: Path) -> None:
    bare = model(tmp_path)
    content = loaded("tiny-comet22-ref")
    torch.save({"state_dict": content["state_dict"]}, bare / "checkpoints" / "model.ckpt")
    checkpoint = read_checkpoint(bare)
    # all from hparams.yaml
    assert (checkpoint.settings.layer_transformation, checkpoint.settings.layer_norm) == (
        "softmax",
        True,
    )
    torch.save(content, bare / "checkpoints" / "model.ckpt")
    checkpoint = read_checkpoint(bare)
    # the checkpoint comes first
    assert (checkpoint.settings.layer_transformation, checkpoint.settings.layer_norm) == (
        "sparsemax",
        False,
    )
    (bare / "hparams.yaml").unlink()
    assert read_checkpoint(bare).kind == "regression_metric"
    torch.save({"state_dict": content["state_dict"]}, bare / "checkpoints" / "model.ckpt")
    with pytest.raises(ModelLoadError, match="class_identifier: is missing"):
        read_checkpoint(bare)


@pytest.mark.parametrize(
    ("base", "held", "beside", "expected"),
    [
        ("tiny-comet-ref", "sparsemax_patch", None, "softmax"),
        ("tiny-comet22-ref", "sparsemax", "sparsemax_patch", "softmax"),
        ("tiny-cometkiwi", "sparsemax", "sparsemax_patch", "softmax"),
        ("tiny-cometkiwi", None, None, "sparsemax"),
        ("tiny-comet22-ref", None, None, "softmax"),
        ("tiny-comet22-ref", "sparsemax", "softmax", "sparsemax"),
    ],
)
def test_what_makes_the_mix_sum_to_one(
    tmp_path: Path, base: str, held: str | None, beside: str | None, expected: str
) -> None:
    key = "layer_transformation"
    checkpoint = read_checkpoint(model(tmp_path, base=base, held={key: held}, beside={key: beside}))
    assert checkpoint.settings.layer_transformation == expected


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"class_identifier": "ranking_metric"}, "ranking_metric"),
        ({"class_identifier": ["regression_metric"]}, "class_identifier"),
        ({"encoder_model": "XLM-Roberta"}, "XLM-RoBERTa"),
        ({"pool": "avgg"}, "'avg'.*'avgg'"),
        ({"pool": "default"}, "'avg', 'cls' or 'max'"),
        ({"pool": None}, "pool"),
        ({"layer": -1}, "layer: .*-1"),
        ({"layer": True}, "layer: .*True"),
        ({"layer": "24"}, "layer: .*'24'"),
        ({"layer": None}, "layer: is missing"),
        ({"layer_transformation": "sparsmax"}, "'sparsemax'"),
        ({"layer_norm": 1}, "layer_norm: .*1"),
        ({"activations": "tanj"}, "Tanh"),
        ({"activations": None}, "activations"),
        ({"final_activation": "softmax"}, "final_activation"),
        ({"final_activation": 0}, "final_activation: .*0"),
        ({"hidden_sizes": []}, "hidden_sizes"),
        ({"hidden_sizes": [48, 0]}, "hidden_sizes"),
        ({"hidden_sizes": [48, 10**30]}, "hidden_sizes"),
        ({"hidden_sizes": [1] * 1000}, "hidden_sizes"),
        ({"hidden_sizes": 48}, "hidden_sizes"),
        ({"hidden_sizes": [48, 25]}, r"ff.3.weight.*\[24, 48\].*\[25, 48\]"),
        ({"hidden_sizes": [48]}, r"ff.6.weight"),
        ({"hidden_sizes": [48, 24, 12]}, "ff.9.weight.*ff.9.bias"),
        ({"pretrained_model": 7}, "pretrained_model"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, changes: dict[str, Any], found: str) -> None:
    folder = model(tmp_path, held=changes, beside=changes)
    with pytest.raises(ModelLoadError, match=found) as caught:
        read_checkpoint(folder).trained_layers(LAYERS, WIDTH)
    assert "model.ckpt" in str(caught.value)


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        (["mt", "ref", "src"], ("mt", "src", "ref")),
        (["mt", "ref"], ("mt", "ref")),
        (["src", "mt"], None),
        (["mt"], None),
        (["mt", "mt"], None),
        (["mt", "context"], None),
        (["mt", []], None),
    ],
)
def test_input_segments(
    tmp_path: Path, segments: list[Any], expected: tuple[str, ...] | None
) -> None:
    folder = model(tmp_path, base="tiny-unite", held={"input_segments": segments})
    if expected:
        assert read_checkpoint(folder).settings.input_segments == list(expected)
    else:
        with pytest.raises(ModelLoadError, match="input_segments"):
            read_checkpoint(folder)


NAN, INF = torch.full((48,), torch.nan), torch.full((48,), torch.inf)
FIRST, SCALAR = "estimator.ff.0", "layerwise_attention.scalar_parameters"


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ({f"{FIRST}.bias": None, "estimator.ff.6.weight": None}, "ff.0.bias.*ff.6.weight"),
        ({"layerwise_attention.gamma": None}, "gamma"),
        ({f"{SCALAR}.1": None}, f"{SCALAR}.1"),
        ({f"{SCALAR}.{i}": None for i in range(4)}, f"{SCALAR}.0"),
        ({"extra.weight": NAN}, "extra.weight"),
        ({f"extra.{i}": NAN for i in range(6)}, "extra.0"),
        ({"estimator.ff.9.bias": NAN}, "ff.9.bias"),
        ({f"{FIRST}.bias": NAN}, f"{FIRST}.bias"),
        ({f"{FIRST}.bias": INF.half()}, f"{FIRST}.bias"),
        ({f"{FIRST}.bias": torch.ones(48, dtype=torch.long)}, "ff.0.bias"),
        ({f"{FIRST}.bias": torch.ones(48, 1)}, r"ff.0.bias.*\[48, 1\]"),
        ({f"{FIRST}.weight": torch.ones(47, 192)}, r"ff.0.weight.*\[47, 192\]"),
        ({f"{FIRST}.weight": torch.ones(48, 0)}, "ff.0.weight"),
        ({f"{FIRST}.bias": torch.ones(1).expand(48)}, "ff.0.bias"),
        ({f"{FIRST}.bias": "text"}, "ff.0.bias"),
        ({f"{FIRST}.bias": torch.ones(48).to_sparse()}, "ff.0.bias"),
        ({f"{SCALAR}.0": torch.ones(2)}, r"parameters.0.*\[2\]"),
    ],
)
def test_tensors_that_are_refused(tmp_path: Path, state: dict[str, Any], found: str) -> None:
    with pytest.raises(ModelLoadError, match=found):
        read_checkpoint(model(tmp_path, state=state)).trained_layers(LAYERS, WIDTH)


def test_tensors_that_score_nothing_are_left_out(tmp_path: Path) -> None:
    unused = [
        "encoder.model.pooler.dense.weight",
        "encoder.model.embeddings.position_ids",
        "layerwise_attention.dropout_mask",
        "hidden2tag.weight",
        "wordloss.weight",
        "val_mcc.0.confmat",
    ]
    checkpoint = read_checkpoint(
        model(tmp_path, base="tiny-unite", state=dict.fromkeys(unused, torch.arange(3)))
    )
    assert_equal(tensors_of(checkpoint), tensors_of(read_checkpoint(MODELS / "tiny-unite")))


ENCODER = [key for key in loaded("tiny-comet-ref")["state_dict"] if key.startswith("encoder")]


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (dict.fromkeys(ENCODER), "missing"),
        ({"encoder.model.embeddings.LayerNorm.bias": NAN[:WIDTH]}, "embeddings.LayerNorm.bias"),
        ({"encoder.model.embeddings.LayerNorm.bias": NAN}, "embeddings.LayerNorm.bias"),
        ({"encoder.model.a.weight": torch.ones(2, 2, 2)}, "unexpected.*a.weight"),
        (
            {"encoder.model.embeddings.LayerNorm.bias": torch.ones(WIDTH, dtype=torch.long)},
            r"LayerNorm\.bias is of torch\.int64",
        ),
    ],
)
def test_encoders_that_are_refused(tmp_path: Path, state: dict[str, Any], found: str) -> None:
    checkpoint = read_checkpoint(model(tmp_path, state=state))
    with pytest.raises(ModelLoadError, match=found):
        from_state(MODELS / "tiny-xlmr", checkpoint.encoder)


def test_a_mix_is_left_out_where_one_layer_is_used(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(model(tmp_path, held={"layer": 2}))
    assert checkpoint.settings.layer == 2
    assert "layerwise_attention" not in checkpoint.trained_layers(LAYERS, WIDTH)
