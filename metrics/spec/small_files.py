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
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise InputError("is a device or a pipe, expected a file", where=where, fix=fix)
        if stat.S_ISREG(status.st_mode) and status.st_size > max_bytes:
            raise InputError(f"larger than {max_bytes} bytes", where=where, fix=fix)
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be read: {reason}", where=where, fix=fix) from error
    if len(data) > max_bytes:
        raise InputError(f"larger than {max_bytes} bytes", where=where, fix=fix)
    return data
