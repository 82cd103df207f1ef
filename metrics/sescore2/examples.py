"""What one epoch of training sees: synthetic pairs, identical pairs and pairs of strangers, in batches of like length.

As in the released code, an anchor is paired with itself (score 0; dropout makes two views of it) and with another
anchor (score -50), each with its own probability, beside every synthetic pair.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..representations import FloatArray, IntArray

SAME = 0.0
STRANGE = -50.0
MIN_HELD_OUT = 20  # references that can tell one model from another
POOL = 64  # batches whose pairs are sorted by length together


def sample(count: int, size: int | None, seed: int) -> frozenset[int] | None:
    """Numbers of `size` of `count` rows, drawn at random, those of a smaller sample among them; None for all rows."""
    if size is None or size >= count:
        return None
    order = np.random.default_rng([seed, 5]).permutation(count)
    return frozenset(order[:size].tolist())


class Examples(NamedTuple):
    """Pairs of texts with scores."""

    texts: list[str]  # distinct
    hypotheses: IntArray  # [n], numbers of texts
    references: IntArray  # [n]
    scores: FloatArray  # [n]

    @classmethod
    def of(
        cls, rows: Iterable[Mapping[str, Any]], chosen: Container[int] | None = None
    ) -> Examples:
        """The rows of `labelling.label`, those with the chosen numbers alone where some are.

        Raises:
            InputError: there is none.
        """
        number: dict[str, int] = {}
        pairs: list[tuple[int, int, float]] = []
        for place, row in enumerate(rows):
            if chosen is not None and place not in chosen:
                continue
            hypothesis = number.setdefault(row["hypothesis"], len(number))
            reference = number.setdefault(row["reference"], len(number))
            pairs.append((hypothesis, reference, float(row["score"])))
        if not pairs:
            fix = "Give more texts, or a smaller margin"
            raise InputError("no synthetic pair", where="examples", fix=fix)
        hypotheses, references, scores = zip(*pairs, strict=True)
        return cls(
            list(number),
            np.array(hypotheses),
            np.array(references),
            np.array(scores),
        )

    def split(
        self,
        share: float,
        max_references: int,
        seed: int,
    ) -> tuple[Examples, Examples]:
        """Those to train on, and those held out: the pairs of a share of the references, of `max_references` at most.

        None are held out where that would be fewer than `MIN_HELD_OUT` references.
        """
        references = np.unique(self.references)
        count = min(max_references, int(share * len(references)))
        if count < MIN_HELD_OUT:
            count = 0
        order = np.random.default_rng([seed, 1]).permutation(references)
        held_out = np.isin(self.references, order[:count])
        return self._take(~held_out), self._take(held_out)

    def epoch(
        self,
        number: int,
        identical: float,
        strange: float,
        seed: int,
    ) -> Examples:
        """The pairs of an epoch: the synthetic ones, and more of the other two kinds."""
        random = np.random.default_rng([seed, 2, number])
        count = len(self.references)
        same = self.references[random.random(count) < identical]
        anchors = self.references[random.random(count) < strange]
        others = self.references[random.integers(count, size=len(anchors))]
        differ = anchors != others
        same_scores = np.full(len(same), SAME)
        strange_scores = np.full(int(differ.sum()), STRANGE)
        return Examples(
            self.texts,
            np.concatenate((self.hypotheses, same, others[differ])),
            np.concatenate((self.references, same, anchors[differ])),
            np.concatenate((self.scores, same_scores, strange_scores)),
        )

    def batches(
        self,
        size: int,
        lengths: IntArray,
        seed: int,
        number: int,
    ) -> list[IntArray]:
        """Numbers of pairs: batches of like length in random order; `lengths` are those of the texts."""
        random = np.random.default_rng([seed, 3, number])
        order = random.permutation(len(self.scores))
        longest = np.maximum(lengths[self.hypotheses], lengths[self.references])  # [n]
        batches = []
        for start in range(0, len(order), POOL * size):
            pool = order[start : start + POOL * size]
            pool = pool[np.argsort(longest[pool], kind="stable")]
            batches += [pool[i : i + size] for i in range(0, len(pool), size)]
        return [batches[i] for i in random.permutation(len(batches))]

    def _take(self, chosen: Any) -> Examples:
        return Examples(
            self.texts,
            self.hypotheses[chosen],
            self.references[chosen],
            self.scores[chosen],
        )
