"""Attention over sequences that stand one after the other without padding.

All linear layers of a transformer see the tokens of a whole batch as rows of one matrix, [1, tokens, d]; only attention
knows where a sequence ends. Sequences of equal length form a slab and attend together, so that no value depends on what
else is in the batch: not on its padding, as there is none, nor on its size, as the number of rows of every product is a
multiple of 16.

`attention_within` serves encoders: every token attends to its own sequence. `Attention` serves decoders: tokens attend
to what is before them, and to other sequences. Queries and keys of a sequence are padded to the next multiple of 16 of
its own numbers of them, and sequences of equal shape attend together. So what comes out for a sequence depends on it
alone, to the last bit on a CPU: a kernel rounds differently for another shape, and, where a shape is no such multiple,
from thread to thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from ...representations import IntArray

NAME = "discorank-packed"
# Products have multiples of this many rows (and widths, as all models have).
ROWS = 16
# Attention has multiples of this many queries: with others, its kernel rounds otherwise in another thread.
QUERIES = 8
# Query, key and value [1, heads, tokens, d/heads] and the scaling, to states [1, tokens, heads, d/heads].
Attend = Callable[[Any, Any, Any, float], Any]
# A length, to what is added to attention scores, [heads, length, length].
Bias = Callable[[int], Any]


def padded_rows(values: Any) -> Any:
    """Values [rows, ...], the last row again and again up to a multiple of 16."""
    spare = -len(values) % ROWS
    other_dimensions = [(0, 0)] * (values.ndim - 1)
    return np.pad(values, [(0, spare), *other_dimensions], mode="edge")


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

    def attend(query: Any, key: Any, value: Any, scaling: float) -> Any:
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
    AttentionMaskInterface.register(NAME, no_mask)
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


def no_mask(*_: Any, **__: Any) -> None:
    """No mask: a pass knows what attends to what."""
    return


WIDTH = 16


@dataclass(frozen=True, slots=True)
class Spans:
    """Sequences in a row of tokens."""

    start: IntArray  # [n] row of the first token
    length: IntArray  # [n] number of tokens

    @classmethod
    def of_lengths(cls, lengths: IntArray) -> Self:
        """Sequences one after the other; lengths: [n]."""
        return cls(lengths.cumsum() - lengths, lengths)

    def __getitem__(self, numbers: IntArray) -> Self:
        return type(self)(self.start[numbers], self.length[numbers])

    def behind(self, numbers: IntArray) -> Self:
        """The sequence before each of them: none before the first, those of these numbers [n] before the others."""
        none = np.zeros(len(self.start) - len(numbers), np.int64)
        before = self[numbers]
        return type(self)(
            np.concatenate((none, before.start)), np.concatenate((none, before.length))
        )

    @property
    def places(self) -> IntArray:
        """Place of every token in its sequence, [tokens]."""
        first = self.length.cumsum() - self.length
        return np.arange(self.length.sum()) - np.repeat(first, self.length)

    @property
    def rows(self) -> IntArray:
        """Row of every token, [tokens]."""
        return np.repeat(self.start, self.length) + self.places


class _Group(NamedTuple):
    """Sequences that have q queries and k keys each, once these are padded; as arrays, then as tensors."""

    queries: Any  # [n, q] rows of the queries' matrix
    keys: Any  # [n, k] rows of the keys' matrix
    mask: Any  # [n, 1, q, k] whether a query sees a key, alike for all heads


class Attention:
    """Attention of sequences to what is before them, and to themselves.

    Args:
        queries: the n sequences, some of which may be empty.
        before: what every token of each of them sees, in the matrix of the keys, n spans.
        rows: rows of the queries' matrix; those of no sequence come out as anything.
        device: where tensors are made.
        own: tokens also see their own sequence up to themselves; keys and queries are then rows of one matrix.
        window: how many keys a token sees at most, with `own` those up to itself; all if not given.
    """

    def __init__(
        self,
        queries: Spans,
        before: Spans,
        rows: int,
        device: Any,
        *,
        own: bool = False,
        window: int | None = None,
    ) -> None:
        import torch

        self.groups = []
        # Where the state of every row is among the states of all groups, one after the other.
        state_rows = np.zeros(rows, np.int64)
        num_keys = before.length + own * queries.length  # [n]
        num_states = 0
        for numbers in _of_one_shape(queries.length, num_keys):
            members = queries[numbers]
            group = _group(members, before[numbers], own, window)
            tensors = [torch.from_numpy(array).to(device) for array in group]
            self.groups.append(_Group(*tensors))
            # A sequence has as many states as padded queries; its tokens are the first of them.
            count, padded = group.queries.shape
            first_states = num_states + np.arange(count) * padded  # [count]
            state_rows[members.rows] = np.repeat(first_states, members.length) + members.places
            num_states += count * padded
        self.state_rows = torch.from_numpy(state_rows).to(device)  # [rows]

    def __call__(self, query: Any, key: Any, value: Any, scaling: float) -> Any:
        """Sums of the values [keys, heads, d] that the queries [rows, heads, d] attend to, [rows, heads, d].

        There may be fewer heads of keys and values: consecutive queries then share one.
        """
        import torch

        attention = torch.nn.functional.scaled_dot_product_attention
        num_heads = query.shape[1]
        shared = num_heads // key.shape[1]
        states = []
        for group in self.groups:
            q = _at(group.queries, query)  # [n, heads, q, d]
            k = _at(group.keys, key)  # [n, heads, k, d]
            v = _at(group.keys, value)  # [n, heads, k, d]
            mask = group.mask
            if shared > 1:
                # The queries of all heads that share keys stand one after the other: [n, key heads, shared * q, d].
                q = q.reshape(len(q), key.shape[1], -1, q.shape[3])
                mask = mask.repeat(1, 1, shared, 1)
            attended = attention(q, k, v, attn_mask=mask, scale=scaling)  # [n, heads, q, d]
            if shared > 1:
                attended = attended.reshape(len(q), num_heads, -1, attended.shape[3])
            by_sequence = attended.transpose(1, 2)  # [n, q, heads, d]
            by_row = by_sequence.reshape(-1, *by_sequence.shape[2:])  # [n * q, heads, d]
            states.append(by_row)
        return torch.cat(states).index_select(0, self.state_rows)


def _of_one_shape(num_queries: IntArray, num_keys: IntArray) -> Iterator[IntArray]:
    """Numbers of the sequences of each padded shape, without the empty ones; num_queries, num_keys: [n]."""
    # Lengths in units of 16, rounded up.
    query_units = -(-num_queries // WIDTH)  # [n]
    key_units = -(-num_keys // WIDTH)  # [n]
    shapes = np.stack([query_units, key_units], axis=1)  # [n, 2]
    _, kinds = np.unique(shapes, axis=0, return_inverse=True)  # [n]
    num_kinds = int(kinds.max(initial=-1)) + 1
    for kind in range(num_kinds):
        numbers = np.flatnonzero((kinds == kind) & (num_queries > 0))
        if len(numbers):
            yield numbers


def _group(queries: Spans, before: Spans, own: bool, window: int | None) -> _Group:
    """Rows and mask of n sequences whose padded shape is the same."""
    num_keys = before.length + own * queries.length  # [n]
    q, k = _padded(queries.length), _padded(num_keys)

    # Places in every sequence of queries and of keys; what is padded repeats the last one.
    last_query = queries.length[:, None] - 1  # [n, 1]
    last_key = num_keys[:, None] - 1  # [n, 1]
    query = np.minimum(np.arange(q), last_query)  # [n, q]
    key = np.minimum(np.arange(k), last_key)  # [n, k]

    # The first keys are those of what is before, the others those of the sequence itself.
    num_before = before.length[:, None]  # [n, 1]
    rows_before = before.start[:, None] + key  # [n, k]
    rows_own = queries.start[:, None] + key - num_before  # [n, k]
    key_rows = np.where(key < num_before, rows_before, rows_own)  # [n, k]

    # A query sees everything before and, of its own sequence, as much as there is up to itself.
    num_seen = num_before + own * (query + 1)  # [n, q]
    mask = np.arange(k) < num_seen[:, None, :, None]  # [n, 1, q, k]
    if window is not None:
        mask &= np.arange(k) >= num_seen[:, None, :, None] - window
    query_rows = queries.start[:, None] + query  # [n, q]
    return _Group(query_rows, key_rows, mask)


def _padded(lengths: IntArray) -> int:
    """The greatest of lengths [n], to the next multiple of 16."""
    greatest = int(lengths.max())
    return -(-greatest // WIDTH) * WIDTH


def _at(rows: Any, x: Any) -> Any:
    """Rows [n, q] of a matrix [rows, heads, d] as [n, heads, q, d]."""
    selected = x.index_select(0, rows.flatten())  # [n * q, heads, d]
    by_sequence = selected.view(*rows.shape, *x.shape[1:])  # [n, q, heads, d]
    return by_sequence.transpose(1, 2)
