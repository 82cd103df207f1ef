"""The run file: what a run was made with, how far it is, and by which its outputs are known to be whole.

It is one JSON object with a checksum, replaced in one step. Of every output it has the number of good bytes and the
digests of their blocks; files of discorank 0.1 have neither checksum nor digests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.errors import InputError
from ...metrics.execution.meter import Metered
from ...metrics.storage.atomic_files import complete_file
from ...metrics.storage.checksums import KEY, check, with_checksum
from ...metrics.storage.json_and_yaml import read_small_json
from ..engines.status import WorkerStatus, work_of
from .block_digests import BlockDigests


@dataclass(frozen=True, slots=True)
class State:
    """How far a run has come; replaced whole, never changed."""

    entries: int = 0  # input entries that the outputs stand for
    digest: Any = field(default_factory=lambda: blake2b(digest_size=16))  # of these entries
    sizes: Mapping[str, int] = field(default_factory=dict)  # good bytes of each output
    counts: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0  # of earlier sessions
    work: Metered = field(default_factory=Metered)  # of earlier sessions


class Measured(NamedTuple):
    """What this session has done so far: figures for the run file that no result depends on."""

    work: Metered = Metered()
    workers: tuple[WorkerStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedOutput:
    """What a run file says of an output.

    Args:
        num_bytes: how many bytes are good.
        num_lines: how many lines these are; None of a table, which has none.
        block_bytes: how many bytes a block has; 0 where there are no digests, in a file of discorank 0.1.
        digests: of the blocks, the last one of what stands behind the full ones.
    """

    num_bytes: int
    num_lines: int | None
    block_bytes: int = 0
    digests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What a run file says.

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
    outputs: Mapping[str, RecordedOutput]
    seconds: float
    work: Metered


def read_run_file(path: str | Path, fix: str) -> dict[str, Any]:
    """The values of a run file; warns where it has no checksum.

    Raises:
        InputError: it cannot be read, or is damaged; with what to do.
    """
    values = read_small_json(path, fix)
    if not isinstance(values, dict):
        raise InputError("no JSON object", where=str(path), fix=fix)
    if "blocks" in values and KEY not in values:
        problem = f'is damaged or was edited: it has "blocks", but no "{KEY}"'
        raise InputError(problem, where=str(path), fix=fix)
    if KEY in values or "bytes" in values:  # what is no run file is said by who reads its values
        check(values, str(path), fix)
    return values


def earlier_settings(output: str | None) -> Mapping[str, Any]:
    """The settings of the run that stands at an output; empty where there is none.

    Raises:
        InputError: its run file cannot be read.
    """
    path = f"{output}.run.json"
    if output in (None, "-") or not os.path.exists(path):
        return {}
    settings = read_run_file(path, "Delete it and its outputs, and run again").get("settings")
    return settings if isinstance(settings, Mapping) else {}


def recorded_run(values: Mapping[str, Any], where: str, fix: str) -> RecordedRun:
    """What the values of a run file say.

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
            _recorded_outputs(values, counts),
            float(spent["seconds"]),
            work_of(spent),
        )
        _check_counts(run)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"cannot be read ({error!r:.200})", where=where, fix=fix) from error
    return run


def write_run_file(
    path: Path, values: Mapping[str, Any], outputs: Mapping[str, BlockDigests]
) -> None:
    """Replaces a run file by one of these values, and of these outputs, in one step.

    Raises:
        ResourceError: it cannot be written.
    """
    blocks = {
        name: {"bytes_each": output.block_bytes, "digests": " ".join(output.all)}
        for name, output in outputs.items()
    }
    row = {
        **values,
        "bytes": {name: output.num_bytes for name, output in outputs.items()},
        "blocks": blocks,
    }
    text = json.dumps(with_checksum(row), ensure_ascii=False, indent=1)
    with complete_file(path, Path(f"{path}.tmp")) as draft:
        draft.write_text(text, encoding="utf-8")


def _recorded_outputs(
    values: Mapping[str, Any], counts: Mapping[str, int]
) -> dict[str, RecordedOutput]:
    blocks = values.get("blocks", {})
    outputs = {}
    for name, num_bytes in values["bytes"].items():
        num_lines = _num_lines(name, counts)
        if name in blocks:
            digests = tuple(blocks[name]["digests"].split())
            block_bytes = int(blocks[name]["bytes_each"])
            outputs[name] = RecordedOutput(int(num_bytes), num_lines, block_bytes, digests)
        else:
            outputs[name] = RecordedOutput(int(num_bytes), num_lines)
    return outputs


def _num_lines(output: str, counts: Mapping[str, int]) -> int | None:
    """How many lines an output has; saved utilities have a header above the line of the first row.

    Rows of a form with several lines each are counted by "row_lines".
    """
    num_rows = counts.get("rows", 0)
    return {
        "rows": counts.get("row_lines", num_rows),
        "errors": counts.get("errors", 0),
        "utilities": num_rows and num_rows + 1,
        "waiting": counts.get("waiting", 0),
        "table": None,
    }[output]


def _check_counts(run: RecordedRun) -> None:
    """Raises ValueError for counts that no run has."""
    sizes = [output.num_bytes for output in run.outputs.values()]
    if min((run.entries, *run.counts.values(), *sizes)) < 0:
        raise ValueError("a negative number")
    num_outcomes = sum(run.counts.get(name, 0) for name in ("rows", "errors", "context_only"))
    if num_outcomes != run.entries:
        problem = f"{num_outcomes} rows, errors and lists of context"
        raise ValueError(f"{problem}, but {run.entries} entries")


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
