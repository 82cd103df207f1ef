"""Digests of large files, read once in a process while they are known to be as they were."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from time import time_ns
from typing import NamedTuple

from ....errors import ModelLoadError
from ....spec.digests import digest_of

SETTLED_NS = 2_500_000_000


class FileState(NamedTuple):
    """What tells a file from what it was: nobody can set the time of its last change, other than that of its bytes."""

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
