"""Likelihoods of an encoder-decoder: equal to transformers pair by pair, and the same to the last bit in any batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank.metrics.errors import ModelLoadError
from discorank.metrics.neural.models import seq2seq
from discorank.metrics.neural.models.attention import Attention, Spans
from discorank.metrics.neural.models.linear_products import SLICE
from discorank.metrics.neural.models.pretrained import pretrained
from discorank.metrics.neural.models.prompt_pass import Prompted, PromptPass, batches
from discorank.metrics.neural.models.seq2seq import Seq2Seq, Targets
from discorank.metrics.representations import Ragged

BOUNDED = bounded(max_examples=4, deadline=None, database=None, print_blob=True)
MODELS = Path(__file__).parents[3] / "golden" / "docmetrics" / "models"
FAMILIES = ("tiny-bart", "tiny-mbart50")
every_family = pytest.mark.parametrize("name", FAMILIES)
EOS = 2


@cache
def plain(name: str) -> Any:
    """The model as transformers runs it, its weights made larger so that every part of it counts."""
    model = pretrained(MODELS / name, "AutoModelForSeq2SeqLM")
    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, generator=generator))
        model.final_logits_bias.copy_(
            torch.randn(model.final_logits_bias.shape, generator=generator)
        )
    return model


@cache
def ours(name: str) -> Seq2Seq:
    return Seq2Seq(plain(name), "cpu", "float32")


@contextmanager
def threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def expected(name: str, source: np.ndarray, target: np.ndarray, prefix: int, scored: int) -> float:
    """The sum from one run of the whole model on one pair."""
    if not scored:
        return 0.0
    inputs = np.concatenate((target[-1:], target[:-1]))
    with torch.inference_mode():
        ids, read = (torch.from_numpy(x)[None] for x in (source, inputs))
        logits = plain(name)(input_ids=ids, decoder_input_ids=read, use_cache=False).logits[0]
    values = logits.log_softmax(-1)[torch.arange(len(target)), torch.from_numpy(target)]
    return float(values[prefix - 1 : prefix - 1 + scored].double().sum())


def rows_of(*rows: list[int]) -> Ragged:
    return Ragged.of_rows([np.array(row, np.int64) for row in rows])


tokens = st.lists(st.integers(5, 470), min_size=0, max_size=36)
texts = st.lists(tokens, min_size=1, max_size=4).map(lambda some: [[4, *row, EOS] for row in some])


@st.composite
def targets_of(draw: st.DrawFn) -> Targets:
    """Texts of which some begin alike, with any part scored, or none."""
    heads = [[4], [4, *draw(tokens), 3]]
    ids, prefix, scored = [], [], []
    for _ in range(draw(st.integers(1, 4))):
        head = draw(st.sampled_from(heads))
        row = [*head, *draw(tokens), EOS]
        ids.append(row)
        prefix.append(draw(st.sampled_from([1, len(head), draw(st.integers(1, len(row)))])))
        most = len(row) - prefix[-1] + 1
        scored.append(draw(st.sampled_from([most, most, 1, draw(st.integers(0, most))])))
    return Targets(rows_of(*ids), np.array(prefix), np.array(scored))


def all_pairs(sources: Ragged, targets: Targets) -> np.ndarray:
    return np.array([[s, t] for s in range(len(sources)) for t in range(len(targets.ids))])


@every_family
@given(sources=texts, targets=targets_of())
@BOUNDED
def test_all_pairs_equal_one_pair_at_a_time(
    name: str, sources: list[list[int]], targets: Targets
) -> None:
    ids = rows_of(*sources)
    pairs = all_pairs(ids, targets)
    sums = ours(name).log_likelihoods(ours(name).encode(ids), targets, pairs)
    rows = [np.split(x.values, x.offsets[1:-1]) for x in (ids, targets.ids)]
    wanted = [
        expected(
            name, rows[0][s], rows[1][t], int(targets.prefix_lengths[t]), int(targets.num_scored[t])
        )
        for s, t in pairs.tolist()
    ]
    np.testing.assert_allclose(sums, wanted, rtol=2e-6, atol=1e-5)


@every_family
def test_states_are_those_of_the_encoder(name: str) -> None:
    ids = rows_of([4, 9, 300, 77, EOS], [4, EOS], [4, *range(20, 80), EOS])
    states = ours(name).encode(ids)
    for row in range(3):
        one = ids[np.array([row])].values
        with torch.inference_mode():
            wanted = (
                plain(name)
                .get_encoder()(input_ids=torch.from_numpy(one)[None])
                .last_hidden_state[0]
            )
        np.testing.assert_allclose(
            states[np.array([row])].values, wanted.numpy(), rtol=1e-5, atol=1e-5
        )


def many(seed: int = 1) -> tuple[Ragged, Targets, np.ndarray]:
    """Texts of all kinds of lengths, in three contexts."""
    random = np.random.default_rng(seed)
    heads = [[4], [4, *random.integers(5, 470, 9), 3], [4, *random.integers(5, 470, 31), 3]]
    lengths = (0, 1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 24, 31, 33, 40)
    ids = [[*heads[i % 3], *random.integers(5, 470, n), EOS] for i, n in enumerate(lengths)]
    prefix = np.array([len(heads[i % 3]) for i in range(len(ids))])
    whole = np.array([len(row) for row in ids])
    targets = Targets(rows_of(*ids), prefix, whole - prefix)
    pairs = random.permutation(all_pairs(targets.ids, targets))[:90]
    return targets.ids, targets, pairs


@every_family
def test_a_pair_depends_on_the_pair_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on the budget, the order, the other pairs or the number of threads: to the last bit."""
    sources, targets, pairs = many()
    model = ours(name)
    states = model.encode(sources)
    wanted = model.log_likelihoods(states, targets, pairs)
    order = np.random.default_rng(2).permutation(len(pairs))
    runs = (1, 1, 20), (7, 1, 20), (64, 1, 90), (4096, 1, 90), (700, 2, 60), (4096, 3, 60)
    for budget, count, some in runs:
        monkeypatch.setattr(model, "batch_tokens", budget)
        rows = order[:some]
        with threads(count):
            assert (
                model.log_likelihoods(states, targets, pairs[rows]).tobytes()
                == wanted[rows].tobytes()
            )
    for i, count in zip(order[:6].tolist(), (1, 2, 3) * 2, strict=True):
        with threads(count):
            alone = model.log_likelihoods(
                states[pairs[[i], 0]], targets, np.array([[0, pairs[i, 1]]])
            )
        assert alone.tobytes() == wanted[[i]].tobytes()


