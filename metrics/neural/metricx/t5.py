"""The network of MetricX: the encoder of mT5, one step of its decoder, and one row of its vocabulary matrix.

    E = encoder(x),   d = decoder(the start token | E),   score = w . d,   w: the row of the regression token

Norms divide by the root mean square and stand before what they feed; there are no biases of layers. Attention scores
are not scaled, and those of the encoder have a bias that depends on the distance of the two tokens.

One decoder step attends to itself alone, so its self-attention is o(v(norm(d))). Its attention to E needs no keys or
values of every token: with q the query of a head, scores are E (W_k^T q), and the result is W_v (sum_t a_t E_t).

A transformers class is not used, as the configuration of mT5 on transformers 5 says that embeddings are tied whatever
the file says, and tied ones are scaled. Tokens of a batch are rows of one matrix (see `attention`).

Weights are demanded by name and checked: of mT5's the regression reads the encoder, the decoder and one row of
``lm_head.weight``: that matrix is never loaded whole. It must be in the file, as a class that ties it to the embeddings
would scale every score.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch.nn.functional import gelu, pad
from transformers import MT5Config, MT5ForConditionalGeneration

from ...errors import ModelLoadError
from ...representations import FloatArray, IntArray, Ragged
from ...spec.checked_settings import Field
from ..models.attention import ROWS, Attention, Packing, Spans
from ..models.elementwise import elementwise
from ..models.encoder import Stack
from ..models.files.folder_contents import (
    load_strictly,
    read_row,
    read_settings,
    read_weights,
)
from ..models.linear_products import linear

Size = Annotated[int, Field(ge=1, le=1 << 20)]
Layers = Annotated[int, Field(ge=1, le=256)]
HEAD = "lm_head.weight"
# Copies of the embeddings; the head, of which one row is read by itself.
UNUSED = re.compile(r"(encoder|decoder)\.embed_tokens\.weight|lm_head\.weight")
# Of the decoder's self-attention, one step needs neither query, key nor distances; the embeddings stay where they are.
UNREAD = re.compile(r"shared|decoder\..*\.0\.SelfAttention\.(q|k|relative_attention_bias)")
# Names of weights on either side.
NORM, BIAS = "final_layer_norm", "block.0.layer.0.SelfAttention.relative_attention_bias"


@dataclass(frozen=True, kw_only=True)
class T5Config:
    """The settings of the network in config.json."""

    model_type: Literal["mt5"]
    vocab_size: Annotated[int, Field(ge=1, le=1 << 24)]
    d_model: Size
    d_kv: Size
    d_ff: Size
    num_layers: Layers
    num_decoder_layers: Layers
    num_heads: Size
    relative_attention_num_buckets: Annotated[int, Field(ge=4, le=4096)] = 32
    relative_attention_max_distance: Annotated[int, Field(ge=2, le=1 << 20)] = 128
    feed_forward_proj: Literal["gated-gelu"] = "gated-gelu"
    layer_norm_epsilon: Annotated[float, Field(gt=0, lt=1)] = 1e-6
    decoder_start_token_id: Annotated[int, Field(ge=0)] = 0


class T5Regression:
    """The network of a folder.

    Args:
        folder: the model; weights are moved to `device`, but for the table of word embeddings.
        regression_token: the row of the vocabulary matrix that is read.
        device: where it runs.
        dtype: precision of products; norms, attention weights and sums of the decoder's are float32.

    Raises:
        ModelLoadError: it is of another kind, weights are missing, left over, of other shapes or not finite, or there
            is no such token.
    """

    def __init__(
        self, folder: Path, regression_token: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.config = read_settings(folder / "config.json", T5Config)
        self.device, self.dtype = device, dtype
        # By their names in the file, without ".weight".
        tensors = read_t5(folder, self.config, regression_token)
        # [vocabulary, d], on a CPU where the file is mapped.
        self.embedding = tensors["shared"]
        if device.type == "cuda":
            self.embedding = self.embedding.to(device, dtype)
        moved = {
            name: tensor.to(device, dtype)
            for name, tensor in tensors.items()
            if not UNREAD.fullmatch(name)
        }
        self.encoder = [_block(moved, "encoder", i) for i in range(self.config.num_layers)]
        self.decoder = [_block(moved, "decoder", i) for i in range(self.config.num_decoder_layers)]
        self.encoder_norm, self.decoder_norm = moved[f"encoder.{NORM}"], moved[f"decoder.{NORM}"]
        self.row = moved["lm_head"][0].float()  # [d]
        self.distances = DistanceBias(
            moved[f"encoder.{BIAS}"], self.config.relative_attention_max_distance
        )

    def scores(self, ids: Ragged) -> FloatArray:
        """The regression value of every sequence, before any clamp, [n]."""
        packing = Packing(ids.lengths, self.device, self.distances.of_length)
        with torch.inference_mode():
            states = self._encoded(ids, packing)  # [tokens, d]
            values: FloatArray = self._decoded(states, packing).double().cpu().numpy()  # [n]
        result = np.empty(len(values))
        result[packing.order] = values
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

    def _encoded(self, ids: Ragged, packing: Packing) -> torch.Tensor:
        """The encoder's states of a batch, [tokens and spare rows, d]."""
        rows = packing.row(ids)[0].to(self.embedding.device)
        x = self.embedding[rows].to(self.device, self.dtype)  # [rows, d]
        heads = self.config.num_heads
        for layer in self.encoder:
            normed = self._norm(x, layer["0.layer_norm"])
            query, key, value = (
                linear(normed, weight).view(len(x), heads, -1)  # [rows, heads, d/heads]
                for weight in (layer[f"0.SelfAttention.{name}"] for name in "qkv")
            )
            attended = packing(query, key, value, 1.0).flatten(1)  # [rows, heads d/heads]
            x = x + linear(attended, layer["0.SelfAttention.o"])
            x = x + self._fed_forward(x, layer, 1)
        return self._norm(x, self.encoder_norm)

    def _decoded(self, states: torch.Tensor, packing: Packing) -> torch.Tensor:
        """The regression value of every sequence [n] in the packing's order, from the encoder's states [rows, d]."""
        num = len(packing.order)
        start = self.embedding[self.config.decoder_start_token_id]
        x = start.to(self.device, self.dtype).expand(num + -num % ROWS, -1)  # [n and spare, d]
        # On a GPU the one query of every sequence attends to the states as any other.
        ones = Spans.of_lengths(np.ones(num, np.int64))
        to_states = None if packing.on_cpu else Attention(ones, packing.spans, len(x), self.device)
        for layer in self.decoder:
            itself = linear(self._norm(x, layer["0.layer_norm"]), layer["0.SelfAttention.v"])
            x = x + linear(itself, layer["0.SelfAttention.o"])
            queries = self._norm(x, layer["1.layer_norm"])
            x = x + self._looked_up(queries, layer, states, packing, to_states)
            x = x + self._fed_forward(x, layer, 2)
        # Products and sums of single rows, so that none depends on how many there are.
        values: torch.Tensor = (self._norm(x, self.decoder_norm).float() * self.row).sum(1)
        return values[:num]

    def _looked_up(
        self,
        x: torch.Tensor,
        layer: Mapping[str, Any],
        states: torch.Tensor,
        packing: Packing,
        to_states: Attention | None,
    ) -> torch.Tensor:
        """The attention of x [n and spare rows, d] to the encoder's states [rows, d], of the shape of x."""
        heads = self.config.num_heads
        width = x.shape[1]
        query = linear(x, layer["1.EncDecAttention.q"]).view(
            len(x), heads, -1
        )  # [n, heads, d/heads]
        # W_k^T q of every head, [n, heads, d].
        of_keys = layer["1.EncDecAttention.k"].view(heads, -1, width)  # [heads, d/heads, d]
        sought = torch.matmul(query.transpose(0, 1), of_keys).transpose(0, 1)
        # sum_t a_t E_t of every head, [n and spare rows, heads, d].
        if to_states is not None:
            seen = to_states(sought, states[:, None], states[:, None], 1.0)
        else:
            seen = x.new_zeros(len(x), heads, width)
            first = 0
            for slab in packing.slabs:
                rows = slice(first, first + slab.sequences)
                seen[rows] = _attended(slab.rows(states), sought[rows])
                first += slab.sequences
        of_values = layer["1.EncDecAttention.v"].view(heads, -1, width)  # [heads, d/heads, d]
        value = torch.matmul(seen.transpose(0, 1), of_values.transpose(1, 2))  # [heads, n, d/heads]
        return linear(value.transpose(0, 1).flatten(1), layer["1.EncDecAttention.o"])

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """x / sqrt(mean x^2 + eps) * weight, row by row [rows, d]."""
        wide = x.float()
        scale = (wide.square().mean(1, keepdim=True) + self.config.layer_norm_epsilon).rsqrt()
        return (wide * scale).to(x.dtype) * weight

    def _fed_forward(self, x: torch.Tensor, layer: Mapping[str, Any], place: int) -> torch.Tensor:
        """wo (gelu(wi_0 y) * wi_1 y), [rows, d], y the norm of x [rows, d]; place: of that part in the layer."""
        x = self._norm(x, layer[f"{place}.layer_norm"])
        wi_0, wi_1, wo = (
            layer[f"{place}.DenseReluDense.{name}"] for name in ("wi_0", "wi_1", "wo")
        )
        return linear(elementwise(_gelu, linear(x, wi_0)) * linear(x, wi_1), wo)


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
    """The bias of the encoder's attention scores, by the distance of key and query.

    Distances up to half of a side's buckets have one each, longer ones share buckets that grow exponentially, up to
    `max_distance`; keys before and behind the query have buckets of their own.

    Args:
        table: bias of every bucket, [buckets, heads].
        max_distance: from here on all distances share the last bucket.
    """

    def __init__(self, table: torch.Tensor, max_distance: int) -> None:
        self.table, self.max_distance = table, max_distance

    def of_length(self, length: int) -> torch.Tensor:
        """The bias [heads, length, length] of sequences of a length."""
        place = torch.arange(length, device=self.table.device)
        distance = place[None, :] - place[:, None]  # [queries, keys]
        by_distance = self.table[self._buckets(length)]  # [2 length - 1, heads]
        return by_distance[distance + length - 1].permute(2, 0, 1).contiguous()

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


