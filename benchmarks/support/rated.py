"""Texts with human ratings for measuring metrics: data-to-text rows and MQM systems files into English.

Human scores are turned so that higher is better. Agreement is Kendall's tau-b of all rows of a set, and for sets with
several systems also the mean of that within a segment, which is what choosing among candidates needs.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discorank import load_metric
from discorank.metrics.representations import FloatArray
from discorank.metrics.sescore2.embedding import SentenceEncoder
from discorank.rerank.selection.correlation import tau_b

POOR = {"ted.zh-en": "refA"}  # a reference that people rate worse than every system
Score = Callable[[Sequence[str], Sequence[Sequence[str]]], FloatArray]


class Rated(NamedTuple):
    """A set of hypotheses with ratings."""

    name: str
    hypotheses: list[str]
    references: list[list[str]]
    human: dict[str, FloatArray]  # by what was rated
    segments: list[int] | None  # which segment a row is of, where several systems are rated
    systems: list[str] | None = None  # whose the row is


def data_to_text(path: Path) -> Rated:
    """A file of rows with "hypothesis", "references" and "scores"."""
    rows = _rows(path)
    human = {
        name: np.array([row["scores"][name] for row in rows], float) for name in rows[0]["scores"]
    }
    name = rows[0]["dataset"]
    return Rated(
        name, [r["hypothesis"] for r in rows], [r["references"] for r in rows], human, None
    )


def mqm(path: Path, most: int | None) -> Rated:
    """Rated system outputs of a systems file, of at most so many segments, evenly spread."""
    name = path.name.removeprefix("mt_mqm_").removesuffix(".jsonl.gz")
    segments = []
    for document in _rows(path):
        usable = [
            key
            for key in document["references"]
            if key != POOR.get(name) and not key.endswith("_r1")
        ]
        for i in range(len(document["source"])):
            references = [text for key in usable if (text := document["references"][key][i])]
            scores = {s: document["mqm"][s][i] for s in document["systems"] if s in document["mqm"]}
            rated = [
                (document["systems"][s][i], value, s)
                for s, value in scores.items()
                if value is not None
            ]
            if references and rated:
                segments.append((references, rated))
    if most is not None and most < len(segments):
        segments = [
            segments[i] for i in np.linspace(0, len(segments) - 1, most).round().astype(int)
        ]
    rows = [
        (i, text, refs, -value, system)
        for i, (refs, rated) in enumerate(segments)
        for text, value, system in rated
    ]
    number, texts, references, human, systems = map(list, zip(*rows, strict=True))
    return Rated(name, texts, references, {"mqm": np.array(human, float)}, number, systems)


def into_english(data: Path, most: int | None) -> list[Rated]:
    """BAGEL and all MQM sets into English of a data folder."""
    sets = [mqm(path, most) for path in sorted(data.glob("mt_mqm_*-en.jsonl.gz"))]
    return [data_to_text(data / "d2t_bagel.jsonl.gz"), *sets]


def of_metric(spec: str) -> Score:
    """Scores of a metric against the best of several references."""
    metric: Any = load_metric(spec)
    return lambda hypotheses, references: metric.score(hypotheses, references)


def of_cosine(model: str) -> Score:
    """The cosine of sentence vectors, of the best of several references."""
    encoder = SentenceEncoder(model, "cpu")

    def score(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> FloatArray:
        texts = list(
            dict.fromkeys(
                [*hypotheses, *(text for texts_of_row in references for text in texts_of_row)]
            )
        )
        vectors = dict(zip(texts, encoder(texts), strict=True))
        return np.array(
            [
                max(float(vectors[h] @ vectors[r]) for r in texts_of_row)
                for h, texts_of_row in zip(hypotheses, references, strict=True)
            ]
        )

    return score


def agreement(rated: Rated, scores: FloatArray) -> dict[str, float]:
    """Kendall's tau-b by what was rated, and within segments."""
    taus = {
        name: tau_b(scores.tolist(), human.tolist()) or 0.0 for name, human in rated.human.items()
    }
    if rated.segments is not None:
        taus["within"] = _within(rated, scores)
    return taus


def _within(rated: Rated, scores: FloatArray) -> float:
    (human,) = rated.human.values()
    groups: dict[int, list[int]] = defaultdict(list)
    for row, segment in enumerate(rated.segments or ()):
        groups[segment].append(row)
    taus = [tau_b(scores[rows].tolist(), human[rows].tolist()) for rows in groups.values()]
    return float(np.mean([tau for tau in taus if tau is not None]))


def _rows(path: Path) -> list[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
