"""An engine that computes nothing: utilities come from a file of matrices that an earlier run saved."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, InputError
from ...metrics.execution.meter import Meter
from ...metrics.mixture import Utility
from ...metrics.scorer import Info, Scorer
from ..engines.interface import Result, Task
from ..engines.list_results import result_of
from ..engines.part_values import reduced
from ..engines.status import Status
from .saved_matrices import SavedMatrices, SavedMatrix, text_digest


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
    """Values lists from a file of matrices, in the order of the input; a context manager that closes the file.

    Warns and raises as `SavedMatrices`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.matrices = SavedMatrices(self.path)
        self.utility = Saved(self.matrices.utility)
        self.done: list[tuple[int, Result | DiscorankError]] = []
        self.next: SavedMatrix | None = None
        self.is_placed = False  # at the row of the first list

    def __enter__(self) -> SavedEngine:
        """Itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Closes the file."""
        self.matrices.close()

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
            self.next = self.matrices.next()
        if self.next is None or self.next.id != task.id:
            instead = "the end of the file" if self.next is None else repr(self.next.id)
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
        """Goes to the row of the first list, which is not the first of the file where a run resumes."""
        while matrix := self.matrices.next():
            if matrix.id == name:
                self.next, self.is_placed = matrix, True
                return
        self.next = None
        self.matrices.rewind()
