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
LINEAR = (
    0,
    3,
    6,
)  # places of the linear layers in the head; an activation and a dropout stand between two


def make_network(encoder: Any, dropout: float) -> Any:
    """Encoder and a fresh head as one torch module with the parts "encoder" and "estimator"."""
    from torch import nn

    width = encoder.config.hidden_size
    estimator = nn.Sequential(
        *(nn.Linear(4 * width, 2 * width), nn.Tanh(), nn.Dropout(dropout)),
        *(nn.Linear(2 * width, width), nn.Tanh(), nn.Dropout(dropout)),
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
        layers: how many layers; -1 for all of them.

    Raises:
        InputError: the encoder keeps its layers elsewhere than those of the BERT family.
    """
    encoder = network["encoder"]
    if layers < 0:
        encoder.requires_grad_(False)
    elif layers:
        held = getattr(getattr(encoder, "encoder", None), "layer", None)
        if held is None or not hasattr(encoder, "embeddings"):
            kind = encoder.config.model_type
            raise InputError(
                f"layers of {kind} are not known here", where="frozen_layers", fix="Give 0 or -1"
            )
        encoder.embeddings.requires_grad_(False)
        for layer in held[:layers]:
            layer.requires_grad_(False)


def pooled(encoder: Any, ids: Any, mask: Any, devices: Sequence[str] = ()) -> Any:
    """Text vectors [n, d] of token ids [n, length]; the rows are spread over several devices where these are given."""
    import torch

    if len(devices) > 1:
        out: Any = torch.nn.parallel.data_parallel(
            encoder, (ids, mask), [torch.device(d).index or 0 for d in devices]
        )
    else:
        out = encoder(input_ids=ids, attention_mask=mask)
    counted = mask[..., None].to(out.last_hidden_state.dtype)
    return (out.last_hidden_state * counted).sum(1) / counted.sum(1)


def head_scores(estimator: Any, h: Any, r: Any) -> Any:
    """Scores [n] of hypothesis and reference vectors [n, d]."""
    import torch

    return estimator(torch.cat((h, r, h * r, (h - r).abs()), 1))[:, 0] * UNIT


def head_state(network: Any) -> dict[str, Any]:
    """The head's tensors by their names on disk, as the equation has them."""
    state = {
        name: value.detach().float().cpu().clone()
        for name, value in network["estimator"].state_dict().items()
    }
    for name in (f"{LINEAR[-1]}.weight", f"{LINEAR[-1]}.bias"):
        state[name] *= UNIT
    return state


def load_head(network: Any, state: Mapping[str, Any]) -> None:
    """Puts tensors as `head_state` gives them into the head."""
    last = f"{LINEAR[-1]}."
    network["estimator"].load_state_dict(
        {n: v / UNIT if n.startswith(last) else v for n, v in state.items()}
    )


def batch_of(ids: Ragged, rows: IntArray, padding: int, device: Any) -> tuple[Any, Any]:
    """Token ids and attention mask [rows, longest] on the device."""
    import torch

    part = ids[rows]
    longest = int(part.lengths.max())
    held = np.arange(longest) < part.lengths[:, None]
    tokens = np.full(held.shape, padding, np.int64)
    tokens[held] = part.values
    return torch.from_numpy(tokens).to(device), torch.from_numpy(held.astype(np.int64)).to(device)


def vectors_of(encoder: Any, ids: Ragged, padding: int, device: Any, rows: int = 64) -> Any:
    """Text vectors [n, d] of all rows of `ids`, without gradients; the encoder in the mode that it is in."""
    import torch

    order = np.argsort(ids.lengths, kind="stable")
    found = torch.empty(len(order), encoder.config.hidden_size, device=device)
    with torch.no_grad():
        for start in range(0, len(order), rows):
            part = order[start : start + rows]
            place = torch.from_numpy(part).to(device)
            found[place] = pooled(encoder, *batch_of(ids, part, padding, device)).float()
    return found


def scores(network: Any, ids: Ragged, pairs: IntArray, padding: int, device: Any) -> FloatArray:
    """Scores [n] of pairs [n, 2], rows of `ids` of the hypothesis and the reference; every text is encoded once."""
    import torch

    needed, place = np.unique(pairs, return_inverse=True)
    vectors = vectors_of(network["encoder"], ids[needed], padding, device)
    with torch.no_grad():
        h, r = (
            vectors[torch.from_numpy(column).to(device)] for column in place.reshape(pairs.shape).T
        )
        found: FloatArray = head_scores(network["estimator"], h, r).double().cpu().numpy()
    return found
