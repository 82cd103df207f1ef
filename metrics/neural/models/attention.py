"""Sequences of tokens that stand one after the other without padding, and attention over them.

All linear layers of a transformer see the tokens of a whole batch as rows of one matrix, [1, tokens, d]; only attention
knows where a sequence ends. So no value depends on what else is in the batch: not on its padding, as there is none, nor
on its size, as the number of rows of every product is a multiple of 16.

`Packing` serves encoders: every token attends to its own sequence. On a CPU sequences of equal length form a slab and
attend together, exactly; on a GPU all attend in one call of a kernel for unequal lengths, or in groups of about one
length. `Attention` serves decoders: tokens attend to what is before them, and to other sequences. Queries and keys of
a sequence are padded to the next multiple of 16 of its own numbers of them, and sequences of equal shape attend
together. So the states of a sequence depend on it alone, to the last bit on a CPU: a kernel rounds differently for
another shape, and, where a shape is no such multiple, from thread to thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from ...representations import IntArray, Ragged

NAME = "discorank-packed"
# Products have multiples of this many rows (and widths, as all models have), and so have queries and keys of groups.
ROWS = 16
# Attention within slabs has multiples of this many queries: with others, its kernel rounds otherwise in another thread.
QUERIES = 8
# How far the kernel for unequal lengths may be from torch's usual one in half precision, on numbers of about 1.
KERNEL_TOLERANCE = 0.05
# A length, to the addends of attention scores, [heads, length, length].
Bias = Callable[[int], Any]


def padded_rows(values: Any) -> Any:
    """Values [rows, ...], the last row again and again up to a multiple of 16."""
    spare = -len(values) % ROWS
    other_dimensions = [(0, 0)] * (values.ndim - 1)
    return np.pad(values, [(0, spare), *other_dimensions], mode="edge")


def use_packed_attention(model: Any) -> None:
    """Makes a transformers model attend through the object that a call gives it as ``packing=``."""
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
    packing: Any,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Any = None,
    **_: Any,
) -> tuple[Any, None]:
    """Attention as transformers calls it: query [1, heads, tokens, d], key and value [1, key heads, tokens, d]."""
    if softcap is not None or s_aux is not None:
        raise ValueError("attention of another kind")
    scaling = scaling or query.shape[-1] ** -0.5
    # Tokens first: [tokens, heads, d].
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    return packing(q, k, v, scaling, sliding_window)[None], None


def _no_mask(*_: Any, **__: Any) -> None:
    """No mask: a pass knows what attends to what."""
    return


class Slab(NamedTuple):
    """Sequences of one length, one after the other in a matrix of tokens."""

    start: int  # row of the first token
    sequences: int  # how many sequences
    length: int  # tokens of each of them

    def rows(self, x: Any) -> Any:
        """The slab's part of a matrix [tokens, ...] as [sequences, length, ...]; a view."""
        tokens = x[self.start : self.start + self.sequences * self.length]
        return tokens.view(self.sequences, self.length, *x.shape[1:])


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


