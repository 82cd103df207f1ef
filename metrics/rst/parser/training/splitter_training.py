"""Trains the splitters: bags of hashed features that score where a span is cut, and the label of the node.

The network is that of `..weights`. Rows of features that training never meets stay zero, so that they say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....representations import Array, IntArray
from ..parser_features import SPLIT_ROWS
from .settings import ParserTraining

if TYPE_CHECKING:
    import torch


WIDTH = 24
DROPOUT, FEATURE_DROPOUT = 0.4, 0.2
RATE, LAST_RATE, BATCH = 3e-3, 1e-4, 64


class Example(NamedTuple):
    """A node: the feature rows of every way to cut its span, the right one and its label."""

    splits: list[IntArray]  # rows of the features of every split
    gold: int  # place in `splits`
    label: int


def train_splitters(
    settings: ParserTraining,
    examples: Sequence[Example],
    num_labels: int,
    say: Callable[[str], None],
) -> dict[str, Array]:
    """The arrays of all members side by side, as `weights.build` reads them."""
    import torch

    is_met = np.zeros((SPLIT_ROWS, 1), np.float32)
    for example in examples:
        is_met[np.concatenate(example.splits)] = 1
    members = []
    for member in range(settings.splitters):
        torch.manual_seed(settings.seed * 100 + 50 + member)
        net = _network(num_labels, torch.from_numpy(is_met))
        for epoch in range(settings.splitter_epochs):
            rate = RATE * (1 - epoch / settings.splitter_epochs) + LAST_RATE
            loss = _epoch(net, examples, rate)
            say(f"splitter {member + 1}, epoch {epoch + 1}: loss {loss:.3f}")
        state = net.state_dict()
        members.append({name: value.detach().numpy().copy() for name, value in state.items()})
    return {
        "table.split": np.concatenate([member["table.weight"] for member in members], axis=1),
        "split.b": np.concatenate([member["bias"] for member in members]),
        "split.w": np.concatenate([member["out.weight"].T for member in members]) / len(members),
        "split.c": np.mean([member["out.bias"] for member in members], axis=0),
    }


def _network(num_labels: int, is_met: torch.Tensor) -> Any:
    """One member; rows of its table are random where `is_met` [rows, 1] is 1, and zero where it is 0."""
    import torch
    from torch import nn

    net = nn.Module()
    net.table = nn.EmbeddingBag(SPLIT_ROWS, WIDTH, mode="sum")
    net.bias = nn.Parameter(torch.zeros(WIDTH))
    net.out = nn.Linear(WIDTH, 1 + num_labels)
    with torch.no_grad():
        net.table.weight.copy_(torch.randn(SPLIT_ROWS, WIDTH) * 0.05 * is_met)
    return net


def _epoch(net: Any, examples: Sequence[Example], rate: float) -> float:
    """One pass over the examples in random order; returns the mean loss."""
    import torch

    if not hasattr(net, "optimizer"):
        net.optimizer = torch.optim.Adam(net.parameters())
    for group in net.optimizer.param_groups:
        group["lr"] = rate
    total = 0.0
    order = torch.randperm(len(examples)).tolist()
    for i in range(0, len(order), BATCH):
        batch = [examples[k] for k in order[i : i + BATCH]]
        loss = _loss(net, batch)
        net.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        net.optimizer.step()
        total += loss.item()
    return total * BATCH / len(order)


def _loss(net: Any, batch: Sequence[Example]) -> torch.Tensor:
    """The mean over nodes of the cross-entropies of split and label."""
    import torch
    from torch.nn import functional

    # the node of every split, and the gold split of every node  # [splits], [nodes]
    num_splits = torch.tensor([len(example.splits) for example in batch])
    node = torch.repeat_interleave(torch.arange(len(batch)), num_splits)
    first_split = num_splits.cumsum(0) - num_splits
    gold = first_split + torch.tensor([example.gold for example in batch])
    # cross-entropy of the splits: a softmax over those of each node
    scores = _scores(net, batch)
    logits = scores[:, 0]
    lowest = torch.full((len(batch),), -torch.inf)
    largest = lowest.scatter_reduce(0, node, logits, "amax").detach()
    shares = (logits - largest[node]).exp()
    log_total = torch.zeros(len(batch)).index_add(0, node, shares).log() + largest
    of_splits = (log_total - logits[gold]).sum()
    # cross-entropy of the labels of the gold splits
    labels = torch.tensor([example.label for example in batch])
    of_labels = functional.cross_entropy(scores[gold, 1:], labels, reduction="sum")
    loss: torch.Tensor = (of_splits + of_labels) / len(batch)
    return loss


def _scores(net: Any, batch: Sequence[Example]) -> torch.Tensor:
    """Logits of every split of every node and of its labels, with dropout, [splits, 1 + labels]."""
    import torch
    from torch.nn import functional

    rows = [split for example in batch for split in example.splits]
    lengths = [len(row) for row in rows]
    offsets = torch.from_numpy(np.cumsum([0, *lengths[:-1]]))
    values = torch.from_numpy(np.concatenate(rows))
    remaining = torch.rand(len(values)) >= FEATURE_DROPOUT
    feature_weights = remaining / (1 - FEATURE_DROPOUT)
    hidden = torch.relu(net.table(values, offsets, feature_weights) + net.bias)
    scores: torch.Tensor = net.out(functional.dropout(hidden, DROPOUT))
    return scores
