"""The network of MetricX: the encoder of mT5, one step of its decoder, and one row of its vocabulary matrix.

    E = encoder(x),   d = decoder(the start token | E),   score = w . d,   w: the row of the regression token

Norms divide by the root mean square and stand before what they feed; there are no biases of layers. Attention scores
are not scaled, and those of the encoder have a bias that depends on the distance of the two tokens.

One decoder step attends to itself alone, so its self-attention is o(v(norm(d))). Its attention to E needs no keys or
values of every token: with q the query of a head, scores are E (W_k^T q), and the result is W_v (sum_t a_t E_t).

A transformers class is not used, as the configuration of mT5 on transformers 5 says that embeddings are tied whatever
the file says, and tied ones are scaled. Tokens of a batch are rows of one matrix (see `packed_attention`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

import numpy as np
import torch
from torch.nn.functional import gelu, pad

from ...representations import FloatArray, IntArray, Ragged
from ..models.elementwise import elementwise
from ..models.linear_products import linear
from ..models.packed_attention import ROWS, Slab, attention_within, slabs_of
from ..models.pass_flops import Stack
from .t5_weights import DecoderLayer, FeedForward, T5Weights


class T5Regression:
    """The loaded network.

    Args:
        weights: of the network; moved to `device`, but for the table of word embeddings.
        device: where it runs.
        dtype: precision of products; norms, attention weights and sums of the decoder's are float32.
    """

    def __init__(self, weights: T5Weights, device: torch.device, dtype: torch.dtype) -> None:
        self.config = weights.config
        self.device, self.dtype = device, dtype
        self.embedding = weights.embedding  # [vocabulary, d], where the file is mapped
        moved = weights.moved(device, dtype)
        self.encoder, self.encoder_norm = moved.encoder, moved.encoder_norm
        self.decoder, self.decoder_norm = moved.decoder, moved.decoder_norm
        self.row = moved.row.float()  # [d]
        self.distances = DistanceBias(
            moved.distance_bias.float(), self.config.relative_attention_max_distance
        )

    def scores(self, ids: Ragged) -> FloatArray:
        """The regression value of every sequence, before any clamp, [n]."""
        order = np.argsort(ids.lengths, kind="stable")
        slabs = slabs_of(ids.lengths[order].tolist())
        with torch.inference_mode():
            states = self._encoded(ids[order].values, slabs)  # [tokens, d]
            values = self._decoded(states, slabs, len(order))  # [n]
        result = np.empty(len(order))
        result[order] = values.double().cpu().numpy()
        return result

    def flops(self, lengths: IntArray) -> float:
        """Floating point operations of passes over sequences of these lengths, [n]."""
        config = self.config
        width, heads = config.d_model, config.num_heads
        encoder = Stack(config.num_layers, width, heads * config.d_kv, config.d_ff, 3)
        # The step of a decoder's layer: six matrices of its two attentions, and each head's sums of the states.
        decoder = encoder._replace(layers=config.num_decoder_layers)
        of_step = decoder.products + 2 * width * heads * config.d_kv
        of_sums = 2 * heads * width * float(lengths.sum())
        of_decoder = 2 * decoder.layers * (of_step * len(lengths) + of_sums)
        return encoder.flops(lengths) + of_decoder

    def _encoded(self, tokens: IntArray, slabs: Sequence[Slab]) -> torch.Tensor:
        """The encoder's states of a batch, [tokens and spare rows, d]; tokens: [tokens]."""
        spare = -len(tokens) % ROWS
        ids = torch.from_numpy(np.pad(tokens, (0, spare), mode="edge"))
        x = self.embedding[ids].to(self.device, self.dtype)  # [rows, d]
        attend = attention_within(slabs, self.distances.of_length(self.dtype))
        heads = self.config.num_heads
        for layer in self.encoder:
            normed = self._norm(x, layer.attention_norm)
            # One batch of all rows, heads before rows: [1, heads, rows, d/heads].
            query, key, value = (
                linear(normed, weight).view(1, len(x), heads, -1).transpose(1, 2)
                for weight in (layer.query, layer.key, layer.value)
            )
            attended = attend(query, key, value, 1.0)[0].flatten(1)  # [rows, heads d/heads]
            x = x + linear(attended, layer.out)
            x = x + self._fed_forward(self._norm(x, layer.feed_forward.norm), layer.feed_forward)
        return self._norm(x, self.encoder_norm)

    def _decoded(self, states: torch.Tensor, slabs: Sequence[Slab], num: int) -> torch.Tensor:
        """The regression value of every sequence [n], from the encoder's states [tokens, d] of all of them."""
        start = self.embedding[self.config.decoder_start_token_id]
        x = start.to(self.device, self.dtype).expand(num + -num % ROWS, -1)  # [n and spare, d]
        for layer in self.decoder:
            itself = linear(self._norm(x, layer.self_norm), layer.self_value)
            x = x + linear(itself, layer.self_out)
            queries = self._norm(x, layer.cross_norm)
            x = x + self._looked_up(queries, layer, states, slabs)
            x = x + self._fed_forward(self._norm(x, layer.feed_forward.norm), layer.feed_forward)
        # Products and sums of single rows, so that none depends on how many there are.
        values: torch.Tensor = (self._norm(x, self.decoder_norm).float() * self.row).sum(1)
        return values[:num]

    def _looked_up(
        self,
        x: torch.Tensor,
        layer: DecoderLayer,
        states: torch.Tensor,
        slabs: Sequence[Slab],
    ) -> torch.Tensor:
        """What attention to the encoder's states [tokens, d] adds to x [n and spare rows, d], of the same shape."""
        heads = self.config.num_heads
        width = x.shape[1]
        query = linear(x, layer.cross_query).view(len(x), heads, -1)  # [n, heads, d/heads]
        # W_k^T q of every head, [n, heads, d].
        of_keys = layer.cross_key.view(heads, -1, width)  # [heads, d/heads, d]
        sought = torch.matmul(query.transpose(0, 1), of_keys).transpose(0, 1)
        # sum_t a_t E_t of every head, [n and spare rows, heads, d].
        seen = x.new_zeros(len(x), heads, width)
        first = 0
        for slab in slabs:
            rows = slice(first, first + slab.sequences)
            seen[rows] = _attended(slab.rows(states), sought[rows])
            first += slab.sequences
        of_values = layer.cross_value.view(heads, -1, width)  # [heads, d/heads, d]
        value = torch.matmul(seen.transpose(0, 1), of_values.transpose(1, 2))  # [heads, n, d/heads]
        return linear(value.transpose(0, 1).flatten(1), layer.cross_out)

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """x / sqrt(mean x^2 + eps) * weight, row by row [rows, d]."""
        wide = x.float()
        scale = (wide.square().mean(1, keepdim=True) + self.config.layer_norm_epsilon).rsqrt()
        return (wide * scale).to(x.dtype) * weight

    def _fed_forward(self, x: torch.Tensor, layer: FeedForward) -> torch.Tensor:
        """wo (gelu(wi_0 x) * wi_1 x), [rows, d] of x [rows, d]."""
        gate = elementwise(_gelu, linear(x, layer.wi_0))
        return linear(gate * linear(x, layer.wi_1), layer.wo)


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return gelu(x, approximate="tanh")


