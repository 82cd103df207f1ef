"""The metric sescore2: golden scores, factorised pairs, models on disk, and checkpoints that mean harm."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from discorank import MBRDecoder, ModelLoadError, load_metric
from discorank.metrics.neural.models.files.torch_checkpoint import Stub, read_torch_checkpoint
from discorank.metrics.representations import FloatArray
from discorank.metrics.sescore2.metric import HEAD_NAMES, read_model, rescaled
from discorank.metrics.sescore2.training.regression_training import save_model
from discorank.metrics.storage.checksums import with_checksum

from ...support.bit_flips import refused_flips
from ...support.examples import examples

GOLDEN = Path(__file__).parents[2] / "golden" / "sescore2"
ENCODER = str(GOLDEN / "tiny_encoder")
CHECKPOINT = GOLDEN / "tiny_sescore2.ckpt"
CASES = json.loads((GOLDEN / "regression_cases.json").read_text(encoding="utf-8"))
TEXTS = [pair[side] for pair in CASES["pairs"] for side in ("hyp", "ref")]


@cache
def tiny(**more: Any) -> Any:
    return load_metric(
        "sescore2", model=str(CHECKPOINT), encoder_path=ENCODER, device="cpu", **more
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sescore2") / "model"
    model = read_model(CHECKPOINT, ENCODER)
    about = {"max_tokens": model.max_tokens, "low": -20.0, "high": -3.0}
    save_model(made, model.encoder, head_of(model), model.folder, about)
    return made


def head_of(model: Any) -> dict[str, Any]:
    """The head's tensors by their names on disk."""
    tensors = [tensor.clone() for layer in model.layers for tensor in layer]
    return dict(zip(HEAD_NAMES, tensors, strict=True))


@cache
def in_double_precision() -> tuple[Any, Any]:
    """The model, and its encoder in double precision."""
    model = read_model(CHECKPOINT, ENCODER)
    return model, model.encoder.double().train(False)


def plain(h: str, r: str) -> float:
    """A pair by the equation, in double precision."""
    model, encoder = in_double_precision()
    reader = tiny().scorer.reader

    def vector(text: str) -> Any:
        from discorank.metrics.text.texts import Item

        ids = reader.read([Item(text)])["ids"].values
        with torch.no_grad():
            return encoder(torch.from_numpy(ids)[None]).last_hidden_state[0].mean(0)

    y, x = vector(h), vector(r)
    f = torch.cat([y, x, y * x, (y - x).abs()])
    for weight, bias in model.layers[:-1]:
        f = torch.tanh(weight.double() @ f + bias.double())
    weight, bias = model.layers[-1]
    return float((weight.double() @ f + bias.double()).item())


def test_golden_scores() -> None:
    scores = tiny().score(
        [pair["hyp"] for pair in CASES["pairs"]], [pair["ref"] for pair in CASES["pairs"]]
    )
    np.testing.assert_allclose(scores, [pair["score"] for pair in CASES["pairs"]], atol=1e-4)


def test_golden_pairs() -> None:
    candidates = CASES["pairwise"]["candidates"]
    matrix = tiny().pairwise(candidates, candidates)
    np.testing.assert_allclose(matrix.T, CASES["pairwise"]["matrix"], atol=1e-4)


@given(
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4),
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3),
)
@examples(5)
def test_pairs_are_the_definition(hypotheses: list[str], references: list[str]) -> None:
    matrix = tiny().pairwise(hypotheses, references)
    expected = [[plain(h, r) for r in references] for h in hypotheses]
    np.testing.assert_allclose(matrix, expected, atol=1e-4)
    np.testing.assert_array_equal(
        tiny().pairwise(TEXTS[:5], TEXTS[:5])[1, 3], tiny().pairwise([TEXTS[1]], [TEXTS[3]])
    )


