"""Files read whole (settings, a prior, a list of words) within a limit; archives of a bounded number of members.

What is larger than its limit, or no file at all but a folder, a device or a pipe, which may give bytes for ever, is
refused before more than the limit is read. An archive's members are counted by the directory at its end, before
anything makes an object of each of them.
"""

from __future__ import annotations

import os
import stat
import zipfile
from io import FileIO
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, excerpt
from .limits import limits, more


def check_regular(path: str | Path, fix: str = "Give a file") -> os.stat_result:
    """The state of a file that is to be read.

    Raises:
        InputError: there is none, it is a folder, a device, a pipe or a socket, or a link that leads to none.
    """
    where = str(path)
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(error, where, fix) from error
    if stat.S_ISDIR(status.st_mode):
        raise InputError("cannot be read: Is a directory", where=where, fix=fix)
    if not stat.S_ISREG(status.st_mode):
        raise InputError("is a device or a pipe, expected a file", where=where, fix=fix)
    return status


def read_small_file(
    path: str | Path,
    fix: str,
    max_bytes: int | None = None,
    name: str = "file_bytes",
) -> bytes:
    """The bytes of a file.

    Args:
        path: the file.
        fix: what to do where it cannot be read.
        max_bytes: the most that it may have, if that is no limit that can be raised.
        name: the limit on its bytes, if `max_bytes` is not given.

    Raises:
        InputError: it cannot be read, is a device, a pipe or a folder, or is larger than that; with what to do.
    """
    where = str(path)
    status = check_regular(path, fix)
    bound = getattr(limits(), name) if max_bytes is None else max_bytes
    data = b""
    try:
        if status.st_size <= bound:
            with open(path, "rb") as file:
                data = file.read(bound + 1)
    except OSError as error:
        raise _unreadable(error, where, fix) from error
    if max(status.st_size, len(data)) > bound:
        if max_bytes is None:
            fix = f"{fix} (or: --max {name}=NUMBER)" if fix else more(name)
        raise InputError(f"larger than {bound} bytes", where=where, fix=fix)
    return data


def read_small_text(path: str | Path, fix: str, max_bytes: int | None = None) -> str:
    """The text of a UTF-8 file; arguments and errors as `read_small_file`."""
    data = read_small_file(path, fix, max_bytes)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"cannot be read: not UTF-8 at byte {error.start}"
        raise InputError(problem, where=str(path), fix=fix) from error


def _unreadable(error: Exception, where: str, fix: str) -> InputError:
    """The refusal of a file that the system cannot read."""
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"cannot be read: {reason}", where=where, fix=fix)


YAML_BYTES = 1 << 16
FETCH = "Fetch the file again"
# Marks in a zip archive: its beginning, a member in its directory.
FIRST, MEMBER = b"PK\3\4", b"PK\1\2"
DIRECTORY_BYTES = 256  # of a member, more than there are on average
TAIL_BYTES = 1 << 17  # more than zipfile reads to find the directory


def begins_as_archive(path: Path) -> bool:
    """Whether a file begins as a zip archive does."""
    with open(path, "rb") as file:
        return file.read(len(FIRST)) == FIRST


class _Directory(FileIO):
    """An archive of which the directory alone is read, which zipfile reads at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes; raises InputError if they are of more members than are read."""
        bound = limits().entries
        most_bytes = max(bound * DIRECTORY_BYTES, TAIL_BYTES)
        wanted = -1 if size is None else size
        data = super().read(min(wanted, most_bytes + 1) if wanted >= 0 else most_bytes + 1) or b""
        if len(data) > most_bytes or data.count(MEMBER) > bound:
            raise InputError(f"an archive of more than {bound} members", fix=more("entries"))
        return data


def check_archive(path: Path) -> None:
    """Counts the members of a zip archive before anything is made of them; other files are left to their readers.

    Raises:
        InputError: the archive has more members than are read.
    """
    check_regular(path, FETCH)
    with _Directory(path) as file:
        try:
            zipfile.ZipFile(file).close()
        except InputError as error:
            raise error.inside(str(path)) from None
        except Exception:  # noqa: S110  not an archive, or broken: zipfile may raise anything
            pass


def arrays_in(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` file.

    Raises:
        InputError: there are too many, or of too many bytes.
        ValueError: it is none, or an array has other bytes than its entry.
    """
    check_archive(path)
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        limits().check("memory_bytes", sum(member.file_size for member in members))
        for member in members:
            with archive.open(member) as entry:
                _check_array(entry, member.file_size)
            with archive.open(member) as entry:
                array = np.lib.format.read_array(entry, allow_pickle=False)
            arrays[member.filename.removesuffix(".npy")] = array
    return arrays


def _check_array(entry: IO[bytes], entry_bytes: int) -> None:
    """Raises ValueError if the header of an array names more or fewer numbers than its entry has."""
    version = np.lib.format.read_magic(entry)
    is_first = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(entry)
    if prod(shape) * dtype.itemsize != entry_bytes - entry.tell():
        raise ValueError(f"an array of the shape {excerpt(shape)} in {entry_bytes} bytes")
