"""Values of candidates under reference-free metrics kept in a folder, so that a benchmark that was stopped goes on.

A metric has a file of lines ``{"list": digest, "values": [...]}``, numbers alone. A digest is of all that the metric
reads: the texts, the source, the sentences before. The file is named by the metric's signature, which has digests of
its model, and version. A line that was cut off by a kill is dropped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np

from benchmarks.support.whole_lines import rows_of_whole_lines
from discorank.metrics.base import Metric
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.execution.store import Store
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import Comparison, Context

BATCH = 8  # lists that are valued together and lost together
SAY_SECONDS = 60.0


class ListTexts(NamedTuple):
    """The texts of a list, and what they are read with."""

    texts: tuple[str, ...]
    source: str | None
    context: Context

    def comparison(self, metric: Metric) -> Comparison:
        """The distinct texts as a metric reads them."""
        return metric.comparison(tuple(dict.fromkeys(self.texts)), (), self.source, self.context)


def digest(comparison: Comparison) -> str:
    """Of all that a metric reads."""
    source = comparison.source and (comparison.source.text, comparison.source.context)
    texts = [item.text for item in comparison.hypotheses]
    plain = json.dumps([texts, comparison.hypotheses[0].context, source])
    return sha256(plain.encode()).hexdigest()[:24]


def characters(comparison: Comparison) -> int:
    """About what a list costs: its texts, and what stands before them once."""
    before = comparison.hypotheses[0].context
    source = () if comparison.source is None else comparison.source.context
    texts = [str(item.text) for item in comparison.hypotheses]
    return sum(map(len, (*texts, *before, *source)))


Compute = Callable[[Metric, Sequence[Comparison]], Sequence[FloatArray]]


class KeptValues:
    """The values in a folder.

    Args:
        folder: made if it is not there.
        only: what is not there yet is not computed: such lists have no values.
        compute: values [H, 1] of comparisons; the metric's own by default.
    """

    def __init__(self, folder: Path, only: bool = False, compute: Compute | None = None) -> None:
        self.folder, self.only = folder, only
        self.compute = compute or _compute
        self._known: dict[Path, dict[str, list[float]]] = {}  # by file and list
        folder.mkdir(parents=True, exist_ok=True)

    def values(
        self, metric: Metric, lists: Sequence[ListTexts], what: str
    ) -> list[FloatArray | None]:
        """Utilities [N] of the texts of every list, None where only kept ones are wanted and there are none.

        Args:
            metric: without references.
            lists: the texts.
            what: is being valued, for the progress that is told.
        """
        known = self._known.setdefault(self._path(metric), _lines(self._path(metric)))
        comparisons = [own.comparison(metric) for own in lists]
        digests = [digest(comparison) for comparison in comparisons]
        if not self.only:
            wanted = dict(zip(digests, comparisons, strict=True))
            missing = {name: c for name, c in wanted.items() if name not in known}
            self._add(metric, known, missing, what)
        columns = [known.get(name) for name in digests]
        return [
            None if column is None else _of_all(own.texts, column)
            for own, column in zip(lists, columns, strict=True)
        ]

    def _add(
        self,
        metric: Metric,
        known: dict[str, list[float]],
        missing: dict[str, Comparison],
        what: str,
    ) -> None:
        """Values lists, a few at a time, and keeps them."""
        names = list(missing)
        progress = _Progress(what, sum(map(characters, missing.values())))
        for start in range(0, len(names), BATCH):
            part = names[start : start + BATCH]
            comparisons = [missing[name] for name in part]
            columns = self.compute(metric, comparisons)
            own = {
                name: (metric.utility_sign * column[:, 0]).tolist()
                for name, column in zip(part, columns, strict=True)
            }
            rows = [json.dumps({"list": name, "values": own[name]}) + "\n" for name in part]
            with self._path(metric).open("a", encoding="utf-8") as file:
                file.write("".join(rows))
            known |= own
            progress.add(sum(map(characters, comparisons)))

    def _path(self, metric: Metric) -> Path:
        key = sha256(f"{metric.signature()} {metric.info.version}".encode()).hexdigest()[:16]
        return self.folder / f"{metric.name}.{key}.jsonl"


def _of_all(texts: Sequence[str], column: Sequence[float]) -> FloatArray:
    """The value of every text, from those of the distinct ones in their order."""
    value_of = dict(zip(dict.fromkeys(texts), column, strict=True))
    return np.array([value_of[text] for text in texts])


def _compute(metric: Metric, comparisons: Sequence[Comparison]) -> list[FloatArray]:
    return matrices(metric, comparisons, Store(metric.scorer))


def _lines(path: Path) -> dict[str, list[float]]:
    """The values of a file by list."""
    return {row["list"]: row["values"] for row in rows_of_whole_lines(path)}


class _Progress:
    """Tells how far a set is, and after its first lists how long the rest will take."""

    def __init__(self, what: str, characters: int) -> None:
        self.what, self.characters, self.done = what, characters, 0
        self.begun, self.cpu, self.said = perf_counter(), process_time(), 0.0

    def add(self, characters: int) -> None:
        """Counts what was done."""
        self.done += characters
        now = perf_counter()
        if self.done == self.characters or now - self.said > SAY_SECONDS:
            self.said = now
            seconds, cpu = now - self.begun, process_time() - self.cpu
            left = (self.characters - self.done) / max(1, self.done)
            print(
                f"{self.what}: {self.done} of {self.characters} characters, {seconds:.0f} s "
                f"({cpu:.0f} CPU s), {left * seconds:.0f} s ({left * cpu:.0f} CPU s) to go",
                file=sys.stderr,
                flush=True,
            )
