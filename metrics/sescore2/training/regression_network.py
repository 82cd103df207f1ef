"""The regression model of SEScore2 while it is trained: an encoder, mean pooling, and a head over pairs.

    f = [y, x, x*y, |y - x|],    score = w3 . tanh(W2 tanh(W1 f + b1) + b2) + b3

for a hypothesis y and a reference x, each the mean of the last layer over all tokens; dropout follows every tanh. While
it is trained, the last layer gives the score in tens (`UNIT`): Adam moves all weights by steps of one size, and steps
that reach -50 in w3 would saturate the tanh below it. Saved weights are those of the equation.

Scoring uses the packed encoder and the factorised head of `metric`, which give the same numbers. The bounds of its
rescaling are means over texts: low of random pairs, high of texts paired with themselves, encoded twice with dropout,
or without where the encoder was trained without it. Networks and released checkpoints are written as folders that
need neither a pickle nor their encoder's files again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, ModelLoadError
from ...neural.models.encoder import device_of
from ...neural.models.files import model_files as files
from ...neural.models.files.model_files import with_files
from ...neural.models.pretrained import quietly
from ...representations import FloatArray, IntArray, Ragged
from ...storage.atomic_files import complete_folder
from ...storage.json_and_yaml import read_small_json
from ...text.texts import Item
from ..metric import ABOUT, AGAIN, HEAD, LINEAR, SEScore2Model, read_model, reader_of

UNIT = 10.0  # of the last layer's output while it is trained


def make_network(encoder: Any, dropout: float) -> Any:
    """Encoder and a fresh head as one torch module with the parts "encoder" and "estimator".

    Every dropout of it has the given share, attention included.
    """
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
    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
        elif isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = dropout
    return nn.ModuleDict({"encoder": encoder, "estimator": estimator})


def pooled(encoder: Any, ids: Any, mask: Any) -> Any:
    """Text vectors [n, d] of token ids [n, length] with their mask [n, length]."""
    states = encoder(input_ids=ids, attention_mask=mask).last_hidden_state  # [n, length, d]
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


def scores(network: Any, vectors: Any, pairs: IntArray) -> FloatArray:
    """Scores [n] of pairs [n, 2] of hypothesis and reference, rows of text vectors [texts, d]."""
    import torch

    h, r = (vectors[torch.from_numpy(side).to(vectors.device)] for side in pairs.T)
    with torch.no_grad():
        values = head_scores(network["estimator"], h, r)
    return np.asarray(values.double().cpu().numpy())


def save_model(
    folder: Path,
    encoder: Any,
    head: Mapping[str, Any],
    tokenizer: Path,
    about: Mapping[str, Any],
) -> None:
    """Writes a model's folder, complete or not at all; a model of this kind that is there gives way.

    Args:
        folder: where.
        encoder: a transformers model.
        head: the head's tensors, as `head_state` gives them.
        tokenizer: the folder of the encoder's tokenizer.
        about: "max_tokens", "low" and "high", and what else is to be kept.
    """
    from safetensors.torch import save_file

    check_free(folder)
    with complete_folder(folder) as draft:
        with quietly():
            encoder.save_pretrained(draft)
        for pattern in files.TOKENIZER_FILES:
            for file in tokenizer.glob(pattern):
                shutil.copyfile(file, draft / file.name)
        contiguous = {name: value.contiguous() for name, value in head.items()}
        save_file(contiguous, draft / HEAD)
        plain = json.dumps(with_files({"format": 1, **about}, draft), indent=1)
        (draft / ABOUT).write_text(plain + "\n", encoding="utf-8")
        # safetensors writes files that nobody else may read
        mode = (draft / ABOUT).stat().st_mode
        for file in draft.iterdir():
            file.chmod(mode)


def check_free(folder: Path) -> None:
    """Checks that a model may be written there.

    Raises:
        ModelLoadError: a file, or a folder of something else, is there.
    """
    if not folder.exists() or (folder / ABOUT).is_file():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        problem = "is not a folder of such a model, and not empty"
        raise ModelLoadError(problem, where=str(folder), fix="Choose another folder")


def stage_of(folder: Path) -> str | None:
    """The digest of the stage that wrote the model in a folder; None where there is none, or another kind of model."""
    try:
        about = read_small_json(folder / ABOUT, AGAIN)
    except InputError:
        return None
    stage = about.get("stage") if isinstance(about, dict) else None
    return stage if isinstance(stage, str) else None


Bounds = tuple[float, float] | tuple[None, None]
TEXTS = 512  # that the bounds are means over
DROPOUT = 0.1  # of the released training


def bounds(
    network: Any,
    ids: Ragged,
    rows: IntArray,
    padding: int,
    random: np.random.Generator,
    *,
    views: bool = True,
) -> Bounds:
    """low and high of a network, over a sample of rows of `ids`; None where strangers score as high.

    Args:
        network: see `make_network`.
        ids: token ids.
        rows: which of them may serve.
        padding: the id of padding.
        random: where draws come from.
        views: whether the two sides of a text with itself are encoded with dropout.
    """
    import torch

    device = next(network.parameters()).device
    texts = ids[random.permutation(rows)[:TEXTS]]
    torch.manual_seed(int(random.integers(1 << 31)))
    encoder, estimator = network.train(False)["encoder"], network["estimator"]
    with torch.no_grad():
        # a text with itself: two views of it, by dropout
        encoder.train(views)
        first, second = (vectors_of(encoder, texts, padding, device) for _ in range(2))
        high = float(head_scores(estimator, first, second).double().mean())
        # a text with another
        vectors = vectors_of(encoder.train(False), texts, padding, device)
        low = float(head_scores(estimator, vectors, vectors.roll(1, 0)).double().mean())
    return (low, high) if high > low else (None, None)


def convert(
    path: Path,
    folder: Path,
    encoder_path: str | None = None,
    texts: Sequence[str] = (),
    device: str | None = None,
) -> None:
    """Writes the model of a released checkpoint as safetensors and JSON.

    Args:
        path: the ``.ckpt`` file.
        folder: where.
        encoder_path: see `metric.read_model`.
        texts: some texts of the language; the bounds of rescaling are measured on them, if there are any.
        device: where that is done.

    Raises:
        ModelLoadError: as `metric.read_model`.
    """
    model = read_model(path, encoder_path)
    low, high = bounds_of(model, texts, device) if texts else (None, None)
    about = {"max_tokens": model.max_tokens, "low": low, "high": high, "converted": path.name}
    save_model(folder, model.encoder, model.head_state, model.folder, about)


def bounds_of(
    model: SEScore2Model,
    texts: Sequence[str],
    device: str | None = None,
) -> Bounds:
    """The bounds of rescaling (see `metric`) on some texts."""
    network = make_network(model.encoder, DROPOUT)
    load_head(network, model.head_state)
    network.to(device_of(device))
    reader = reader_of(model.folder, model.encoder, model.max_tokens)
    ids = reader.read([Item(text) for text in texts])["ids"]
    padding = model.encoder.config.pad_token_id or 0
    return bounds(network, ids, np.arange(len(texts)), padding, np.random.default_rng(0))
