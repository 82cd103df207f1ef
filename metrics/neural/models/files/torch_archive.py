"""The zip archive of a torch checkpoint, mapped into memory: which entries it has, and where their bytes are.

A checkpoint is one folder of entries, stored and never compressed: ``data.pkl``, the pickle, and ``data/0``,
``data/1``, ..., the raw numbers of the storages. The directory at the end of the file says where an entry is; it is
taken only if a header stands there and its bytes end inside the file. Nothing is unpickled here.
"""

from __future__ import annotations

import mmap
import struct
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ....errors import InputError, ModelLoadError
from ....storage.bounded_files import check_archive

FETCH = "Fetch the file again"
# The header of an entry, before its name, an extra field and its bytes:
#    first byte   bytes
#             0       4   HEADER_MARK
#             4      22   flags, times and sizes, not read here
#            26       2   length of the name
#            28       2   length of the extra field
HEADER_MARK, HEADER_BYTES, LENGTHS_AT = b"PK\3\4", 30, 26


@dataclass(frozen=True, slots=True)
class Archive:
    """A checkpoint file mapped into memory; its pages are read when they are used."""

    path: Path
    data: mmap.mmap
    spans: Mapping[str, tuple[int, int]]  # of every entry: its first byte, its bytes

    def read(self, entry: str, limit: int) -> bytes:
        """The bytes of a small entry.

        Raises:
            ModelLoadError: it is larger than `limit` bytes.
        """
        start, size = self.spans[entry]
        if size > limit:
            raise self.error(f"{entry} has {size} bytes, at most {limit} expected")
        return self.data[start : start + size]

    def error(self, problem: str, fix: str = FETCH) -> ModelLoadError:
        """What is wrong with this file."""
        return ModelLoadError(problem, where=str(self.path), fix=fix)


def open_archive(path: str | Path) -> Archive:
    """Maps a checkpoint file and finds its entries.

    Raises:
        ModelLoadError: the file cannot be read, is not a whole zip archive as torch writes it (one folder with
            ``data.pkl``, nothing compressed), or was written with another order of bytes.
    """
    path = Path(path)
    data, entries = _mapped(path)
    spans = {entry.filename: _span(path, data, entry) for entry in entries}
    folder = _folder(path, spans)
    own = {}
    for name, span in spans.items():
        if name.startswith(folder):
            own[name.removeprefix(folder)] = span
    archive = Archive(path, data, own)
    _check_byte_order(archive)
    return archive


def _mapped(path: Path) -> tuple[mmap.mmap, list[zipfile.ZipInfo]]:
    """The file in memory, for reading (writes stay in memory), and the directory of its archive."""
    try:
        check_archive(path)
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            return data, archive.infolist()
    except InputError as error:
        raise ModelLoadError(error.problem, where=error.where, fix=error.fix) from None
    except OSError as error:
        raise ModelLoadError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix="Give a checkpoint"
        ) from error
    except (zipfile.BadZipFile, RuntimeError, ValueError, struct.error) as error:
        fix = "torch 1.6 and later write zip archives; of a Git LFS pointer, fetch the file itself"
        raise ModelLoadError(
            f"not a whole zip archive: {error}", where=str(path), fix=fix
        ) from error


def _span(
    path: Path,
    data: mmap.mmap,
    entry: zipfile.ZipInfo,
) -> tuple[int, int]:
    """First byte and bytes of a stored entry; the name before them need not be as long as the directory says."""
    start = entry.header_offset
    header = data[start : start + HEADER_BYTES]
    if entry.compress_type != zipfile.ZIP_STORED:
        problem = f"{entry.filename} is compressed"
        raise ModelLoadError(problem, where=str(path), fix="Save it with torch.save")
    if len(header) == HEADER_BYTES and header.startswith(HEADER_MARK):
        name_bytes, extra_bytes = struct.unpack_from("<HH", header, LENGTHS_AT)
        first = start + HEADER_BYTES + name_bytes + extra_bytes
        # Both sizes that the directory gives must be the same, and lie inside the file.
        if entry.file_size == entry.compress_size <= len(data) - first:
            return first, entry.file_size
    problem = f"{entry.filename} is not where the zip archive says"
    raise ModelLoadError(problem, where=str(path), fix=FETCH)


def _folder(path: Path, spans: Mapping[str, tuple[int, int]]) -> str:
    """The one folder that holds the pickle, with its slash."""
    at_top = [name for name in spans if name.count("/") == 1]
    pickles = [name for name in at_top if name.endswith("/data.pkl")]
    if len(pickles) != 1:
        problem = "not a checkpoint of torch: no data.pkl"
        raise ModelLoadError(problem, where=str(path), fix=FETCH)
    return pickles[0].removesuffix("data.pkl")


def _check_byte_order(archive: Archive) -> None:
    """Raises ModelLoadError if numbers were written in another order of bytes; old files say none."""
    order = "little"
    if "byteorder" in archive.spans:
        order = archive.read("byteorder", 16).decode("latin-1")
    if order != sys.byteorder:
        raise archive.error(
            f"its bytes are in {order!r} order, here they are {sys.byteorder}",
            "Save it on this machine",
        )
