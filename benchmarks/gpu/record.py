"""Rows that are written as they come, and what a part of the benchmark knows of where it runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

HEAD = ("part", "case", "dtype", "what", "value", "unit", "note")
# Dense matrix products of an H100 SXM, by its data sheet, FLOP/s; float32 with TF32 has 495e12.
PEAKS = {"bfloat16": 989e12, "float16": 989e12, "float32": 67e12}


class Row(NamedTuple):
    """A figure."""

    part: str
    case: str
    dtype: str
    what: str
    value: str
    unit: str
    note: str


class Place(NamedTuple):
    """Where a part runs.

    Attributes:
        part: its name.
        out: the table that it adds to.
        root: a folder for models and lists.
        device: of the models that are measured.
        rehearses: whether everything is tiny.
        until: when it is stopped, by `perf_counter`.
    """

    part: str
    out: Path
    root: Path
    device: str
    rehearses: bool
    until: float

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.until - perf_counter()

    def size(self, name: str) -> str:
        """A shape, or the tiny one."""
        return "tiny" if self.rehearses else name

    def write(
        self, case: str, dtype: str, what: str, value: object, unit: str = "", note: str = ""
    ) -> None:
        """Adds a row, at once."""
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        cells = (self.part, case, dtype, what, shown, unit, " ".join(note.split()))
        with self.out.open("a", encoding="utf-8") as table:
            table.write("\t".join(cells) + "\n")
        print(*cells, sep=" | ", flush=True)

    def failed(self, case: str, dtype: str, error: BaseException) -> None:
        """Adds a row that says what went wrong, and prints where."""
        traceback.print_exception(error, limit=-8)
        self.write(case, dtype, "failed", type(error).__name__, "", str(error)[:300])

    def wait(self) -> None:
        """Waits for the device."""
        import torch

        if self.device == "cuda":
            torch.cuda.synchronize()

    def seconds(self, call: Callable[[], Any], repeats: int = 1) -> float:
        """The least wall time of some calls, the device's work included."""
        best = float("inf")
        for _ in range(repeats):
            self.wait()
            start = perf_counter()
            call()
            self.wait()
            best = min(best, perf_counter() - start)
        return best

    def peak_gibibytes(self, call: Callable[[], Any]) -> float:
        """The most memory of the device that is allocated during a call; 0 on a CPU."""
        import torch

        if self.device != "cuda":
            call()
            return 0.0
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        call()
        return torch.cuda.max_memory_allocated() / 2**30


def rows(table: Path) -> list[Row]:
    """The rows of a table."""
    lines = table.read_text(encoding="utf-8").splitlines()
    return [Row(*line.split("\t")) for line in lines[1:]]
