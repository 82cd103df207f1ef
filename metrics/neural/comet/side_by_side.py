"""Texts side by side in one sequence, as unified COMET models and XCOMET read them.

    FIRST mt LAST LAST src LAST,   FIRST mt LAST LAST ref LAST,   FIRST mt LAST LAST src LAST LAST ref LAST

with the tokenizer of XLM-R, by which MiniLM is read too. BERT and RemBERT have a single LAST between two texts, and
BERT a type for every token: 0 in the first text with the tokens around it, 1 behind it.

COMET 2 counts two positions of every encoder as not the texts', those of XLM-R's padding, and leaves two more free in
a single text: with n positions, n - 4 tokens of a text and n - 2 of texts side by side (510 and 512 for XLM-R, 508 and
510 for BERT). COMET 1, the code of Doc-COMET, reads n - 2 tokens of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...representations import Block, IntArray, Ragged, cell_rows
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
        """A part of the keys of representations beside the signature: empty where the limit is the usual one."""
        is_usual = self.text == encoder.max_tokens - FREE_POSITIONS
        return "" if is_usual else f" {self.text} tokens"


ONE_SEPARATOR = ("BERT", "RemBERT")
TYPED = ("BERT",)


class JoinedTexts(NamedTuple):
    """Token ids, and the types of the tokens where the encoder has them."""

    ids: Ragged
    types: Ragged | None

    def take(self, rows: IntArray) -> JoinedTexts:
        """Some of the sequences."""
        return JoinedTexts(self.ids[rows], None if self.types is None else self.types[rows])


class SideBySide(NamedTuple):
    """The form in which an encoder reads texts side by side.

    Args:
        separators: how many LAST stand between two texts.
        has_types: whether tokens have types.
        max_tokens: of a sequence; what is longer loses its right end, the last token too, as in the released code.
    """

    separators: int
    has_types: bool
    max_tokens: int

    @classmethod
    def of(cls, encoder_model: str, max_tokens: int) -> SideBySide:
        """That of a family of encoders, by COMET's name."""
        separators = 1 if encoder_model in ONE_SEPARATOR else 2
        return cls(separators, encoder_model in TYPED, max_tokens)

    def sequences(self, ids: Ragged, parts: Sequence[IntArray]) -> JoinedTexts:
        """Sequences made of one row of each part.

        Args:
            ids: of single texts, each with FIRST and LAST.
            parts: rows of the texts, [n] each.
        """
        rows = list(zip(*parts, strict=True))
        joined = [self._joined(ids, texts)[: self.max_tokens] for texts in rows]
        if not self.has_types:
            return JoinedTexts(Ragged.of_rows(joined), None)
        types = []
        for sequence, length in zip(joined, ids.lengths[parts[0]].tolist(), strict=True):
            is_behind = np.arange(len(sequence)) >= length
            types.append(is_behind.astype(np.int64))
        return JoinedTexts(Ragged.of_rows(joined), Ragged.of_rows(types))

    def _joined(self, ids: Ragged, rows: Sequence[int]) -> IntArray:
        """The whole sequence of some texts."""
        first, *others = [ids.values[ids.offsets[row] : ids.offsets[row + 1]] for row in rows]
        # the first text ends with a LAST itself
        further = first[-1:].repeat(self.separators - 1)
        pieces = [first]
        for other in others:
            # without its FIRST
            pieces += [further, other[1:]]
        return np.concatenate(pieces)

    def lengths(
        self, lengths: IntArray, block: Block, with_source: bool, with_reference: bool
    ) -> IntArray:
        """Lengths of all sequences of a block before any cut, from those of its texts.

        One for every hypothesis with the source, and with references one or two for every pair.
        """
        of_sequences: list[IntArray] = []
        of_source = lengths[block.source] if with_source else 0
        if with_source:
            of_sequences.append(lengths[block.hypotheses] + of_source + self._added(2))
        if with_reference:
            h, r = cell_rows([block])
            of_sequences.append(lengths[h] + lengths[r] + self._added(2))
            if with_source:
                of_sequences.append(lengths[h] + lengths[r] + of_source + self._added(3))
        return np.concatenate(of_sequences)

    def _added(self, num_texts: int) -> int:
        """Tokens of a sequence less those of its texts, each with FIRST and LAST; 0 or less."""
        return (num_texts - 1) * (self.separators - 2)
