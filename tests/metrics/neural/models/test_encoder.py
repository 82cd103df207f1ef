"""The encoder: states as transformers gives them, byte for byte the same in any company, and models that do not fit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from discorank import InputError, ModelLoadError
from discorank.metrics.neural.models.attention import Packing, Slab, slabs_of
from discorank.metrics.neural.models.encoder import PACKED, Encoder, device_of
from discorank.metrics.neural.models.pretrained import from_state, pretrained, tokenizer_of
from discorank.metrics.representations import Ragged

MODELS = Path(__file__).parents[3] / "golden" / "docmetrics" / "models"
SHAPE: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 80,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
DISTIL = {"dim": 32, "n_layers": 3, "n_heads": 2, "hidden_dim": 64}
FAMILIES: dict[str, dict[str, Any]] = {  # what differs from SHAPE
    "bert": {"pad_token_id": 0},
    "roberta": {},
    "xlm-roberta": {},
    "camembert": {},
    "electra": {"embedding_size": 16, "pad_token_id": 0},
    "distilbert": {**DISTIL, "pad_token_id": 0},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "pad_token_id": 0},
    "xlm-roberta-xl": {},
    "mpnet": {},
    "albert": {"embedding_size": 16, "pad_token_id": 0},
}
every_family = pytest.mark.parametrize("family", FAMILIES)
LENGTHS = [3, 7, 7, 16, 33, 2, 31, 1, 48, 7]


def made(family: str, **more: Any) -> Any:
    """A random model of a family."""
    torch.manual_seed(7)
    shape = {
        key: value for key, value in SHAPE.items() if family != "distilbert" or "hidden" not in key
    }
    shape = (
        shape
        if family != "distilbert"
        else {k: v for k, v in shape.items() if not k.startswith("num_")}
    )
    config = transformers.AutoConfig.for_model(family, **{**shape, **FAMILIES[family], **more})
    return transformers.AutoModel.from_config(config).eval()  # type: ignore[no-untyped-call]


def saved(model: Any, folder: Path) -> Path:
    """The folder of a model, as `save_pretrained` writes it, without its progress bars."""
    folder.mkdir(exist_ok=True)
    model.config.save_pretrained(folder)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def some_ids(lengths: Sequence[int] = LENGTHS, vocabulary: int = 60) -> Ragged:
    rng = np.random.default_rng(len(lengths))
    return Ragged.of_rows([rng.integers(5, vocabulary, n) for n in lengths])


def states(
    encoder: Encoder, ids: Ragged, rows: Sequence[int] | None = None
) -> dict[int, list[Any]]:
    """States of every layer of every row, or of some rows, encoded together."""
    chosen = np.array(range(len(ids)) if rows is None else rows)
    by_row: dict[int, list[Any]] = {}
    for places, layers in encoder.states(ids[chosen], all_layers=True).by_length():
        by_row |= {
            int(chosen[place]): [layer[i] for layer in layers] for i, place in enumerate(places)
        }
    return by_row


def as_bytes(by_row: dict[int, list[Any]]) -> dict[int, list[bytes]]:
    return {
        row: [layer.numpy().tobytes() for layer in layers] for row, layers in sorted(by_row.items())
    }


@pytest.fixture
def threads() -> Iterator[None]:
    """Puts the number of threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@every_family
def test_states_are_those_of_a_padded_forward(family: str) -> None:
    plain, ids = made(family), some_ids()
    wanted = []
    width = max(LENGTHS)
    tokens = torch.full((len(ids), width), plain.config.pad_token_id)
    for i, (a, b) in enumerate(zip(ids.offsets[:-1], ids.offsets[1:], strict=True)):
        tokens[i, : b - a] = torch.from_numpy(ids.values[a:b])
    mask = torch.arange(width) < torch.tensor(LENGTHS)[:, None]
    with torch.inference_mode():
        wanted = plain(
            input_ids=tokens, attention_mask=mask.long(), output_hidden_states=True
        ).hidden_states
    encoder = Encoder(plain, "cpu", "float32")
    assert encoder.packed == (family in PACKED)
    by_row = states(encoder, ids)
    assert sorted(by_row) == list(range(len(ids)))
    for row, layers in by_row.items():
        assert len(layers) == len(wanted) == 4
        for layer, want in zip(layers, wanted, strict=True):
            torch.testing.assert_close(layer, want[row, : LENGTHS[row]], atol=1e-5, rtol=0)


