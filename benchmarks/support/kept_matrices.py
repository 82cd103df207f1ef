"""Utility matrices of lists kept in a folder, so that a benchmark that was stopped goes on.

A metric has a file of lines ``{"list": digest, "matrix": [[...], ...]}``, numbers alone, the direction of a utility. A
digest is of the texts and the source. The file is named by the metric's signature, which has digests of its model, and
version. A line that was cut off by a kill is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from benchmarks.support.whole_lines import rows_of_whole_lines
from discorank.metrics.base import Metric
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import Document, Text


def digest(texts: Sequence[Text], source: Text | None) -> str:
    """Of all that a metric reads of a list without context."""
    plain = [
        list(text.sentences) if isinstance(text, Document) else text
        for text in (*texts, source or "")
    ]
    return sha256(json.dumps(plain).encode()).hexdigest()[:24]


class KeptMatrices:
    """The matrices in a folder.

    Args:
        folder: made if it is not there.
        only: what is not there yet is not computed: such lists have no matrix.
    """

    def __init__(self, folder: Path, only: bool = False) -> None:
        self.folder, self.only = folder, only
        self._known: dict[Path, dict[str, FloatArray]] = {}  # by file and list
        folder.mkdir(parents=True, exist_ok=True)

    def matrix(
        self, metric: Metric, texts: Sequence[Text], source: Text | None = None
    ) -> FloatArray | None:
        """Utilities [N, N] of the texts of a list, None where only kept ones are wanted and there is none."""
        path = self._path(metric)
        if path not in self._known:
            self._known[path] = _lines(path)
        known, name = self._known[path], digest(texts, source)
        if name not in known:
            if self.only:
                return None
            known[name] = metric.pairwise(texts, texts, source)
            row = json.dumps({"list": name, "matrix": known[name].tolist()}) + "\n"
            # in one piece, as another benchmark may add to the same file
            with path.open("ab", buffering=0) as file:
                file.write(row.encode())
        return known[name]

    def _path(self, metric: Metric) -> Path:
        key = sha256(f"{metric.signature()} {metric.info.version}".encode()).hexdigest()[:16]
        return self.folder / f"{metric.name}.{key}.jsonl"


def _lines(path: Path) -> dict[str, FloatArray]:
    """The matrices of a file by list."""
    return {row["list"]: np.array(row["matrix"]) for row in rows_of_whole_lines(path)}
