"""The weights of MetricX in the folder of a released model, each demanded by name and checked.

They are mT5's, of which the regression reads the encoder, the decoder and one row of ``lm_head.weight``: that matrix is
never loaded whole. It must be in the file, as a class that ties it to the embeddings would scale every score.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from ...errors import ModelLoadError
from ...spec.checked_settings import Field
from ..models.files.checked_tensors import CheckedTensors
from ..models.files.folder_weights import read_row, read_weights
from ..models.files.json_settings import read_settings

Size = Annotated[int, Field(ge=1, le=1 << 20)]
Layers = Annotated[int, Field(ge=1, le=256)]
HEAD = "lm_head.weight"
# Copies of the embeddings; the head, of which one row is read by itself.
UNUSED = re.compile(r"(encoder|decoder)\.embed_tokens\.weight|lm_head\.weight")


@dataclass(frozen=True, kw_only=True)
class T5Config:
    """What config.json says of the network."""

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


@dataclass(frozen=True, slots=True, eq=False)
class FeedForward:
    """Norm [d] and the three products, [ff, d] and [d, ff]."""

    norm: Any
    wi_0: Any
    wi_1: Any
    wo: Any


@dataclass(frozen=True, slots=True, eq=False)
class EncoderLayer:
    """Norm [d], attention [heads d_kv, d] and back, and the feed-forward part."""

    attention_norm: Any
    query: Any
    key: Any
    value: Any
    out: Any
    feed_forward: FeedForward


@dataclass(frozen=True, slots=True, eq=False)
class DecoderLayer:
    """As the encoder's, with attention to its states; of self-attention, query and key are not needed for one step."""

    self_norm: Any
    self_value: Any
    self_out: Any
    cross_norm: Any
    cross_query: Any
    cross_key: Any
    cross_value: Any
    cross_out: Any
    feed_forward: FeedForward


@dataclass(frozen=True, slots=True, eq=False)
class T5Weights:
    """All of them.

    Attributes:
        config: the sizes.
        embedding: of words, [vocabulary, d].
        row: of the regression token in the vocabulary matrix, [d].
        distance_bias: of buckets of distances, [buckets, heads].
        encoder, decoder: layers; encoder_norm, decoder_norm: what follows them, [d].
    """

    config: T5Config
    embedding: Any
    row: Any
    distance_bias: Any
    encoder: tuple[EncoderLayer, ...]
    encoder_norm: Any
    decoder: tuple[DecoderLayer, ...]
    decoder_norm: Any

    def moved(self, device: Any, dtype: Any) -> Self:
        """These on a device and in a precision, but for the embedding."""
        moved: Self = replace(_moved(replace(self, embedding=None), device, dtype))
        return replace(moved, embedding=self.embedding)


def _moved(value: Any, device: Any, dtype: Any) -> Any:
    """The tensors of a value on a device and in a precision."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(device, dtype)
    if isinstance(value, tuple):
        return tuple(_moved(part, device, dtype) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {
            field.name: _moved(getattr(value, field.name), device, dtype) for field in fields(value)
        }
        return replace(value, **parts)
    return value


def read_t5(folder: Path, regression_token: int) -> T5Weights:
    """The network in a folder.

    Raises:
        ModelLoadError: it is of another kind, weights are missing, left over, of other shapes or not finite, or there
            is no such token.
    """
    config = read_settings(folder / "config.json", T5Config)
    if regression_token >= config.vocab_size:
        raise ModelLoadError(
            f"vocab_size {config.vocab_size} <= regression token {regression_token}",
            where=str(folder),
            fix="Is it a model of MetricX? For a small test model pass regression_token_id=...",
        )
    tensors = CheckedTensors(folder, read_weights(folder, UNUSED), UNUSED)
    taken = _Taken(tensors, config)
    weights = T5Weights(
        config,
        taken.matrix("shared.weight", config.vocab_size, config.d_model),
        _head_row(folder, regression_token, config.d_model),
        taken.matrix(
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            config.relative_attention_num_buckets,
            config.num_heads,
        ),
        tuple(taken.encoder_layer(i) for i in range(config.num_layers)),
        taken.norm("encoder.final_layer_norm"),
        tuple(taken.decoder_layer(i) for i in range(config.num_decoder_layers)),
        taken.norm("decoder.final_layer_norm"),
    )
    taken.drop_unread()
    tensors.all_used()
    return weights


def _head_row(folder: Path, row: int, width: int) -> Any:
    """One row of the vocabulary matrix, checked; [d]."""
    tensors = CheckedTensors(folder, {HEAD: read_row(folder, HEAD, row)}, re.compile(r"(?!)"))
    return tensors.take(HEAD, width)


class _Taken:
    """Takes the weights of layers by the names that mT5 gives them."""

    def __init__(self, tensors: CheckedTensors, config: T5Config) -> None:
        self.tensors = tensors
        self.width, self.inner, self.ff = (
            config.d_model,
            config.num_heads * config.d_kv,
            config.d_ff,
        )
        self.buckets, self.heads = config.relative_attention_num_buckets, config.num_heads

    def matrix(self, name: str, rows: int, columns: int) -> Any:
        self.tensors.demand([name])
        return self.tensors.take(name, rows, columns)

    def norm(self, name: str) -> Any:
        self.tensors.demand([f"{name}.weight"])
        return self.tensors.take(f"{name}.weight", self.width)

    def encoder_layer(self, i: int) -> EncoderLayer:
        block = f"encoder.block.{i}.layer"
        query, key, value, out = self.attention(f"{block}.0.SelfAttention")
        feed_forward = self.feed_forward(f"{block}.1")
        return EncoderLayer(
            self.norm(f"{block}.0.layer_norm"), query, key, value, out, feed_forward
        )

    def decoder_layer(self, i: int) -> DecoderLayer:
        block = f"decoder.block.{i}.layer"
        _, _, self_value, self_out = self.attention(f"{block}.0.SelfAttention")
        cross = self.attention(f"{block}.1.EncDecAttention")
        self_norm, cross_norm = (self.norm(f"{block}.{part}.layer_norm") for part in (0, 1))
        feed_forward = self.feed_forward(f"{block}.2")
        return DecoderLayer(self_norm, self_value, self_out, cross_norm, *cross, feed_forward)

    def attention(self, name: str) -> tuple[Any, Any, Any, Any]:
        """Query, key and value [heads d_kv, d] and what follows [d, heads d_kv]."""
        inward = [self.matrix(f"{name}.{part}.weight", self.inner, self.width) for part in "qkv"]
        query, key, value = inward
        return query, key, value, self.matrix(f"{name}.o.weight", self.width, self.inner)

    def feed_forward(self, name: str) -> FeedForward:
        part = f"{name}.DenseReluDense"
        wi_0, wi_1 = (self.matrix(f"{part}.wi_{k}.weight", self.ff, self.width) for k in (0, 1))
        wo = self.matrix(f"{part}.wo.weight", self.width, self.ff)
        return FeedForward(self.norm(f"{name}.layer_norm"), wi_0, wi_1, wo)

    def drop_unread(self) -> None:
        """Takes the decoder's distance bias, which one step does not need."""
        name = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        self.matrix(name, self.buckets, self.heads)
