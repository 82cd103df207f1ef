"""What MetricX reads: texts behind their names, as one sequence of ids.

    24, with reference   source: {s} candidate: {h} reference: {r}
    24, without          source: {s} candidate: {h}
    23, with reference   candidate: {h} reference: {r}
    23, without          candidate: {h} source: {s}

The tokenizer splits at spaces first, so the ids of names and texts, one after the other, are those of the whole
string: each text is tokenised once. The released code cuts the sequence on the right to `max_tokens`, its end token
counted, and then takes that away; a special token written out in a text is broken up here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ...representations import IntArray

Version = Literal[23, 24]
Part = Literal["source", "candidate", "reference"]
PARTS: dict[tuple[Version, bool], tuple[Part, ...]] = {
    (24, True): ("source", "candidate", "reference"),
    (24, False): ("source", "candidate"),
    (23, True): ("candidate", "reference"),
    (23, False): ("candidate", "source"),
}
# Tokens that the released models were trained with.
MAX_TOKENS: dict[Version, int] = {23: 1024, 24: 1536}


class InputParts:
    """Tokenises texts and the names in front of them.

    Args:
        tokenizer: mT5's.
        parts: which texts there are, in order.
        max_tokens: the longest sequence, with the end token that is then taken away.
    """

    def __init__(self, tokenizer: Any, parts: Sequence[Part], max_tokens: int) -> None:
        self.tokenizer = tokenizer
        self.parts = tuple(parts)
        self.room = max_tokens - 1
        self.names = dict(zip(parts, self.ids([f"{part}:" for part in parts]), strict=True))
        self.num_name_tokens = sum(map(len, self.names.values()))

    def ids(self, texts: Sequence[str]) -> list[IntArray]:
        """The ids of texts by themselves, without an end token."""
        if not texts:
            return []
        encoded = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [np.array(ids, np.int64) for ids in encoded.input_ids]

    def sequence(self, texts: dict[Part, IntArray]) -> IntArray:
        """The whole input, cut to its room, from the ids of its texts."""
        pieces = []
        for part in self.parts:
            pieces += [self.names[part], texts[part]]
        return np.concatenate(pieces)[: self.room]
