"""Utility matrices on disk, and the engine that decides by them again, with other weights and at no cost.

A JSONL file: a header with the utility's signature, then per list its id, the shape [distinct candidates, distinct
pseudo-references] in order of first appearance, and the float64 values in base64 (little-endian, row by row). The
header has its checksum as JSON objects have; the line of a list ends with one of the bytes before it, keyed by the
header's, so that none is taken for that of another utility. (A checksum of its values would cost more of a chrF run.)
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, InputError
from ...metrics.execution.meter import Meter
from ...metrics.mixture import Utility
from ...metrics.scorer import Info, Scorer
from ...metrics.storage.bounded_files import check_regular
from ...metrics.storage.checksums import DIGEST_BYTES, KEY, check, checksum_of, with_checksum
from ...metrics.storage.json_and_yaml import parse_small_json
from ...metrics.storage.limits import limits
from ...metrics.storage.line_source import Line, LineSource
from ...metrics.text.texts import Text
from ..choice import Ranking
from ..engines.interface import Result, Task
from ..engines.local import reduced, result_of
from ..engines.status import Status
from .resumable import as_line

KIND = "discorank-utilities"
_BEFORE_CHECKSUM = b', "checksum": "'
_MAKE_ONE = "Make one with decode --save-utilities"
_SAVE_AGAIN = "Restore it, or save the utilities again"


def header(signature: str) -> bytes:
    """The first line of a file of matrices."""
    return as_line(with_checksum({"kind": KIND, "utility": signature}))


def matrix_row(ranking: Ranking, signature: str) -> bytes:
    """The line of one list below the header of a utility's signature; its ranking must carry the matrix.

    Raises:
        InputError: it has none, or one too large for a line.
    """
    if ranking.matrix is None:
        raise InputError(
            "the ranking has no matrix", where=ranking.id, fix="Decode with keep_matrix=True"
        )
    values = np.ascontiguousarray(ranking.matrix, "<f8")
    bound = limits().matrix_bytes
    if values.nbytes * 4 // 3 > bound - (1 << 16):
        shape = " x ".join(map(str, values.shape))
        problem = f"a matrix of {shape} utilities, more than {bound} bytes in a line"
        raise InputError(
            problem,
            where="save_utilities",
            fix="Decode without saving utilities, or: --max matrix_bytes=NUMBER",
        )
    row = {
        "id": ranking.id,
        "texts": text_digest(candidate.text for candidate in ranking.candidates),
        "shape": values.shape,
        "float64": b64encode(values.tobytes()).decode(),
    }
    start = as_line(row).removesuffix(b"}\n")
    return start + _BEFORE_CHECKSUM + _checksum(start, signature) + b'"}\n'


def _checksum(start: bytes, signature: str) -> bytes:
    """The checksum of the line of a list, in hexadecimal digits, by the bytes before it."""
    digest = blake2b(start, key=_header_checksum(signature), digest_size=DIGEST_BYTES)
    return digest.hexdigest().encode()


@lru_cache(maxsize=8)
def _header_checksum(signature: str) -> bytes:
    return checksum_of({"kind": KIND, "utility": signature}).encode()


def text_digest(texts: Iterable[Text]) -> str:
    """A digest of the distinct texts, in order."""
    lines = "\n".join(repr(text) for text in dict.fromkeys(texts))
    return blake2b(lines.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


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

    Raises:
        InputError: the file cannot be read, is damaged, a device or a pipe, or not a file of utilities.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.utility = self._open()
        self.done: list[tuple[int, Result | DiscorankError]] = []
        self.row: dict[str, Any] | None = None  # the next one, where it is read already
        self.is_placed = False  # at the row of the first list

    def _open(self) -> Saved:
        """Open the file and read its header; returns the utility that made the matrices."""
        check_regular(self.path, _MAKE_ONE)
        self.source = LineSource(self.path, line_bytes=limits().matrix_bytes)
        try:
            self.lines = iter(self.source)
            number, line = self._line() or (1, b"null")
            first = parse_small_json(line, f"{self.path}:{number}", _SAVE_AGAIN)
            if not isinstance(first, dict) or first.get("kind") != KIND or KEY not in first:
                raise InputError("not a file of utilities", where=str(self.path), fix=_MAKE_ONE)
            check(first, f"{self.path}:1", _SAVE_AGAIN)
        except BaseException:
            self.source.close()
            raise
        return Saved(str(first.get("utility")))

    def __enter__(self) -> SavedEngine:
        """Itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.source.close()

    def load(self, metrics: Sequence[Utility]) -> None:
        """There is nothing to load."""

    def submit(self, key: int, task: Task) -> None:
        """Take a list; its matrix is the next in the file with its id."""
        try:
            self.done.append((key, self._value(task)))
        except DiscorankError as error:
            self.done.append((key, error))

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        """Return everything submitted."""
        done, self.done = self.done, []
        return done

    def forget(self, keys: Collection[int]) -> None:
        """Let go of lists that are not collected."""
        self.done = [(key, result) for key, result in self.done if key not in keys]

    def status(self) -> Status:
        """Nothing is computed."""
        return Status()

    def _value(self, task: Task) -> Result | DiscorankError:
        self.row = self.row or self._next()
        while not self.is_placed and self.row is not None and self.row["id"] != task.id:
            self.row = self._next()  # a run that resumes begins further down
        if self.row is None or self.row["id"] != task.id:
            instead = "the end of the file" if self.row is None else repr(self.row["id"])
            if not self.is_placed:
                self.source.close()
                self._open()
            problem = f"no saved utilities for {task.id!r}, found {instead}"
            fix = "Decide the lists they were saved from, in the same order"
            raise InputError(problem, where=str(self.path), fix=fix)
        row, self.row, self.is_placed = self.row, None, True
        items = task.comparisons[0].hypotheses
        shape = (len(items), len(task.comparisons[0].references))
        if row["shape"] != list(shape) or row["texts"] != text_digest(item.text for item in items):
            problem = f"the saved matrix is {row['shape']}, of other texts than this list's {shape}"
            raise InputError(problem, where=str(self.path), fix="Save the utilities again")
        values = np.frombuffer(b64decode(row["float64"]), "<f8").reshape(shape)
        return result_of(task, [reduced(self.utility, task, values.astype(np.float64), Meter())])

    def _next(self) -> dict[str, Any] | None:
        """The row of the next line, None at the end; InputError for one that is damaged, or of another file."""
        numbered = self._line()
        if numbered is None:
            return None
        where = f"{self.path}:{numbered[0]}"
        start, _, end = numbered[1].rpartition(_BEFORE_CHECKSUM)
        if end != _checksum(start, self.utility.text) + b'"}':
            problem = "is damaged, was edited or belongs to the first line of another file"
            raise InputError(problem, where=where, fix=_SAVE_AGAIN)
        row: dict[str, Any] = parse_small_json(numbered[1], where, _SAVE_AGAIN)
        return row

    def _line(self) -> Line | None:
        """The next line with its number."""
        try:
            return next(self.lines, None)
        except InputError as error:
            raise InputError(error.problem, where=error.where, fix=_SAVE_AGAIN) from error
