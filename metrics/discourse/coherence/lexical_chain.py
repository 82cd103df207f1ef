"""LexicalChain (Gong et al. 2015), as Zhao et al. 2023 use it: chains of nouns that both texts have at the same places.

    value(h, r) = sum_{k in chains(h) & chains(r)} |S_k^h & S_k^r| / |S_k^r|

A chain is a noun in at least two sentences, S_k the numbers of these. From 0 to the number of the reference's chains,
higher is better, not symmetric; of several references the best counts. Places are absolute, so that one more sentence
at the start breaks every match.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...papers import GONG_2015, ZHAO_2023
from ...representations import Block, FloatArray, IntArray, Ragged, Reps
from ...scorer import Info, Scorer
from ...spec.checked_settings import settings
from ...text.texts import Item
from .foci import FocusMetric, FocusReader
from .focus_grid import grid_of
from .focus_scorer import key_id, packed, row_of, unpacked


@settings
class LexicalChain(FocusMetric):
    """Matching chains of nouns."""

    name: ClassVar[str] = "lexical-chain"
    info: ClassVar[Info] = Info(
        summary="nouns that come back in the same sentences of both texts",
        papers=(GONG_2015, ZHAO_2023),
        unit="document",
        bounds=(0, inf),
    )

    def load(self) -> LexicalChainScorer:
        """The finder of nouns."""
        return LexicalChainScorer(self)


class _Links(NamedTuple):
    """The links of the texts of one side of a block, sorted by chain and sentence."""

    link: Any  # [links] of (chain, sentence)
    text: IntArray  # [links]
    share: FloatArray  # [links], one over the links of its chain in its text


class LexicalChainScorer(Scorer):
    """Represents a text by the links of its chains: a noun in a sentence."""

    def __init__(self, metric: LexicalChain) -> None:
        self.info = metric.info
        self.foci = FocusReader(metric)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Ragged "chain" and "sentence" of every link, by chain, and the "names" of chains; lengths in sentences."""
        chains, sentences, names, lengths = [], [], [], []
        for item in items:
            foci = self.foci.read(item.text)
            grid = grid_of({noun.key for noun in found} for found in foci.found)
            own = {key_id(name): name for name, places in grid.items() if len(places) > 1}
            links = [(key, place) for key in sorted(own) for place in grid[own[key]]]
            pairs = np.array(links, np.int64).reshape(-1, 2)
            chains.append(pairs[:, 0])
            sentences.append(pairs[:, 1])
            names.append(packed([own[key] for key in sorted(own)]))
            lengths.append(len(foci.sentences))
        columns = {"chain": chains, "sentence": sentences, "names": names}
        return Reps({name: Ragged.of_rows(rows) for name, rows in columns.items()}), np.array(
            lengths, np.int64
        )

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values of every pair, [H, R]."""
        return [self._values(reps, block) for block in blocks]

    def _values(self, reps: Reps, block: Block) -> FloatArray:
        h, r = (self._links(reps, rows) for rows in (block.hypotheses, block.references))
        shape = len(block.hypotheses), len(block.references)
        first, last = np.searchsorted(r.link, h.link), np.searchsorted(r.link, h.link, "right")
        matches = last - first  # of every link of a hypothesis
        at_h = np.repeat(np.arange(len(h.link)), matches)
        at_r = (
            np.arange(len(at_h))
            - np.repeat(matches.cumsum() - matches, matches)
            + np.repeat(first, matches)
        )
        pair = h.text[at_h] * shape[1] + r.text[at_r]
        return (
            np.bincount(pair, r.share[at_r], shape[0] * shape[1]).reshape(shape).astype(np.float64)
        )

    def _links(self, reps: Reps, rows: IntArray) -> _Links:
        chain, sentence = reps["chain"][rows], reps["sentence"][rows]
        link = np.empty(len(chain.values), [("chain", np.int64), ("sentence", np.int64)])
        link["chain"], link["sentence"] = chain.values, sentence.values
        text = np.repeat(np.arange(len(rows)), chain.lengths)
        _, number, count = np.unique(
            np.stack([text, chain.values]), axis=1, return_inverse=True, return_counts=True
        )
        order = np.argsort(link, kind="stable")
        return _Links(link[order], text[order], 1 / count[number.ravel()][order])

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The chains of a pair: "shared" with the sentences where they meet, "missed" by the hypothesis, "added"."""
        h, r = (
            self._chains(reps, int(row))
            for row in (block.hypotheses[hypothesis], block.references[reference])
        )
        shared = {name: sorted(set(h[name]) & set(r[name])) for name in h if name in r}
        return {
            "shared": shared,
            "missed": [name for name in r if name not in h],
            "added": [name for name in h if name not in r],
        }

    def _chains(self, reps: Reps, row: int) -> dict[str, list[int]]:
        chain, sentence = row_of(reps["chain"], row), row_of(reps["sentence"], row)
        names = unpacked(row_of(reps["names"], row))
        return {name: sentence[chain == key_id(name)].tolist() for name in names}
