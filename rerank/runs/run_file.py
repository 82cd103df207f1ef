"""The run file: what a run was made with, how far it is, and by which its outputs are known to be whole.

It is one JSON object with a checksum, replaced in one step. Of every output it has the number of good bytes and their
SHA-256. What stands behind the good bytes of a run that was broken off is nobody's, and not looked at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.errors import InputError
from ...metrics.execution.meter import Metered
from ...metrics.storage.atomic_files import complete_file
from ...metrics.storage.checksums import KEY, check, with_checksum
from ...metrics.storage.json_and_yaml import read_small_json
from ..engines.status import WorkerStatus, work_of

CHUNK_BYTES = 1 << 20
AS_INPUT = "Restore it, or give a copy under another name, which has no run file beside it"


@dataclass(frozen=True, slots=True)
class WrittenBytes:
    """The bytes of an output so far: how many, and their running SHA-256; never changed, `plus` makes others."""

    num_bytes: int = 0
    hash: Any = field(default_factory=sha256)

    def plus(self, data: bytes) -> WrittenBytes:
        """These bytes and others behind them."""
        longer = self.hash.copy()
        longer.update(data)
        return WrittenBytes(self.num_bytes + len(data), longer)

    @property
    def digest(self) -> str:
        """The SHA-256 in hexadecimal digits."""
        return str(self.hash.hexdigest())


@dataclass(frozen=True, slots=True)
class State:
    """How far a run has come; replaced whole, never changed."""

    entries: int = 0  # input entries that the outputs stand for
    digest: Any = field(default_factory=lambda: blake2b(digest_size=16))  # of these entries
    outputs: Mapping[str, WrittenBytes] = field(
        default_factory=dict
    )  # good bytes of each that has any
    counts: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0  # of earlier sessions
    work: Metered = field(default_factory=Metered)  # of earlier sessions


class Measured(NamedTuple):
    """The work of this session so far: figures for the run file that no result depends on."""

    work: Metered = Metered()
    workers: tuple[WorkerStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run file.

    Args:
        settings: what the results depend on.
        complete: whether the run came to its end.
        entries: how many entries of the input it has read.
        input_digest: of these.
        counts: of rows, errors and more.
        outputs: by name.
        seconds: how long the run took.
        work: what it did.
    """

    settings: Mapping[str, Any]
    complete: bool
    entries: int
    input_digest: str
    counts: Mapping[str, int]
    outputs: Mapping[str, tuple[int, str]]  # good bytes, and their SHA-256 in hexadecimal digits
    seconds: float
    work: Metered


def read_run_file(path: str | Path, fix: str) -> dict[str, Any]:
    """The values of a run file.

    Raises:
        InputError: it cannot be read, or is damaged; with what to do.
    """
    values = read_small_json(path, fix)
    if not isinstance(values, dict):
        raise InputError("no JSON object", where=str(path), fix=fix)
    if "bytes" not in values:  # what is no run file is said by who reads its values
        return values
    if KEY not in values:
        raise InputError(f'is damaged or was edited: it has no "{KEY}"', where=str(path), fix=fix)
    check(values, str(path), fix)
    return values


def recorded_run(values: Mapping[str, Any], where: str, fix: str) -> RecordedRun:
    """The run file of some values.

    Raises:
        InputError: something is missing, of the wrong kind, or does not fit the rest; with what to do.
    """
    try:
        counts = {str(name): int(n) for name, n in values["counts"].items()}
        source, spent = values["input"], values["timings"]
        run = RecordedRun(
            dict(values["settings"]),
            bool(values["complete"]),
            int(source["entries"]),
            str(source["digest"]),
            counts,
            {
                name: (int(num_bytes), str(values["sha256"][name]))
                for name, num_bytes in values["bytes"].items()
            },
            float(spent["seconds"]),
            work_of(spent),
        )
        _check_counts(run)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"cannot be read ({error!r:.200})", where=where, fix=fix) from error
    return run


