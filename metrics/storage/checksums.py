"""Checksums of JSON objects and digests of files, so that damage is seen when something is read again.

A JSON object's checksum stands in it under ``"checksum"`` and covers all its other keys and values, not the layout of
the file. It tells of damage, not of intent: who can change the object can change the checksum. A file that a setting
names has the digest of its content behind its name: ``path@sha256:0123456789abcdef``. The digest of a large file is
remembered in a process while the file is known to be as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from hashlib import blake2b, file_digest
from pathlib import Path
from time import time_ns
from typing import Any, NamedTuple
from warnings import warn

from ..errors import InputError, ModelLoadError
from .bounded_files import check_regular

KEY = "checksum"
DIGEST_BYTES = 16


class UncheckedWarning(UserWarning):
    """A file was written without a checksum, so damage in it cannot be seen."""


def checksum_of(values: Mapping[str, Any]) -> str:
    """The checksum of an object without its own ``"checksum"``, in hexadecimal digits.

    Raises:
        TypeError, ValueError: it is no object of JSON.
    """
    as_read = json.loads(json.dumps({key: value for key, value in values.items() if key != KEY}))
    canonical = json.dumps(as_read, sort_keys=True, separators=(",", ":"))
    return blake2b(canonical.encode("ascii"), digest_size=DIGEST_BYTES).hexdigest()


def with_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its checksum as last key."""
    without = {key: value for key, value in values.items() if key != KEY}
    return {**without, KEY: checksum_of(without)}


def check(values: Mapping[str, Any], where: str, fix: str) -> None:
    """Warns where an object has no checksum, once for each place in a process.

    Raises:
        InputError: its checksum is that of another object; with what to do.
    """
    if KEY not in values:
        warn_once(where)
        return
    try:
        expected = checksum_of(values)
    except RecursionError:
        raise InputError("is nested too deeply", where=where, fix=fix) from None
    if values[KEY] != expected:
        problem = "is damaged or was edited: its checksum does not fit what it holds"
        raise InputError(problem, where=where, fix=fix)


@lru_cache(maxsize=1024)
def warn_once(where: str) -> None:
    """Says that damage in an object would not be seen; nothing where it was said before."""
    problem = f'{where}: has no "{KEY}", so damage in it would not be seen'
    warn(problem, UncheckedWarning, stacklevel=4)


MARK = "@sha256:"
DIGITS = 16


def check_file(spec: str) -> str:
    """``path@sha256:...`` of a file given as its path, or with a digest that must be its own.

    Raises:
        InputError: the file cannot be read, or is another than the digest says.
    """
    path = path_of(spec)
    fix = "Name a file that is there"
    check_regular(path, fix)
    try:
        digest = digest_of(path).hex()[:DIGITS]
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}",
            where=path,
            fix=fix,
        ) from None
    return stamped(spec, digest)


def digest_of(path: str | Path, algorithm: str = "sha256") -> bytes:
    """The digest of a file's bytes, of which few are in memory; raises OSError if it cannot be read."""
    with open(path, "rb") as file:
        return file_digest(file, algorithm).digest()


def stamped(spec: str, digest: str) -> str:
    """``path@sha256:...`` of a file whose digest is known; raises InputError if the name has another one."""
    path, _, expected = spec.partition(MARK)
    if expected and expected != digest:
        raise InputError(
            f"digest {digest}, expected {expected}",
            where=path,
            fix="It is not the file that was used",
        )
    return f"{path}{MARK}{digest}"


def path_of(spec: str) -> str:
    """The path without the digest."""
    return spec.partition(MARK)[0]


SETTLED_NS = 2_500_000_000


class FileState(NamedTuple):
    """The state of a file, by which a change shows: nobody can set the time of its last status change."""

    device: int
    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, file: Path) -> FileState:
        """The state of a file now."""
        status = file.stat()
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)

    @property
    def settled(self) -> bool:
        """Whether another change would show: the clock of a file system may tick as seldom as every two seconds."""
        return time_ns() - self.changed_ns > SETTLED_NS


def remembered_digest(file: Path) -> bytes:
    """The digest of a file's bytes; remembered while it is known to be as it was."""
    state = FileState.of(file)
    return settled_digest(file, state) if state.settled else digest_of(file)


@cache
def settled_digest(file: Path, state: FileState) -> bytes:
    """The digest of a file in this state; raises ModelLoadError if it is in another in the end."""
    content_digest = digest_of(file)
    if FileState.of(file) != state:
        fix = "Wait until it is written"
        raise ModelLoadError("changes while it is read", where=str(file), fix=fix)
    return content_digest
