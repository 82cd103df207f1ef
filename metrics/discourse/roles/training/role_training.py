"""Training of sentence classifiers for discourse roles: a frozen encoder with a linear layer, or the whole fine-tuned.

    min_(W, b)  mean_s -ln softmax(W f_s + b)[role_s] + penalty |W|^2

for the linear kind, f as in `classifier`; convex, by L-BFGS in double precision; the penalty is the one that labels
most sentences right in cross-validation over documents. Either kind is judged on test documents as it was saved.

Fine-tuning reads each sentence alone, as in the PDD paper; the result is a transformers model for sequence
classification, weights as safetensors.

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

from ....errors import InputError, ModelLoadError, excerpt
from ....execution.store import in_batches
from ....logistic import folds
from ....neural.models.context_tokens import Frame, Reader
from ....neural.models.encoder import device_of
from ....neural.models.files import model_files as files
from ....neural.models.files.gguf_files import LOCAL
from ....neural.models.files.model_files import with_files
from ....neural.models.pretrained import quietly, sized, tokenizer_of
from ....representations import FloatArray, IntArray, Ragged
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
    Classifier,
    SentenceFeatures,
    load_classifier,
    places,
)
from ..role_sources import Schema


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


def read_sentences(reader: Any, documents: Sequence[Labelled]) -> tuple[Ragged, IntArray]:
    """Token ids of all sentences, and how many sentences each document has."""
    items = [Item(sentence) for document in documents for sentence in document.sentences]
    counts = np.array([len(document.sentences) for document in documents])
    return reader.read(items)["ids"], counts


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
    lengths = np.array([len(document.roles) for document in documents])
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


WARMUP = 0.1  # share of the steps
WEIGHT_DECAY = 0.01
MAX_GRADIENT_NORM = 1.0


def fine_tuned(
    settings: RoleTraining,
    names: Sequence[str],
    documents: Sequence[Labelled],
    out: Path,
    device: str | None,
    say: Callable[[str], None],
) -> None:
    """Trains an encoder with a new head by AdamW on the cross entropy of the roles, and saves it to `out`.

    Raises:
        ModelLoadError: the folder is no encoder that transformers gives a head for sequence classification.
    """
    import torch
    from transformers import get_linear_schedule_with_warmup

    torch.manual_seed(settings.seed)
    folder = files.locate(settings.encoder)
    model = _with_new_head(folder, names)
    tokenizer = tokenizer_of(folder)
    torch_device = device_of(device)

    limit = min(settings.max_tokens or 1 << 30, int(tokenizer.model_max_length))
    reader = Reader(tokenizer, Frame.of(tokenizer), limit, "oldest-context")
    ids, _ = read_sentences(reader, documents)
    roles = np.concatenate([document.roles for document in documents])

    model.to(torch_device).train(True)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=settings.learning_rate,
        weight_decay=WEIGHT_DECAY,
    )
    steps = settings.epochs * -(-len(roles) // settings.batch_sentences)
    linear: Any = get_linear_schedule_with_warmup
    schedule = linear(optimizer, int(WARMUP * steps), steps)
    random = np.random.default_rng(settings.seed)
    for epoch in range(1, settings.epochs + 1):
        order = random.permutation(len(roles))
        total = 0.0
        for start in range(0, len(order), settings.batch_sentences):
            rows = order[start : start + settings.batch_sentences]
            batch = _padded(ids[rows], model, torch_device)
            labels = torch.from_numpy(roles[rows]).to(torch_device)
            loss = model(**batch, labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            total += float(loss.detach()) * len(rows)
        mean_loss = total / len(order)
        say(f"epoch {epoch} of {settings.epochs}: mean loss {mean_loss:.4f}")
    with quietly():
        model.to("cpu").save_pretrained(out)
        tokenizer.save_pretrained(out)


def _with_new_head(folder: Path, names: Sequence[str]) -> Any:
    """The encoder of a folder with an untrained head for the named labels."""
    from transformers import AutoModelForSequenceClassification

    labels = dict(enumerate(names))
    try:
        sized(folder, "AutoModel")
        with quietly():
            return AutoModelForSequenceClassification.from_pretrained(
                folder,
                **LOCAL,
                dtype="float32",
                num_labels=len(names),
                id2label=labels,
                label2id={name: i for i, name in labels.items()},
            )
    except ModelLoadError:
        raise
    except Exception as error:  # configuration or weights: many kinds
        first_line = str(error).strip().splitlines()[0]
        problem = f"{type(error).__name__}: {first_line[:200]}"
        fix = "Give an encoder such as minilm"
        raise ModelLoadError(problem, where=str(folder), fix=fix) from error


def _padded(ids: Ragged, model: Any, device: Any) -> dict[str, Any]:
    """Sequences as one matrix [rows, longest] with the mask of what is text."""
    import torch

    longest = int(ids.lengths.max())
    mask = np.arange(longest) < ids.lengths[:, None]
    tokens = np.full(mask.shape, model.config.pad_token_id or 0)
    tokens[mask] = ids.values
    return {
        "input_ids": torch.from_numpy(tokens).to(device),
        "attention_mask": torch.from_numpy(mask.astype(np.int64)).to(device),
    }


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
