"""Segments of a set whose every candidate is rated, in their documents, and what stands before them.

A reading says whose sentences a candidate is read behind: ``alone`` nobody's, ``chosen-2`` the two before that
consensus chose, ``reference-2`` those of the human reference, ``first-2`` those of the first system.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np

from benchmarks.support.judged_sets import REFERENCES
from benchmarks.support.kept_values import ListTexts
from benchmarks.support.resampling import groups_of
from discorank import load_metric
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import Context
from discorank.rerank.choice import in_order
from discorank.rerank.lists import CandidateList
from discorank.rerank.order import DocumentStream
from discorank.rerank.training.candidate_features import features

CONSENSUS = "chrf + 100*rouge-l"


def limits_of(values: Sequence[str]) -> tuple[int | None, dict[str, int]]:
    """How many rows of any set, and of some by name, from N and SET=N.

    >>> limits_of(["250", "ted.en-de=100"])
    (250, {'ted.en-de': 100})
    """
    named = [value.rpartition("=") for value in values]
    of_any = [int(number) for name, _, number in named if not name]
    return of_any[0] if of_any else None, {name: int(number) for name, _, number in named if name}


class JudgedSegments:
    """A set: all segments, of which those count whose every candidate is rated.

    Args:
        path: a systems file.
        most: how many segments count, in the order of the documents.
        skipped: how many of these do not count after all.
    """

    def __init__(self, path: Path, most: int | None = None, skipped: int = 0) -> None:
        self.name = path.name.removeprefix("mt_mqm_").removesuffix(".jsonl.gz")
        with open_lists(str(path), "systems", human=["mqm:lower"]) as lists:
            self.records = [entry.record for entry in lists if entry.record is not None]
        rated = [i for i, record in enumerate(self.records) if _is_rated(record)][:most]
        self.records = self.records[: rated[-1] + 1]
        self.rated = rated = rated[skipped:]
        self.mqm = [
            np.array([float(c.fields["mqm"]) for c in self.records[i].candidates]) for i in rated
        ]
        self.documents = [str(self.records[i].document) for i in rated]
        self.groups = groups_of(self.documents)
        self.reference = _reference_number(path, self.name)
        of_file = sha256(path.read_bytes())
        of_file.update(repr((rated, self.reference)).encode())
        self.key = of_file.hexdigest()[:16]

    @cached_property
    def consensus(self) -> list[FloatArray]:
        """Expected utilities of the candidates of every segment."""
        return features(load_metric(CONSENSUS), self.records, "candidates")

    @property
    def references(self) -> list[str]:
        """The human reference of every segment."""
        return [str(record.references[self.reference]) for record in self.records]

    @property
    def is_english(self) -> bool:
        """Whether candidates are."""
        return self.name.endswith("-en")

    def texts(self, reading: str) -> list[ListTexts]:
        """The lists that count, as a language model reads them."""
        contexts = self.contexts(reading)
        lists = []
        for i in self.rated:
            record = self.records[i]
            texts = tuple(str(candidate.text) for candidate in record.candidates)
            lists.append(ListTexts(texts, str(record.source), contexts[i]))
        return lists

    def contexts(self, reading: str) -> list[Context]:
        """What stands before the candidates of every segment in a reading that they share."""
        kind, _, number = reading.partition("-")
        width = int(number or 0)
        if kind == "reference":
            return list(contexts_behind(self.records, self.references, width))
        picks = [0] * len(self.records)
        if kind == "chosen":
            picks = [next(in_order(values)) for values in self.consensus]
        return list(contexts_of(self.records, picks, width))


def judged_sets(
    folder: Path, names: Sequence[str], segments: Sequence[str]
) -> list[JudgedSegments]:
    """The sets of these names in a folder, of each as many segments as `limits_of` reads."""
    of_any, of_named = limits_of(segments)
    paths = [folder / f"mt_mqm_{name}.jsonl.gz" for name in names]
    limits = [of_named.get(name, of_any) for name in names]
    return [JudgedSegments(path, most) for path, most in zip(paths, limits, strict=True)]


def _is_rated(record: CandidateList) -> bool:
    return all("mqm" in candidate.fields for candidate in record.candidates)


def _reference_number(path: Path, name: str) -> int:
    """Which reference of a file is read: the first, where none is named."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        names = list(json.loads(file.readline()).get("references", {}))
    wanted = REFERENCES.get(name, ())
    return names.index(wanted[0]) if wanted else 0


def contexts_of(
    records: Sequence[CandidateList], picks: Sequence[int], width: int
) -> Iterator[Context]:
    """What stands before every list when one candidate is picked of each."""
    targets = []
    for record, pick in zip(records, picks, strict=True):
        targets.append(str(record.candidates[pick].text))
    return contexts_behind(records, targets, width)


def contexts_behind(
    records: Sequence[CandidateList], targets: Sequence[str], width: int
) -> Iterator[Context]:
    """What stands before every list when each is followed by a target text."""
    document, stream = None, DocumentStream(width)
    for record, target in zip(records, targets, strict=True):
        if record.document != document:
            document, stream = record.document, DocumentStream(width)
        stream.enter(record.position, after_gap=False)
        yield stream.context
        stream.extend(str(record.source), target)
