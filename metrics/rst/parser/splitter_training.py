"""Trains the splitters: bags of hashed features that score where a span is cut, and the label of the node; see
`network`.

Rows of features that training never meets stay zero, so that they say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...representations import Array, IntArray
from .parser_features import SPLIT_ROWS

if TYPE_CHECKING:
    import torch

    from .parser_training import ParserTraining

WIDTH = 24
DROPOUT, FEATURE_DROPOUT = 0.4, 0.2
RATE, LAST_RATE, BATCH = 3e-3, 1e-4, 64


class Example(NamedTuple):
    """A node: the feature rows of every way to cut its span, the right one and its label."""

    splits: list[IntArray]
    gold: int
    label: int


def train_splitters(
    how: ParserTraining, examples: Sequence[Example], labels: int, say: Callable[[str], None]
) -> dict[str, Array]:
    """The arrays of all members side by side, as `weights.build` reads them."""
    import torch

    met = np.zeros((SPLIT_ROWS, 1), np.float32)
    for example in examples:
        met[np.concatenate(example.splits)] = 1
    members = []
    for member in range(how.splitters):
        torch.manual_seed(how.seed * 100 + 50 + member)
        net = _network(labels, torch.from_numpy(met))
        for epoch in range(how.splitter_epochs):
            loss = _epoch(net, examples, RATE * (1 - epoch / how.splitter_epochs) + LAST_RATE)
            say(f"splitter {member + 1}, epoch {epoch + 1}: loss {loss:.3f}")
        members.append(
            {name: value.detach().numpy().copy() for name, value in net.state_dict().items()}
        )
    return {
        "table.split": np.concatenate([m["table.weight"] for m in members], axis=1),
        "split.b": np.concatenate([m["bias"] for m in members]),
        "split.w": np.concatenate([m["out.weight"].T for m in members]) / len(members),
        "split.c": np.mean([m["out.bias"] for m in members], axis=0),
    }


def _network(labels: int, met: torch.Tensor) -> Any:
    import torch
    from torch import nn

    net = nn.Module()
    net.table = nn.EmbeddingBag(SPLIT_ROWS, WIDTH, mode="sum")
    net.bias = nn.Parameter(torch.zeros(WIDTH))
    net.out = nn.Linear(WIDTH, 1 + labels)
    with torch.no_grad():
        net.table.weight.copy_(torch.randn(SPLIT_ROWS, WIDTH) * 0.05 * met)
    return net


def _epoch(net: Any, examples: Sequence[Example], rate: float) -> float:
    import torch

    if not hasattr(net, "optimizer"):
        net.optimizer = torch.optim.Adam(net.parameters())
    for group in net.optimizer.param_groups:
        group["lr"] = rate
    total = 0.0
    order = torch.randperm(len(examples)).tolist()
    for i in range(0, len(order), BATCH):
        loss = _loss(net, [examples[k] for k in order[i : i + BATCH]])
        net.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        net.optimizer.step()
        total += loss.item()
    return total * BATCH / len(order)


def _loss(net: Any, batch: Sequence[Example]) -> torch.Tensor:
    """The mean over nodes of the cross-entropies of split and label."""
    import torch
    from torch.nn import functional

    rows = [split for example in batch for split in example.splits]
    offsets = torch.from_numpy(np.cumsum([0, *map(len, rows[:-1])]))
    values = torch.from_numpy(np.concatenate(rows))
    kept = (torch.rand(len(values)) >= FEATURE_DROPOUT) / (1 - FEATURE_DROPOUT)
    hidden = torch.relu(net.table(values, offsets, kept) + net.bias)
    scores = net.out(functional.dropout(hidden, DROPOUT))
    many = torch.tensor([len(example.splits) for example in batch])
    node = torch.repeat_interleave(torch.arange(len(batch)), many)
    gold = many.cumsum(0) - many + torch.tensor([example.gold for example in batch])
    most = (
        torch.full((len(batch),), -torch.inf).scatter_reduce(0, node, scores[:, 0], "amax").detach()
    )
    below = (
        torch.zeros(len(batch)).index_add(0, node, (scores[:, 0] - most[node]).exp()).log() + most
    )
    of_labels = functional.cross_entropy(
        scores[gold, 1:], torch.tensor([e.label for e in batch]), reduction="sum"
    )
    loss: torch.Tensor = ((below - scores[gold, 0]).sum() + of_labels) / len(batch)
    return loss
