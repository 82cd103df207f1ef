"""Sentence vectors: the mean of an encoder's last layer over all tokens, of length 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..execution.batches import in_batches
from ..neural.comet.network import Mixer
from ..neural.models.context_tokens import Frame, Reader
from ..neural.models.encoder import Encoder
from ..neural.models.files import model_files as files
from ..neural.models.pretrained import pretrained, tokenizer_of
from ..representations import IntArray
from ..text.texts import Item
from .neighbours import Floats, unit


class SentenceEncoder:
    """Makes vectors of texts.

    Args:
        model: minilm, a folder or a name on the hub.
        device: where it runs; the first GPU if there is one.
        batch_tokens: tokens in one batch, chosen by device if not given.

    Raises:
        ModelLoadError: it is not there, or no encoder.
    """

    def __init__(
        self,
        model: str,
        device: str | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        folder = files.locate(model)
        tokenizer = tokenizer_of(folder)
        self.encoder = Encoder(pretrained(folder), device, "float32")
        self.encoder.batch_tokens = batch_tokens or self.encoder.batch_tokens
        max_tokens = min(512, self.encoder.max_tokens)
        self.reader = Reader(tokenizer, Frame.of(tokenizer), max_tokens, "oldest-context")
        self.mixer = Mixer(None, None, False, "avg")

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, float32 [n, d]."""
        items = [Item(text) for text in texts]
        ids = self.reader.read(items)["ids"]
        width = self.encoder.config.hidden_size

        def represent(rows: IntArray) -> Floats:
            vectors = np.empty((len(rows), width), np.float32)
            for places, states in self.encoder.states(ids[rows]):
                vectors[places] = self.mixer.vectors(states, None).cpu().numpy()
            return vectors

        parts, places = in_batches(ids.lengths, self.encoder.batch_tokens, represent)
        return unit(np.concatenate(parts)[places])


def digest_of(model: str) -> str:
    """The digest of an encoder's files."""
    return files.digest(files.locate(model))
