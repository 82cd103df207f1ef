"""Sentence classifiers: a transformers model for sequence classification, or a linear one over a frozen encoder.

    label(s) = argmax_k (W f + b)_k,   f = [mean of the encoder's last states, of unit length; place of the sentence]

A folder is the linear kind where its config.json says ``"discorank": "roles"``. A label is a function of its sentence
(and of its place in the document, for the linear kind) alone, whatever else is classified with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...errors import InputError, ModelLoadError
from ...neural.models.context_tokens import Frame, Reader
from ...neural.models.encoder import DType, Encoder
from ...neural.models.files import model_files as files
from ...neural.models.files.model_files import check_written
from ...neural.models.pretrained import pretrained, tokenizer_of
from ...neural.models.sequence_classifier import load_encoder_classifier
from ...representations import FloatArray, IntArray, Ragged
from ...storage.json_and_yaml import read_small_json

CONFIG, WEIGHTS, KIND = "config.json", "model.safetensors", "roles"
_AGAIN = "Train it again: discorank train roles"
PLACES = 4  # features of a sentence's place


class Classifier(Protocol):
    """A classifier of sentences."""

    names: tuple[str, ...]
    reader: Reader
    encoder: Encoder

    def labels(self, ids: Ragged, counts: IntArray) -> IntArray:
        """The label of every sentence, [sentences], numbers of `names`.

        Args:
            ids: token ids of the sentences of some documents, document after document.
            counts: the number of sentences of each document, [documents].
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
    check_written(config, folder / CONFIG, _AGAIN)
    return LinearClassifier(folder, config, device, dtype, encoder_path, max_tokens)


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration of a model's folder; raises ModelLoadError."""
    path = folder / CONFIG
    try:
        config: Any = read_small_json(path, "Give the folder of a classifier")
    except InputError as error:
        raise ModelLoadError(error.problem, where=error.where, fix=error.fix) from error
    if not isinstance(config, dict):
        raise ModelLoadError("expected a JSON object", where=str(path))
    return config


def reader_of(
    folder: Path,
    encoder: Encoder,
    max_tokens: int | None,
) -> Reader:
    """The tokenizer of sentences, as long as the tokenizer and the encoder take."""
    tokenizer = tokenizer_of(folder)
    limit = min(
        max_tokens or 1 << 30,
        int(tokenizer.model_max_length),
        encoder.max_tokens,
    )
    return Reader(tokenizer, Frame.of(tokenizer), limit, "oldest-context")


class TransformersClassifier:
    """A transformers model for sequence classification that chooses one of several labels."""

    def __init__(
        self,
        folder: Path,
        device: str | None,
        dtype: DType,
        max_tokens: int | None,
    ) -> None:
        self.model = load_encoder_classifier(folder, device, dtype)
        config = self.model.config
        other_problem = config.problem_type in ("regression", "multi_label_classification")
        if config.num_labels < 2 or other_problem:
            problem = f"it has {config.num_labels} labels, problem_type {config.problem_type}"
            fix = "Give a model that chooses one of several labels"
            raise ModelLoadError(problem, where=str(folder), fix=fix)
        self.names = self.model.names
        self.encoder = self.model.encoder
        self.reader = reader_of(folder, self.encoder, max_tokens)

    def labels(self, ids: Ragged, counts: IntArray) -> IntArray:
        """The most probable label of every sentence, [sentences]; its place does not count."""
        return np.asarray(self.model.logits(ids).argmax(axis=1))


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
        if digest is not None and (actual_digest := files.digest(path)) != digest:
            problem = f"the encoder {path} has the digest {actual_digest}, expected {digest}"
            fix = "Give the one it was trained with: encoder_path=..."
            raise ModelLoadError(problem, where=str(folder), fix=fix)
        self.names = tuple(map(str, config.get("roles", ())))
        with_place = bool(config.get("place", True))
        self.features = SentenceFeatures(path, device, dtype, with_place, max_tokens)
        self.encoder = self.features.encoder
        self.reader = self.features.reader
        self.weight, self.bias = _weights(folder, len(self.names), self.features.width)

    def labels(self, ids: Ragged, counts: IntArray) -> IntArray:
        """The most probable label of every sentence, [sentences]."""
        features = self.features.of(ids, counts)  # [sentences, width]
        products = features[:, None, :] * self.weight  # [sentences, roles, width]
        logits = products.sum(axis=2) + self.bias
        return np.asarray(logits.argmax(axis=1))


class SentenceFeatures:
    """Features of sentences for a linear classifier: the encoder's mean vector of unit length, and the position.

    Args:
        folder: the encoder.
        place: whether the place in the document is a part: p = (i + 1/2) / L, p^2, 1 / (1 + i), 1 / (L - i).
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
        """The number of features."""
        return int(self.encoder.config.hidden_size) + PLACES * self.place

    def of(self, ids: Ragged, counts: IntArray) -> FloatArray:
        """Features [sentences, width]; arguments as `Classifier.labels`."""
        vectors = self.vectors(ids)
        if not self.place:
            return vectors
        return np.concatenate((vectors, places(counts)), axis=1)

    def vectors(self, ids: Ragged) -> FloatArray:
        """The unit vectors of sentences, [sentences, d]."""
        states = self.encoder.states(ids)
        means = states.packing.means(states.last)
        vectors = self.encoder.torch.nn.functional.normalize(means, dim=-1)
        return np.asarray(vectors.double().cpu().numpy())


def places(counts: IntArray) -> FloatArray:
    """The place features of every sentence, [sentences, 4], of documents with `counts` sentences, [documents]."""
    length = np.repeat(counts, counts)
    first = np.repeat(counts.cumsum() - counts, counts)
    i = np.arange(len(length)) - first
    p = (i + 0.5) / length
    features = (
        p,
        p * p,
        1 / (1 + i),
        1 / (length - i),
    )
    return np.stack(features, axis=1)


def _weights(
    folder: Path,
    num_roles: int,
    width: int,
) -> tuple[FloatArray, FloatArray]:
    """The weights [roles, width] and biases [roles] of a folder."""
    from safetensors.numpy import load_file

    try:
        tensors = load_file(folder / WEIGHTS)
        weight = tensors["weight"].astype(np.float64)
        bias = tensors["bias"].astype(np.float64)
    except Exception as error:  # the reader raises many kinds
        problem = f"{type(error).__name__}: {str(error)[:200]}"
        raise ModelLoadError(problem, where=str(folder / WEIGHTS), fix=_AGAIN) from error
    right_shapes = weight.shape == (num_roles, width) and bias.shape == (num_roles,)
    is_finite = np.isfinite(weight).all() and np.isfinite(bias).all()
    if not right_shapes or not is_finite:
        problem = f"weights of the shape {weight.shape}, expected ({num_roles}, {width})"
        raise ModelLoadError(problem, where=str(folder), fix="Is the encoder another?")
    return weight, bias
