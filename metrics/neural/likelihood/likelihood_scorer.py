"""Comparison of texts by how likely a sequence-to-sequence model finds one of them given the other.

    u(h, r) = mean over some directions (y | x) of 1/n sum_{t scored} log p(y_t | y_<t, x)

A direction says which text is the target y and which the condition x: the hypothesis given the reference, and so on.
Every ordered pair of texts is run through the decoder once in a call, however many directions and blocks need it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ...representations import (
    Block,
    FloatArray,
    IntArray,
    Ragged,
    Reps,
    by_block,
    cell_rows,
    hypothesis_rows,
)
from ...scorer import Info, Passes, Scorer
from ...text.texts import Item
from ..models.context_tokens import Frame, Reader
from ..models.pretrained import pretrained, tokenizer_of
from ..models.seq2seq import Seq2Seq, Targets
from ..models.settings import ContextModelMetric

Side = Literal["hypothesis", "reference", "source"]


class Direction(NamedTuple):
    """The scored text and the one that is given: log p(target | condition)."""

    target: Side
    condition: Side


HYPOTHESIS_GIVEN_REFERENCE = Direction("hypothesis", "reference")
REFERENCE_GIVEN_HYPOTHESIS = Direction("reference", "hypothesis")
HYPOTHESIS_GIVEN_SOURCE = Direction("hypothesis", "source")


class Extent(NamedTuple):
    """The scored labels of n texts."""

    first: IntArray  # [n] the first scored label
    length: IntArray  # [n] how many, and what their sum is divided by; truncation may leave fewer


def load(metric: ContextModelMetric, frame: Callable[[Any], Frame]) -> tuple[Reader, Seq2Seq]:
    """The model of a metric, and what reads texts for it; frame: what a tokenizer's texts begin and end with.

    Raises:
        ModelLoadError: the files are no such model, or have changed.
    """
    folder = metric.model_path()
    tokenizer = tokenizer_of(folder)
    plain = pretrained(folder, "AutoModelForSeq2SeqLM", metric.has_weights)
    model = Seq2Seq(plain, metric.device, metric.dtype, metric.batch_tokens)
    limit = min(metric.max_tokens or 1 << 30, int(tokenizer.model_max_length), model.max_tokens)
    return Reader(tokenizer, frame(tokenizer), limit, metric.truncates), model


def side_rows(info: Info, blocks: Sequence[Block]) -> dict[Side, IntArray]:
    """The row on each side of every cell of every block, [cells of all blocks] each."""
    if info.needs_references:
        h, r = cell_rows(blocks)
        return {"hypothesis": h, "reference": r}
    h, s = hypothesis_rows(blocks)
    return {"hypothesis": h, "source": s}


class LikelihoodScorer(Scorer):
    """Represents a text by the encoder's states, its labels and which of them are scored; compares by the decoder.

    Args:
        metric: the settings.
        loaded: from `load`.
        extent: which labels are scored, of what the reader has read.
        directions: what is averaged.
        multi_reference: how several references combine.
    """

    def __init__(
        self,
        metric: ContextModelMetric,
        loaded: tuple[Reader, Seq2Seq],
        extent: Callable[[Reps], Extent],
        directions: Sequence[Direction],
        multi_reference: Literal["mean", "best"] = "mean",
    ) -> None:
        self.info = replace(metric.info, multi_reference=multi_reference)
        self.reader, self.model = loaded
        self.extent = extent
        self.directions = tuple(directions)
        self.batch_tokens = self.model.batch_tokens
        self.identity = metric.identity(self.model.device)
        self.only_sources = all(direction.condition == "source" for direction in self.directions)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids, and whether other texts are scored given this one."""
        read = self.reader.read(items)
        is_condition = [item.side == "source" or not self.only_sources for item in items]
        columns = {**read.columns, "given": np.array(is_condition)}
        return Reps(columns), read["ids"].lengths

    def represent(self, prepared: Reps) -> Reps:
        """Ragged "states" [tokens, d] of what is given, and of every text the labels "ids" and which are scored."""
        ids, is_condition = prepared["ids"], prepared["given"]
        extent = self.extent(prepared)
        states = self.model.encode(ids[np.flatnonzero(is_condition)])
        num_states = np.where(is_condition, ids.lengths, 0)  # [rows]
        return Reps(
            {
                "states": Ragged.of_lengths(states.values, num_states),
                "ids": ids,
                "prefix": extent.first + 1,
                "scored": np.clip(ids.lengths - extent.first, 0, extent.length),
                "wanted": extent.length,
            }
        )

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The mean over the directions, [H, R] of every block ([H, 1] where the condition is the source)."""
        values = self._values(reps, blocks)  # [directions, cells]
        means = values.sum(axis=0) / len(self.directions)  # [cells]
        return by_block(means, blocks)

    def _values(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """Mean log-probabilities in every direction, [directions, cells of all blocks]."""
        rows = side_rows(self.info, blocks)
        # An ordered pair of rows is one number: row of the condition times number of rows, plus row of the target.
        pair_numbers = [
            rows[direction.condition] * len(reps) + rows[direction.target]
            for direction in self.directions
        ]
        distinct, places = np.unique(np.concatenate(pair_numbers), return_inverse=True)
        pairs = np.stack(np.divmod(distinct, len(reps)), axis=1)  # [pairs, 2]
        sums = self.model.log_likelihoods(reps["states"], _targets(reps), pairs)  # [pairs]
        num_labels = reps["wanted"][pairs[:, 1]]  # [pairs]
        values: FloatArray = (sums / num_labels)[places]
        return values.reshape(len(self.directions), -1)

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """Tokens that the decoder reads for a block."""
        targets = _targets(reps)
        rows = {
            "hypothesis": block.hypotheses,
            "reference": block.references,
            "source": np.array([block.source]),
        }
        # Of a square block, all directions need the same pairs.
        directions = self.directions[:1] if block.square else self.directions
        costs = [
            len(rows[direction.condition]) * targets.num_tokens(rows[direction.target])
            for direction in directions
        ]
        return sum(costs)

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One of the encoder for every text that is a condition, one of the decoder for every ordered pair."""
        rows = side_rows(self.info, [block])
        conditions = np.concatenate([rows[d.condition] for d in self.directions])
        targets = np.concatenate([rows[d.target] for d in self.directions])
        pairs = np.unique(np.stack((conditions, targets), axis=1), axis=0)  # [pairs, 2]
        lengths = reps["ids"].lengths
        of_sources, of_pairs = lengths[np.unique(conditions)], lengths[pairs]
        flops = self.model.flops(of_sources, of_pairs)
        return Passes(np.concatenate((of_sources, of_pairs[:, 1])), flops)

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """Mean log-probability in every direction."""
        # Slices, so that of no references none is taken.
        h = block.hypotheses[hypothesis : hypothesis + 1]
        r = block.references[reference : reference + 1]
        pair = Block(h, r, block.source)
        values = self._values(reps, [pair])[:, 0].tolist()
        names = [f"{target}_given_{condition}" for target, condition in self.directions]
        return dict(zip(names, values, strict=True))


def _targets(reps: Reps) -> Targets:
    """The labels of all texts, and which of them are scored."""
    return Targets(reps["ids"], reps["prefix"], reps["scored"])
