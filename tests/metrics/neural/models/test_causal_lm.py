"""The runner of causal models: transformers' own loss, shared prompts against plain passes, bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from discorank.metrics.errors import ModelLoadError
from discorank.metrics.neural.models.causal_lm import CausalLM
from discorank.metrics.neural.models.prompt_pass import Prompted, PromptPass, batches
from discorank.metrics.representations import FloatArray, IntArray, Ragged
from tests.support.tiny_causal import WINDOW, causal_model

VOCABULARY = 97
PACKED = ("llama", "gemma3", "gpt2", "qwen2")
PLAIN = ("gemma2", "mixtral")

BOUNDED = settings(max_examples=4, deadline=None, database=None)
tokens = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=30)
lists = st.lists(
    st.tuples(tokens, st.lists(tokens, min_size=1, max_size=4)), min_size=1, max_size=3
)


@cache
def plain_model(family: str) -> Any:
    return causal_model(family, VOCABULARY)


@cache
def runner(family: str) -> CausalLM:
    return CausalLM(causal_model(family, VOCABULARY), "cpu", "float32")


def prompted(prompts: Sequence[tuple[list[int], list[list[int]]]]) -> Prompted:
    """Every text behind its prompt."""
    ids, first = [], []
    for prompt, texts in prompts:
        for text in texts:
            ids.append(np.array(prompt + text, np.int64))
            first.append(len(prompt))
    return Prompted(Ragged.of_rows(ids), np.array(first, np.int64))


def rows_of(values: Ragged) -> list[FloatArray]:
    return np.split(values.values, values.offsets[1:-1])


def forward(family: str, ids: IntArray, first: int) -> FloatArray:
    """One plain pass of transformers."""
    with torch.no_grad():
        logits = plain_model(family)(torch.from_numpy(ids)[None]).logits[0]
    log_probabilities = logits.double().log_softmax(-1).numpy()
    scored: FloatArray = log_probabilities[np.arange(first - 1, len(ids) - 1), ids[first:]]
    return scored


@pytest.mark.parametrize("family", [*PACKED, *PLAIN])
def test_the_mean_is_the_loss_of_transformers(family: str) -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, VOCABULARY, 5 * WINDOW)
    with torch.no_grad():
        tensor = torch.from_numpy(ids)[None]
        loss = float(plain_model(family)(tensor, labels=tensor).loss)
    values = runner(family).log_probabilities(Prompted(Ragged.of_rows([ids]), np.array([1])))
    assert len(values.values) == len(ids) - 1
    assert -values.values.mean() == pytest.approx(loss, rel=1e-5)


def test_which_models_run_packed() -> None:
    assert [runner(family).packed for family in PACKED] == [True] * len(PACKED)
    assert [runner(family).packed for family in PLAIN] == [False] * len(PLAIN)


@pytest.mark.parametrize(("shift", "places", "packed"), [(0.2, 100, False), (0.3, 1, True)])
def test_in_bfloat16_a_token_may_round_otherwise_but_not_all_of_them(
    monkeypatch: pytest.MonkeyPatch, shift: float, places: int, packed: bool
) -> None:
    own = CausalLM._packed

    def moved(self: CausalLM, *work: Any) -> list[FloatArray]:
        values = own(self, *work)
        values[0][:places] -= shift
        for more in values[1:] if places > 1 else ():
            more -= shift
        return values

    monkeypatch.setattr(CausalLM, "_packed", moved)
    assert CausalLM(causal_model("llama", VOCABULARY), "cpu", "bfloat16").packed == packed


@pytest.mark.parametrize("family", [*PACKED, "gemma2"])
@given(prompts=lists)
@BOUNDED
def test_shared_prompts_equal_a_plain_pass_per_text(
    family: str, prompts: list[tuple[list[int], list[list[int]]]]
) -> None:
    texts = prompted(prompts)
    values = rows_of(runner(family).log_probabilities(texts))
    for row, of_row in enumerate(values):
        ids = texts.ids.values[texts.ids.offsets[row] : texts.ids.offsets[row + 1]]
        expected = forward(family, ids, int(texts.first[row]))
        np.testing.assert_allclose(of_row, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", PLAIN)
def test_a_plain_pass_has_logits_of_scored_tokens_alone(family: str, dtype: Any) -> None:
    model = CausalLM(causal_model(family, VOCABULARY), "cpu", dtype)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, 71)
    texts = Prompted(Ragged.of_rows([ids, ids[:50]]), np.array([6, 40]))
    model.head_rows = 16
    rows: list[int] = []
    counting = model.head.register_forward_hook(
        lambda _, inputs, __: rows.append(inputs[0].numel() // inputs[0].shape[-1])
    )
    values = model.log_probabilities(texts).values
    counting.remove()
    assert rows == [16] * 6  # 65 and 10 tokens
    model.knows_head = False
    assert values.tobytes() == model.log_probabilities(texts).values.tobytes()


def test_a_head_that_is_not_known_is_asked_for_all_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CausalLM, "_logits", lambda self, states: 2 * self.head(states))
    model = CausalLM(causal_model("gemma2", VOCABULARY), "cpu", "float32")
    assert not model.knows_head
    ids = np.arange(30) % VOCABULARY
    values = model.log_probabilities(Prompted(Ragged.of_rows([ids]), np.array([3]))).values
    np.testing.assert_allclose(values, forward("gemma2", ids, 3), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", PACKED)
@given(prompts=lists, data=st.data())
@BOUNDED
def test_batches_and_order_change_no_bit(
    family: str, dtype: Any, prompts: list[tuple[list[int], list[list[int]]]], data: st.DataObject
) -> None:
    texts = prompted(prompts)
    model = _runner(family, dtype)
    together = rows_of(model.log_probabilities(texts))
    order = data.draw(st.permutations(range(len(together))))
    model.batch_tokens = data.draw(st.sampled_from([1, 40, 4096]))
    model.head_rows = data.draw(st.sampled_from([16, 64]))
    rows = np.array(order)
    shuffled = rows_of(model.log_probabilities(Prompted(texts.ids[rows], texts.first[rows])))
    for place, row in enumerate(order):
        assert shuffled[place].tobytes() == together[row].tobytes()


@cache
def _runner(family: str, dtype: Any) -> CausalLM:
    return CausalLM(causal_model(family, VOCABULARY), "cpu", dtype)


def test_nothing_scored_is_an_empty_row() -> None:
    texts = prompted([([3, 4], [[], [5]])])
    values = rows_of(runner("llama").log_probabilities(texts))
    assert [len(row) for row in values] == [0, 1]


def test_a_prompt_is_read_once() -> None:
    texts = prompted([([3, 4, 5], [[6, 7], [6, 8, 9], [10]]), ([3, 4], [[6]])])
    order = texts.in_order()
    assert order == [3, 2, 0, 1]
    read = PromptPass(texts, order)
    assert read.inputs.tolist() == [3, 4, 3, 4, 5, 6, 6, 8]
    assert read.places.tolist() == [0, 1, 0, 1, 2, 3, 3, 4]
    assert read.labels.tolist() == [6, 10, 6, 7, 6, 8, 9]
    # The first scored token of every text by the last state of its prompt, the others by those before them.
    assert read.scored_by.tolist() == [0, 1, 1, 2, 1, 3, 4]


def test_batches_count_a_shared_prompt_once() -> None:
    texts = prompted([([3] * 10, [[6, 7], [6, 8], [9, 9]])])
    assert [list(batch) for batch in batches(texts, texts.in_order(), 13)] == [[0, 1, 2]]
    assert [list(batch) for batch in batches(texts, texts.in_order(), 12)] == [[0, 1], [2]]
    assert [list(batch) for batch in batches(texts, texts.in_order(), 1)] == [[0], [1], [2]]


def test_flops_count_a_prompt_once() -> None:
    model = runner("llama")
    width, feed_forward, layers = 32, 48, 3
    products = layers * (4 * width * width + 3 * width * feed_forward)
    flops = model.flops(np.array([10]), np.array([[10, 3], [10, 5]]))
    attention = layers * 2 * width * (10 * 10 + 3 * 3 + 5 * 5 + 10 * 3 + 10 * 5)
    head = width * VOCABULARY * (1 + 2 + 4)
    assert flops == 2 * (products * (10 + 3 + 5) + attention + head)


def test_a_model_without_a_head_is_refused() -> None:
    import transformers

    config = transformers.GPT2Config(vocab_size=97, n_embd=32, n_layer=1, n_head=4)
    with pytest.raises(ModelLoadError, match="no head"):
        CausalLM(transformers.GPT2Model(config), "cpu", "float32")


def test_a_model_that_reads_what_follows_is_refused() -> None:
    import transformers as library

    transformers: Any = library
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = transformers.BertConfig(vocab_size=97, intermediate_size=48, **sizes)
    with torch.no_grad():
        model = transformers.BertLMHeadModel(config)
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    with pytest.raises(ModelLoadError, match="no causal model"):
        CausalLM(model, "cpu", "float32")


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_positions_that_are_stretched_depend_on_their_text_alone(kind: str) -> None:
    """Beside a text beyond the original positions, and after it, a text is what transformers makes of it alone."""
    parameters: dict[str, Any] = {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0}
    if kind == "longrope":
        parameters |= {"short_factor": [1.0] * 4, "long_factor": [8.0] * 4}
        parameters["original_max_position_embeddings"] = 32
    positions = 32 if kind == "dynamic" else 128
    settings: dict[str, Any] = {"rope_parameters": parameters, "max_position_embeddings": positions}
    rng = np.random.default_rng(0)
    # Lengths below, near and beyond the original positions.
    rows = [rng.integers(0, VOCABULARY, length) for length in (12, 30, 100, 60, 12)]
    texts = Prompted(Ragged.of_rows(rows), np.ones(len(rows), np.int64))
    model = CausalLM(causal_model("llama", VOCABULARY, **settings), "cpu", "float32")
    assert not model.packed
    values = rows_of(model.log_probabilities(texts))
    longest, shorter = (Prompted(Ragged.of_rows([rows[i]]), np.array([1])) for i in (2, 3))
    model.log_probabilities(longest)
    assert model.log_probabilities(shorter).values.tobytes() == values[3].tobytes()
    for of_row, ids in zip(values, rows, strict=True):
        fresh = causal_model("llama", VOCABULARY, **settings)
        tensor = torch.from_numpy(ids)[None]
        with torch.no_grad():
            logits = fresh(tensor[:, :-1]).logits[0]
        expected = logits.double().log_softmax(-1).numpy()[np.arange(len(ids) - 1), ids[1:]]
        np.testing.assert_allclose(of_row, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("positions", [8, 20, 40])
def test_a_model_with_few_positions_reads_all_of_them(positions: int) -> None:
    ids = np.arange(positions + 1) % VOCABULARY
    model = CausalLM(causal_model("gpt2", VOCABULARY, n_positions=positions), "cpu", "float32")
    texts = Prompted(Ragged.of_rows([ids]), np.array([1]))
    assert model.packed
    packed = model.log_probabilities(texts).values
    model.packed = False
    model.model.set_attn_implementation("sdpa")
    np.testing.assert_allclose(model.log_probabilities(texts).values, packed, rtol=1e-5, atol=1e-5)
