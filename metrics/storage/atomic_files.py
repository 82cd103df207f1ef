"""Files and folders that take their names only when they are complete, and locks on what is written.

What is written is a draft beside the place it is for; it is flushed to disk and then renamed in one step, so that a
killed run leaves no half of one. Without `fcntl` (Windows), drafts of killed writers stay, and no file is open while it
is renamed.

A lock is a file beside the one it is for: two processes do not write one file or folder. It stays when it is given up,
as taking it away would let two processes in.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO, cast

from filelock import FileLock, Timeout

from ..errors import DiscorankError, InputError, ResourceError, ResumeError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]


@contextmanager
def complete_file(path: Path, draft: Path | None = None) -> Iterator[Path]:
    """A draft that takes the place of `path` when the block ends well, and is removed when it does not.

    Args:
        path: the file to be.
        draft: the file that is written until then, in the same folder; ``.NAME.draft`` if not given, for those who
            have a lock on the folder.

    Raises:
        ResourceError: it cannot be written.
    """
    if draft is None:
        draft = path.with_name(f".{path.name}.draft")
    try:
        with _disk_errors(path):
            yield draft
            _flush_to_disk(draft)
            os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def own_draft(path: Path) -> Iterator[BinaryIO]:
    """A draft of `path` that no other writer of it has, for `complete_file`; drafts of killed writers are removed.

    Whoever writes has a lock on the draft itself, which the system takes back when the process ends.

    Raises:
        InputError: it cannot be made.
    """
    prefix = f".{path.name[:100]}."
    try:
        _remove_unlocked(path.parent, re.compile(rf"{re.escape(prefix)}\w{{8}}\.draft"))
        file = _locked_draft(path.parent, prefix)
    except OSError as error:
        problem = f"cannot be written: {error.strerror}"
        raise InputError(problem, where=str(path), fix="Choose another output") from error
    if fcntl is None:
        yield cast(BinaryIO, file)
        return
    lock = os.dup(file.fileno())  # holds the lock when the file is closed, until it has its name
    try:
        yield cast(BinaryIO, file)
    finally:
        os.close(lock)


def _locked_draft(folder: Path, prefix: str) -> Any:
    """A new file that is locked."""
    while True:
        file = NamedTemporaryFile("wb", dir=folder, prefix=prefix, suffix=".draft", delete=False)  # noqa: SIM115
        if fcntl is None:
            return file
        with suppress(OSError):  # where files cannot be locked, drafts of killed writers stay
            fcntl.flock(file, fcntl.LOCK_EX)
        # Another writer may have removed it before it was locked.
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()


def _remove_unlocked(folder: Path, pattern: re.Pattern[str]) -> None:
    """Removes the files of a folder that have such names and that nobody has locked, where it can."""
    names: list[str] = []
    if fcntl is None:
        return
    with suppress(OSError):
        names = [name for name in os.listdir(folder) if pattern.fullmatch(name)]
    for name in names:
        with suppress(OSError), open(folder / name, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A writer who is done may have given it its name in the meantime.
            if os.path.samestat(os.fstat(file.fileno()), os.stat(folder / name)):
                os.unlink(folder / name)


@contextmanager
def complete_folder(path: Path) -> Iterator[Path]:
    """A draft folder beside `path` that takes its place, and that of what stands there, when the block ends well.

    Raises:
        ResourceError: it cannot be written.
        ResumeError: another process is writing it.
        InputError: there is no place for it.
    """
    with locked_folder(path):
        yield from _replacing(Path(os.path.realpath(path)))


def _replacing(path: Path) -> Iterator[Path]:
    """The draft folder of a folder that nobody else writes."""
    draft = path.with_name(f".{path.name}.draft")
    old = path.with_name(f".{path.name}.old")
    try:
        with _disk_errors(path):
            # Of a run that was killed before its draft had taken the place.
            if old.exists() and not path.exists():
                os.replace(old, path)
            shutil.rmtree(draft, ignore_errors=True)  # of a killed run
            draft.mkdir(parents=True)
            yield draft
            for part in draft.iterdir():
                _flush_to_disk(part)
            if path.exists():
                shutil.rmtree(old, ignore_errors=True)
                os.replace(path, old)
            os.replace(draft, path)
            shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """Raises refusals of the system while a file or folder is written as ResourceError."""
    try:
        yield
    except BrokenPipeError:  # of another stream: whoever reads it has enough
        raise
    except Exception as error:
        cause = _disk_error(error)
        if cause is None:
            raise
        raise unwritable(path, cause) from error


# the file that was named is at fault, not the disk
OF_THE_FILE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR})


def unwritable(path: Path, error: OSError) -> DiscorankError:
    """The error for a file that the system refuses to write: an InputError if its name is at fault."""
    problem = f"cannot be written: {error.strerror or error}"
    if error.errno in OF_THE_FILE:
        return InputError(problem, where=str(path), fix="Choose another output")
    return ResourceError(problem, where=str(path))


def _disk_error(error: BaseException) -> OSError | None:
    """The system's error, also where a library raises another in its place: safetensors in words, torch behind it."""
    if isinstance(error, OSError):
        return error
    words = str(error) if type(error).__name__ == "SafetensorError" else ""
    if match := re.search(r"\(os error (\d+)\)", words):
        number = int(match[1])
        return OSError(number, os.strerror(number))
    behind = error.__context__ if isinstance(error, RuntimeError) else None
    return behind if isinstance(behind, OSError) else None


def _flush_to_disk(path: Path) -> None:
    # Windows flushes only what may be written
    with open(path, "r+b" if os.name == "nt" else "rb") as file:
        os.fsync(file.fileno())


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
