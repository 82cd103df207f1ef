"""Stages of a longer job on disk: each a folder of numbered shards, so that a killed run goes on where it stopped.

A shard is JSON lines or one array; it takes its name only when it is whole. ``stage.json`` holds the settings that the
shards depend on, with the digest of the stage before; a stage of other settings is refused, a finished one is kept as
it is. One process at a time may write a stage. It knows nothing of what is in the shards.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from ..errors import InputError, ResourceError, ResumeError
from ..representations import Array

Row = Mapping[str, Any]
OnProgress = Callable[[int], None]
OF_DIGESTS = {  # settings whose values tell a reader nothing
    "input": "the input texts differ",
    "before": "the stage before it was run with other settings",
}


class Stage:
    """The output of one stage.

    Attributes:
        folder: where it is.
        settings: what its content depends on.
        counts: what it counted, once it is finished.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], counts: Mapping[str, int] | None
    ) -> None:
        self.folder, self.settings, self.counts = folder, settings, counts

    @property
    def digest(self) -> str:
        """Stands for the content."""
        return blake2b(
            json.dumps(self.settings, sort_keys=True).encode(), digest_size=16
        ).hexdigest()

    @property
    def complete(self) -> bool:
        """Whether all of it is there."""
        return self.counts is not None

    @property
    def shards(self) -> list[Path]:
        """The shards there are, without a gap, in order."""
        found: list[Path] = []
        for path in sorted(self.folder.glob("[0-9]*.*")):
            if path.suffix in (".jsonl", ".npy") and path.stem == f"{len(found):05}":
                found.append(path)
        return found

    def write(self, rows: Iterable[Row] | Array) -> None:
        """Adds a shard, whole or not at all.

        Raises:
            ResourceError: the disk is full or gone.
        """
        number = len(self.shards)
        with complete_file(
            self.folder / f"{number:05}.{'npy' if isinstance(rows, np.ndarray) else 'jsonl'}"
        ) as path:
            if isinstance(rows, np.ndarray):
                with open(path, "wb") as file:
                    np.save(file, rows)
                return
            with open(path, "w", encoding="utf-8") as text:
                for row in rows:
                    text.write(json.dumps(row, ensure_ascii=False) + "\n")

    def finish(self, counts: Mapping[str, int]) -> None:
        """Marks it as complete."""
        self.counts = dict(counts)
        self._save()

    def rows(self, shards: Sequence[Path] | None = None) -> Iterator[dict[str, Any]]:
        """The rows of JSON shards, all unless some are named.

        Raises:
            InputError: a shard is damaged.
        """
        for path in self.shards if shards is None else shards:
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    try:
                        row = json.loads(line)
                    except ValueError as error:
                        fix = "Remove its folder and run the stage again"
                        raise InputError(
                            f"is no JSON: {error}", where=f"{path}:{number}", fix=fix
                        ) from error
                    yield row

    def array(self, shards: Sequence[Path] | None = None) -> Array:
        """The rows of array shards, all unless some are named."""
        some = self.shards if shards is None else shards
        return np.concatenate([np.load(path, allow_pickle=False) for path in some])

    def _save(self) -> None:
        with complete_file(self.folder / "stage.json") as path:
            about = {"complete": self.complete, "settings": self.settings, "counts": self.counts}
            about |= {"shards": len(self.shards)} if self.complete else {}
            path.write_text(
                json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )


def finished(folder: Path) -> Stage:
    """A stage that an earlier run has finished.

    Raises:
        ResumeError: there is none.
    """
    found = _read(folder)
    if found is None or not found.complete:
        state = "has not been run" if found is None else "is not finished"
        raise ResumeError(
            f"the stage {folder.name} {state}", where=str(folder), fix=f"Run it: {folder.name}"
        )
    return found


@contextmanager
def opened(folder: Path, settings: Mapping[str, Any]) -> Iterator[Stage]:
    """A stage to be written or continued; it is complete already if an earlier run finished it.

    Raises:
        ResumeError: it was begun with other settings, or another process is writing it.
        InputError: the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be made: {error.strerror}", where=str(folder), fix="Choose another folder"
        ) from error
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ResumeError(
            "another process is writing it", where=str(folder), fix="Wait for it, or stop it"
        ) from None
    try:
        plain = json.loads(json.dumps(settings))
        stage = _read(folder) or Stage(folder, plain, None)
        differing = [
            k for k in sorted({*stage.settings, *plain}) if stage.settings.get(k) != plain.get(k)
        ]
        if differing:
            found = "; ".join(
                OF_DIGESTS.get(k) or f"{k} was {stage.settings.get(k)!r}, now {plain.get(k)!r}"
                for k in differing
            )
            fix = "Choose another folder, or remove this one and those of later stages"
            raise ResumeError(found, where=str(folder), fix=fix)
        stage._save()
        yield stage
    finally:
        lock.release()


@contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """A draft beside `path` that takes its place when the block ends well.

    Raises:
        ResourceError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        yield draft
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise ResourceError(
            f"cannot be written: {error.strerror or error}", where=str(path)
        ) from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def complete_folder(path: Path) -> Iterator[Path]:
    """A draft folder beside `path` that takes its place, and that of what stands there, when the block ends well.

    Raises:
        ResourceError: it cannot be written.
    """
    path = path.resolve()
    draft, old = (path.with_name(f".{path.name}.{what}") for what in ("draft", "old"))
    try:
        shutil.rmtree(draft, ignore_errors=True)  # of a killed run
        draft.mkdir(parents=True)
        yield draft
        for part in draft.iterdir():
            with open(part, "rb") as file:
                os.fsync(file.fileno())
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
            os.replace(path, old)
        os.replace(draft, path)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise ResourceError(
            f"cannot be written: {error.strerror or error}", where=str(path)
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _read(folder: Path) -> Stage | None:
    path = folder / "stage.json"
    if not path.exists():
        return None
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        settings, counts = dict(held["settings"]), dict(held["counts"] or {})
        found = Stage(folder, settings, counts if held["complete"] else None)
        written = int(held["shards"]) if found.complete else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        fix = "Remove its folder and run the stage again"
        raise ResumeError(f"cannot be read ({error})", where=str(path), fix=fix) from error
    if written is not None and written != len(found.shards):
        fix = "Remove its folder and those of later stages, and run them again"
        raise ResumeError(
            f"{len(found.shards)} shards of {written} are there", where=str(folder), fix=fix
        )
    return found