def _attended(states: torch.Tensor, sought: torch.Tensor) -> torch.Tensor:
    """Sums of the states [n, length, d] under the attention weights of sought vectors [n, heads, d]; [n, heads, d]."""
    # One sequence at a time, and a multiple of 16 tokens, so that no product depends on the number of sequences.
    spare = -states.shape[1] % ROWS
    sums = []
    for of_one, wanted in zip(states, sought, strict=True):
        tokens = pad(of_one, (0, 0, 0, spare))  # [length and spare, d]
        scores = (tokens @ wanted.T).float()  # [length and spare, heads]
        if spare:
            scores[-spare:] = -torch.inf
        weights = scores.softmax(0).to(states.dtype)
        sums.append(weights.T @ tokens)  # [heads, d]
    return torch.stack(sums)


class DistanceBias:
    """What the encoder adds to attention scores, by the distance of key and query.

    Distances up to half of a side's buckets have one each, longer ones share buckets that grow exponentially, up to
    `max_distance`; keys before and behind the query have buckets of their own.

    Args:
        table: bias of every bucket, [buckets, heads].
        max_distance: from here on all distances share the last bucket.
    """

    def __init__(self, table: torch.Tensor, max_distance: int) -> None:
        self.table, self.max_distance = table, max_distance

    def of_length(self, dtype: torch.dtype) -> Callable[[int], torch.Tensor]:
        """A function from a length to the bias [heads, length, length] of sequences of that length."""

        def bias(length: int) -> torch.Tensor:
            place = torch.arange(length, device=self.table.device)
            distance = place[None, :] - place[:, None]  # [queries, keys]
            by_distance = self.table[self._buckets(length)].to(dtype)  # [2 length - 1, heads]
            return by_distance[distance + length - 1].permute(2, 0, 1).contiguous()

        return bias

    def _buckets(self, length: int) -> torch.Tensor:
        """The bucket of every distance from -(length - 1) to length - 1, [2 length - 1]."""
        distance = torch.arange(1 - length, length, device=self.table.device)
        per_side = len(self.table) // 2
        exact = per_side // 2
        far = distance.abs()
        # Exponentially growing buckets from `exact` to `max_distance`.
        share = torch.log(far.clamp(min=1).float() / exact) / log(self.max_distance / exact)
        shared = (exact + (share * (per_side - exact)).long()).clamp(max=per_side - 1)
        bucket = torch.where(far < exact, far, shared)
        return bucket + (distance > 0) * per_side
