"""Whether the outputs of a run are what its run file says: as many bytes and lines, and the digests of their blocks.

What stands behind the good bytes of a run that was broken off is nobody's, and not looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.errors import InputError
from .block_digests import BlockDigests
from .run_file import RecordedOutput, RecordedRun, is_table, read_run_file, recorded_run

CHUNK_BYTES = 1 << 20
AS_INPUT = "Restore it, or give a copy under another name, which has no run file beside it"


class _Content(NamedTuple):
    """What the good bytes of a file are."""

    digests: BlockDigests
    num_lines: int
    is_closed: bool  # whether the last line has its end


def check_beside(path: str | Path) -> Mapping[str, Any] | None:
    """Checks a file that is read, if it is the output of a run: if the run file stands beside it.

    Returns the values of the run file; None where there is none.

    Raises:
        InputError: the run file is damaged, or the file is not what it says; with the place and what to do.
    """
    run_file = Path(f"{path}.run.json")
    if str(path) == "-" or not run_file.exists():
        return None
    values = read_run_file(run_file, AS_INPUT)
    run = recorded_run(values, str(run_file), AS_INPUT)
    if is_table(path) and "table" not in run.outputs:
        fix = "Run its command again, which goes on"
        raise InputError("the run that writes it has not come to its end", where=str(path), fix=fix)
    check_read(path, "table" if is_table(path) else "rows", run)
    return values


def digests_of(path: Path, num_bytes: int) -> BlockDigests:
    """The digests of the first bytes of a file; InputError if it cannot be read, or has fewer."""
    return _content(path, num_bytes).digests


def check_read(path: str | Path, name: str, run: RecordedRun) -> None:
    """Checks an output, "rows", "errors" or "table", that is read.

    Raises:
        InputError: it is not what the run file says; with the place and what to do.
    """
    checked_output(Path(path), run.outputs.get(name), run.complete, AS_INPUT)


def checked_output(
    path: Path, recorded: RecordedOutput | None, is_complete: bool, fix: str
) -> BlockDigests:
    """The digests of the good bytes of an output, which is hashed once.

    Args:
        path: the output.
        recorded: what the run file says of it; None if nothing.
        is_complete: whether the run came to its end, so that nothing may stand behind the good bytes.
        fix: what to do about damage.

    Raises:
        InputError: it is not what the run file says; with the place and what to do.
    """
    if recorded is None:
        return BlockDigests()
    size = path.stat().st_size if path.exists() else 0
    if size < recorded.num_bytes or (is_complete and size > recorded.num_bytes):
        problem = f"{size} bytes, the run file says {recorded.num_bytes}"
        raise InputError(problem, where=str(path), fix=fix)
    content = _content(path, recorded.num_bytes)
    damage = _damage(path, recorded, content)
    if damage:
        raise InputError(damage, where=str(path), fix=fix)
    return content.digests


def _damage(path: Path, recorded: RecordedOutput, content: _Content) -> str:
    """How the good bytes of an output differ from what the run file says; empty if they do not."""
    digests = content.digests
    if recorded.block_bytes:
        if len(recorded.digests) != len(digests.all) or recorded.block_bytes != digests.block_bytes:
            return f"{len(recorded.digests)} digests in the run file, {len(digests.all)} of blocks"
        pairs = zip(recorded.digests, digests.all, strict=True)
        damaged = [number for number, (before, now) in enumerate(pairs) if before != now]
        if damaged:
            return _place(path, damaged, recorded)
    if recorded.num_lines is None:
        return ""
    if content.num_lines != recorded.num_lines or not content.is_closed:
        unclosed = "" if content.is_closed else " and a line without its end"
        lines = f"{content.num_lines} lines{unclosed} in the first {recorded.num_bytes} bytes"
        return f"{lines}, the counts of the run file say {recorded.num_lines}"
    return ""


def _place(path: Path, damaged: list[int], recorded: RecordedOutput) -> str:
    """Where blocks are not what was written."""
    start = damaged[0] * recorded.block_bytes
    end = min(start + recorded.block_bytes, recorded.num_bytes)
    others = f", and {len(damaged) - 1} other blocks" if len(damaged) > 1 else ""
    if recorded.num_lines is None:
        return f"damaged or edited: bytes {start} to {end - 1}{others} are not what the run wrote"
    first_line = _content(path, start).num_lines + 1
    last_line = _content(path, max(start, end - 1)).num_lines + 1
    place = f"bytes {start} to {end - 1} (lines {first_line} to {last_line})"
    return f"damaged or edited: {place}{others} are not what the run wrote"


def _content(path: Path, num_bytes: int) -> _Content:
    digests, num_lines, is_closed = BlockDigests(), 0, True
    for chunk in _chunks(path, num_bytes):
        digests = digests.extended(chunk)
        num_lines += chunk.count(b"\n")
        is_closed = chunk.endswith(b"\n")
    return _Content(digests, num_lines, is_closed)


def _chunks(path: Path, num_bytes: int) -> Iterator[bytes]:
    """The first bytes of a file.

    Raises:
        InputError: it cannot be read, or ends before.
    """
    if not num_bytes:
        return
    try:
        with open(path, "rb") as file:
            left = num_bytes
            while left:
                chunk = file.read(min(left, CHUNK_BYTES))
                if not chunk:
                    problem = f"ends {left} bytes before the {num_bytes} that the run file says"
                    raise InputError(problem, where=str(path))
                left -= len(chunk)
                yield chunk
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(f"cannot be read: {reason}", where=str(path)) from error
