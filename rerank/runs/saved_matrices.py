"""Utility matrices on disk, and the engine that decides by them again, with other weights and at no cost.

A JSONL file: a header with the utility's signature, then per list its id, the shape [distinct candidates, distinct
pseudo-references] in order of first appearance, and the float64 values in base64 (little-endian, row by row). The
header has its checksum as JSON objects have; the line of a list ends with one of the bytes before it, keyed by the
header's, so that none is taken for that of another utility. (A checksum of its values would cost more of a chrF run.)
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, InputError
from ...metrics.execution.meter import Meter
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
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
from .row_forms import as_line

KIND = "discorank-utilities"
_BEFORE_CHECKSUM = b', "checksum": "'
_MAKE_ONE = "Make one with decode --save-utilities"
_SAVE_AGAIN = "Restore it, or save the utilities again"


class SavedMatrix(NamedTuple):
    """A line of a file of matrices: of which list and texts, and the utilities [candidates, pseudo-references]."""

    id: str
    texts: str
    utilities: FloatArray


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


def _read_row(row: Any) -> SavedMatrix:
    """The value of a line's JSON; InputError if it is none."""
    try:
        h, r = map(int, row["shape"])
        values = np.frombuffer(b64decode(row["float64"], validate=True), "<f8").reshape(h, r)
        return SavedMatrix(str(row["id"]), str(row["texts"]), values.astype(np.float64))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"not a line of utilities ({error})", fix="Save them again") from error


class SavedMatrices:
    """The matrices of a file, one after the other; warns where it has no checksums.

    Attributes:
        utility: the signature of the utility that made them.

    Raises:
        InputError: the file cannot be read, is damaged, a device or a pipe, or not a file of utilities.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open()
        try:
            first = self._header()
        except BaseException:
            self.close()
            raise
        self.utility = str(first["utility"])
        self._is_checked = KEY in first

    def next(self) -> SavedMatrix | None:
        """The matrix of the next line; None at the end.

        Raises:
            InputError: the line is damaged, of a file of another utility, or no line of utilities.
        """
        line = next(self._lines, None)
        if line is None:
            return None
        where = f"{self.path}:{line[0]}"
        self._check(line[1], where)
        try:
            return _read_row(_parsed(self.path, line))
        except InputError as error:
            raise (error if error.where else error.inside(where)) from error

    def rewind(self) -> None:
        """Goes back to the first matrix."""
        self.close()
        self._open()
        next(self._lines, None)

    def close(self) -> None:
        """Closes the file; also done at its end."""
        self._source.close()

    def _open(self) -> None:
        check_regular(self.path, _MAKE_ONE)
        self._source = LineSource(self.path, line_bytes=limits().matrix_bytes)
        self._lines = self._read()

    def _read(self) -> Iterator[Line]:
        try:
            yield from self._source
        except InputError as error:
            raise InputError(error.problem, where=error.where, fix=_SAVE_AGAIN) from error

    def _header(self) -> dict[str, Any]:
        first = _parsed(self.path, next(self._lines, (1, b"null")))
        is_header = isinstance(first, dict) and first.get("kind") == KIND
        if not is_header or not isinstance(first.get("utility"), str):
            raise InputError("not a file of utilities", where=str(self.path), fix=_MAKE_ONE)
        check(first, f"{self.path}:1", _SAVE_AGAIN)
        return dict(first)

    def _check(self, line: bytes, where: str) -> None:
        """Raises InputError for a line whose checksum does not fit; one of discorank 0.1 has none."""
        start, mark, end = line.rpartition(_BEFORE_CHECKSUM)
        if not mark and self._is_checked:
            problem = "is damaged or was edited: it has no checksum, but the first line has"
            raise InputError(problem, where=where, fix=_SAVE_AGAIN)
        if mark and end != _checksum(start, self.utility) + b'"}':
            problem = "is damaged, was edited or belongs to the first line of another file"
            raise InputError(problem, where=where, fix=_SAVE_AGAIN)


def _parsed(path: Path, line: Line) -> Any:
    """The JSON of a line; InputError if it is none."""
    return parse_small_json(line[1], f"{path}:{line[0]}", _SAVE_AGAIN)


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
