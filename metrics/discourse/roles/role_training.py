"""Training of sentence classifiers for discourse roles: a frozen encoder with a linear layer, or the whole fine-tuned.

    min_(W, b)  mean_s -ln softmax(W f_s + b)[role_s] + penalty |W|^2

for the linear kind, f as in `classifier`; convex, by L-BFGS in double precision; the penalty is the one that labels
most sentences right in cross-validation over documents. Either kind is judged on test documents as it was saved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...execution.batches import in_batches
from ...logistic import folds
from ...neural.models.files import model_files as files
from ...neural.models.files.written_models import with_files
from ...representations import FloatArray, IntArray
from ...storage.atomic_files import complete_folder
from ...storage.checksums import MARK
from .classifier import CONFIG, KIND, WEIGHTS, Classifier, SentenceFeatures, load_classifier, places
from .fine_tuning import fine_tuned
from .labelled_documents import Labelled, figures, read_labelled, read_sentences
from .settings import RoleTraining

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
STEPS, HISTORY = 200, 10
Say = Callable[[str], None]


def train(
    settings: RoleTraining,
    data: Path,
    out: Path,
    device: str | None = None,
    say: Say = lambda text: None,
) -> dict[str, Any]:
    """Trains on a file of `labelled_documents`, saves to the folder `out` and returns figures on the test documents.

    Raises:
        InputError: the data is not of the form, or `out` is no empty folder and cannot be made.
        ResumeError: another process is writing it.
        ModelLoadError: the encoder is not there.
    """
    schema = settings.roles
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("is there already", where=str(out), fix="Name a new folder")
    if not out.parent.is_dir():
        raise InputError("is no folder", where=str(out.parent), fix="Make it first")
    documents, test = read_labelled(data, schema)
    say(
        f"{len(documents)} documents to train on, {len(test)} to test on, {len(schema.names)} roles"
    )
    train_kind = fine_tuned if settings.fine_tune else train_linear
    with complete_folder(out) as draft:
        train_kind(settings, schema.names, documents, draft, device, say)
    classifier = load_classifier(out, device, "float32", settings.encoder, settings.max_tokens)
    role_counts = np.bincount(np.concatenate([document.roles for document in documents]))
    majority = int(role_counts.argmax())
    return figures(test, labels_of(classifier, test), schema.names, majority)


def labels_of(classifier: Classifier, documents: Sequence[Labelled]) -> IntArray:
    """The labels of all sentences of some documents, [sentences]."""
    ids, counts = read_sentences(classifier.reader, documents)
    starts = counts.cumsum() - counts
    document_tokens = np.add.reduceat(ids.lengths, starts)

    def labels_per_document(rows: IntArray) -> list[IntArray]:
        sentences = [np.arange(starts[row], starts[row] + counts[row]) for row in rows]
        labels = classifier.labels(ids[np.concatenate(sentences)], counts[rows])
        return np.split(labels, counts[rows].cumsum()[:-1])

    batch_tokens = classifier.encoder.batch_tokens
    batches, where = in_batches(document_tokens, batch_tokens, labels_per_document)
    by_document = [labels for batch in batches for labels in batch]
    return np.concatenate([by_document[i] for i in where])


def train_linear(
    settings: RoleTraining,
    names: Sequence[str],
    documents: Sequence[Labelled],
    out: Path,
    device: str | None,
    say: Say,
) -> None:
    """Fits the linear layer and saves it as safetensors beside config.json, which names the encoder by its digest."""
    from safetensors.numpy import save_file

    folder = files.locate(settings.encoder)
    reading = SentenceFeatures(folder, device, "float32", settings.place, settings.max_tokens)
    features, counts = _features(reading, documents, settings.place)
    roles = np.concatenate([document.roles for document in documents])
    document_names = [f"{i} {document.id}" for i, document in enumerate(documents)]
    fold = np.repeat(folds(document_names), counts)  # [sentences]
    penalty = choose_penalty(features, roles, len(names), fold, say)
    weight, bias = fit(features, roles, len(names), penalty)
    about = {
        "discorank": KIND,
        "version": 1,
        "roles": list(names),
        "place": settings.place,
        "penalty": penalty,
    }
    encoder, _ = files.split(settings.encoder)
    about["encoder"] = f"{encoder}{MARK}{files.digest(folder)}"
    out.mkdir(exist_ok=True)
    tensors = {"weight": weight.astype(np.float32), "bias": bias.astype(np.float32)}
    save_file(tensors, out / WEIGHTS)
    (out / CONFIG).unlink(missing_ok=True)
    plain = json.dumps(with_files(about, out), indent=1)
    (out / CONFIG).write_text(plain + "\n", encoding="utf-8")


def _features(
    reading: SentenceFeatures,
    documents: Sequence[Labelled],
    with_place: bool,
) -> tuple[FloatArray, IntArray]:
    """The features of all sentences, [sentences, width], and the number of sentences of each document."""
    ids, counts = read_sentences(reading.reader, documents)
    batch_tokens = reading.encoder.batch_tokens
    parts, where = in_batches(ids.lengths, batch_tokens, lambda rows: reading.vectors(ids[rows]))
    features = np.concatenate(parts)[where]
    if with_place:
        features = np.concatenate((features, places(counts)), axis=1)
    return features, counts


def choose_penalty(
    features: FloatArray,
    roles: IntArray,
    size: int,
    fold: IntArray,
    say: Say,
) -> float:
    """The penalty that labels most sentences of held-out folds right; of equals the largest.

    Args:
        features: [sentences, width].
        roles: of each sentence, [sentences].
        size: the number of roles.
        fold: of each sentence, [sentences], numbers 0, 1, ...
        say: shows how good each penalty is.
    """
    best = (-1.0, 0.0)
    for penalty in PENALTIES:
        right = 0
        for held_out in range(int(fold.max()) + 1):
            inside = fold != held_out
            weight, bias = fit(features[inside], roles[inside], size, penalty)
            logits = features[~inside] @ weight.T + bias
            labels = logits.argmax(axis=1)
            right += int((labels == roles[~inside]).sum())
        percent = 100 * right / len(roles)
        say(f"penalty {penalty:g}: {percent:.1f} % right in cross-validation")
        best = max(best, (right / len(roles), penalty))
    return best[1]


def fit(
    features: FloatArray,
    roles: IntArray,
    size: int,
    penalty: float,
) -> tuple[FloatArray, FloatArray]:
    """The weights [size, features] and biases [size] that minimise the objective.

    Args:
        features: [sentences, features].
        roles: [sentences].
        size: the number of roles.
        penalty: of the squared weights.
    """
    import torch

    x = torch.from_numpy(features)
    y = torch.from_numpy(roles)
    weight = torch.zeros(size, x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(size, dtype=torch.float64, requires_grad=True)
    options: dict[str, Any] = {
        "max_iter": STEPS,
        "history_size": HISTORY,
        "line_search_fn": "strong_wolfe",
    }
    search: Any = torch.optim.LBFGS([weight, bias], tolerance_grad=1e-7, **options)

    def objective() -> Any:
        search.zero_grad()
        cross_entropy = torch.nn.functional.cross_entropy(x @ weight.T + bias, y)
        loss = cross_entropy + penalty * (weight * weight).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    search.step(objective)
    return weight.detach().numpy(), bias.detach().numpy()