def test_a_saved_model_scores_the_same(folder: Path) -> None:
    metric = load_metric("sescore2", model=str(folder), device="cpu")
    hypotheses, references = TEXTS[::2], TEXTS[1::2]
    np.testing.assert_array_equal(
        metric.score(hypotheses, references), tiny().score(hypotheses, references)
    )
    assert "@sha256:" in metric.signature()
    assert load_metric(metric.signature()) == metric
    assert sorted(file.name for file in folder.iterdir()) == [
        "config.json",
        "estimator.safetensors",
        "model.safetensors",
        "sescore2.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_rescaling_is_affine_and_changes_no_choice(folder: Path) -> None:
    about = json.loads((folder / "sescore2.json").read_text())
    raw, scaled = (
        load_metric("sescore2", model=str(folder), device="cpu", rescale=r) for r in (False, True)
    )
    u = raw.pairwise(TEXTS[:6], TEXTS[:6])
    expected = ((u - about["low"]) / (about["high"] - about["low"]) - 1) * 50
    np.testing.assert_allclose(scaled.pairwise(TEXTS[:6], TEXTS[:6]), expected, rtol=1e-9)
    records = [{"id": "a", "candidates": TEXTS[:6]}]
    picks = [next(MBRDecoder(metric).decode(records)).index for metric in (raw, scaled)]
    assert picks[0] == picks[1]
    assert raw.signature() != scaled.signature()
    with pytest.raises(ModelLoadError, match="holds no bounds to rescale by"):
        tiny(rescale=True).score(TEXTS[:1], TEXTS[:1])


def test_bounds_map_to_the_ends_of_the_scale() -> None:
    scores: FloatArray = np.array([-9.0, -3.0, 3.0])
    assert rescaled(scores, -9.0, 3.0).tolist() == [-50.0, -25.0, 0.0]


def test_defaults_by_language() -> None:
    metric: Any = load_metric("sescore2")
    assert metric.model == "xu1998hz/sescore2_en_pretrained"
    assert metric.for_language("de-AT").model == "xu1998hz/sescore2_de_pretrained"
    assert metric.for_language("fi").model == metric.model
    assert tiny().for_language("de").model == str(CHECKPOINT)


# checkpoints that mean harm, or are damaged


class Config:
    """Pickled under this name, read with stubs in place of classes."""


class Estimator(torch.nn.Module):
    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__()
        width = state["6.weight"].shape[1]
        tanh, linear = torch.nn.Tanh, torch.nn.Linear
        parts = (
            linear(4 * width, 2 * width),
            tanh(),
            tanh(),
            linear(2 * width, width),
            tanh(),
            tanh(),
            linear(width, 1),
        )
        self.ff = torch.nn.Sequential(*parts)
        self.ff.load_state_dict(state)


class Regression(torch.nn.Module):
    def __init__(self, xlm: Any, estimator: Any) -> None:
        super().__init__()
        self.xlm, self.estimator = xlm, estimator


class Harm:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


def module(**changes: Any) -> Any:
    """A module like a released one, with the weights of the golden model."""
    model = read_model(CHECKPOINT, ENCODER)
    made = Regression(model.encoder, Estimator({**head_of(model), **changes}))
    made.xlm.config = Config()
    made.xlm.config.__dict__.update({"model_type": "xlm-roberta", "hidden_size": 32})
    return made


def test_a_checkpoint_that_means_harm_is_refused(tmp_path: Path) -> None:
    made, mark = module(), tmp_path / "harmed"
    made.harm = Harm(mark)
    for value in (made, Harm(mark)):
        torch.save(value, tmp_path / "evil.ckpt")
        with pytest.raises(ModelLoadError, match=r"\.system"):
            read_model(tmp_path / "evil.ckpt", ENCODER)
        assert not mark.exists()
    torch.load(tmp_path / "evil.ckpt", weights_only=False)  # what the file would do to others
    assert mark.exists()


def replaced(parent: Any, name: str | int, part: Any) -> None:
    """Puts another part into a module."""
    parent.__setitem__(name, part) if isinstance(name, int) else setattr(parent, name, part)


LINEAR = torch.nn.Linear
BROKEN: dict[str, Callable[[Any], object]] = {
    r"6.weight.*\(2, 32\)": lambda m: replaced(m.estimator.ff, 6, LINEAR(32, 2)),
    "finite": lambda m: m.estimator.ff[6].weight.data.fill_(torch.nan),
    "the head": lambda m: m.estimator.ff.__delitem__(3),
    r"more\.weight": lambda m: replaced(m, "more", LINEAR(2, 2)),
    "xlm": lambda m: replaced(m, "xlm", LINEAR(2, 2)),
    "'wide'": lambda m: replaced(m.xlm.config, "hidden_size", "wide"),
    "encoder": lambda m: replaced(m.xlm.encoder.layer[0].attention.self, "query", LINEAR(16, 16)),
}


@pytest.mark.parametrize("found", BROKEN)
def test_released_checkpoints_that_are_refused(found: str, tmp_path: Path) -> None:
    broken = module()
    BROKEN[found](broken)
    torch.save(broken, tmp_path / "x.ckpt")
    with pytest.raises(ModelLoadError, match=found):
        read_model(tmp_path / "x.ckpt", ENCODER)


def test_which_checkpoint_of_a_folder(tmp_path: Path) -> None:
    shutil.copyfile(CHECKPOINT, tmp_path / "sescore2_en.ckpt")
    for name in ("sescore2_en_original.ckpt", "sescorex_seg.ckpt"):
        (tmp_path / name).write_bytes(b"")
    assert read_model(tmp_path, ENCODER).max_tokens == 256
    (tmp_path / "sescore2_en.ckpt").unlink()
    for path in (tmp_path, tmp_path / "nothing.ckpt"):
        with pytest.raises(ModelLoadError, match=path.name):
            read_model(path, ENCODER)


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ("{", "not JSON"),
        ("[1]", "expected format 1"),
        ('{"format": 2}', "expected format 1"),
        ('{"format": 1, "max_tokens": "many"}', "max_tokens, low or high"),
        ('{"format": 1, "max_tokens": 64, "low": "x"}', "max_tokens, low or high"),
    ],
)
def test_folders_that_are_refused(folder: Path, tmp_path: Path, about: str, text: str) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "model"))
    (broken / "sescore2.json").write_text(about)
    with pytest.raises(ModelLoadError, match=text):
        read_model(broken)


