"""Trains the networks of `weights` with torch: first the encoders (tags and EDU boundaries), then the splitters.

An encoder is a two-layer bidirectional GRU; its loss is the cross-entropy of boundaries plus `TAG_SHARE` of that of
tags. A splitter sums hashed features; its loss is the cross-entropy of the gold split among those of its span and of
its label. The tags that a splitter sees are the encoders' own, and rows of features that training never meets stay
zero. Seeded throughout: the same data, versions and machine give the same weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from ....optional_packages import require
from ....representations import Array, IntArray
from ....spec.checked_settings import Field, settings
from ..parser import Parser
from ..parser_features import SPLIT_ROWS, TABLES, Triple, Units, sentence_numbers, split_numbers
from ..weights import build, packed, unpacked
from .evaluation import report
from .treebank import Sentence, Tagger, read_treebank, tagged

if TYPE_CHECKING:
    import torch

Count = Annotated[int, Field(ge=1)]
Label = tuple[str, str]  # nuclearity, relation
Say = Callable[[str], None]
DROPOUT, LAST_RATE = 0.4, 1e-4
# encoders
WIDTHS = (40, 24, 12, 12, 4)  # of the tables
UNITS = 64
TAG_SHARE = 0.5
WORD_DROPOUT = 0.15
ENCODER_RATE, ENCODER_BATCH = 2e-3, 32
NOT_COUNTED = -100  # the tag that torch's cross-entropy passes over
_GRU_ARRAYS = {  # our names of the arrays of a layer, and torch's
    "w": "weight_ih_l0",
    "u": "weight_hh_l0",
    "b": "bias_ih_l0",
    "c": "bias_hh_l0",
}
# splitters
WIDTH = 24
FEATURE_DROPOUT = 0.2
SPLITTER_RATE, SPLITTER_BATCH = 3e-3, 64


@settings
class ParserTraining:
    """How a parser is trained.

    Args:
        encoders: members of the ensemble that tags and segments.
        encoder_epochs: passes over the training sentences.
        splitters: members of the ensemble that builds trees.
        splitter_epochs: passes over the training nodes.
        tagger: where the tags to learn come from: hanta, none, or auto for hanta if it is installed.
        seed: of all random numbers.
        licence: the licence of the weights, written into the file.
        credit: where the training data comes from, written into the file.
    """

    encoders: Count = 2
    encoder_epochs: Count = 16
    splitters: Count = 3
    splitter_epochs: Count = 6
    tagger: Tagger = "auto"
    seed: int = 1
    licence: str = ""
    credit: str = ""


class Trained(NamedTuple):
    """A trained model, not yet written."""

    arrays: dict[str, Array]
    about: dict[str, Any]  # its "figures" are those on the dev and test documents


def train(
    settings: ParserTraining,
    data: Path,
    say: Say = lambda text: None,
) -> Trained:
    """Trains on a treebank; `weights.save` writes what comes back.

    Raises:
        InputError: the treebank cannot be read.
        ModelLoadError: torch is not installed.
    """
    require("train rst", "torch")
    parts = read_treebank(data)
    sentences = parts["train"]
    # encoders: tags and EDU boundaries
    gold_tags = tagged([sentence.words for sentence in sentences], settings.tagger)
    tags = sorted({tag for sentence_tags in gold_tags for tag in sentence_tags})
    say(f"{len(sentences)} sentences for training, {len(tags)} tags")
    arrays = train_encoders(settings, sentences, gold_tags, tags, say)
    # splitters: trees over gold EDUs, with the tags that the encoders give
    cuts = [cut for sentence in sentences for cut in sentence.cuts.values()]
    labels = sorted({(cut.nuc, cut.rel) for cut in cuts})
    about: dict[str, Any] = {
        "tags": tags,
        "labels": labels,
        "licence": settings.licence,
        "credit": settings.credit,
    }
    blank_splitter = {
        "table.split": np.zeros((SPLIT_ROWS, 1)),
        "split.b": np.zeros(1),
        "split.w": np.zeros((1, 1 + len(labels))),
        "split.c": np.zeros(1 + len(labels)),
    }
    tagger = _parser(arrays | blank_splitter, about)
    examples: list[_Example] = []
    for sentence in sentences:
        examples += _examples(tagger, sentence, labels)
    say(f"{len(examples)} nodes for training, {len(labels)} labels")
    arrays |= train_splitters(settings, examples, len(labels), say)
    # how good it is
    parser = _parser(arrays, about)
    about["figures"] = {split: report(parser, parts[split]) for split in ("dev", "test")}
    return Trained(arrays, about)


def _parser(arrays: Mapping[str, Array], about: Mapping[str, Any]) -> Parser:
    """The parser as it will be read back, with weights of few bits."""
    return Parser(build(unpacked(packed(arrays)), about))


def _trained(
    net: Any,
    batches: Callable[[], Iterator[Any]],
    loss_of: Callable[[Any, Any], torch.Tensor],
    epochs: int,
    first_rate: float,
    say: Say,
    max_norm: float | None = None,
) -> Any:
    """A network after so many passes over batches, by Adam with a rate that falls in a line.

    Args:
        net: the network.
        batches: gives those of one pass, in an order of its own.
        loss_of: the loss of a network on a batch.
        epochs: the number of passes.
        first_rate: the learning rate of the first pass; that of the last is a little above `LAST_RATE`.
        say: called with the mean loss of every pass.
        max_norm: longer gradients are scaled down to it.
    """
    import torch

    optimizer = torch.optim.Adam(net.parameters())
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = first_rate * (1 - epoch / epochs) + LAST_RATE
        losses = []
        for batch in batches():
            loss = loss_of(net, batch)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if max_norm is not None:
                torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm)
            optimizer.step()
            losses.append(loss.item())
        say(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}")
    return net


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
    say: Say,
) -> dict[str, Array]:
    """The arrays of all members, as `weights.build` reads them."""
    import torch

    number_of_tag = {tag: i for i, tag in enumerate(tags)}
    # sentences of about one length in a batch
    pairs = list(zip(sentences, gold_tags, strict=True))
    pairs.sort(key=lambda pair: len(pair[0].words))
    batches = []
    for begin in range(0, len(pairs), ENCODER_BATCH):
        batches.append(_batch(pairs[begin : begin + ENCODER_BATCH], number_of_tag))

    def in_random_order() -> Iterator[_Batch]:
        return (batches[i] for i in torch.randperm(len(batches)).tolist())

    members = []
    for member in range(settings.encoders):
        torch.manual_seed(settings.seed * 100 + member)
        net = _trained(
            _encoder_network(len(tags)),
            in_random_order,
            _encoder_loss,
            settings.encoder_epochs,
            ENCODER_RATE,
            lambda text, number=member + 1: say(f"encoder {number}, {text}"),  # type: ignore[misc]
            max_norm=1.0,
        )
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


def _encoder_network(num_tags: int) -> Any:
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


def _encoder_loss(net: Any, batch: _Batch) -> torch.Tensor:
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


class _Example(NamedTuple):
    """A node: the feature rows of every way to cut its span, the right one and its label."""

    splits: list[IntArray]  # rows of the features of every split
    gold: int  # place in `splits`
    label: int


def _examples(tagger: Parser, sentence: Sentence, labels: Sequence[Label]) -> list[_Example]:
    """The nodes of a sentence: the features of every way to cut it, the right one, and its label."""
    if not sentence.cuts:
        return []
    tags, _ = tagger.segment(sentence.words)
    lowered = [word.lower() for word in sentence.words]
    units = Units(lowered, tags, sentence.starts)
    examples = []
    for (i, j), cut in sentence.cuts.items():
        splits = [split_numbers(units, Triple(i, k, j)) for k in range(i, j)]
        label = labels.index((cut.nuc, cut.rel))
        examples.append(_Example(splits, cut.middle - i, label))
    return examples


def train_splitters(
    settings: ParserTraining,
    examples: Sequence[_Example],
    num_labels: int,
    say: Say,
) -> dict[str, Array]:
    """The arrays of all members side by side, as `weights.build` reads them."""
    import torch

    is_met = np.zeros((SPLIT_ROWS, 1), np.float32)
    for example in examples:
        is_met[np.concatenate(example.splits)] = 1

    def batches() -> Iterator[list[_Example]]:
        order = torch.randperm(len(examples)).tolist()
        for i in range(0, len(order), SPLITTER_BATCH):
            yield [examples[k] for k in order[i : i + SPLITTER_BATCH]]

    members = []
    for member in range(settings.splitters):
        torch.manual_seed(settings.seed * 100 + 50 + member)
        net = _trained(
            _splitter_network(num_labels, torch.from_numpy(is_met)),
            batches,
            _splitter_loss,
            settings.splitter_epochs,
            SPLITTER_RATE,
            lambda text, number=member + 1: say(f"splitter {number}, {text}"),  # type: ignore[misc]
        )
        members.append({name: _plain(value) for name, value in net.state_dict().items()})
    return {
        "table.split": np.concatenate([member["table.weight"] for member in members], axis=1),
        "split.b": np.concatenate([member["bias"] for member in members]),
        "split.w": np.concatenate([member["out.weight"].T for member in members]) / len(members),
        "split.c": np.mean([member["out.bias"] for member in members], axis=0),
    }


def _splitter_network(num_labels: int, is_met: torch.Tensor) -> Any:
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


def _splitter_loss(net: Any, batch: Sequence[_Example]) -> torch.Tensor:
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


def _scores(net: Any, batch: Sequence[_Example]) -> torch.Tensor:
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
