"""Scores of systems kept in a folder, so that a benchmark that was stopped goes on where it was.

A file holds what `score_systems` found of one set under one metric. Its name has a digest of all that this depends on:
the metric's signature and version, the bytes of the set, the references, the number of documents.
"""

from __future__ import annotations

import json
import os
import sys
from hashlib import sha256
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.support.judged_sets import JudgedSet
from discorank.metrics.base import Metric
from discorank.metrics.errors import InputError
from discorank.metrics.mixture import Mix, Utility
from discorank.rerank.selection.system_scores import Part, Scored, score_systems


class KeptScores:
    """The scores in a folder.

    Args:
        folder: made if it is not there.
        only: what is not there yet is not computed, but an error.
    """

    def __init__(self, folder: Path, only: bool = False) -> None:
        self.folder, self.only = folder, only
        folder.mkdir(parents=True, exist_ok=True)

    def scored(self, data: JudgedSet, metric: Utility) -> Scored:
        """The systems of a set under a metric; a mix is put together from the kept scores of its parts.

        Raises:
            InputError: as `score_systems`, or it is not there and `only` these are wanted.
        """
        if isinstance(metric, Mix):
            return mixed(metric, [self.scored(data, part) for _, part in metric.parts])
        path = self.folder / f"{data.name}.{metric.name}.{_digest(data, metric)}.npz"
        if path.exists():
            return _read(path, metric)
        if self.only:
            raise InputError("not scored")
        start = process_time()
        scores = score_systems(metric, data.documents)
        print(
            f"{data.name} {metric.signature():.80}: {process_time() - start:.1f} CPU s",
            file=sys.stderr,
            flush=True,
        )
        _write(path, scores)
        return scores


def mixed(mix: Mix, alone: list[Scored]) -> Scored:
    """The systems under a mix, from those under each of its metrics; equal to what `score_systems` finds."""
    factors = [weight * part.utility_sign for weight, part in mix.parts]
    own = list(zip(factors, alone, strict=True))
    parts = tuple(
        Part(factor, s.parts[0].scorer, s.parts[0].rows, s.parts[0].owner) for factor, s in own
    )
    values = [factor * s.segments for factor, s in own if s.segments is not None]
    segments = sum(values[1:], values[0]) if len(values) == len(own) else None
    return Scored(
        mix.signature(), True, alone[0].systems, parts, segments, sum(s.cuts for s in alone)
    )


def _digest(data: JudgedSet, metric: Metric) -> str:
    return sha256(f"{metric.signature()} {metric.info.version} {data.key}".encode()).hexdigest()[
        :16
    ]


def _write(path: Path, scored: Scored) -> None:
    part = scored.parts[0]
    about = {"systems": scored.systems, "cuts": scored.cuts}
    columns = {"rows": part.rows, "owner": part.owner, "about": np.array(json.dumps(about))}
    if scored.segments is not None:
        columns["segments"] = scored.segments
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **columns)
    os.replace(unfinished, path)


def _read(path: Path, metric: Metric) -> Scored:
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        part = Part(1.0, metric.scorer, file["rows"], file["owner"])
        segments = file.get("segments")
    systems = tuple(about["systems"])
    return Scored(
        metric.signature(), metric.info.higher_is_better, systems, (part,), segments, about["cuts"]
    )
