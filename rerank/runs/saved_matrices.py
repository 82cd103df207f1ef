"""Utility matrices on disk, to decide again with other weights at no cost.

A JSONL file: a header with the utility's signature, then per list its id, the shape [distinct candidates, distinct
pseudo-references] in order of first appearance, and the float64 values in base64 (little-endian, row by row).
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, InputError
from ...metrics.execution.meter import Meter
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
from ...metrics.scorer import Info, Scorer
from ...metrics.text.texts import Text
from ..choice import Ranking
from ..engines.interface import Result, Task
from ..engines.local import reduced, result_of
from ..engines.status import Status
from .rows import as_line

KIND = "discorank-utilities"


def header(signature: str) -> bytes:
    """The first line of a file of matrices."""
    return as_line({"kind": KIND, "utility": signature})


def matrix_row(ranking: Ranking) -> bytes:
    """The line of one list; its ranking must carry the matrix."""
    if ranking.matrix is None:
        raise InputError(
            "the ranking has no matrix", where=ranking.id, fix="Decode with keep_matrix=True"
        )
    values = np.ascontiguousarray(ranking.matrix, "<f8")
    row = {
        "id": ranking.id,
        "texts": text_digest(candidate.text for candidate in ranking.candidates),
    }
    return as_line({**row, "shape": values.shape, "float64": b64encode(values.tobytes()).decode()})


def text_digest(texts: Iterable[Text]) -> str:
    """A digest of the distinct texts, in order."""
    lines = "\n".join(repr(text) for text in dict.fromkeys(texts))
    return blake2b(lines.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def read_row(row: Any) -> tuple[str, str, FloatArray]:
    """(id, digest of the texts, matrix) of a line's JSON; InputError if it is none."""
    try:
        h, r = map(int, row["shape"])
        values = np.frombuffer(b64decode(row["float64"], validate=True), "<f8").reshape(h, r)
        return str(row["id"]), str(row["texts"]), values.astype(np.float64)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"not a line of utilities ({error})", fix="Save them again") from error


@dataclass(frozen=True)
class Saved(Metric):
    """The utility whose matrices stand in a file; its signature is that of the metric that made them."""

    text: str
    name: ClassVar[str] = "saved"
    info: ClassVar[Info] = Info(summary="utilities read from a file", unit="document")

    def signature(self) -> str:
        """The signature in the file's header."""
        return self.text

    def load(self) -> Scorer:
        """There is nothing to load: only `SavedEngine` values it."""
        raise InputError(
            "utilities from a file are not computed", where=self.text, fix="Use SavedEngine"
        )


class SavedEngine:
    """Values lists from a file of matrices whose lists stand in the order of the input.

    Raises:
        InputError: the file cannot be read or is not a file of utilities.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rows = self._read()
        first = next(self.rows, None)
        if (
            not isinstance(first, dict)
            or first.get("kind") != KIND
            or not isinstance(first.get("utility"), str)
        ):
            raise InputError(
                "not a file of utilities",
                where=str(path),
                fix="Make one with decode --save-utilities",
            )
        self.utility = Saved(first["utility"])
        self.done: list[tuple[int, Result | DiscorankError]] = []
        self.next: tuple[str, str, FloatArray] | None = None
        self.is_placed = False  # at the row of the first list

    def load(self, metrics: Sequence[Utility]) -> None:
        """There is nothing to load."""

    def submit(self, key: int, task: Task) -> None:
        """Takes a list; its matrix is the next in the file with its id."""
        try:
            self.done.append((key, self._value(task)))
        except DiscorankError as error:
            self.done.append((key, error))

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        """Everything submitted."""
        done, self.done = self.done, []
        return done

    def forget(self, keys: Collection[int]) -> None:
        """Lets go of lists that are not collected."""
        self.done = [(key, result) for key, result in self.done if key not in keys]

    def status(self) -> Status:
        """Nothing is computed."""
        return Status()

    def _value(self, task: Task) -> Result | DiscorankError:
        if not self.is_placed:
            self._find(task.id)
        elif self.next is None:
            row = next(self.rows, None)
            self.next = None if row is None else read_row(row)
        if self.next is None or self.next[0] != task.id:
            instead = "the end of the file" if self.next is None else repr(self.next[0])
            raise InputError(
                f"no saved utilities for {task.id!r}, found {instead}",
                where=str(self.path),
                fix="Decide the lists they were saved from, in the same order",
            )
        (_, digest, matrix), self.next = self.next, None
        items = task.comparisons[0].hypotheses
        expected = (len(items), len(task.comparisons[0].references))
        if matrix.shape != expected or digest != text_digest(item.text for item in items):
            raise InputError(
                f"the saved matrix is {matrix.shape}, of other texts than this list's {expected}",
                where=str(self.path),
                fix="Save the utilities again",
            )
        return result_of(task, [reduced(self.utility, task, matrix, Meter())])

    def _find(self, name: str) -> None:
        """Goes to the row of the first list, which is not the first of the file where a run goes on."""
        for row in self.rows:
            self.next = read_row(row)
            if self.next[0] == name:
                self.is_placed = True
                return
        self.next, self.rows = None, self._read()
        next(self.rows, None)

    def _read(self) -> Iterator[Any]:
        try:
            with open(self.path, encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    try:
                        yield json.loads(line)
                    except (ValueError, RecursionError) as error:
                        raise InputError(
                            f"not JSON ({error})", where=f"{self.path}:{number}"
                        ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot be read ({error})", where=str(self.path)) from error
