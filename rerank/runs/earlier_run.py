"""What an earlier run of the same command left: its run file and its outputs, checked before anything is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.errors import InputError, ResumeError
from .block_digests import BlockDigests
from .output_checks import checked_output
from .run_file import RecordedRun, State, read_run_file, recorded_run


class EarlierRun(NamedTuple):
    """How far an earlier run has come, its input digest (None if there was no run), and digests of its outputs."""

    state: State
    input_digest: str | None
    digests: Mapping[str, BlockDigests]


def earlier_run(
    run_file: Path,
    sinks: Mapping[str, Path],
    identity: Mapping[str, Any],
    table: Path | None = None,
) -> EarlierRun:
    """The run that stands at these outputs, if there is one.

    Args:
        run_file: says how far it has come.
        sinks: path of every output by name.
        identity: the settings that it must have.
        table: what is made of the rows when the run is complete, if anything.

    Raises:
        ResumeError: an output without a run file, another identity, a damaged run file, or outputs that are not what it
            says.
    """
    if not run_file.exists():
        _check_empty([*sinks.values(), *([table] if table else [])], run_file)
        return EarlierRun(State(), None, {name: BlockDigests() for name in sinks})
    outputs = [*([table] if table else []), *sinks.values(), run_file]
    paths = [path for path in outputs if path.exists()]
    fix = f"Restore it, or remove {' and '.join(map(str, paths))} to start anew"
    try:
        run = recorded_run(read_run_file(run_file, fix), str(run_file), fix)
        if _is_other_and_empty(run, identity, sinks):
            return EarlierRun(State(), None, {name: BlockDigests() for name in sinks})
        _compare(run.settings, identity, run_file)
        digests = {
            name: checked_output(path, run.outputs.get(name), run.complete, fix)
            for name, path in sinks.items()
        }
        if table is not None and run.complete:
            checked_output(table, run.outputs.get("table"), run.complete, fix)
    except InputError as error:
        raise ResumeError(error.problem, where=error.where, fix=error.fix) from error
    return EarlierRun(_state(run, digests), run.input_digest, digests)


def _check_empty(paths: Iterable[Path], run_file: Path) -> None:
    """Raises ResumeError if there is something in an output of which nothing is known."""
    for path in paths:
        if path.exists() and path.stat().st_size:
            raise ResumeError(
                f"it exists, but {run_file.name} does not",
                where=str(path),
                fix="Choose another file",
            )


def _is_other_and_empty(
    run: RecordedRun, identity: Mapping[str, Any], sinks: Mapping[str, Path]
) -> bool:
    """Whether a run of other settings ended before its first row, so that nothing is lost with it."""
    if run.complete or run.entries or not _differing(run.settings, identity):
        return False
    # an error record that ended the run is no output
    outputs = [path for name, path in sinks.items() if name != "errors"]
    return not any(path.exists() and path.stat().st_size for path in outputs)


def _differing(was: Mapping[str, Any], identity: Mapping[str, Any]) -> list[str]:
    """The settings that differ."""
    now = json.loads(json.dumps(identity))
    return [key for key in sorted({*was, *now}) if was.get(key) != now.get(key)]


def _compare(was: Mapping[str, Any], identity: Mapping[str, Any], run_file: Path) -> None:
    """Raises ResumeError if settings differ."""
    differing = _differing(was, identity)
    if differing:
        now = json.loads(json.dumps(identity))
        changes = [f"{key} was {was.get(key)!r}, now {now.get(key)!r}" for key in differing]
        fix = "Choose another output, or the same settings"
        raise ResumeError("; ".join(changes), where=str(run_file), fix=fix)


def _state(run: RecordedRun, digests: Mapping[str, BlockDigests]) -> State:
    return State(
        run.entries,
        blake2b(digest_size=16),
        {name: output.num_bytes for name, output in digests.items() if output.num_bytes},
        run.counts,
        run.seconds,
        run.work,
    )
