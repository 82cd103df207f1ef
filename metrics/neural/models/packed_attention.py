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
ROWS = 16  # products have multiples of this many rows (and widths, as all models have)
QUERIES = 8  # attention has multiples of this many queries: with others, its kernel rounds otherwise in another thread
Attend = Callable[
    [Any, Any, Any, float], Any
]  # query, key, value [1, heads, tokens, d/heads] -> [1, tokens, heads, ...]


class Slab(NamedTuple):
    """Some sequences of one length, one after the other."""

    start: int  # first token
    sequences: int  # how many
    length: int

    @property
    def tokens(self) -> slice:
        """Where they stand."""
        return slice(self.start, self.start + self.sequences * self.length)

    def rows(self, x: Any) -> Any:
        """Its part of [tokens, ...] as [count, length, ...]."""
        return x[self.tokens].view(self.sequences, self.length, *x.shape[1:])


def slabs_of(lengths: Sequence[int]) -> list[Slab]:
    """The slabs of sequences that are sorted by length."""
    found: list[Slab] = []
    at = 0
    for length in lengths:
        if found and found[-1].length == length:
            found[-1] = found[-1]._replace(sequences=found[-1].sequences + 1)
        else:
            found.append(Slab(at, 1, length))
        at += length
    return found


def within(slabs: Sequence[Slab]) -> Attend:
    """Attention of every sequence to itself, both ways."""
    from torch.nn.functional import pad
    from torch.nn.functional import scaled_dot_product_attention as attention

    def attend(query: Any, key: Any, value: Any, scaling: float) -> Any:
        out = query.new_zeros(
            query.shape[2], query.shape[1], value.shape[3]
        )  # [tokens, heads, d/heads]
        q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))  # [tokens, heads, d/heads]
        for slab in slabs:
            own_q, own_k, own_v = (
                slab.rows(x).transpose(1, 2) for x in (q, k, v)
            )  # [count, heads, length, d/heads]
            found = attention(
                pad(own_q, (0, 0, 0, -slab.length % QUERIES)), own_k, own_v, scale=scaling
            )
            slab.rows(out).copy_(found[:, :, : slab.length].transpose(1, 2))
        return out[None]

    return attend


def use(model: Any) -> None:
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
    return packing(query, key, value, scaling or query.shape[-1] ** -0.5), None


def _no_mask(*_: Any, **__: Any) -> None:
    return None