def company_does_not_matter(encoder: Encoder, ids: Ragged, ways: Sequence[tuple[int, int]]) -> None:
    """Whether states are the same bytes for some (number of threads, rows at a time), in any order."""
    wanted = as_bytes(states(encoder, ids))
    for count, size in ways:
        torch.set_num_threads(count)
        order = np.random.default_rng(count).permutation(len(ids)).tolist()
        by_row: dict[int, list[Any]] = {}
        for start in range(0, len(order), size):
            by_row |= states(encoder, ids, order[start : start + size])
        differ = [row for row, layers in as_bytes(by_row).items() if layers != wanted[row]]
        assert not differ, (
            f"{count} threads, {size} rows at a time: rows {differ} of lengths {ids.lengths[differ]}"
        )


@every_family
def test_states_do_not_depend_on_their_company(family: str, threads: None) -> None:
    encoder = Encoder(made(family), "cpu", "float32")
    company_does_not_matter(encoder, some_ids(), [(1, 1), (2, 7), (3, 64)])


def test_wide_states_do_not_depend_on_their_company(threads: None) -> None:
    """A width at which products are split over threads and blocks."""
    encoder = Encoder(
        made("xlm-roberta", hidden_size=384, intermediate_size=1536), "cpu", "float32"
    )
    ids = some_ids([*range(2, 50, 5), *[20] * 6, 70, 70])
    company_does_not_matter(encoder, ids, [(1, 1), (2, 7), (4, 64)])


@pytest.mark.parametrize("heads", [8, 4])
def test_states_of_narrow_heads_do_not_depend_on_their_company(heads: int, threads: None) -> None:
    """Heads of 4 and 8 numbers: torch's attention is not the same for one thread and for two there."""
    encoder = Encoder(made("bert", num_attention_heads=heads), "cpu", "float32")
    company_does_not_matter(encoder, some_ids([*range(1, 36)]), [(1, 7), (2, 64)])


@every_family
@pytest.mark.parametrize("layer", [0, 2])
def test_an_encoder_is_cut_at_its_layer(family: str, layer: int) -> None:
    ids = some_ids()
    wanted = states(Encoder(made(family), "cpu", "float32"), ids)
    encoder = Encoder(made(family), "cpu", "float32", layer)
    assert encoder.layer == layer
    rows = 0
    for places, (last,) in encoder.states(ids).by_length():
        for i, place in enumerate(places.tolist()):
            assert torch.equal(last[i], wanted[place][layer])
            rows += 1
    assert rows == len(ids)
    assert {len(layers) for layers in states(encoder, ids).values()} == {layer + 1}


@pytest.mark.parametrize("layer", [-1, 4, 99])
def test_a_layer_that_is_not_there(layer: int) -> None:
    with pytest.raises(InputError, match=f"layer {layer} of .*3 layers"):
        Encoder(made("bert"), "cpu", "float32", layer)


@every_family
def test_the_longest_sequence_has_positions(family: str) -> None:
    encoder = Encoder(made(family), "cpu", "float32")
    assert encoder.max_tokens <= 80
    assert np.isfinite(states(encoder, some_ids([encoder.max_tokens]))[0][-1].numpy()).all()
    assert encoder.max_tokens == (80 if encoder.config.pad_token_id == 0 else 78)


@pytest.mark.parametrize("name", ["cuda:7", "banana", "cpu:x", ""])
def test_a_device_that_is_not_there(name: str) -> None:
    if name == "":
        assert device_of(name).type in ("cpu", "cuda")
        return
    if name.startswith("cuda") and torch.cuda.device_count() > 7:
        pytest.skip("there is such a device")
    with pytest.raises(InputError, match=f"device '{name}'"):
        device_of(name)


def test_half_precision_runs_and_differs() -> None:
    ids = some_ids()
    wanted = states(Encoder(made("bert"), "cpu", "float32"), ids)
    by_row = states(Encoder(made("bert"), "cpu", "bfloat16"), ids)
    for row, layers in by_row.items():
        assert layers[-1].dtype == torch.float32
        assert not torch.equal(layers[-1], wanted[row][-1])
        torch.testing.assert_close(layers[-1], wanted[row][-1], atol=0.1, rtol=0.1)


@every_family
def test_a_folder_of_every_family_loads(family: str, tmp_path: Path) -> None:
    model = made(family)
    folder = saved(model, tmp_path / "model")
    loaded = pretrained(folder).state_dict()
    own = {
        name: value for name, value in model.state_dict().items() if not name.startswith("pooler.")
    }
    assert loaded.keys() == own.keys()
    assert all(torch.equal(loaded[name], value) for name, value in own.items())
    again = from_state(folder, own).state_dict()
    assert all(torch.equal(again[name], value) for name, value in own.items())


