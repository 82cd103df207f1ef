"""Comparison of texts by how likely a sequence-to-sequence model finds one of them given the other.

    u(h, r) = mean over some ways (y | x) of 1/n sum_{t scored} log p(y_t | y_<t, x)

A way says which text is found given which: the hypothesis given the reference, and so on. Every ordered pair of texts
is run through the decoder once in a call, whatever asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ...representations import Block, FloatArray, IntArray, Ragged, Reps, by_block, cell_rows
from ...scorer import Scorer
from ...text.texts import Item
from ..models import model_files as files
from ..models.context_tokens import Frame, Reader
from ..models.encoder import pretrained, tokenizer_of
from ..models.seq2seq import Seq2Seq
from ..models.settings import ContextModelMetric
from ..models.shared_prefix import Targets

Side = Literal["hypothesis", "reference", "source"]


class Way(NamedTuple):
    """One text found given another."""

    found: Side
    given: Side


HYPOTHESIS = Way("hypothesis", "reference")
REFERENCE = Way("reference", "hypothesis")
FAITHFUL = Way("hypothesis", "source")


class Extent(NamedTuple):
    """Which labels of texts are scored, [n] each."""

    first: IntArray
    wanted: IntArray  # how many, and what their sum is divided by; truncation may leave fewer


def load(metric: ContextModelMetric, frame: Callable[[Any], Frame]) -> tuple[Reader, Seq2Seq]:
    """The model of a metric, and what reads texts for it; frame: what a tokenizer's texts begin and end with.

    Raises:
        ModelLoadError: the files are no such model, or have changed.
    """
    metric.check_files()
    folder = files.locate(metric.named("model"), metric.revision)
    tokenizer = tokenizer_of(folder)
    model = Seq2Seq(
        pretrained(folder, "AutoModelForSeq2SeqLM"),
        metric.device,
        metric.dtype,
        metric.batch_tokens,
    )
    limit = min(metric.max_tokens or 1 << 30, int(tokenizer.model_max_length), model.max_tokens)
    return Reader(tokenizer, frame(tokenizer), limit, metric.truncates), model


class LikelihoodScorer(Scorer):
    """Represents a text by the encoder's states, its labels and which of them are scored; compares by the decoder.

    Args:
        metric: the settings.
        loaded: from `load`.
        extent: which labels are scored, of what the reader has read.
        ways: what is averaged.
        multi_reference: how several references combine.
    """

    def __init__(
        self,
        metric: ContextModelMetric,
        loaded: tuple[Reader, Seq2Seq],
        extent: Callable[[Reps], Extent],
        ways: Sequence[Way],
        multi_reference: Literal["mean", "best"] = "mean",
    ) -> None:
        self.info = replace(metric.info, multi_reference=multi_reference)
        self.reader, self.model = loaded
        self.extent, self.ways = extent, tuple(ways)
        self.batch_tokens, self.identity = (
            self.model.batch_tokens,
            metric.identity(self.model.device),
        )
        self.only_sources = all(way.given == "source" for way in ways)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids, and whether other texts are found given this one."""
        read = self.reader.read(items)
        given = np.array([item.side == "source" or not self.only_sources for item in items])
        return Reps({**read.columns, "given": given}), read["ids"].lengths

    def represent(self, prepared: Reps) -> Reps:
        """Ragged "states" [tokens, d] of what is given, and of every text the labels "ids" and which are scored."""
        ids, given, extent = prepared["ids"], prepared["given"], self.extent(prepared)
        states = self.model.encode(ids[np.flatnonzero(given)])
        return Reps(
            {
                "states": Ragged.of_lengths(states.values, np.where(given, ids.lengths, 0)),
                "ids": ids,
                "prefix": extent.first + 1,
                "scored": np.clip(ids.lengths - extent.first, 0, extent.wanted),
                "wanted": extent.wanted,
            }
        )

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The mean over the ways, [H, R] of every block ([H, 1] of ways that give the source)."""
        return by_block(self._values(reps, blocks).sum(axis=0) / len(self.ways), blocks)

    def _values(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """Mean log-probabilities in every way, [ways, cells of all blocks]."""
        rows = self._rows(blocks)
        asked = [rows[way.given] * len(reps) + rows[way.found] for way in self.ways]
        distinct, places = np.unique(np.concatenate(asked), return_inverse=True)
        pairs = np.stack(np.divmod(distinct, len(reps)), axis=1)
        sums = self.model.log_likelihoods(reps["states"], _targets(reps), pairs)
        values: FloatArray = (sums / reps["wanted"][pairs[:, 1]])[places]
        return values.reshape(len(self.ways), -1)

    def _rows(self, blocks: Sequence[Block]) -> dict[Side, IntArray]:
        """The row on each side of every cell of every block."""
        if self.info.needs_references:
            h, r = cell_rows(blocks)
            return {"hypothesis": h, "reference": r}
        h = np.concatenate([block.hypotheses for block in blocks])
        return {
            "hypothesis": h,
            "source": np.repeat([b.source for b in blocks], [b.cells for b in blocks]),
        }

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """Tokens that the decoder reads for a block."""
        targets = _targets(reps)
        rows = {
            "hypothesis": block.hypotheses,
            "reference": block.references,
            "source": np.array([block.source]),
        }
        ways = (
            self.ways[:1] if block.square else self.ways
        )  # of a square block, they ask for the same pairs
        return sum(len(rows[way.given]) * targets.tokens(rows[way.found]) for way in ways)

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """Mean log-probability in every way."""
        one = (
            slice(hypothesis, hypothesis + 1),
            slice(reference, reference + 1),
        )  # no reference stays none
        pair = Block(block.hypotheses[one[0]], block.references[one[1]], block.source)
        values = self._values(reps, [pair])[:, 0].tolist()
        return {
            f"{way.found}_given_{way.given}": value
            for way, value in zip(self.ways, values, strict=True)
        }


def _targets(reps: Reps) -> Targets:
    return Targets(reps["ids"], reps["prefix"], reps["scored"])
