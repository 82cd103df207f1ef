"""Steps of plans on kept matrices, which `trajectories` wrote, as signs and truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.budget.replay import KINDS
from benchmarks.budget.trajectories import COLUMNS, TRUTH
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.budget.requests import BoolArray
from discorank.rerank.budget.statement import SCORES_OF_TEXTS, Evidence, signs_of
from discorank.rerank.budget_audit import MAX_REGRET


class Steps(NamedTuple):
    """The steps of some lists under a utility."""

    name: str
    kind: str
    truth: FloatArray  # columns of TRUTH
    signs: FloatArray
    share: FloatArray

    def of(self, rows: Any) -> Steps:
        """Some of them."""
        return Steps(self.name, self.kind, self.truth[rows], self.signs[rows], self.share[rows])

    @property
    def same(self) -> FloatArray:
        return self.truth[:, 4]

    @property
    def regret(self) -> FloatArray:
        return np.minimum(self.truth[:, 3], MAX_REGRET)

    @property
    def is_last(self) -> BoolArray:
        return np.asarray(self.truth[:, 2] == 1)

    @property
    def replay(self) -> IntArray:
        """A number for each replay."""
        return np.unique(self.truth[:, :2], axis=0, return_inverse=True)[1].ravel()


def read(path: Path) -> Steps:
    """The steps of a file, without those of whole matrices."""
    table = np.load(path)
    evidence = Evidence(np.empty(0, np.int64), *table[:, len(TRUTH) :].T)
    name = path.name.removesuffix(".npy")
    utility = name.split(".")[1]
    kind = SCORES_OF_TEXTS if name.startswith("judged.") else KINDS.get(utility, utility)
    steps = Steps(
        name, kind, table[:, : len(TRUTH)], signs_of(evidence), np.asarray(evidence.share)
    )
    return steps.of((table[:, COLUMNS.index("share")] < 1) & np.isfinite(steps.signs).all(axis=1))