def _block(tensors: Mapping[str, Any], side: str, number: int) -> dict[str, Any]:
    """The weights of one layer of a side, by their names behind ``layer.``."""
    prefix = f"{side}.block.{number}.layer."
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def read_t5(folder: Path, config: T5Config, regression_token: int) -> dict[str, Any]:
    """The weights of a folder by their names, without ".weight"; of the vocabulary matrix one row, [1, d].

    Raises:
        ModelLoadError: as `T5Regression`.
    """
    if regression_token >= config.vocab_size:
        raise ModelLoadError(
            f"vocab_size {config.vocab_size} <= regression token {regression_token}",
            where=str(folder),
            fix="Is it a model of MetricX? For a small test model pass regression_token_id=...",
        )
    with torch.device("meta"):
        network = MT5ForConditionalGeneration(MT5Config(**asdict(config)))
        # One row of the vocabulary matrix; the embeddings stand once in the file, or are copies there.
        network.lm_head = torch.nn.Linear(config.d_model, 1, bias=False)
        for side in (network.encoder, network.decoder):
            side.embed_tokens = torch.nn.Identity()  # type: ignore[assignment]
    state = {**read_weights(folder, UNUSED), HEAD: read_row(folder, HEAD, regression_token)[None]}
    loaded = load_strictly(network, state, folder).state_dict()
    return {name.removesuffix(".weight"): tensor for name, tensor in loaded.items()}
