"""The network of BLEURT: BERT, whose embeddings may be narrower than its layers (as RemBERT's), and a linear head.

    score = w2 . tanh(W1 x_0 + b1) + b2,   x = BERT(P LayerNorm(word + position + type)),   no P where widths are equal

x_0 is the state of the first token. There is no sigmoid and no bound.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from ...spec.checked_settings import Field
from ..models.files.folder_contents import load_strictly, read_settings, read_weights

Size = Annotated[int, Field(ge=1, le=1 << 20)]

# transformers' names of the two forms of gelu.
GELU = {"erf": "gelu", "tanh": "gelu_pytorch_tanh"}
UNUSED = re.compile(r"bleurt\.embeddings\.position_ids")


@dataclass(frozen=True, kw_only=True)
class BleurtConfig:
    """The settings of the network in config.json."""

    model_type: Literal["bleurt"]
    vocab_size: Size
    embedding_size: Size | None = None
    hidden_size: Size
    num_hidden_layers: Annotated[int, Field(ge=1, le=256)]
    num_attention_heads: Size
    intermediate_size: Size
    hidden_act: Literal["gelu", "gelu_pytorch_tanh", "gelu_new", "relu"] = "gelu"
    max_position_embeddings: Size
    type_vocab_size: Annotated[int, Field(ge=2, le=1024)] = 2
    layer_norm_eps: Annotated[float, Field(gt=0, lt=1)] = 1e-12


class Network(NamedTuple):
    """The encoder and the two linear layers (weight [out, in], bias [out]) over its first state."""

    encoder: Any
    layers: list[tuple[Any, Any]]


class Embeddings(nn.Module):
    """Vectors of tokens with their places and types, projected to the width of the layers if they are narrower."""

    def __init__(self, config: BleurtConfig) -> None:
        super().__init__()
        width = config.embedding_size or config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        projected = config.embedding_size is not None
        self.projection = nn.Linear(width, config.hidden_size) if projected else nn.Identity()

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, token_type_ids: Tensor, **_: Any
    ) -> Tensor:
        """Vectors [n, length, d] of tokens [n, length], their places and types."""
        words = self.word_embeddings(input_ids)
        types = self.token_type_embeddings(token_type_ids)
        places = self.position_embeddings(position_ids)
        vectors = self.LayerNorm(words + types + places)
        projected: Tensor = self.projection(vectors)
        return projected


def read_config(folder: Path) -> BleurtConfig:
    """The settings of a converted model.

    Raises:
        ModelLoadError: it is no model of BLEURT.
    """
    return read_settings(folder / "config.json", BleurtConfig)


def read_network(folder: Path, config: BleurtConfig, gelu: Literal["erf", "tanh"]) -> Network:
    """The network of a folder, every weight of it; "gelu" in its settings means the form `gelu`.

    Raises:
        ModelLoadError: weights are missing, left over, of other shapes or not finite.
    """
    activation = GELU[gelu] if config.hidden_act == "gelu" else config.hidden_act
    like_bert = BertConfig(
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        hidden_act=activation,
        layer_norm_eps=config.layer_norm_eps,
        max_position_embeddings=config.max_position_embeddings,
    )
    with torch.device("meta"):
        bert = BertModel(like_bert)
        bert.embeddings = Embeddings(config)  # type: ignore[assignment]
        classifier = nn.Linear(config.hidden_size, 1)
    state = {
        name.replace("encoder.embedding_projection", "embeddings.projection"): tensor
        for name, tensor in read_weights(folder, UNUSED).items()
    }
    load_strictly(nn.ModuleDict({"bleurt": bert, "classifier": classifier}), state, folder)
    layers: list[Any] = [bert.pooler.dense, classifier]  # type: ignore[union-attr]
    bert.pooler = None
    return Network(bert, [(layer.weight, layer.bias) for layer in layers])