@every_family
@pytest.mark.parametrize("count", [1, 2, 3])
def test_states_depend_on_their_text_alone(name: str, count: int) -> None:
    ids, _, _ = many()
    model = ours(name)
    together = model.encode(ids)
    with threads(count):
        assert model.encode(ids).values.tobytes() == together.values.tobytes()
        for row in range(len(ids)):
            alone = model.encode(ids[np.array([row])])
            assert alone.values.tobytes() == together[np.array([row])].values.tobytes()


@every_family
def test_the_vocabulary_in_parts_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, targets, pairs = many()
    model = ours(name)
    states = model.encode(sources)
    wanted = model.log_likelihoods(states, targets, pairs)
    monkeypatch.setattr(model, "head_rows", 16)
    assert model.log_likelihoods(states, targets, pairs).tobytes() == wanted.tobytes()


def pairs_of(rows: Any, targets: Targets) -> Prompted:
    """The targets of pairs of source and target [n, 2] behind their prompts."""
    sources, numbers = np.array(rows).T
    return Prompted(targets.sequences[numbers], targets.prefix_lengths[numbers], sources)


def test_a_pass_reads_what_is_shared_once() -> None:
    head = [4, 10, 11, 12, 3]
    targets = Targets(
        rows_of([*head, 20, EOS], [*head, 21, 22, EOS], [4, 9, EOS], [4, 9, EOS]),
        np.array([5, 5, 1, 9]),
        np.array([2, 3, 2, 0]),
    )
    texts = pairs_of([[0, 0], [0, 1], [1, 1], [0, 2], [1, 3]], targets)
    order = texts.in_order(np.array([6, 8]))
    assert order == [3, 0, 1, 2]
    decoder_pass = PromptPass(texts, order)
    assert decoder_pass.sources.tolist() == [0, 1]
    # with source 0 that of the last target and that of the others, with source 1
    prefixes = [[EOS], [EOS, *head[:-1]], [EOS, *head[:-1]]]
    rests = [[4], [3], [3, 21], [3, 21]]
    read = np.split(decoder_pass.inputs, decoder_pass.spans.start[1:])
    assert [part.tolist() for part in read] == [*prefixes, *rests]
    assert decoder_pass.source_of.tolist() == [0, 0, 1, 0, 0, 0, 1]
    assert targets.num_tokens(np.array([0, 1, 2, 3])) == 5 + 1 + 1 + 2 + 1
    assert decoder_pass.labels.tolist() == [4, 9, 3, 20, 3, 21, 22, 3, 21, 22]


