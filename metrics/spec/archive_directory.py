"""How many members a zip archive has, by the directory at its end, before anything makes an object of each of them."""

from __future__ import annotations

import struct
from pathlib import Path

from ..errors import InputError
from .limits import limits, more
from .small_files import check_regular

FETCH = "Fetch the file again"
# The record at the end of a zip archive, its 64-bit form, and what says where that is.
END, END_BYTES, COMMENT_BYTES = b"PK\5\6", 22, 1 << 16
END_64, END_64_BYTES = b"PK\6\6", 56
LOCATOR_64, LOCATOR_BYTES = b"PK\6\7", 20
FIRST, MEMBER = b"PK\3\4", b"PK\1\2"
DIRECTORY_BYTES = 256  # of a member, more than there are on average


def begins_as_archive(path: Path) -> bool:
    """Whether a file begins as a zip archive does."""
    with open(path, "rb") as file:
        return file.read(len(FIRST)) == FIRST


def check_archive(path: Path) -> None:
    """Looks at the directory of a zip archive; a file without one is left to its readers.

    Raises:
        InputError: the archive has more members than are read.
    """
    size = check_regular(path, FETCH).st_size
    bound = limits().members
    with open(path, "rb") as file:
        tail_bytes = min(size, END_BYTES + COMMENT_BYTES + LOCATOR_BYTES + END_64_BYTES)
        file.seek(size - tail_bytes)
        directory_bytes, behind_bytes = _directory(file.read(tail_bytes))
        if directory_bytes <= bound * DIRECTORY_BYTES:
            file.seek(max(0, size - behind_bytes - directory_bytes))
            if file.read(directory_bytes).count(MEMBER) <= bound:
                return
    problem = f"an archive of more than {bound} members"
    raise InputError(problem, where=str(path), fix=more("members"))


def _directory(tail: bytes) -> tuple[int, int]:
    """The bytes of an archive's directory and the bytes behind it, by the end of the archive; 0 and 0 if it is none."""
    end = len(tail) - END_BYTES
    if end < 0 or not (tail.startswith(END, end) and tail.endswith(b"\0\0")):
        end = tail.rfind(END, 0, max(0, len(tail) - END_BYTES + len(END)))  # a comment follows
    if end < 0:
        return 0, 0
    (directory_bytes,) = struct.unpack_from("<I", tail, end + 12)
    locator = end - LOCATOR_BYTES
    record = locator - END_64_BYTES
    if record >= 0 and tail.startswith(LOCATOR_64, locator) and tail.startswith(END_64, record):
        (directory_bytes,) = struct.unpack_from("<Q", tail, record + 40)
        end = record
    return directory_bytes, len(tail) - end
