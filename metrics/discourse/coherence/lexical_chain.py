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

from ...representations import Block, FloatArray, IntArray, Ragged, Reps
from ...scorer import Info, Scorer
from ...spec.checked_settings import settings
from ...text.texts import Item
from .foci import FocusMetric, FocusReader, grid_of, repeated
from .focus_scorer import key_id, packed, row_of, unpacked

LINK = [("chain", np.int64), ("sentence", np.int64)]  # sorted by both, in this order


@settings
class LexicalChain(FocusMetric):
    """Matching chains of nouns."""

    name: ClassVar[str] = "lexical-chain"
    info: ClassVar[Info] = Info(
        summary="nouns that come back in the same sentences of both texts",
        reasons=(
            "shared: nouns that come back in both texts, with their sentences, counted from 0; "
            "missed and added: those that come back in one text alone"
        ),
        papers=("gong2015document", "zhao2023discoscore"),
        unit="document",
        bounds=(0, inf),
        version=2,
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
        chains = []
        sentences = []
        names = []
        lengths = []
        for item in items:
            foci = self.foci.read(item.text)
            # a noun counts once per sentence; a chain is one in several sentences
            keys_by_sentence = map(set, foci.keys_by_sentence())
            grid = repeated(grid_of(keys_by_sentence))
            name_of_key = {key_id(name): name for name in grid}
            keys = sorted(name_of_key)
            links = [(key, sentence) for key in keys for sentence in grid[name_of_key[key]]]
            pairs = np.array(links, np.int64).reshape(-1, 2)
            chains.append(pairs[:, 0])
            sentences.append(pairs[:, 1])
            names.append(packed([name_of_key[key] for key in keys]))
            lengths.append(len(foci.sentences))
        columns = {"chain": chains, "sentence": sentences, "names": names}
        reps = Reps({name: Ragged.of_rows(rows) for name, rows in columns.items()})
        return reps, np.array(lengths, np.int64)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values of every pair, [H, R]."""
        return [self._values(reps, block) for block in blocks]

    def _values(self, reps: Reps, block: Block) -> FloatArray:
        """Values [H, R] of one block."""
        h = self._links(reps, block.hypotheses)
        r = self._links(reps, block.references)
        shape = len(block.hypotheses), len(block.references)
        # the links of references that equal a link of a hypothesis: a run of the sorted table, [links of h]
        first = np.searchsorted(r.link, h.link)
        matches = np.searchsorted(r.link, h.link, "right") - first
        # both sides of every match, [matches]
        at_h = np.repeat(np.arange(len(h.link)), matches)
        matches_before = np.repeat(matches.cumsum() - matches, matches)
        place_in_run = np.arange(len(at_h)) - matches_before
        at_r = place_in_run + np.repeat(first, matches)
        # each adds 1 / |S_k^r| to the value of its pair of texts
        pair = h.text[at_h] * shape[1] + r.text[at_r]
        values = np.bincount(pair, r.share[at_r], shape[0] * shape[1])
        return values.reshape(shape).astype(np.float64)

    def _links(self, reps: Reps, rows: IntArray) -> _Links:
        """The links of the texts of some rows."""
        chain = reps["chain"][rows]
        sentence = reps["sentence"][rows]
        link = np.empty(len(chain.values), LINK)
        link["chain"] = chain.values
        link["sentence"] = sentence.values
        text = np.repeat(np.arange(len(rows)), chain.lengths)
        # how many links the chain of each link has in its text
        text_and_chain = np.stack([text, chain.values])
        _, number, counts = np.unique(
            text_and_chain,
            axis=1,
            return_inverse=True,
            return_counts=True,
        )
        share = 1 / counts[number.ravel()]
        order = np.argsort(link, kind="stable")
        return _Links(link[order], text[order], share[order])

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The chains of a pair: "shared" with the sentences where they meet, "missed" by the hypothesis, "added"."""
        h = self._chains(reps, int(block.hypotheses[hypothesis]))
        r = self._chains(reps, int(block.references[reference]))
        shared = {}
        for name in h:
            if name in r:
                shared[name] = sorted(set(h[name]) & set(r[name]))
        return {
            "shared": shared,
            "missed": [name for name in r if name not in h],
            "added": [name for name in h if name not in r],
        }

    def _chains(self, reps: Reps, row: int) -> dict[str, list[int]]:
        """The sentences of every chain of one text, by the name of the chain."""
        chain = row_of(reps["chain"], row)
        sentence = row_of(reps["sentence"], row)
        names = unpacked(row_of(reps["names"], row))
        return {name: sentence[chain == key_id(name)].tolist() for name in names}
