"""Trains the encoders: two-layer bidirectional GRUs that tag words and say where EDUs begin; see `weights`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....representations import Array
from ..parser_features import TABLES, sentence_numbers
from .settings import ParserTraining
from .treebank import Sentence

if TYPE_CHECKING:
    import torch


WIDTHS = (40, 24, 12, 12, 4)  # of the tables
UNITS = 64
TAG_SHARE = 0.5
DROPOUT, WORD_DROPOUT = 0.4, 0.15
RATE, LAST_RATE, BATCH = 2e-3, 1e-4, 32
NOT_COUNTED = -100  # the tag that torch's cross-entropy passes over
_GRU_ARRAYS = {  # our names of the arrays of a layer, and torch's
    "w": "weight_ih_l0",
    "u": "weight_hh_l0",
    "b": "bias_ih_l0",
    "c": "bias_hh_l0",
}


class _Batch(NamedTuple):
    numbers: torch.Tensor  # [tables, sentences, words]
    begins: torch.Tensor  # [sentences, words] 1 where an EDU begins
    counted: torch.Tensor  # [sentences, words] 1 where that is a question
    tags: torch.Tensor  # [sentences, words] `NOT_COUNTED` behind the end


def train_encoders(
    settings: ParserTraining,
    sentences: Sequence[Sentence],
    gold_tags: Sequence[Sequence[str]],
    tags: Sequence[str],
    say: Callable[[str], None],
) -> dict[str, Array]:
    """The arrays of all members, as `weights.build` reads them."""
    import torch

    number_of_tag = {tag: i for i, tag in enumerate(tags)}
    # sentences of about one length in a batch
    pairs = list(zip(sentences, gold_tags, strict=True))
    pairs.sort(key=lambda pair: len(pair[0].words))
    batches = []
    for begin in range(0, len(pairs), BATCH):
        batches.append(_batch(pairs[begin : begin + BATCH], number_of_tag))
    members = []
    for member in range(settings.encoders):
        torch.manual_seed(settings.seed * 100 + member)
        net = _network(len(tags))
        for epoch in range(settings.encoder_epochs):
            rate = RATE * (1 - epoch / settings.encoder_epochs) + LAST_RATE
            loss = _epoch(net, batches, rate)
            say(f"encoder {member + 1}, epoch {epoch + 1}: loss {loss:.3f}")
        members.append(_arrays(net))
    return {name: np.stack([member[name] for member in members]) for name in members[0]}


def _batch(
    pairs: Sequence[tuple[Sentence, Sequence[str]]],
    number_of_tag: Mapping[str, int],
) -> _Batch:
    """Sentences with the tags of their words, filled up to the longest."""
    import torch

    longest = max(len(sentence.words) for sentence, _ in pairs)
    shape = (len(pairs), longest)
    numbers = np.zeros((len(TABLES), *shape), np.int64)
    begins = np.zeros(shape, np.float32)
    counted = np.zeros(shape, np.float32)
    tags = np.full(shape, NOT_COUNTED)
    for i, (sentence, gold) in enumerate(pairs):
        length = len(sentence.words)
        numbers[:, i, :length] = sentence_numbers(sentence.words)
        begins[i, sentence.starts[:-1]] = 1
        # the first word always begins an EDU: that is no question
        counted[i, 1:length] = 1
        tags[i, :length] = [number_of_tag[tag] for tag in gold]
    return _Batch(
        torch.from_numpy(numbers),
        torch.from_numpy(begins),
        torch.from_numpy(counted),
        torch.from_numpy(tags),
    )


def _network(num_tags: int) -> Any:
    """One member, with random weights; its parts are named as in `..weights`."""
    from torch import nn

    tables = [nn.Embedding(rows, width) for rows, width in zip(TABLES, WIDTHS, strict=True)]
    for table in tables:
        nn.init.normal_(table.get_parameter("weight"), 0, 0.3)
    inputs = sum(WIDTHS)
    states = 2 * UNITS  # of both directions
    parts = {
        "tables": nn.ModuleList(tables),
        "lower": nn.GRU(inputs, UNITS, bidirectional=True, batch_first=True),
        "tag": nn.Linear(states, num_tags),
        "upper": nn.GRU(states + num_tags, UNITS, bidirectional=True, batch_first=True),
        "cut": nn.Linear(states, 1),
        "dropout": nn.Dropout(DROPOUT),
    }
    return nn.ModuleDict(parts)


def _forward(net: Any, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Boundary logits [sentences, words] and tag logits [sentences, words, tags] from [tables, sentences, words]."""
    import torch

    dropout = net["dropout"]
    # rows of the tables; whole words are dropped from the first, so that endings and shapes learn to do without
    columns = [table(rows) for table, rows in zip(net["tables"], numbers, strict=True)]
    known = torch.rand(numbers.shape[1:]) >= WORD_DROPOUT
    columns[0] = columns[0] * known[..., None]
    inputs = torch.cat(columns, -1)
    # lower layer: tags
    lower, _ = net["lower"](dropout(inputs))
    states = dropout(lower)
    tags = net["tag"](states)
    # upper layer, which sees the tags: boundaries
    shares = tags.softmax(-1)
    upper, _ = net["upper"](torch.cat([states, shares], -1))
    cuts = net["cut"](dropout(upper))
    return cuts[..., 0], tags


def _epoch(net: Any, batches: Sequence[_Batch], rate: float) -> float:
    """One pass over the batches in random order; returns the mean loss."""
    import torch

    if not hasattr(net, "optimizer"):
        net.optimizer = torch.optim.Adam(net.parameters())
    for group in net.optimizer.param_groups:
        group["lr"] = rate
    net.train()
    total = 0.0
    for i in torch.randperm(len(batches)).tolist():
        loss = _loss(net, batches[i])
        net.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        net.optimizer.step()
        total += loss.item()
    return total / len(batches)


def _loss(net: Any, batch: _Batch) -> torch.Tensor:
    """The mean cross-entropy of boundaries, plus `TAG_SHARE` of that of tags."""
    from torch.nn import functional

    cuts, tags = _forward(net, batch.numbers)
    of_cuts = functional.binary_cross_entropy_with_logits(cuts, batch.begins, reduction="none")
    of_tags = functional.cross_entropy(tags.flatten(0, 1), batch.tags.flatten())
    num_counted = batch.counted.sum().clamp(min=1)
    return (of_cuts * batch.counted).sum() / num_counted + TAG_SHARE * of_tags


def _arrays(net: Any) -> dict[str, Array]:
    """One member's weights in the layout of `..weights`."""
    arrays = {f"table{i}": _plain(table.weight) for i, table in enumerate(net["tables"])}
    for layer in ("lower", "upper"):
        for ours, theirs in _GRU_ARRAYS.items():
            forward = _plain(getattr(net[layer], theirs))
            backward = _plain(getattr(net[layer], f"{theirs}_reverse"))
            both = np.stack([forward, backward])
            # a matrix [2, 3H, D] becomes [2, D, 3H], a bias [2, 3H] becomes [2, 1, 3H]
            is_matrix = both.ndim == 3
            arrays[f"{layer}.{ours}"] = both.transpose(0, 2, 1) if is_matrix else both[:, None]
    for head in ("tag", "cut"):
        arrays[f"{head}.w"] = _plain(net[head].weight).T
        arrays[f"{head}.b"] = _plain(net[head].bias)[None]
    return arrays


def _plain(tensor: Any) -> Array:
    array: Array = tensor.detach().numpy().copy()
    return array
