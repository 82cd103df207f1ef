"""Training of sentence classifiers for discourse roles: a linear layer over a frozen encoder.

    min_(W, b)  mean_s -ln softmax(W f_s + b)[role_s] + penalty |W|^2

f as in `classifier`; convex, by L-BFGS in double precision; the penalty is the one that labels most sentences right in
cross-validation over documents. The classifier is judged on test documents as it was saved.

A line of the JSONL is a document: ``sentences`` and ``roles``, one name or number each; ``id``; ``split``, "train",
"dev" (trained on too) or "test". Without any test document every fifth, by a hash of the ids, is one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ....errors import InputError, excerpt
from ....execution.store import in_batches
from ....logistic import folds
from ....neural.models.files import model_files as files
from ....neural.models.files.model_files import with_files
from ....representations import FloatArray, IntArray
from ....spec.checked_settings import Field, settings
from ....storage.atomic_files import complete_folder
from ....storage.checksums import MARK
from ....storage.json_and_yaml import parse_small_json
from ....text.sentence_splitting import numbered_lines
from ....text.texts import Document, Item
from ..classifier import (
    CONFIG,
    KIND,
    WEIGHTS,
    LinearClassifier,
    SentenceFeatures,
    places,
    read_config,
)
from ..role_sources import Schema


@settings
class RoleTraining:
    """How a classifier is trained.

    Args:
        schema: the roles: news, lfqa, recipes, or the names of your own.
        encoder: the encoder: minilm (English), a folder or a name on the hub.
        place: whether the place of a sentence in its document is a feature.
        max_tokens: the longest sentence read, in tokens; the encoder's own limit if not given.
    """

    schema: tuple[str, ...] = ("news",)
    encoder: str = "minilm"
    place: bool = True
    max_tokens: Annotated[int, Field(ge=8)] | None = None

    @property
    def roles(self) -> Schema:
        """The roles, none left out."""
        return Schema.of(self.schema[0] if len(self.schema) == 1 else self.schema, ())


# whether the documents of a split are tested on
SPLITS = {
    "train": False,
    "dev": False,
    "validation": False,
    "test": True,
}
RESAMPLES = 1000
_FIX = 'A line is {"sentences": ["...", ...], "roles": ["...", ...], "id": "...", "split": "train"}'


@dataclass(frozen=True, slots=True)
class Labelled:
    """A document: its sentences and the numbers of their roles, [sentences]."""

    id: str
    sentences: tuple[str, ...]
    roles: IntArray
    split: str | None = None


def read_labelled(path: Path, schema: Schema) -> tuple[list[Labelled], list[Labelled]]:
    """Documents to train on, and to test on; plain or gzip.

    Raises:
        InputError: the file cannot be read, a line is not of the form, a role is unknown, or documents are too few.
    """
    lines = numbered_lines(path, _FIX)
    documents = [_document(f"{path}:{number}", line, schema) for number, line in lines]
    if not any(document.split for document in documents):
        fold = folds([document.id for document in documents])
        tested = (fold == 0).tolist()
    else:
        tested = [SPLITS[document.split or "train"] for document in documents]
    train = [document for document, held in zip(documents, tested, strict=True) if not held]
    test = [document for document, held in zip(documents, tested, strict=True) if held]
    if not train or not test:
        counts = f"{len(train)} documents to train on and {len(test)} to test on"
        raise InputError(counts, where=str(path), fix="Give both, or leave split out of all lines")
    return train, test


def _document(where: str, line: str, schema: Schema) -> Labelled:
    """The document of a line; `where` is its place, for errors."""
    fields: Any = parse_small_json(line.encode("utf-8", "surrogatepass"), where, _FIX)
    if not isinstance(fields, dict) or "sentences" not in fields or not fields.get("roles"):
        raise InputError(f"found {excerpt(fields)}", where=where, fix=_FIX)
    split = fields.get("split")
    if split is not None and split not in SPLITS:
        fix = f"Expected {', '.join(SPLITS)}"
        raise InputError(f"found the split {excerpt(split)}", where=where, fix=fix)
    try:
        document = Document(fields["sentences"], roles=fields["roles"])
        roles = schema.numbers(document.roles or ())
    except InputError as error:
        raise error.inside(where) from None
    return Labelled(str(fields.get("id", where)), tuple(document.sentences), roles, split)


def figures(
    documents: Sequence[Labelled],
    labels: IntArray,
    names: Sequence[str],
    majority: int,
) -> dict[str, Any]:
    """Accuracy with its 95 % interval by document, macro F1 over the roles that occur, and the accuracy of one
    role for all, in percent.

    Args:
        documents: tested on.
        labels: the labels of all their sentences, [sentences].
        names: of the roles.
        majority: the most frequent role of the training documents.
    """
    gold = np.concatenate([document.roles for document in documents])
    lengths = _lengths(documents)
    owner = np.repeat(np.arange(len(lengths)), lengths)  # the document of each sentence
    right = np.bincount(owner, gold == labels, len(lengths))
    # the interval: quantiles of the accuracy of documents drawn again and again
    random = np.random.default_rng(0)
    draws = random.integers(len(lengths), size=(RESAMPLES, len(lengths)))
    num_sentences = lengths[draws].sum(axis=1)
    accuracies = right[draws].sum(axis=1) / num_sentences  # [draws]
    low, high = np.quantile(accuracies, [0.025, 0.975])
    occurring = np.union1d(gold, labels).tolist()
    f1_by_role = {names[k]: _f1(gold == k, labels == k) for k in occurring}
    return {
        "documents": len(lengths),
        "sentences": int(lengths.sum()),
        "accuracy": 100 * float((gold == labels).mean()),
        "low": 100 * float(low),
        "high": 100 * float(high),
        "macro_f1": float(np.mean(list(f1_by_role.values()))),
        "majority": 100 * float((gold == majority).mean()),
        "f1": f1_by_role,
    }


def _f1(gold: Any, labelled: Any) -> float:
    """F1 of one role, in percent, from the sentences that have it and those that are labelled so, bool [sentences]."""
    both = float((gold & labelled).sum())
    return 200 * both / int(gold.sum() + labelled.sum())


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
    """Trains on a file of labelled documents, saves to the folder `out` and returns figures on the test documents.

    Raises:
        InputError: the data is not of the form, or `out` is no empty folder and cannot be made.
        ResumeError: another process is writing it.
        ModelLoadError: the encoder is not there.
    """
    schema = settings.roles
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("is there already", where=str(out), fix="Name a new folder")
    if not out.parent.is_dir():
        raise InputError("is not a folder", where=str(out.parent), fix="Make it first")
    documents, test = read_labelled(data, schema)
    say(
        f"{len(documents)} documents to train on, {len(test)} to test on, {len(schema.names)} roles"
    )
    with complete_folder(out) as draft:
        train_linear(settings, schema.names, documents, draft, device, say)
    config = read_config(out)
    classifier = LinearClassifier(
        out, config, device, "float32", settings.encoder, settings.max_tokens
    )
    logits = features_of(classifier.features, test) @ classifier.weight.T + classifier.bias
    role_counts = np.bincount(np.concatenate([document.roles for document in documents]))
    majority = int(role_counts.argmax())
    return figures(test, logits.argmax(axis=1), schema.names, majority)


def features_of(reading: SentenceFeatures, documents: Sequence[Labelled]) -> FloatArray:
    """The features of all sentences of some documents, [sentences, width]."""
    items = [Item(sentence) for document in documents for sentence in document.sentences]
    ids = reading.reader.read(items)["ids"]
    batch_tokens = reading.encoder.batch_tokens
    parts, where = in_batches(ids.lengths, batch_tokens, lambda rows: reading.vectors(ids[rows]))
    vectors = np.concatenate(parts)[where]
    if not reading.place:
        return vectors
    return np.concatenate((vectors, places(_lengths(documents))), axis=1)


def _lengths(documents: Sequence[Labelled]) -> IntArray:
    """How many sentences each document has."""
    return np.array([len(document.sentences) for document in documents])


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
    features = features_of(reading, documents)
    roles = np.concatenate([document.roles for document in documents])
    document_names = [f"{i} {document.id}" for i, document in enumerate(documents)]
    fold = np.repeat(folds(document_names), _lengths(documents))  # [sentences]
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
