"""Combinations of metrics for one set of system outputs, trained on other sets of its kind.

Features are utilities of single segments (whole summaries) against the references; people's scores of two systems on a
segment that differ by more than a margin make a pair, in every dimension they judged. Documents that the set itself has
too are left out of the training.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.support.judged_sets import JudgedSet
from discorank.metrics.combination import FORMAT
from discorank.metrics.mixture import Utility
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray
from discorank.metrics.storage.checksums import with_checksum
from discorank.rerank.selection.system_scores import DocumentOutputs, Scored, human_scored
from discorank.rerank.training.combination_training import Tuning, by_scores, gathered, learn

MARGIN = 0.5  # of MQM; scores of summaries have none
START = 150  # characters of a source by which documents of two sets are told apart
Examples = tuple[list[FloatArray], list[list[tuple[int, int]]], list[str]]  # of every segment


def trained(
    path: Path,
    names: Sequence[str],
    tested: JudgedSet,
    others: Sequence[tuple[JudgedSet, Sequence[Scored]]],
) -> Utility:
    """The combination for `tested`, which is written to `path`.

    Args:
        path: the model file.
        names: signatures of the metrics as the tested set takes them.
        tested: what it is not trained on.
        others: sets to train on, each with its scores under these metrics in their order.
    """
    here = {_start(document) for document in tested.documents}
    parts = [_examples(data, scored, here) for data, scored in others]
    rows = [row for some, _, _ in parts for row in some]
    pairs = [pair for _, some, _ in parts for pair in some]
    groups = [group for _, _, some in parts for group in some]
    learned = learn(gathered(rows, pairs, groups), Tuning(against="references", margin=MARGIN))
    features = [
        {"metric": name, "weight": float(weight), "min": float(low), "max": float(high)}
        for name, weight, low, high in zip(names, learned.weights, *learned.scale, strict=True)
    ]
    about = {"trained_on": [data.name for data, _ in others], "penalty": learned.fitting.penalty}
    about |= {"pairs": len(learned.differences), "features": features}
    unfinished = path.with_suffix(".part")
    model = with_checksum({"format": FORMAT, **about})
    unfinished.write_text(json.dumps(model, indent=1) + "\n", encoding="utf-8")
    os.replace(unfinished, path)
    return load_metric("combination", model=str(path))


def _examples(data: JudgedSet, scored: Sequence[Scored], left_out: set[str]) -> Examples:
    """Features [systems, metrics], (better, worse) systems and the document of every segment."""
    values = np.stack(
        [one.sign * one.segments for one in scored if one.segments is not None], axis=2
    )
    known = {name: s for s, name in enumerate(scored[0].systems)}
    owner = scored[0].parts[0].owner
    pairs: list[list[tuple[int, int]]] = [[] for _ in owner]
    for dimension in data.dimensions:
        human = human_scored(dimension, data.lower, data.documents)
        places = [known[name] for name in human.systems]
        for own, column in zip(
            pairs, human.segments.T if human.segments is not None else (), strict=True
        ):
            scores = [None if np.isnan(score) else float(score) for score in column]
            preferences = by_scores(scores, MARGIN if data.lower else 0.0, data.lower)
            own += [(places[better], places[worse]) for better, worse in preferences]
    segments = [i for i, d in enumerate(owner) if _start(data.documents[d]) not in left_out]
    names = [f"{data.name} {data.documents[owner[i]].id}" for i in segments]
    return [values[:, i] for i in segments], [pairs[i] for i in segments], names


def _start(document: DocumentOutputs) -> str:
    return "".join(" ".join(document.source or ()).lower().split())[:START]