WORD, BIAS = "embeddings.word_embeddings.weight", "encoder.layer.1.output.dense.bias"


@pytest.mark.parametrize(
    ("left_out", "changed", "found"),
    [
        ([BIAS], {}, [BIAS]),
        ([], {"other": 0, "more": 0}, ["more", "other"]),
        ([], {WORD: 1}, [WORD, "481, 32"]),
        ([BIAS], {"other": 0}, [BIAS, "other"]),
    ],
)
def test_missing_extra_and_misshapen_weights_are_named(
    left_out: list[str], changed: dict[str, int], found: list[str]
) -> None:
    folder = MODELS / "tiny-xlmr"
    state = {}
    for name, value in load_file(folder / "model.safetensors").items():
        if "pooler" not in name:
            state[name.removeprefix("roberta.")] = value
    assert from_state(folder, state).state_dict().keys() == state.keys()
    kept = {name: value for name, value in state.items() if name not in left_out}
    kept |= {name: state[WORD][first:] for name, first in changed.items()}
    with pytest.raises(ModelLoadError) as caught:
        from_state(folder, kept)
    assert all(fact in str(caught.value) for fact in found)


def test_the_precision_that_a_configuration_names_is_not_that_of_the_weights(
    tmp_path: Path,
) -> None:
    folder = Path(shutil.copytree(MODELS / "tiny-xlmr", tmp_path / "encoder"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float16"}))
    state = pretrained(folder).state_dict()
    loaded = from_state(folder, state).state_dict()
    assert {value.dtype for value in loaded.values()} == {torch.float32}
    assert all(torch.equal(loaded[name], value) for name, value in state.items())


def test_a_folder_that_lacks_weights(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(MODELS / "tiny-bert", tmp_path / "model"))
    state = load_file(folder / "model.safetensors")
    del state["encoder.layer.2.output.dense.weight"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelLoadError, match=r"encoder\.layer\.2\.output\.dense\.weight"):
        pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 48}))
    with pytest.raises(ModelLoadError, match=str(tmp_path)):
        pretrained(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelLoadError, match=str(tmp_path)):
        pretrained(folder)


def test_no_folder_of_a_model(tmp_path: Path) -> None:
    for load in (pretrained, tokenizer_of, lambda folder: from_state(folder, {})):
        with pytest.raises(ModelLoadError, match=str(tmp_path)):
            load(tmp_path)


def test_values_of_sequences_as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of about one length, and sums in one call, give what slabs of one length give."""
    lengths = np.array(LENGTHS)
    heads = torch.randn(
        3, lengths.sum() + -lengths.sum() % 16, 2, 16, generator=torch.Generator().manual_seed(0)
    )
    x = heads[0].flatten(1)
    bias = torch.arange(48.0) / 48

    def added(length: int) -> Any:
        return (bias[:length, None] - bias[None, :length]).expand(2, -1, -1)

    def values(bias: Any) -> list[Any]:
        packing = Packing(lengths, torch.device("cpu"), bias)
        states = packing(heads[0], heads[1], heads[2], 0.25)[: lengths.sum()]
        return [states, packing.sums(x), packing.means(x), packing.reduced(x, "max")]

    wanted = [values(bias) for bias in (None, added)]
    monkeypatch.setattr(Packing, "on_cpu", False)
    for bias_of, expected in zip((None, added), wanted, strict=True):
        for value, want in zip(values(bias_of), expected, strict=True):
            torch.testing.assert_close(value, want)


@pytest.mark.parametrize("family", ["bert", "deberta-v2", "mpnet"])
def test_states_as_on_a_gpu(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = some_ids()
    wanted = states(Encoder(made(family), "cpu", "float32"), ids)
    for kind in (Packing, Encoder):
        monkeypatch.setattr(kind, "on_cpu", False)
    for row, layers in states(Encoder(made(family), "cpu", "float32"), ids).items():
        for layer, want in zip(layers, wanted[row], strict=True):
            torch.testing.assert_close(layer, want, atol=1e-5, rtol=0)


def test_slabs() -> None:
    assert slabs_of([2, 2, 5, 7, 7, 7]) == [Slab(0, 2, 2), Slab(4, 1, 5), Slab(9, 3, 7)]
    assert slabs_of([]) == []
    rows = Slab(1, 2, 3).rows(torch.arange(14).view(7, 2))
    assert rows.tolist() == [[[2, 3], [4, 5], [6, 7]], [[8, 9], [10, 11], [12, 13]]]
