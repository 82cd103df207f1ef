"""The tensors of a COMET checkpoint, each checked when it is taken: its shape, its type, and that it is finite.

None may be missing and, once the encoder, the mix and the estimator have been taken, none left over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..models.files.checked_tensors import CheckedTensors

# How names of tensors begin.
ENCODER = "encoder.model."
SCALAR = "layerwise_attention.scalar_parameters."
GAMMA = "layerwise_attention.gamma"
WORD_LABELS = "hidden2tag"
# Buffers that old encoders saved, heads and buffers that only training needs.
UNUSED = (
    r"encoder\.model\.(embeddings\.(position_ids|token_type_ids)|pooler\..+)"
    r"|layerwise_attention\.dropout_(mask|fill)|(wordloss|(train|val)_(metrics|corr|mcc))\..+"
)


def tensors_of(path: Path, state: Mapping[str, Any], labels_words: bool) -> CheckedTensors:
    """The tensors of a COMET checkpoint that scores depend on; word labels are those of XCOMET alone."""
    unused = UNUSED if labels_words else rf"{UNUSED}|{WORD_LABELS}\..+"
    return CheckedTensors(path, state, re.compile(unused))


def encoder_of(tensors: CheckedTensors) -> dict[str, Any]:
    """The state dict of the encoder."""
    names = [name for name in tensors.left if name.startswith(ENCODER)]
    if not names:
        raise tensors.error(f"it has no tensors of an encoder ({ENCODER}*)")
    return {name.removeprefix(ENCODER): tensors.take(name) for name in names}


def estimator_of(tensors: CheckedTensors, hidden_sizes: list[int]) -> tuple[tuple[Any, Any], ...]:
    """Weight [out, in] and bias [out] of every linear layer."""
    inputs = [None, *hidden_sizes]
    outputs = [*hidden_sizes, 1]
    # An activation and a dropout stand between two, so that every third place is one.
    names = [f"estimator.ff.{3 * place}" for place in range(len(outputs))]
    needed = []
    for name in names:
        needed += [f"{name}.weight", f"{name}.bias"]
    tensors.demand(needed)
    layers = []
    for name, into, out in zip(names, inputs, outputs, strict=True):
        weight = tensors.take(f"{name}.weight", out, into)
        bias = tensors.take(f"{name}.bias", out)
        layers.append((weight, bias))
    return tuple(layers)


def mix_of(tensors: CheckedTensors, needed: bool) -> tuple[Any | None, Any | None]:
    """Weights of the layers [layers + 1] and gamma [1]; None in a model without a mix that needs none."""
    import torch

    count = sum(name.startswith(SCALAR) for name in tensors.left)
    if not needed and not count and GAMMA not in tensors.left:
        return None, None
    names = [f"{SCALAR}{layer}" for layer in range(max(count, 1))]
    tensors.demand([*names, GAMMA])
    scalars = torch.cat([tensors.take(name, 1) for name in names])
    gamma = tensors.take(GAMMA, 1)
    return scalars, gamma
