"""Candidates with the scores of several language-model judges, of two languages whose documents have the same names.

``judged_wmt22.<pair>.jsonl.gz``: a document per line with ``source``, ``systems`` and, per judge, scores of every
system's segments (and of human references, which are no candidates here). Higher is better.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discorank.metrics.representations import FloatArray
from discorank.rerank.lists import Candidate, CandidateList

NO_JUDGES = ("references", "systems")


class JudgedLists(NamedTuple):
    """One language pair.

    Args:
        name: of the pair, ``en-de``.
        records: a list per segment, its candidates the systems' texts.
        systems: names of the candidates.
        judges: names.
        scores: [segments, candidates, judges].
        documents: of every segment, without the pair, so that languages share them.
    """

    name: str
    records: list[CandidateList]
    systems: list[str]
    judges: list[str]
    scores: FloatArray
    documents: list[str]


def read_judged(path: Path) -> JudgedLists:
    """The lists of a file."""
    pair = path.name.removesuffix(".jsonl.gz").rpartition(".")[2]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows: list[dict[str, Any]] = [json.loads(line) for line in file]
    first = rows[0]
    systems = list(first["systems"])
    judges = [name for name, value in first.items() if isinstance(value, dict)]
    judges = [name for name in judges if name not in NO_JUDGES]
    records: list[CandidateList] = []
    documents: list[str] = []
    scores = []
    for row in rows:
        document = row["id"].split(f".{pair}.", 1)[-1]
        for i, source in enumerate(row["source"]):
            candidates = tuple(Candidate(row["systems"][name][i]) for name in systems)
            records.append(
                CandidateList(f"{row['id']}:{i}", candidates, source, document, position=i)
            )
            documents.append(document)
            scores.append([[row[judge][name][i] for judge in judges] for name in systems])
    return JudgedLists(pair, records, systems, judges, np.array(scores, float), documents)