def test_heads_that_are_refused(folder: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "model"))
    about = json.loads((broken / "sescore2.json").read_text())
    del about["files"]  # as if the head had been written so
    (broken / "sescore2.json").write_text(json.dumps(with_checksum(about)))
    state = load_file(broken / "estimator.safetensors")
    assert sorted(state) == sorted(HEAD_NAMES)
    save_file(
        {**state, "0.weight": state["0.weight"][:, :8].contiguous()},
        broken / "estimator.safetensors",
    )
    with pytest.raises(ModelLoadError, match=r"0.weight of the head is \(64, 8\)"):
        read_model(broken)
    (broken / "estimator.safetensors").write_bytes(b"x")
    with pytest.raises(ModelLoadError, match="cannot be read"):
        read_model(broken)


def test_flipped_bits_of_a_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(folder, tmp_path / "model"))

    def bounds() -> object:
        read = read_model(model)
        return read.max_tokens, read.low, read.high

    expected = bounds()
    assert refused_flips(model / "sescore2.json", bounds, expected)
    for name in ("estimator.safetensors", "model.safetensors", "tokenizer.json"):
        assert refused_flips(model / name, bounds, expected, 3) == 3
    (model / "tokenizer.json").unlink()
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json"):
        read_model(model)


def test_a_change_of_the_settings_file_changes_the_digest(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "model"))
    about = json.loads((other / "sescore2.json").read_text())
    (other / "sescore2.json").write_text(json.dumps({**about, "max_tokens": 64}))
    one, two = (load_metric("sescore2", model=str(f)).signature() for f in (folder, other))
    assert one.partition("@")[2] != two.partition("@")[2]


def test_the_golden_checkpoint_names_foreign_classes() -> None:
    assert isinstance(read_torch_checkpoint(CHECKPOINT).root, Stub)
