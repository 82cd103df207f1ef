"""Documents whose sentences have discourse roles, for training a classifier and for judging one.

A line of the JSONL is a document: ``sentences`` and ``roles``, one name or number each; ``id``; ``split``, "train",
"dev" (trained on too) or "test". Without any test document every fifth, by a hash of the ids, is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, excerpt
from ...logistic import folds
from ...representations import IntArray, Ragged
from ...storage.json_and_yaml import parse_small_json
from ...text.lines import numbered_lines
from ...text.texts import Document, Item
from .schemas import Schema

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
