"""The regression model of SEScore2 while it is trained: an encoder, mean pooling, and a head over pairs.

    f = [y, x, x*y, |y - x|],    score = w3 . tanh(W2 tanh(W1 f + b1) + b2) + b3

for a hypothesis y and a reference x, each the mean of the last layer over all tokens; dropout follows every tanh. While
it is trained, the last layer gives the score in tens (`UNIT`): Adam moves all weights by steps of one size, and steps
that reach -50 in w3 would saturate the tanh below it. Saved weights are those of the equation.
Scoring uses the packed encoder and the factorised head instead (see `metric`), which give the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..representations import FloatArray, IntArray, Ragged

UNIT = 10.0  # of the last layer's output while it is trained
# places of the linear layers in the head; an activation and a dropout stand between two
LINEAR = (0, 3, 6)


def make_network(encoder: Any, dropout: float) -> Any:
    """Encoder and a fresh head as one torch module with the parts "encoder" and "estimator"."""
    from torch import nn

    width = encoder.config.hidden_size
    estimator = nn.Sequential(
        nn.Linear(4 * width, 2 * width),
        nn.Tanh(),
        nn.Dropout(dropout),
        nn.Linear(2 * width, width),
        nn.Tanh(),
        nn.Dropout(dropout),
        nn.Linear(width, 1),
    )
    return nn.ModuleDict({"encoder": encoder, "estimator": estimator})


def set_dropout(network: Any, share: float) -> None:
    """Gives every dropout of the network this share; attention included."""
    from torch import nn

    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = share
        elif hasattr(module, "attention_dropout") and isinstance(module.attention_dropout, float):
            module.attention_dropout = share


def freeze(network: Any, layers: int) -> None:
    """Keeps the embeddings and the first layers of the encoder as they are; nothing for 0.

    Args:
        network: the network.
        layers: the number of layers; -1 for all of them.

    Raises:
        InputError: the encoder keeps its layers elsewhere than those of the BERT family.
    """
    encoder = network["encoder"]
    if layers < 0:
        encoder.requires_grad_(False)
    elif layers:
        all_layers = getattr(getattr(encoder, "encoder", None), "layer", None)
        if all_layers is None or not hasattr(encoder, "embeddings"):
            problem = f"layers of {encoder.config.model_type} are not known here"
            raise InputError(problem, where="frozen_layers", fix="Give 0 or -1")
        encoder.embeddings.requires_grad_(False)
        for layer in all_layers[:layers]:
            layer.requires_grad_(False)


def pooled(
    encoder: Any,
    ids: Any,
    mask: Any,
    devices: Sequence[str] = (),
) -> Any:
    """Text vectors [n, d] of token ids [n, length] with their mask [n, length].

    The rows are spread over several devices where these are given.
    """
    import torch

    if len(devices) > 1:
        numbers = [torch.device(device).index or 0 for device in devices]
        out: Any = torch.nn.parallel.data_parallel(encoder, (ids, mask), numbers)
    else:
        out = encoder(input_ids=ids, attention_mask=mask)
    states = out.last_hidden_state  # [n, length, d]
    counted = mask[..., None].to(states.dtype)
    return (states * counted).sum(1) / counted.sum(1)


def head_scores(estimator: Any, h: Any, r: Any) -> Any:
    """Scores [n] of hypothesis and reference vectors [n, d]."""
    import torch

    features = torch.cat((h, r, h * r, (h - r).abs()), 1)  # [n, 4 d]
    return estimator(features)[:, 0] * UNIT


def head_state(network: Any) -> dict[str, Any]:
    """The head's tensors by their names on disk, as the equation has them."""
    state = {}
    for name, value in network["estimator"].state_dict().items():
        state[name] = value.detach().float().cpu().clone()
    last = LINEAR[-1]
    for name in (f"{last}.weight", f"{last}.bias"):
        state[name] *= UNIT
    return state


def load_head(network: Any, state: Mapping[str, Any]) -> None:
    """Puts tensors as `head_state` gives them into the head."""
    last = f"{LINEAR[-1]}."
    in_units = {}
    for name, value in state.items():
        in_units[name] = value / UNIT if name.startswith(last) else value
    network["estimator"].load_state_dict(in_units)


def batch_of(
    ids: Ragged,
    rows: IntArray,
    padding: int,
    device: Any,
) -> tuple[Any, Any]:
    """Token ids and attention mask [rows, longest] on the device."""
    import torch

    part = ids[rows]
    longest = int(part.lengths.max())
    mask = np.arange(longest) < part.lengths[:, None]
    tokens = np.full(mask.shape, padding, np.int64)
    tokens[mask] = part.values
    attention_mask = torch.from_numpy(mask.astype(np.int64))
    return torch.from_numpy(tokens).to(device), attention_mask.to(device)


def vectors_of(
    encoder: Any,
    ids: Ragged,
    padding: int,
    device: Any,
    rows: int = 64,
) -> Any:
    """Text vectors [n, d] of all rows of `ids`, without gradients; the encoder in the mode that it is in."""
    import torch

    order = np.argsort(ids.lengths, kind="stable")
    vectors = torch.empty(len(order), encoder.config.hidden_size, device=device)
    with torch.no_grad():
        for start in range(0, len(order), rows):
            part = order[start : start + rows]
            place = torch.from_numpy(part).to(device)
            tokens, mask = batch_of(ids, part, padding, device)
            vectors[place] = pooled(encoder, tokens, mask).float()
    return vectors


def scores(
    network: Any,
    ids: Ragged,
    pairs: IntArray,
    padding: int,
    device: Any,
) -> FloatArray:
    """Scores [n] of pairs [n, 2], rows of `ids` of the hypothesis and the reference; every text is encoded once."""
    import torch

    needed, place = np.unique(pairs, return_inverse=True)
    of_hypotheses, of_references = place.reshape(pairs.shape).T
    vectors = vectors_of(network["encoder"], ids[needed], padding, device)
    with torch.no_grad():
        h = vectors[torch.from_numpy(of_hypotheses).to(device)]
        r = vectors[torch.from_numpy(of_references).to(device)]
        values = head_scores(network["estimator"], h, r)
    return np.asarray(values.double().cpu().numpy())
