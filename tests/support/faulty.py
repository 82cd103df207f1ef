"""Utilities that are slow, fail to load, run out of memory or kill their worker, for tests of engines elsewhere."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from discorank.metrics.base import Metric
from discorank.metrics.errors import ModelLoadError
from discorank.metrics.representations import Block, FloatArray, IntArray, Ragged, Reps
from discorank.metrics.scorer import Info, Scorer
from discorank.metrics.spec.checked_settings import settings
from discorank.metrics.text.texts import Item

GATES = "DISCORANK_TEST_GATES"  # environment variable with the folder of `gated`


def overlap(hypothesis: str, reference: str) -> float:
    """Shared words, after a little while."""
    time.sleep(0.0003)
    return float(len(set(hypothesis.split()) & set(reference.split())))


def deadly(hypothesis: str, reference: str) -> float:
    """Shared words; a text "kill" ends the process."""
    if hypothesis == "kill":
        os._exit(1)
    return overlap(hypothesis, reference)


def unruly(hypothesis: str, reference: str) -> float:
    """Shared words; a text "leave" ends the process as `sys.exit` does, one "nan" has no value."""
    if hypothesis == "leave":
        raise SystemExit(0)
    if hypothesis == "nan":
        return float("nan")
    return overlap(hypothesis, reference)


def partial(hypothesis: str, reference: str) -> float:
    """Shared words; a text "nan" has no value, and none has "of-no-value" but beside itself."""
    is_other = hypothesis == "of-no-value" and reference != hypothesis
    return float("nan") if is_other else unruly(hypothesis, reference)


def endless(hypothesis: str, reference: str) -> float:
    """Shared words; a text "hang" takes for ever."""
    if hypothesis == "hang":
        time.sleep(3600)
    return overlap(hypothesis, reference)


def gated(hypothesis: str, reference: str) -> float:
    """Shared words; at a text "gate NAME" the worker waits until there is a file NAME in the folder of the environment.

    It leaves its process id in NAME.reached, so that a test can do something to a run at a point of its choice.
    """
    if hypothesis.startswith("gate "):
        gate = Path(os.environ[GATES], hypothesis.split()[1])
        if not gate.exists():
            draft = gate.with_suffix(f".{os.getpid()}")
            draft.write_text(str(os.getpid()))
            draft.rename(gate.with_suffix(".reached"))
        while not gate.exists():
            time.sleep(0.02)
    return overlap(hypothesis, reference)


class Squatter:
    """Holds cores."""


@settings
class Missing(Metric):
    """A metric whose model is not there."""

    name: ClassVar[str] = "faulty:Missing"
    info: ClassVar[Info] = Info(summary="toy")

    def load(self) -> Scorer:
        raise ModelLoadError("not on this node", where="model", fix="Copy it there")


@settings
class Loading(Metric):
    """A metric that never ends loading, and leaves a file in the folder of the environment when it begins."""

    name: ClassVar[str] = "tests.support.faulty:Loading"
    info: ClassVar[Info] = Info(summary="toy")

    def load(self) -> Scorer:
        Path(os.environ[GATES], "loading.reached").touch()
        while True:
            time.sleep(0.02)


@settings
class Hungry(Metric):
    """Shared words; at most 100 pairs, and 8 texts, fit into the memory at once."""

    name: ClassVar[str] = "tests.support.faulty:Hungry"
    info: ClassVar[Info] = Info(summary="toy", bucketed=True)

    def load(self) -> Scorer:
        return HungryScorer()


@settings
class Placed(Metric):
    """Shared words; a process that loads it leaves a file in the folder, with its node and the GPUs that it sees."""

    folder: str = ""
    name: ClassVar[str] = f"{__name__}:Placed"
    info: ClassVar[Info] = Info(summary="toy", bucketed=True)

    def load(self) -> Scorer:
        import ray

        if ray.is_initialized():
            node = ray.get_runtime_context().get_node_id()
            gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
            Path(self.folder, str(os.getpid())).write_text(f"{node} {gpus}")
        return HungryScorer()


class HungryScorer(Scorer):
    """Refuses what does not fit."""

    info = Hungry.info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        words = [
            sorted({zlib.crc32(word.encode()) for word in str(item.text).split()}) for item in items
        ]
        lengths = np.array([len(some) for some in words], np.int64)
        return Reps(
            {"words": Ragged.of_rows([np.array(some, np.int64) for some in words])}
        ), lengths

    def represent(self, prepared: Reps) -> Reps:
        if len(prepared) > 8:
            raise MemoryError
        return prepared

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        if sum(block.cells for block in blocks) > 100:
            raise MemoryError
        sets = [set(reps["words"][np.array([row])].values.tolist()) for row in range(len(reps))]
        return [
            np.array(
                [
                    [float(len(sets[h] & sets[r])) for r in block.references]
                    for h in block.hypotheses
                ]
            )
            for block in blocks
        ]


class SmallMemoryScorer(Scorer):
    """Counts letters; the process that claims the folder first has memory for short batches only, as a small GPU has.

    Every process writes the summed lengths of its batches into a file of the folder, those that do not fit negative.
    """

    def __init__(self, metric: SmallMemory) -> None:
        self.info, self.metric = metric.info, metric
        folder = Path(metric.folder)
        try:
            (folder / "claimed").touch(exist_ok=False)
            self.small = True
        except FileExistsError:
            self.small = False
        self.log = folder / f"{'small' if self.small else 'large'}-{os.getpid()}"

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        rows = [np.frombuffer(str(item.text).encode("utf-32-le"), np.uint32) % 97 for item in items]
        letters = Ragged.of_rows([row.astype(np.int64) for row in rows])
        return Reps({"letters": letters}), letters.lengths

    def represent(self, prepared: Reps) -> Reps:
        import torch

        letters: Ragged = prepared["letters"]
        size = int(letters.lengths.sum())
        fits = not self.small or size <= self.metric.most
        with open(self.log, "a") as log:
            print(size if fits else -size, file=log)
        if not fits:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        time.sleep(0.002)
        counts = np.zeros((len(letters), 97))
        np.add.at(counts, (np.repeat(np.arange(len(letters)), letters.lengths), letters.values), 1)
        return Reps({"counts": counts})

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        counts = reps["counts"]
        return [
            np.array(
                [
                    [np.minimum(counts[h], counts[r]).sum() for r in block.references]
                    for h in block.hypotheses
                ]
            )
            for block in blocks
        ]


@settings
class SmallMemory(Metric):
    """Shared letters, with little memory in one process; see `SmallMemoryScorer`."""

    folder: str = ""
    most: int = 300  # summed lengths of a batch that fits
    name: ClassVar[str] = f"{__name__}:SmallMemory"
    info: ClassVar[Info] = Info(summary="toy", bucketed=True)

    def load(self) -> Scorer:
        return SmallMemoryScorer(self)