@given(budget=st.integers(1, 400), seed=st.integers(0, 3))
@BOUNDED
def test_batches_keep_their_budget(budget: int, seed: int) -> None:
    ids, targets, rows = many(seed)
    texts = pairs_of(rows, targets)
    order = texts.in_order(ids.lengths)
    parts = list(batches(texts, order, budget, ids.lengths))
    assert [pair for batch in parts for pair in batch] == order
    for batch in parts:
        decoder_pass = PromptPass(texts, batch)
        size = len(decoder_pass.inputs) + int(ids.lengths[decoder_pass.sources].sum())
        assert size <= budget or len(batch) == 1
    assert budget < 60 or len(parts) < len(order)


def test_half_the_pairs_where_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sources, targets, pairs = many()
    model = ours("tiny-bart")
    states = model.encode(sources)
    wanted = model.log_likelihoods(states, targets, pairs)
    run: Callable[..., Any] = model._sums
    sizes = []

    def small(states: Ragged, texts: Prompted, some: Any) -> Any:
        sizes.append(len(some))
        if len(some) > 5:
            raise MemoryError
        return run(states, texts, some)

    monkeypatch.setattr(model, "_sums", small)
    assert model.log_likelihoods(states, targets, pairs).tobytes() == wanted.tobytes()
    assert max(sizes) > 5


@given(data=st.data())
@BOUNDED
def test_attention_is_the_plain_one(data: st.DataObject) -> None:
    """Sequences in any order, after what they follow, against softmax by hand."""
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    n = data.draw(st.integers(1, 5))
    own = data.draw(st.booleans())
    length, ahead = (
        np.array(data.draw(st.lists(st.integers(low, 40), min_size=n, max_size=n)))
        for low in (0, 1)
    )
    queries = Spans.of_lengths(length)
    total = int(length.sum()) + (-int(length.sum())) % 16 or 16
    keys = total if own else 64
    before = Spans(
        random.integers(0, keys - np.minimum(ahead, keys - 1)), np.minimum(ahead, keys - 1)
    )
    q, k, v = (
        torch.from_numpy(random.normal(size=(rows, 2, 4))).float() for rows in (total, keys, keys)
    )
    if not length.any():
        return
    states = Attention(queries, before, total, torch.device("cpu"), own=own)(q, k, v, 0.7)
    for i in range(n):
        start, first = queries.start[i], before.start[i]
        for t in range(length[i]):
            seen = [
                *range(first, first + before.length[i]),
                *(range(start, start + t + 1) if own else ()),
            ]
            weights = torch.softmax(torch.einsum("hd,khd->hk", q[start + t], k[seen]) * 0.7, -1)
            torch.testing.assert_close(
                states[start + t],
                torch.einsum("hk,khd->hd", weights, v[seen]),
                atol=1e-5,
                rtol=1e-5,
            )


def test_another_family_is_refused() -> None:
    config = transformers.T5Config(
        d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=20
    )
    with pytest.raises(ModelLoadError, match="type t5, expected bart or mbart"):
        Seq2Seq(transformers.T5ForConditionalGeneration(config), "cpu", "float32")


def test_rows_looked_at_together_are_a_multiple_of_16() -> None:
    for cells in (1, SLICE * 40, 1 << 24):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(seq2seq, "CPU_CELLS", cells)
            rows = Seq2Seq(plain("tiny-bart"), "cpu", "float32").head_rows
        assert rows % 16 == 0
        assert rows == max(16, cells // SLICE // 16 * 16)
