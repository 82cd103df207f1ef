"""Locks on what is written, so that two processes do not write one file or folder.

A lock is a file beside the one it is for. It stays when it is given up: taking it away would let two processes in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from .errors import InputError, ResumeError


@contextmanager
def locked(
    path: Path,
    lock_file: Path | None = None,
    wait_seconds: float = 0,
) -> Iterator[None]:
    """Keeps other processes from a file or folder while the block runs.

    Args:
        path: what is written.
        lock_file: stands for it; ``NAME.lock`` beside it if not given.
        wait_seconds: how long it waits for another process.

    Raises:
        ResumeError: another process is writing it.
        InputError: it cannot be written.
    """
    check_reachable(path)
    # links to one file are one file
    lock_path = str(lock_file or f"{os.path.realpath(path)}.lock")
    lock = FileLock(lock_path, timeout=wait_seconds)
    try:
        lock.acquire()
    except (Timeout, OSError) as error:
        _check_lockable(path, lock_path, error)
        problem = "another process is writing it"
        raise ResumeError(problem, where=str(path), fix="Wait for it, or stop it") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Keeps other processes from a whole folder; the lock is ``.NAME.lock`` beside it. Raises as `locked`."""
    parent, name = os.path.split(os.path.realpath(path))
    with locked(path, Path(parent, f".{name}.lock")):
        yield


def check_reachable(path: Path) -> None:
    """Raises InputError for a path that leads nowhere: too long a name, a loop of links."""
    try:
        with suppress(FileNotFoundError):
            os.stat(path)
    except OSError as error:
        problem, fix = f"cannot be written: {error.strerror}", "Choose another output"
        raise InputError(problem, where=str(path), fix=fix) from error


def _check_lockable(path: Path, lock_path: str, error: Exception) -> None:
    """Raises InputError if a lock cannot be had since its file cannot be made: on some disks that looks like a lock."""
    try:
        os.close(os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o666))
    except OSError as refusal:
        problem, fix = f"cannot be written: {refusal.strerror}", "Choose another output"
        raise InputError(problem, where=str(path), fix=fix) from error
    if not isinstance(error, Timeout) and isinstance(error, OSError):
        raise InputError(f"cannot be locked: {error.strerror}", where=str(path)) from error
