"""Attention over sequences that stand one after the other without padding.

All linear layers of a transformer see the tokens of a whole batch as rows of one matrix, [1, tokens, d]; only attention
knows where a sequence ends. Sequences of equal length form a slab and attend together, so that no value depends on what
else is in the batch: not on its padding, as there is none, nor on its size, as the number of rows of every product is a
multiple of 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

NAME = "discorank-packed"
# Products have multiples of this many rows (and widths, as all models have).
ROWS = 16
# Attention has multiples of this many queries: with others, its kernel rounds otherwise in another thread.
QUERIES = 8
# Query, key and value [1, heads, tokens, d/heads] and the scaling, to states [1, tokens, heads, d/heads].
Attend = Callable[[Any, Any, Any, float], Any]
# A length, to what is added to attention scores, [heads, length, length].
Bias = Callable[[int], Any]


class Slab(NamedTuple):
    """Sequences of one length, one after the other in a matrix of tokens."""

    start: int  # row of the first token
    sequences: int  # how many sequences
    length: int  # tokens of each of them

    @property
    def tokens(self) -> slice:
        """The rows of the matrix that are these sequences."""
        end = self.start + self.sequences * self.length
        return slice(self.start, end)

    def rows(self, x: Any) -> Any:
        """The slab's part of a matrix [tokens, ...] as [sequences, length, ...]; a view."""
        return x[self.tokens].view(self.sequences, self.length, *x.shape[1:])


def slabs_of(lengths: Sequence[int]) -> list[Slab]:
    """The slabs of sequences that are sorted by length."""
    slabs: list[Slab] = []
    start = 0
    for length in lengths:
        last = slabs[-1] if slabs else None
        if last is not None and last.length == length:
            slabs[-1] = last._replace(sequences=last.sequences + 1)
        else:
            slabs.append(Slab(start, 1, length))
        start += length
    return slabs


def attention_within(slabs: Sequence[Slab], bias: Bias | None = None) -> Attend:
    """Attention of every token to all tokens of its own sequence.

    bias: what is added to the scores of sequences of one length, if anything.
    """
    from torch.nn.functional import pad
    from torch.nn.functional import scaled_dot_product_attention as attention

    def attend(
        query: Any,
        key: Any,
        value: Any,
        scaling: float,
    ) -> Any:
        """States [1, tokens, heads, d/heads]; query, key, value: [1, heads, tokens, d/heads]."""
        # Tokens first, so that a slab is a slice: [tokens, heads, d/heads].
        query = query[0].transpose(0, 1)
        key = key[0].transpose(0, 1)
        value = value[0].transpose(0, 1)
        num_tokens, num_heads, _ = query.shape
        states = query.new_zeros(num_tokens, num_heads, value.shape[2])
        for slab in slabs:
            # Heads before tokens, as the kernel reads them: [sequences, heads, length, d/heads].
            q = slab.rows(query).transpose(1, 2)
            k = slab.rows(key).transpose(1, 2)
            v = slab.rows(value).transpose(1, 2)
            # Only queries are padded: spare ones change no other, spare keys would be attended to.
            spare = -slab.length % QUERIES
            q = pad(q, (0, 0, 0, spare))
            added = None if bias is None else pad(bias(slab.length), (0, 0, 0, spare))[None]
            attended = attention(q, k, v, attn_mask=added, scale=scaling)
            # The rows of the spare queries are left out, the others written to their tokens.
            attended = attended[:, :, : slab.length]
            slab.rows(states).copy_(attended.transpose(1, 2))
        return states[None]

    return attend


def use_packed_attention(model: Any) -> None:
    """Makes a transformers model attend through the function that a call gives it as ``packing=``."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, _no_mask)
    model.set_attn_implementation(NAME)


def _attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    *,
    packing: Attend,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Any, None]:
    """Attention as transformers calls it: query, key and value are [1, heads, tokens, d/heads]."""
    scaling = scaling or query.shape[-1] ** -0.5
    return packing(query, key, value, scaling), None


def _no_mask(*_: Any, **__: Any) -> None:
    return None
