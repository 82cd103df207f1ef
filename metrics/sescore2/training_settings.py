"""The settings of training the regression model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from ..spec.checked_settings import Field, settings


@settings
class Training:
    """How the model is trained.

    Args:
        backbone: the encoder to start from: minilm, a folder or a name on the hub.
        pairs: how many synthetic pairs are used, drawn at random; all if not given.
        epochs: passes over them.
        batch_size: pairs in one step of the optimiser.
        accumulation: parts that a batch is computed in, one after the other, where it does not fit the memory.
        learning_rate: of the encoder at the first step; it falls to 0 in a line.
        head_learning_rate: of the head, which starts from nothing.
        warmup: share of the steps over which rates rise first.
        weight_decay: of AdamW.
        dropout: of encoder and head.
        frozen_layers: the embeddings and so many layers of the encoder stay as they are; -1 for all of it, so that each
            text is encoded once, without dropout, and only the head is trained.
        identical: how often an anchor is paired with itself, beside each synthetic pair.
        strange: how often with another anchor.
        max_tokens: the longest text.
        validate_every: steps between validations; once an epoch if not given.
        patience: so many validations in a row without gain end the training; never if not given. It needs validation.
        save_every_seconds: time between states to resume from.
        devices: GPUs that share the work, such as cuda:0 cuda:1; --device alone if not given.
        seed: of all draws.
    """

    backbone: str = "minilm"
    pairs: Annotated[int, Field(ge=1)] | None = None
    epochs: Annotated[int, Field(ge=1)] = 1
    batch_size: Annotated[int, Field(ge=1)] = 32
    accumulation: Annotated[int, Field(ge=1)] = 1
    learning_rate: Annotated[float, Field(ge=0, le=1)] = 3e-5
    head_learning_rate: Annotated[float, Field(ge=0, le=1)] = 3e-4
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.01
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    frozen_layers: Annotated[int, Field(ge=-1)] = 0
    identical: Annotated[float, Field(ge=0, le=1)] = 1 / 16
    strange: Annotated[float, Field(ge=0, le=1)] = 1 / 16
    max_tokens: Annotated[int, Field(ge=8)] = 256
    validate_every: Annotated[int, Field(ge=1)] | None = None
    patience: Annotated[int, Field(ge=1)] | None = None
    save_every_seconds: Annotated[float, Field(ge=0)] = 120.0
    devices: tuple[str, ...] = ()
    seed: Annotated[int, Field(ge=0)] = 1


def lasting(settings: Training) -> dict[str, Any]:
    """The settings that weights depend on."""
    passing = {"save_every_seconds", "devices"}
    return {name: value for name, value in asdict(settings).items() if name not in passing}
