"""Sentence classifiers: a transformers model for sequence classification, or a linear one over a frozen encoder.

    label(s) = argmax_k (W f + b)_k,   f = [mean of the encoder's last states, of unit length; place of the sentence]

A folder is the linear kind where its config.json says ``"discorank": "roles"``. A label is a function of its sentence
(and of its place in the document, for the linear kind) alone, whatever else is classified with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...errors import ModelLoadError
from ...neural.models import model_files as files
from ...neural.models.context_tokens import Frame, Reader
from ...neural.models.encoder import DType, Encoder, pretrained, tokenizer_of
from ...neural.models.packed_attention import ROWS, slabs_of
from ...representations import FloatArray, IntArray, Ragged

CONFIG, WEIGHTS, KIND = "config.json", "model.safetensors", "roles"
PLACES = 4  # features of a sentence's place


class Classifier(Protocol):
    """What labels sentences."""

    names: tuple[str, ...]
    reader: Reader
    encoder: Encoder

    def labels(self, ids: Ragged, counts: IntArray) -> IntArray:
        """The label of every sentence, [sentences], numbers of `names`.

        Args:
            ids: token ids of the sentences of some documents, document after document.
            counts: how many sentences each document has.
        """


def load_classifier(
    folder: Path,
    device: str | None,
    dtype: DType,
    encoder_path: str | None = None,
    max_tokens: int | None = None,
) -> Classifier:
    """The classifier of a folder.

    Raises:
        ModelLoadError: the folder is no classifier, or its encoder is not there or another.
    """
    config = read_config(folder)
    if config.get("discorank") != KIND:
        return TransformersClassifier(folder, device, dtype, max_tokens)
    return LinearClassifier(folder, config, device, dtype, encoder_path, max_tokens)


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration of a model's folder; raises ModelLoadError."""
    try:
        found: Any = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fix = "Give the folder of a classifier"
        raise ModelLoadError(
            f"cannot be read: {type(error).__name__}", where=str(folder / CONFIG), fix=fix
        ) from error
    if not isinstance(found, dict):
        raise ModelLoadError("expected a JSON object", where=str(folder / CONFIG))
    return found


def reader_of(folder: Path, encoder: Encoder, max_tokens: int | None) -> Reader:
    """What makes ids of sentences, as long as the tokenizer and the encoder take."""
    tokenizer = tokenizer_of(folder)
    limit = min(max_tokens or 1 << 30, int(tokenizer.model_max_length), encoder.max_tokens)
    return Reader(tokenizer, Frame.of(tokenizer), limit, "oldest-context")


class TransformersClassifier:
    """A transformers model for sequence classification.

    Its encoder runs packed where it can, then its head on sixteen first states at a time; other families run whole, on
    a CPU one sentence at a time, padded to a multiple of 16.
    """

    def __init__(
        self, folder: Path, device: str | None, dtype: DType, max_tokens: int | None
    ) -> None:
        self.model = pretrained(folder, "AutoModelForSequenceClassification")
        config = self.model.config
        if config.num_labels < 2 or config.problem_type in (
            "regression",
            "multi_label_classification",
        ):
            found = f"it has {config.num_labels} labels, problem_type {config.problem_type}"
            raise ModelLoadError(
                found, where=str(folder), fix="Give a model that chooses one of several labels"
            )
        self.names = tuple(str(config.id2label[i]) for i in range(config.num_labels))
        self.encoder = Encoder(self.model.base_model, device, dtype)
        self.model.to(self.encoder.device, self.encoder.model.dtype).train(False)
        self.reader = reader_of(folder, self.encoder, max_tokens)

    def labels(self, ids: Ragged, counts: IntArray) -> IntArray:
        """The most probable label of every sentence, [sentences]; its place does not count."""
        return np.asarray(self.logits(ids).argmax(axis=1))

    def logits(self, ids: Ragged) -> FloatArray:
        """Logits [sentences, labels]."""
        with self.encoder.torch.inference_mode():
            return self._packed(ids) if self.encoder.packed else self._plain(ids)

    def _packed(self, ids: Ragged) -> FloatArray:
        first = np.empty((len(ids), self.encoder.config.hidden_size), np.float32)
        for rows, (states,) in self.encoder.states(ids):
            first[rows] = states[:, 0].cpu().numpy()
        logits = np.empty((len(ids), len(self.names)))
        for start in range(0, len(ids), ROWS):
            some = first[start : start + ROWS]
            full = np.pad(some, ((0, ROWS - len(some)), (0, 0)))
            logits[start : start + ROWS] = self._head(full)[: len(some)]
        return logits

    def _head(self, first: Any) -> FloatArray:
        """Logits [16, labels] of the first token's states [16, d]."""
        states = self.encoder.torch.from_numpy(first).to(
            self.encoder.device, self.encoder.model.dtype
        )[:, None]
        pooler = getattr(self.encoder.model, "pooler", None)
        found = self.model.classifier(states if pooler is None else pooler(states))
        return np.asarray(found.double().cpu().numpy())

    def _plain(self, ids: Ragged) -> FloatArray:
        torch, pad = self.encoder.torch, self.encoder.torch.nn.functional.pad
        order = np.argsort(ids.lengths, kind="stable")
        logits = np.empty((len(ids), len(self.names)))
        for slab in slabs_of(ids.lengths[order].tolist()):
            same, order = order[: slab.sequences], order[slab.sequences :]
            step = 1 if self.encoder.device.type == "cpu" else slab.sequences
            for start in range(0, slab.sequences, step):
                rows = same[start : start + step]
                tokens = torch.from_numpy(ids[rows].values.reshape(len(rows), -1)).to(
                    self.encoder.device
                )
                spare = (0, min(-slab.length % ROWS, max(0, self.encoder.max_tokens - slab.length)))
                out = self.model(
                    input_ids=pad(tokens, spare, value=self.encoder.config.pad_token_id or 0),
                    attention_mask=pad(torch.ones_like(tokens), spare),
                )
                logits[rows] = out.logits.double().cpu().numpy()
        return logits


