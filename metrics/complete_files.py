"""Files and folders that take their names only when they are complete, so that a killed run leaves no half of one.

What is written is a draft beside the place it is for; it is flushed to disk and then renamed in one step.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import ResourceError
from .file_locks import locked_folder


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
        yield draft
        _flush_to_disk(draft)
        os.replace(draft, path)
    except BrokenPipeError:  # of another stream: whoever reads it has enough
        raise
    except Exception as error:
        cause = _disk_error(error)
        if cause is None:
            raise
        problem = f"cannot be written: {cause.strerror or cause}"
        raise ResourceError(problem, where=str(path)) from error
    finally:
        draft.unlink(missing_ok=True)


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
    except Exception as error:
        cause = _disk_error(error)
        if cause is None:
            raise
        problem = f"cannot be written: {cause.strerror or cause}"
        raise ResourceError(problem, where=str(path)) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


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
    with open(path, "rb") as file:
        os.fsync(file.fileno())
