"""Locks on what is written, so that two processes do not write one file or folder.

A lock is a file beside the one it is for. It stays when it is given up: taking it away would let two processes in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from .errors import InputError, ResumeError


@contextmanager
def locked(path: Path, lock_file: Path | None = None) -> Iterator[None]:
    """Keeps other processes from a file or folder while the block runs; does not wait for them.

    Args:
        path: what is written.
        lock_file: stands for it; ``NAME.lock`` beside it if not given.

    Raises:
        ResumeError: another process is writing it.
        InputError: it cannot be written.
    """
    lock = FileLock(lock_file or f"{path}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        problem = "another process is writing it"
        raise ResumeError(problem, where=str(path), fix="Wait for it, or stop it") from None
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=str(path)) from error
    try:
        yield
    finally:
        lock.release()
