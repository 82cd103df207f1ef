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

SAME, STRANGE = 0.0, -50.0
FEWEST = 20  # references that can tell one model from another
POOL = 64  # batches whose pairs are sorted by length together


def sample(count: int, size: int | None, seed: int) -> frozenset[int] | None:
    """Numbers of `size` of `count` rows, drawn at random, those of a smaller sample among them; None for all rows."""
    if size is None or size >= count:
        return None
    return frozenset(np.random.default_rng([seed, 5]).permutation(count)[:size].tolist())


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
        found: list[tuple[int, int, float]] = []
        for place, row in enumerate(rows):
            if chosen is not None and place not in chosen:
                continue
            h, r = (
                number.setdefault(row[name], len(number)) for name in ("hypothesis", "reference")
            )
            found.append((h, r, float(row["score"])))
        if not found:
            raise InputError(
                "no synthetic pair", where="examples", fix="Give more texts, or a smaller margin"
            )
        hypotheses, references, scores = zip(*found, strict=True)
        return cls(list(number), np.array(hypotheses), np.array(references), np.array(scores))

    def split(self, share: float, most: int, seed: int) -> tuple[Examples, Examples]:
        """Without a share of the references, at most so many, and these; none where they would be below `FEWEST`."""
        references = np.unique(self.references)
        count = min(most, int(share * len(references)))
        count = 0 if count < FEWEST else count
        held = np.random.default_rng([seed, 1]).permutation(references)[:count]
        out = np.isin(self.references, held)
        return self._take(~out), self._take(out)

    def epoch(self, number: int, identical: float, strange: float, seed: int) -> Examples:
        """The pairs of an epoch: the synthetic ones, and more of the other two kinds."""
        random = np.random.default_rng([seed, 2, number])
        same = self.references[random.random(len(self.references)) < identical]
        one = self.references[random.random(len(self.references)) < strange]
        other = self.references[random.integers(len(self.references), size=len(one))]
        differ = one != other
        return Examples(
            self.texts,
            np.concatenate((self.hypotheses, same, other[differ])),
            np.concatenate((self.references, same, one[differ])),
            np.concatenate(
                (self.scores, np.full(len(same), SAME), np.full(int(differ.sum()), STRANGE))
            ),
        )

    def batches(self, size: int, lengths: IntArray, seed: int, number: int) -> list[IntArray]:
        """Numbers of pairs: batches of like length in random order."""
        random = np.random.default_rng([seed, 3, number])
        order = random.permutation(len(self.scores))
        longest = np.maximum(lengths[self.hypotheses], lengths[self.references])
        found = []
        for start in range(0, len(order), POOL * size):
            part = order[start : start + POOL * size]
            part = part[np.argsort(longest[part], kind="stable")]
            found += [part[i : i + size] for i in range(0, len(part), size)]
        return [found[i] for i in random.permutation(len(found))]

    def _take(self, chosen: Any) -> Examples:
        return Examples(
            self.texts, self.hypotheses[chosen], self.references[chosen], self.scores[chosen]
        )
