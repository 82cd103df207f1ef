"""Reads a small file whole (settings, a trained combination, a prior, the record of a run) and refuses what is none.

Such files hold kilobytes. One that is larger than its limit, or no file at all but a device or a pipe, which may give
bytes for ever, is refused before more than the limit is read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..errors import InputError

MAX_BYTES = 16 << 20


def read_small_file(path: str | Path, fix: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file.

    Raises:
        InputError: it cannot be read, is a device, a pipe or a folder, or is larger than `max_bytes`; with what to do.
    """
    where = str(path)
    check_no_special_file(path, fix)
    try:
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise _unreadable(error, where, fix) from error
    if len(data) > max_bytes:
        raise InputError(f"larger than {max_bytes} bytes", where=where, fix=fix)
    return data


def check_no_special_file(path: str | Path, fix: str) -> None:
    """Refuses what may give bytes for ever, or none.

    Raises:
        InputError: it is not there, or is a device or a pipe; with what to do.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(error, str(path), fix) from error
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise InputError("is a device or a pipe, expected a file", where=str(path), fix=fix)


def _unreadable(error: OSError | ValueError, where: str, fix: str) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"cannot be read: {reason}", where=where, fix=fix)
