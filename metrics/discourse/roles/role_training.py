"""Training of sentence classifiers for discourse roles: a frozen encoder with a linear layer, or the whole fine-tuned.

    min_(W, b)  mean_s -ln softmax(W f_s + b)[role_s] + penalty |W|^2

for the linear kind, f as in `classifier`; convex, by L-BFGS in double precision; the penalty is the one that labels
most sentences right in cross-validation over documents. Either kind is judged on test documents as it was saved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ...errors import InputError
from ...execution.batches import in_batches
from ...logistic import folds
from ...neural.models import model_files as files
from ...representations import FloatArray, IntArray
from ...spec.checked_settings import settings
from .classifier import CONFIG, KIND, WEIGHTS, Classifier, SentenceFeatures, load_classifier, places
from .labelled_documents import Labelled, figures, read_labelled, read_sentences
from .schemas import Schema

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
STEPS, HISTORY = 200, 10
Say = Callable[[str], None]


@settings
class RoleTraining:
    """How a classifier is trained.

    Args:
        schema: the roles: news, lfqa, recipes, or the names of your own.
        encoder: the encoder: minilm (English), a folder or a name on the hub.
        place: frozen: whether the place of a sentence in its document is told.
        fine_tune: train the whole encoder, not a linear layer over its frozen vectors.
        epochs: fine-tuning: rounds over the data.
        learning_rate: fine-tuning: its highest value; it rises for a tenth of the steps, then falls to 0.
        batch_sentences: fine-tuning: sentences in one step.
        max_tokens: the longest sentence read, in tokens; the encoder's own limit if not given.
        seed: fine-tuning: of the new layer and the order of sentences.
    """

    schema: tuple[str, ...] = ("news",)
    encoder: str = "minilm"
    place: bool = True
    fine_tune: bool = False
    epochs: Annotated[int, Field(ge=1)] = 3
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    batch_sentences: Annotated[int, Field(ge=1)] = 16
    max_tokens: Annotated[int, Field(ge=8)] | None = None
    seed: int = 0

    @property
    def roles(self) -> Schema:
        """The roles, none left out."""
        return Schema.of(self.schema[0] if len(self.schema) == 1 else self.schema, ())


def train(
    how: RoleTraining,
    data: Path,
    out: Path,
    device: str | None = None,
    say: Say = lambda text: None,
) -> dict[str, Any]:
    """Trains on a file of `labelled` documents, saves to the folder `out` and returns figures on the test documents.

    Raises:
        InputError: the data is not of the form, or `out` is no empty folder and cannot be made.
        ModelLoadError: the encoder is not there.
    """
    schema = how.roles
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("is there already", where=str(out), fix="Name a new folder")
    if not out.parent.is_dir():
        raise InputError("is no folder", where=str(out.parent), fix="Make it first")
    documents, test = read_labelled(data, schema)
    say(
        f"{len(documents)} documents to train on, {len(test)} to test on, {len(schema.names)} roles"
    )
    if how.fine_tune:
        from .fine_tuning import fine_tuned

        fine_tuned(how, schema.names, documents, out, device, say)
    else:
        train_linear(how, schema.names, documents, out, device, say)
    classifier = load_classifier(out, device, "float32", how.encoder, how.max_tokens)
    majority = np.bincount(np.concatenate([document.roles for document in documents]))
    return figures(test, labels_of(classifier, test), schema.names, int(majority.argmax()))


def labels_of(classifier: Classifier, documents: Sequence[Labelled]) -> IntArray:
    """The labels of all sentences of some documents, [sentences]."""
    ids, counts = read_sentences(classifier.reader, documents)
    starts = counts.cumsum() - counts
    lengths = np.add.reduceat(ids.lengths, starts)

    def run(rows: IntArray) -> list[IntArray]:
        own = np.concatenate([np.arange(starts[row], starts[row] + counts[row]) for row in rows])
        found = classifier.labels(ids[own], counts[rows])
        return np.split(found, counts[rows].cumsum()[:-1])

    parts, where = in_batches(lengths, classifier.encoder.batch_tokens, run)
    rows = [labels for part in parts for labels in part]
    return np.concatenate([rows[i] for i in where])


def train_linear(
    how: RoleTraining,
    names: Sequence[str],
    documents: Sequence[Labelled],
    out: Path,
    device: str | None,
    say: Say,
) -> None:
    """Fits the linear layer and saves it as safetensors beside config.json, which names the encoder by its digest."""
    from safetensors.numpy import save_file

    folder = files.locate(how.encoder)
    reading = SentenceFeatures(folder, device, "float32", how.place, how.max_tokens)
    ids, counts = read_sentences(reading.reader, documents)
    parts, where = in_batches(
        ids.lengths, reading.encoder.batch_tokens, lambda rows: reading.vectors(ids[rows])
    )
    features = np.concatenate(parts)[where]
    features = np.concatenate((features, places(counts)), axis=1) if how.place else features
    roles = np.concatenate([document.roles for document in documents])
    fold = np.repeat(folds([f"{i} {document.id}" for i, document in enumerate(documents)]), counts)
    penalty = choose_penalty(features, roles, len(names), fold, say)
    weight, bias = fit(features, roles, len(names), penalty)
    about = {
        "discorank": KIND,
        "version": 1,
        "roles": list(names),
        "place": how.place,
        "penalty": penalty,
    }
    about["encoder"] = f"{files.split(how.encoder)[0]}{files.MARK}{files.digest(folder)}"
    out.mkdir(exist_ok=True)
    save_file({"weight": weight.astype(np.float32), "bias": bias.astype(np.float32)}, out / WEIGHTS)
    (out / CONFIG).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def choose_penalty(
    features: FloatArray, roles: IntArray, size: int, fold: IntArray, say: Say
) -> float:
    """The penalty that labels most sentences of held-out folds right; of equals the largest."""
    best = (-1.0, 0.0)
    for penalty in PENALTIES:
        right = 0
        for held in range(int(fold.max()) + 1):
            inside = fold != held
            weight, bias = fit(features[inside], roles[inside], size, penalty)
            right += int(
                ((features[~inside] @ weight.T + bias).argmax(axis=1) == roles[~inside]).sum()
            )
        say(f"penalty {penalty:g}: {100 * right / len(roles):.1f} % right in cross-validation")
        best = max(best, (right / len(roles), penalty))
    return best[1]


def fit(
    features: FloatArray, roles: IntArray, size: int, penalty: float
) -> tuple[FloatArray, FloatArray]:
    """The weights [size, features] and biases [size] that minimise the objective."""
    import torch

    x, y = torch.from_numpy(features), torch.from_numpy(roles)
    weight = torch.zeros(size, x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(size, dtype=torch.float64, requires_grad=True)
    how: dict[str, Any] = {
        "max_iter": STEPS,
        "history_size": HISTORY,
        "line_search_fn": "strong_wolfe",
    }
    search: Any = torch.optim.LBFGS([weight, bias], tolerance_grad=1e-7, **how)

    def objective() -> Any:
        search.zero_grad()
        loss = (
            torch.nn.functional.cross_entropy(x @ weight.T + bias, y)
            + penalty * (weight * weight).sum()
        )
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    search.step(objective)
    return weight.detach().numpy(), bias.detach().numpy()