class LinearClassifier:
    """Multinomial logistic regression over a frozen encoder's sentence vectors."""

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any],
        device: str | None,
        dtype: DType,
        encoder_path: str | None,
        max_tokens: int | None,
    ) -> None:
        name, digest = files.split(str(config.get("encoder", "")))
        path = files.locate(encoder_path or name)
        if digest is not None and (found := files.digest(path)) != digest:
            found = f"the encoder {path} has the digest {found}, expected {digest}"
            raise ModelLoadError(
                found, where=str(folder), fix="Give the one it was trained with: encoder_path=..."
            )
        self.names = tuple(map(str, config.get("roles", ())))
        self.features = SentenceFeatures(
            path, device, dtype, bool(config.get("place", True)), max_tokens
        )
        self.encoder, self.reader = self.features.encoder, self.features.reader
        self.weight, self.bias = _weights(folder, len(self.names), self.features.width)

    def labels(self, ids: Ragged, counts: IntArray) -> IntArray:
        """The most probable label of every sentence, [sentences]."""
        features = self.features.of(ids, counts)
        logits = (features[:, None, :] * self.weight).sum(axis=2) + self.bias
        return np.asarray(logits.argmax(axis=1))


class SentenceFeatures:
    """What a linear classifier reads of sentences: the encoder's mean vector of unit length, and the place.

    Args:
        folder: the encoder.
        place: whether the place in the document is told: p = (i + 1/2) / L, p^2, 1 / (1 + i), 1 / (L - i).
    """

    def __init__(
        self,
        folder: Path,
        device: str | None,
        dtype: DType,
        place: bool = True,
        max_tokens: int | None = None,
    ) -> None:
        self.encoder = Encoder(pretrained(folder), device, dtype)
        self.reader = reader_of(folder, self.encoder, max_tokens)
        self.place = place

    @property
    def width(self) -> int:
        """How many features there are."""
        return int(self.encoder.config.hidden_size) + PLACES * self.place

    def of(self, ids: Ragged, counts: IntArray) -> FloatArray:
        """Features [sentences, width]; arguments as `Classifier.labels`."""
        found = self.vectors(ids)
        return np.concatenate((found, places(counts)), axis=1) if self.place else found

    def vectors(self, ids: Ragged) -> FloatArray:
        """The unit vectors of sentences, [sentences, d]."""
        found = np.empty((len(ids), self.encoder.config.hidden_size))
        normalize = self.encoder.torch.nn.functional.normalize
        for rows, (states,) in self.encoder.states(ids):
            found[rows] = normalize(states.sum(1) / states.shape[1], dim=-1).cpu().numpy()
        return found


def places(counts: IntArray) -> FloatArray:
    """The place of every sentence of documents of so many sentences, [sentences, 4]."""
    length = np.repeat(counts, counts)
    i = np.arange(len(length)) - np.repeat(counts.cumsum() - counts, counts)
    p = (i + 0.5) / length
    return np.stack((p, p * p, 1 / (1 + i), 1 / (length - i)), axis=1)


def _weights(folder: Path, roles: int, width: int) -> tuple[FloatArray, FloatArray]:
    from safetensors.numpy import load_file

    try:
        found = load_file(folder / WEIGHTS)
        weight, bias = found["weight"].astype(np.float64), found["bias"].astype(np.float64)
    except Exception as error:  # the reader raises many kinds
        said = f"{type(error).__name__}: {str(error)[:200]}"
        raise ModelLoadError(
            said, where=str(folder / WEIGHTS), fix="Train it again: discorank train roles"
        ) from error
    if weight.shape != (roles, width) or bias.shape != (roles,) or not np.isfinite(weight).all():
        expected = f"weights of the shape {weight.shape}, expected ({roles}, {width})"
        raise ModelLoadError(expected, where=str(folder), fix="Is the encoder another?")
    return weight, bias
