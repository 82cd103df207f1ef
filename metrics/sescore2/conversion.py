"""Released checkpoints made into folders that need neither the pickle nor their encoder's files again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..neural.models.encoder import device_of
from ..text.texts import Item
from .regression_network import load_head, make_network, set_dropout
from .rescaling import Bounds, bounds
from .saved_models import SEScore2Model, read_model, reader_of, save_converted

DROPOUT = 0.1  # of the released training


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
        encoder_path: see `saved_models.read_model`.
        texts: some texts of the language; the bounds of rescaling are measured on them, if there are any.
        device: where that is done.

    Raises:
        ModelLoadError: as `saved_models.read_model`.
    """
    model = read_model(path, encoder_path)
    low, high = bounds_of(model, texts, device) if texts else (None, None)
    save_converted(folder, model, {"low": low, "high": high, "converted": path.name})


def bounds_of(
    model: SEScore2Model,
    texts: Sequence[str],
    device: str | None = None,
) -> Bounds:
    """The bounds of rescaling (see `rescaling`) on some texts."""
    network = make_network(model.encoder, DROPOUT)
    load_head(network, model.head_state)
    set_dropout(network, DROPOUT)
    network.to(device_of(device))
    reader = reader_of(model.folder, model.encoder, model.max_tokens)
    ids = reader.read([Item(text) for text in texts])["ids"]
    rows = np.arange(len(texts))
    padding = model.encoder.config.pad_token_id or 0
    return bounds(network, ids, rows, padding, np.random.default_rng(0))
