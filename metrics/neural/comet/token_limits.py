"""How many tokens COMET reads: of one text, and of texts side by side.

COMET 2 counts two positions of every encoder as not the texts', those of XLM-R's padding, and leaves two more free in
a single text: with n positions, n - 4 tokens of a text and n - 2 of texts side by side (510 and 512 for XLM-R, 508 and
510 for BERT). COMET 1, the code of Doc-COMET, reads n - 2 tokens of a text.
"""

from __future__ import annotations

from typing import NamedTuple

from ..models.encoder import Encoder

PADDING_POSITIONS, FREE_POSITIONS = 2, 2


class TokenLimits(NamedTuple):
    """The most tokens of one text, and of texts side by side; special tokens are counted."""

    text: int
    joined: int

    @classmethod
    def of(cls, encoder: Encoder, max_tokens: int | None) -> TokenLimits:
        """Those of an encoder; `max_tokens`, if given, is the limit of a text, as far as there are positions."""
        positions = getattr(encoder.config, "max_position_embeddings", encoder.max_tokens)
        joined = min(int(positions) - PADDING_POSITIONS, encoder.max_tokens)
        text = joined - FREE_POSITIONS if max_tokens is None else min(max_tokens, joined)
        return cls(text, joined)

    def stamp(self, encoder: Encoder) -> str:
        """What a representation depends on beside the signature: nothing where the limit is the usual one."""
        is_usual = self.text == encoder.max_tokens - FREE_POSITIONS
        return "" if is_usual else f" {self.text} tokens"
