"""Trains the encoders: two-layer bidirectional GRUs that tag words and find where EDUs begin; see `network`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...representations import Array
from .parser_features import TABLES, sentence_numbers
from .treebank import Sentence

if TYPE_CHECKING:
    import torch

    from .parser_training import ParserTraining

WIDTHS = (40, 24, 12, 12, 4)  # of the tables
UNITS = 64
TAG_SHARE = 0.5
DROPOUT, WORD_DROPOUT = 0.4, 0.15
RATE, LAST_RATE, BATCH = 2e-3, 1e-4, 32


class _Batch(NamedTuple):
    numbers: torch.Tensor  # [tables, sentences, words]
    begins: torch.Tensor  # 1 where an EDU begins [sentences, words]
    counted: torch.Tensor  # 1 where that is a question
    tags: torch.Tensor  # -100 behind the end


def train_encoders(
    how: ParserTraining,
    parts: Mapping[str, Sequence[Sentence]],
    gold: Sequence[Sequence[str]],
    tags: Sequence[str],
    say: Callable[[str], None],
) -> dict[str, Array]:
    """The arrays of all members, as `weights.build` reads them."""
    import torch

    number = {tag: i for i, tag in enumerate(tags)}
    pairs = sorted(zip(parts["train"], gold, strict=True), key=lambda pair: len(pair[0].words))
    batches = [_batch(pairs[i : i + BATCH], number) for i in range(0, len(pairs), BATCH)]
    members = []
    for member in range(how.encoders):
        torch.manual_seed(how.seed * 100 + member)
        net = _network(len(tags))
        for epoch in range(how.encoder_epochs):
            loss = _epoch(net, batches, RATE * (1 - epoch / how.encoder_epochs) + LAST_RATE)
            say(f"encoder {member + 1}, epoch {epoch + 1}: loss {loss:.3f}")
        members.append(_arrays(net))
    return {name: np.stack([member[name] for member in members]) for name in members[0]}


def _batch(pairs: Sequence[tuple[Sentence, Sequence[str]]], number: Mapping[str, int]) -> _Batch:
    import torch

    longest = max(len(sentence.words) for sentence, _ in pairs)
    numbers = np.zeros((len(TABLES), len(pairs), longest), np.int64)
    begins, counted = np.zeros((2, len(pairs), longest), np.float32)
    tags = np.full((len(pairs), longest), -100)
    for i, (sentence, own) in enumerate(pairs):
        n = len(sentence.words)
        numbers[:, i, :n] = sentence_numbers(sentence.words)
        begins[i, sentence.starts[:-1]] = 1
        counted[i, 1:n] = 1
        tags[i, :n] = [number[tag] for tag in own]
    return _Batch(*map(torch.from_numpy, (numbers, begins, counted, tags)))


def _network(tags: int) -> Any:
    from torch import nn

    tables = nn.ModuleList(
        [nn.Embedding(rows, width) for rows, width in zip(TABLES, WIDTHS, strict=True)]
    )
    for table in tables:
        nn.init.normal_(table.get_parameter("weight"), 0, 0.3)
    made = {
        "tables": tables,
        "lower": nn.GRU(sum(WIDTHS), UNITS, bidirectional=True, batch_first=True),
        "tag": nn.Linear(2 * UNITS, tags),
        "upper": nn.GRU(2 * UNITS + tags, UNITS, bidirectional=True, batch_first=True),
        "cut": nn.Linear(2 * UNITS, 1),
        "dropout": nn.Dropout(DROPOUT),
    }
    return nn.ModuleDict(made)


def _forward(net: Any, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Boundary logits [sentences, words] and tag logits [sentences, words, tags]."""
    import torch

    columns = [table(rows) for table, rows in zip(net["tables"], numbers, strict=True)]
    columns[0] = columns[0] * (torch.rand(numbers.shape[1:]) >= WORD_DROPOUT)[..., None]
    states = net["dropout"](net["lower"](net["dropout"](torch.cat(columns, -1)))[0])
    tags = net["tag"](states)
    above = net["upper"](torch.cat([states, tags.softmax(-1)], -1))[0]
    return net["cut"](net["dropout"](above))[..., 0], tags


def _epoch(net: Any, batches: Sequence[_Batch], rate: float) -> float:
    import torch
    from torch.nn import functional

    if not hasattr(net, "optimizer"):
        net.optimizer = torch.optim.Adam(net.parameters())
    for group in net.optimizer.param_groups:
        group["lr"] = rate
    net.train()
    total = 0.0
    for i in torch.randperm(len(batches)).tolist():
        batch = batches[i]
        cuts, tags = _forward(net, batch.numbers)
        of_cuts = functional.binary_cross_entropy_with_logits(cuts, batch.begins, reduction="none")
        loss = (of_cuts * batch.counted).sum() / batch.counted.sum().clamp(min=1)
        loss = loss + TAG_SHARE * functional.cross_entropy(tags.flatten(0, 1), batch.tags.flatten())
        net.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        net.optimizer.step()
        total += loss.item()
    return total / len(batches)


def _arrays(net: Any) -> dict[str, Array]:
    """One member's weights in the layout of `network`."""
    found = {f"table{i}": _plain(table.weight) for i, table in enumerate(net["tables"])}
    for layer in ("lower", "upper"):
        for ours, theirs in (
            ("w", "weight_ih_l0"),
            ("u", "weight_hh_l0"),
            ("b", "bias_ih_l0"),
            ("c", "bias_hh_l0"),
        ):
            both = np.stack([_plain(getattr(net[layer], theirs + end)) for end in ("", "_reverse")])
            found[f"{layer}.{ours}"] = both.transpose(0, 2, 1) if both.ndim == 3 else both[:, None]
    for head in ("tag", "cut"):
        found[f"{head}.w"] = _plain(net[head].weight).T
        found[f"{head}.b"] = _plain(net[head].bias)[None]
    return found


def _plain(tensor: Any) -> Array:
    found: Array = tensor.detach().numpy().copy()
    return found
