"""Reading ``.npz`` files within bounds: no pickles, no more members or bytes than allowed, no array of other bytes."""

from __future__ import annotations

import zipfile
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import excerpt
from .bounded_files import check_archive
from .limits import limits


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
        limits().check("array_bytes", sum(member.file_size for member in members))
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