class Packing:
    """A batch of sequences in one row of tokens, the shortest first; as a function, their attention to themselves.

    Values of sequences are in the order in which these were given, values of tokens in the order of the row.

    Args:
        lengths: tokens of each sequence, [n].
        device: where the model runs.
        bias: addends of the attention scores of a sequence by its length, if there are any.
    """

    def __init__(self, lengths: IntArray, device: Any, bias: Bias | None = None) -> None:
        import torch

        self.torch, self.device, self.bias = torch, device, bias
        self.order = np.argsort(lengths, kind="stable")  # [n]
        self.spans = Spans.of_lengths(lengths[self.order])
        self.slabs = slabs_of(self.spans.length.tolist())
        self.num_tokens = int(lengths.sum())
        self._biases: dict[int, Any] = {}

    @property
    def on_cpu(self) -> bool:
        """Whether values of a sequence must not depend on the others, to the last bit."""
        return bool(self.device.type == "cpu")

    @cached_property
    def _place(self) -> Any:
        """Place of every sequence in the row, [n]."""
        return self._tensor(np.argsort(self.order, kind="stable"))

    def _tensor(self, values: IntArray) -> Any:
        return self.torch.from_numpy(values).to(self.device)

    def row(self, values: Ragged) -> Any:
        """Values of the tokens as a batch of one, the last again up to a multiple of 16, [1, tokens and spare ones]."""
        return self._tensor(padded_rows(values[self.order].values))[None]

    def firsts(self, x: Any, offsets: Any = 0) -> Any:
        """Of values [tokens, ...] that of each sequence's first token, [n, ...], or so many [n] behind it."""
        return x.index_select(0, self._starts + offsets)

    @cached_property
    def _starts(self) -> Any:
        """Row of every sequence's first token, [n]."""
        return self._tensor(self.spans.start)[self._place]

    def lasts(self, x: Any) -> Any:
        """Of values [tokens, ...] that of each sequence's last token, [n, ...]."""
        ends = self.spans.start + self.spans.length - 1
        return x.index_select(0, self._tensor(ends)[self._place])

    def sums(self, x: Any) -> Any:
        """Of values [tokens, ...] the sum of each sequence, [n, ...]."""
        return self.reduced(x, "sum")

    def means(self, x: Any) -> Any:
        """Of values [tokens, ...] the mean of each sequence, [n, ...]."""
        return self.sums(x) / self.counts[:, None].to(x.dtype)

    def reduced(self, x: Any, kind: Literal["sum", "max"]) -> Any:
        """Of values [tokens, ...] the sum or the greatest of each sequence [n, ...]; a GPU adds up in another order."""
        if self.on_cpu:
            function = self.torch.sum if kind == "sum" else self.torch.amax
            values = self.torch.cat([function(slab.rows(x), 1) for slab in self.slabs])
        else:
            x = x[: self.num_tokens].contiguous()
            values = self.torch.segment_reduce(x, kind, lengths=self._lengths, axis=0, unsafe=True)
        return values[self._place]

    @cached_property
    def _lengths(self) -> Any:
        """Tokens of every sequence in the row, [n]."""
        return self._tensor(self.spans.length)

    def spread(self, values: Any) -> Any:
        """Values of the sequences [n, ...] for each of their tokens, [tokens, ...]."""
        return values.index_select(0, self._tensor(np.repeat(self.order, self.spans.length)))

    @cached_property
    def counts(self) -> Any:
        """Number of tokens of every sequence, float64 [n]."""
        return self._lengths[self._place].double()

    @cached_property
    def places(self) -> Any:
        """Place of every token in its sequence, [tokens]."""
        return self._tensor(self.spans.places)

    def begun(self, starts: IntArray) -> Any:
        """The first token of every sequence and all from `starts` [n] on, bool [tokens]."""
        return (self.places == 0) | (self.places >= self.spread(self._tensor(starts)))

    def ragged(self, x: Any) -> Ragged:
        """Values [tokens, ...] on the host, a row for each sequence."""
        values = x[: self.num_tokens].cpu().numpy()
        rows = Ragged.of_lengths(values, self.spans.length)
        return rows[np.argsort(self.order, kind="stable")]

    def __call__(
        self, query: Any, key: Any, value: Any, scaling: float, window: int | None = None
    ) -> Any:
        """States [rows, heads, d] of queries, keys and values [rows, heads, d], the rows of tokens and spare ones."""
        if self.on_cpu:
            return self._in_slabs(query, key, value, scaling)
        kernel = None if self.bias else _varlen(query.device, query.dtype, query.shape[2])
        if kernel is None:
            return self._groups(query, key, value, scaling)
        q, k, v = (x.contiguous() for x in (query, key, value))
        ends, longest = self._ends
        return kernel(q, k, v, ends, ends, longest, longest, scale=scaling)

    @cached_property
    def _ends(self) -> tuple[Any, int]:
        """Where each sequence ends, behind a 0, and the longest; the spare rows are a sequence of their own.

        Made once for all layers: each copy to a GPU waits for what it has to do.
        """
        lengths = np.append(self.spans.length, -self.num_tokens % ROWS)
        ends = self._tensor(np.append(0, lengths.cumsum()).astype(np.int32))
        return ends, int(lengths.max())

    def _in_slabs(self, query: Any, key: Any, value: Any, scaling: float) -> Any:
        """Attention of sequences of one length at a time."""
        pad = self.torch.nn.functional.pad
        attention = self.torch.nn.functional.scaled_dot_product_attention
        states = query.new_zeros(*query.shape[:2], value.shape[2])
        for slab in self.slabs:
            # Heads before tokens, as the kernel reads them: [sequences, heads, length, d/heads].
            q, k, v = (slab.rows(x).transpose(1, 2) for x in (query, key, value))
            # Only queries are padded: spare ones change no other, spare keys would be attended to.
            spare = -slab.length % QUERIES
            q = pad(q, (0, 0, 0, spare))
            if self.bias is not None and slab.length not in self._biases:
                self._biases[slab.length] = pad(self.bias(slab.length), (0, 0, 0, spare))[None]
            added = self._biases.get(slab.length)
            attended = attention(q, k, v, attn_mask=added, scale=scaling)
            # The rows of the spare queries are left out, the others written to their tokens.
            attended = attended[:, :, : slab.length]
            slab.rows(states).copy_(attended.transpose(1, 2))
        return states

    @cached_property
    def _groups(self) -> Attention:
        """Attention of sequences of about one length at a time."""
        rows = self.num_tokens + -self.num_tokens % ROWS
        return Attention(self.spans, self.spans, rows, self.device, bias=self.bias)