def write_run_file(
    path: Path, values: Mapping[str, Any], outputs: Mapping[str, WrittenBytes]
) -> None:
    """Replaces a run file by one of these values, and of these outputs, in one step.

    Raises:
        ResourceError: it cannot be written.
    """
    row = {
        **values,
        "bytes": {name: output.num_bytes for name, output in outputs.items()},
        "sha256": {name: output.digest for name, output in outputs.items()},
    }
    text = json.dumps(with_checksum(row), ensure_ascii=False, indent=1)
    with complete_file(path, Path(f"{path}.tmp")) as draft:
        draft.write_text(text, encoding="utf-8")


def _check_counts(run: RecordedRun) -> None:
    """Raises ValueError for counts that no run has."""
    sizes = [num_bytes for num_bytes, _ in run.outputs.values()]
    if min((run.entries, *run.counts.values(), *sizes)) < 0:
        raise ValueError("a negative number")
    num_outcomes = sum(run.counts.get(name, 0) for name in ("rows", "errors", "context_only"))
    if num_outcomes != run.entries:
        problem = f"{num_outcomes} rows, errors and lists of context"
        raise ValueError(f"{problem}, but {run.entries} entries")


def check_beside(path: str | Path) -> Mapping[str, Any] | None:
    """Checks a file that is read, if it is the output of a run: if the run file stands beside it.

    Returns the values of the run file; None where there is none.

    Raises:
        InputError: the run file is damaged, or the file is not what it says; with what to do.
    """
    run_file = Path(f"{path}.run.json")
    if str(path) == "-" or not run_file.exists():
        return None
    values = read_run_file(run_file, AS_INPUT)
    run = recorded_run(values, str(run_file), AS_INPUT)
    if is_table(path) and "table" not in run.outputs:
        fix = "Run its command again, which resumes it"
        raise InputError("the run that writes it has not come to its end", where=str(path), fix=fix)
    checked_output(Path(path), "table" if is_table(path) else "rows", run, AS_INPUT)
    return values


def checked_output(path: Path, name: str, run: RecordedRun, fix: str) -> WrittenBytes:
    """The good bytes of an output, "rows", "errors" or another, which are read once.

    Args:
        path: the output.
        name: what the run file calls it.
        run: what the run file says; behind the good bytes of a complete run nothing may stand.
        fix: what to do about damage.

    Raises:
        InputError: the output is not what the run file says.
    """
    if name not in run.outputs:
        return WrittenBytes()
    num_bytes, digest = run.outputs[name]
    size = path.stat().st_size if path.exists() else 0
    if size < num_bytes or (run.complete and size > num_bytes):
        problem = f"{size} bytes, the run file says {num_bytes}"
        raise InputError(problem, where=str(path), fix=fix)
    good = first_bytes(path, num_bytes)
    if good.digest != digest:
        problem = f"damaged or edited: its first {num_bytes} bytes are not what the run wrote"
        raise InputError(problem, where=str(path), fix=fix)
    return good


def first_bytes(path: Path, num_bytes: int) -> WrittenBytes:
    """The first bytes of a file, of which few are in memory; InputError if it cannot be read, or has fewer."""
    good = WrittenBytes()
    if not num_bytes:
        return good
    try:
        with open(path, "rb") as file:
            while good.num_bytes < num_bytes:
                chunk = file.read(min(num_bytes - good.num_bytes, CHUNK_BYTES))
                if not chunk:
                    problem = f"ends at byte {good.num_bytes}, the run file says {num_bytes}"
                    raise InputError(problem, where=str(path))
                good = good.plus(chunk)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(f"cannot be read: {reason}", where=str(path)) from error
    return good


TABLE_ENDINGS = frozenset({".parquet", ".arrow", ".arrows", ".feather"})


def is_table(path: str | Path) -> bool:
    """Whether a file is one of rows and columns, by its ending.

    >>> is_table("lists.parquet"), is_table("lists.jsonl")
    (True, False)
    """
    return Path(path).suffix.lower() in TABLE_ENDINGS


def lines_of_run(out: str | Path) -> Path:
    """Where the rows of a run stand as lines: beside a Parquet or Arrow file, which is made of them.

    >>> str(lines_of_run("chosen.parquet")), str(lines_of_run("chosen.jsonl"))
    ('chosen.parquet.rows.jsonl', 'chosen.jsonl')
    """
    return Path(f"{out}.rows.jsonl") if is_table(out) else Path(out)
