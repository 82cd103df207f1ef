"""Scores of what is chosen, summed over draws, and the folder that keeps them."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np

from benchmarks.support.measured_sets import MeasuredSet
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.chooser import chooser_fit, gains, training
from discorank.rerank.chooser import defaults as defaults_module
from discorank.rerank.chooser.chooser_fit import Fit


class Sums:
    """Scores of what is chosen, summed over draws."""

    def __init__(self, size: int) -> None:
        self.totals: dict[str, FloatArray] = {}
        self.times = np.zeros(size)
        self.said: list[tuple[float, float, float, float]] = []  # ratio, low, high expected; found

    def add(self, name: str, rows: IntArray, scores: FloatArray) -> None:
        total = self.totals.setdefault(name, np.zeros(len(self.times)))
        total[rows] += scores

    def means(self) -> dict[str, FloatArray]:
        """[n] by row of the table, nan where a segment was never chosen."""
        tested = self.times > 0
        times = np.where(tested, self.times, 1)
        return {
            name: np.where(tested, total / times, np.nan) for name, total in self.totals.items()
        }


def chosen(data: MeasuredSet, rows: IntArray, learned: Fit) -> FloatArray:
    """MQM of what is chosen."""
    own = data.data.rows(rows)
    return np.asarray(own.scores[np.arange(len(rows)), learned.choices(own)])


class KeptSums:
    """What was decided, in a folder: made anew where the code that decides has changed.

    Args:
        folder: where it lies.
        module: the file of the benchmark that decides.
    """

    def __init__(self, folder: Path, module: str) -> None:
        self.folder = folder
        modules = (chooser_fit, defaults_module, gains, training)
        code = b"".join(Path(str(module.__file__)).read_bytes() for module in modules)
        self.key = sha256(code + Path(module).read_bytes()).hexdigest()[:12]

    def path(self, *names: object) -> Path:
        """Where it lies."""
        return self.folder / f"{'.'.join(map(str, names))}.{self.key}.npz"

    def read_or_made(
        self, data: MeasuredSet, names: tuple[str, ...], make: Callable[[], Sums]
    ) -> Sums:
        """The sums of a set, from the folder or made now.

        Args:
            data: the set.
            names: what they are of, beside it.
            make: makes them.
        """
        path = self.path(*names, data.name)
        if path.exists():
            with np.load(path) as file:
                sums = Sums(len(data.ids))
                sums.times = file["times"]
                sums.said = [tuple(row) for row in file["said"].tolist()]
                others = [name for name in file.files if name not in ("times", "said")]
                sums.totals = {name: file[name] for name in others}
                return sums
        sums = make()
        said = np.array(sums.said).reshape(-1, 4)
        np.savez(path, times=sums.times, said=said, **sums.totals)  # type: ignore[arg-type]
        return sums
