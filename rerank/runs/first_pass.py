"""The files of a run in two passes: OUT.first has the scores of the first, OUT.systems.json the means that they make.

Both passes are runs: each resumes by itself, with the same bytes. The second reads the rows of the first beside the
lists, so that nothing is computed twice and nothing is kept in memory but the sums of systems.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

from ...metrics import errors
from ...metrics.errors import DiscorankError, InputError, excerpt
from ...metrics.storage.atomic_files import complete_file
from ..lists import CandidateList
from ..shrinkage import VALUES, SystemMeans, written_means
from .resumable import Entry


def first_path(out: Path) -> Path:
    """Where the rows of the first pass stand."""
    return Path(f"{out}.first")


def means_path(out: Path) -> Path:
    """Where the means stand."""
    return Path(f"{out}.systems.json")


def saved_means(out: Path) -> SystemMeans:
    """The means of a first pass that is complete, which are written beside its output.

    Raises:
        InputError: as `SystemMeans.of`.
    """
    with closing(_rows(first_path(out))) as rows:
        means = SystemMeans.of(
            [(name, nan if value is None else value) for name, value in row[VALUES]] for row in rows
        )
    with complete_file(means_path(out)) as draft:
        draft.write_bytes(written_means(means))
    return means


def with_scores(
    entries: Iterable[Entry[CandidateList]], out: Path
) -> Iterator[Entry[CandidateList]]:
    """The entries of an input, each with the row of its first pass among its keys, or with the error it ended in.

    Raises:
        InputError: the input is another than that of the first pass.
    """
    failed = _failed(Path(f"{first_path(out)}.errors.jsonl"))
    with closing(_rows(first_path(out))) as rows:
        for entry in entries:
            record = entry.record
            if record is None or record.context_only:
                yield entry
            elif (entry.line, entry.id) in failed:
                yield replace(entry, record=None, error=failed[entry.line, entry.id])
            else:
                yield replace(entry, record=_with_row(record, next(rows, {}), out))


def _with_row(record: CandidateList, row: dict[str, Any], out: Path) -> CandidateList:
    """A list with the row of its first pass."""
    if row.get("id") != record.id:
        problem = f"found list {excerpt(row.get('id'))}, expected {excerpt(record.id)}"
        fix = "Remove it, its run file and OUT, and run again"
        raise InputError(f"{problem}: the input has changed", where=str(first_path(out)), fix=fix)
    return replace(record, extra={**record.extra, VALUES: row})


def _rows(path: Path) -> Generator[dict[str, Any]]:
    """The rows of a first pass."""
    with open(path, "rb") as lines:
        for line in lines:
            yield json.loads(line)


def _failed(path: Path) -> dict[tuple[int, str | None], Any]:
    """The errors of a first pass, by line and id."""
    if not path.exists():
        return {}
    with open(path, "rb") as lines:
        return {(row["line"], row["id"]): _error(row) for row in map(json.loads, lines)}


def _error(row: dict[str, Any]) -> DiscorankError:
    """An error as its record has it."""
    kind = getattr(errors, row["kind"], InputError)
    is_ours = isinstance(kind, type) and issubclass(kind, DiscorankError)
    error: DiscorankError = (kind if is_ours else InputError)(
        row["reason"], where=row["where"], fix=row["fix"]
    )
    return error
