"""The lines of a text file, packed or not."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ..errors import InputError


def numbered_lines(path: str | Path, fix: str) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file that are not blank, with their numbers from 1; ``.gz`` and ``.bz2`` are unpacked.

    Raises:
        InputError: the file cannot be read, with what to do, `fix`.
    """
    try:
        with _opened(str(path)) as lines:
            yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    except (OSError, EOFError, UnicodeError, zlib.error) as error:
        raise InputError(
            f"cannot be read: {type(error).__name__}", where=str(path), fix=fix
        ) from error


def _opened(path: str) -> IO[str]:
    if path.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8")
    if path.endswith(".bz2"):
        return bz2.open(path, "rt", encoding="utf-8")
    return open(path, encoding="utf-8")
