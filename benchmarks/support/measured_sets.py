"""Sets of system outputs with MQM as a chooser is trained on them, measured once and kept in a folder."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.support.mqm_lists import SETS, rated
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.chooser.difficulty import traits_of
from discorank.rerank.chooser.measured import MeasuredTexts, columns_of, utilities_of

FEW, BLOCK = 25, 10  # sets of fewer documents are drawn by blocks of so many segments


class MeasuredSet(NamedTuple):
    """One set, of segments whose every system is rated.

    Args:
        name: ``ted.zh-en``.
        data: what a chooser is trained on; errors are roots of MQM, scores are MQM.
        blocks: of ten segments, their number, [n].
        systems: names.
        ids: of the segments.
        traits: what can be told of a segment before it is judged, [n, 4].
    """

    name: str
    data: MeasuredTexts
    blocks: IntArray
    systems: list[str]
    ids: list[str]
    traits: FloatArray

    @property
    def units(self) -> IntArray:
        """What is drawn together to be judged: documents, or blocks where these are few, [n]."""
        return self.blocks if int(self.data.document.max()) + 1 < FEW else self.data.document

    @property
    def groups(self) -> IntArray:
        """What the bootstrap draws together, [n]."""
        return self.blocks if int(self.data.document.max()) < 3 else self.data.document


def measured_set(path: Path, utility: str, features: tuple[str, ...], work: Path) -> MeasuredSet:
    """The set of a file; utilities and features are kept in a folder, numbers alone."""
    name = path.name.removeprefix("mt_mqm_").removesuffix(".jsonl.gz")
    lists = rated(str(path))
    metric = load_metric(utility).for_language(name[-2:])
    key = f"{sha256(path.read_bytes()).hexdigest()} {metric.signature()} {metric_versions(utility)} {features}"
    kept = work / f"{name}.{sha256(key.encode()).hexdigest()[:16]}.npz"
    if kept.exists():
        with np.load(kept) as file:
            utilities, columns = file["utilities"], file["columns"]
    else:
        work.mkdir(parents=True, exist_ok=True)
        utilities, columns = utilities_of(metric, lists), columns_of(features, lists)
        np.savez(kept, utilities=utilities, columns=columns)
    scores = np.array([[float(c.fields["mqm"]) for c in r.candidates] for r in lists])
    documents = np.array([str(record.document) for record in lists])
    number = np.unique(documents, return_inverse=True)[1]
    blocks = [f"{document} {i // BLOCK}" for i, document in enumerate(documents)]
    data = MeasuredTexts(utilities, columns, np.sqrt(scores), number, scores)
    systems = [str(c.fields["system"]) for c in lists[0].candidates]
    return MeasuredSet(
        name,
        data,
        np.unique(blocks, return_inverse=True)[1],
        systems,
        [record.id for record in lists],
        np.stack([traits_of(record) for record in lists]),
    )


def measured_sets(
    folder: Path, utility: str, features: tuple[str, ...], work: Path
) -> list[MeasuredSet]:
    """The seven public sets with MQM, out of a folder."""
    paths = [folder / f"mt_mqm_{name}.jsonl.gz" for name in SETS]
    return [measured_set(path, utility, features, work) for path in paths]


def metric_versions(utility: str) -> list[int]:
    """The versions of a utility's parts."""
    return [int(part.info.version) for _, part in load_metric(utility).parts]


def shares(values: FloatArray, base: FloatArray) -> float:
    """The mean of some values relative to that of others."""
    return float(np.nanmean(values) / np.nanmean(base))