@cache
def _varlen(device: Any, dtype: Any, width: int) -> Any:
    """torch's attention over sequences of unequal lengths, None where it has none that computes the same."""
    import torch

    try:
        from torch.nn.attention.varlen import varlen_attn

        generator = torch.Generator().manual_seed(0)
        x = torch.randn(ROWS, 2, width, generator=generator).to(device, dtype)
        ends = torch.tensor([0, 7, ROWS], dtype=torch.int32, device=device)
        own: Any = varlen_attn(x, x, x, ends, ends, 9, 9, scale=width**-0.5)
        parts = [part.transpose(0, 1) for part in (x[:7], x[7:])]  # [heads, length, width] each
        usual = [torch.nn.functional.scaled_dot_product_attention(p, p, p) for p in parts]
        expected = torch.cat(usual, 1).transpose(0, 1)
        return varlen_attn if bool(((own - expected).abs() < KERNEL_TOLERANCE).all()) else None
    except Exception:  # an older torch, another precision or processor: many kinds
        return None


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

    def seen(self, shared: int, bias: Bias | None, dtype: Any) -> Any:
        """The mask for so many queries of one key head, or what is added to scores, [n, heads, shared * q, k]."""
        if bias is None:
            return self.mask.repeat(1, 1, shared, 1) if shared > 1 else self.mask
        added = bias(self.keys.shape[1]).to(dtype)  # [heads, k, k]
        return added.masked_fill(~self.mask, float("-inf"))


class Attention:
    """Attention of sequences to what is before them, and to themselves.

    Args:
        queries: the n sequences, some of which may be empty.
        before: what every token of each of them sees, in the matrix of the keys, n spans.
        rows: rows of the queries' matrix; those of no sequence come out as anything.
        device: where tensors are made.
        own: tokens also see their own sequence up to themselves; keys and queries are then rows of one matrix.
        window: how many keys a token sees at most, with `own` those up to itself; all if not given.
        bias: addends of the attention scores of a sequence by its length, where it attends to itself.
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
        bias: Bias | None = None,
    ) -> None:
        import torch

        self.bias = bias
        self.groups: list[_Group] = []
        # Masks of the groups, alike in all layers.
        self.masks: list[Any] = []
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
        if not self.masks:
            self.masks = [group.seen(shared, self.bias, query.dtype) for group in self.groups]
        states = []
        for group, mask in zip(self.groups, self.masks, strict=True):
            q = _at(group.queries, query)  # [n, heads, q, d]
            k = _at(group.keys, key)  # [n, heads, k, d]
            v = _at(group.keys, value)  # [n, heads, k, d]
            if shared > 1:
                # The queries of all heads that share keys stand one after the other: [n, key heads, shared * q, d].
                q = q.reshape(len(q), key.shape[1], -1, q.shape[3])
            attended = attention(q, k, v, attn_mask=mask, scale=scaling)  # [n, heads, q, d]
            if shared > 1:
                attended = attended.reshape(len(q), num_heads, -1, attended.shape[3])
            by_sequence = attended.transpose(1, 2)  # [n, q, heads, d]
            states.append(by_sequence.flatten(0, 1))  # [n * q, heads, d]
        return torch.cat(states).index_select(0, self.state_rows)


def _of_one_shape(num_queries: IntArray, num_keys: IntArray) -> Iterator[IntArray]:
    """Numbers of the sequences of each padded shape, without the empty ones; num_queries, num_keys: [n]."""
    # Lengths in units of 16, rounded up.
    query_units = -(-num_queries // ROWS)  # [n]
    key_units = -(-num_keys // ROWS)  # [n]
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
    return _Group(queries.start[:, None] + query, key_rows, mask)


def _padded(lengths: IntArray) -> int:
    """The greatest of lengths [n], to the next multiple of 16."""
    greatest = int(lengths.max())
    return -(-greatest // ROWS) * ROWS


def _at(rows: Any, x: Any) -> Any:
    """Rows [n, q] of a matrix [rows, heads, d] as [n, heads, q, d]."""
    selected = x.index_select(0, rows.flatten())  # [n * q, heads, d]
    by_sequence = selected.view(*rows.shape, *x.shape[1:])  # [n, q, heads, d]
    return by_sequence.transpose(1, 2)
