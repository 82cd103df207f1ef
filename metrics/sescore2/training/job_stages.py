"""Stages of a longer job on disk: each a folder of numbered shards, so that a killed run resumes where it stopped.

A shard is JSON lines or one array; it takes its name only when it is whole. ``stage.json`` holds the settings that the
shards depend on, with the digest of the stage before, and the digest of every shard; a stage of other settings or with
a damaged shard is refused, a finished one is kept as it is. One process at a time may write a stage. What is in the
shards is left to the stages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, ResumeError
from ...representations import Array
from ...storage.atomic_files import complete_file, locked
from ...storage.bounded_files import check_regular
from ...storage.checksums import check, digest_of, with_checksum
from ...storage.json_and_yaml import parse_small_json, read_small_json
from ...storage.line_source import LineSource

Row = Mapping[str, Any]
OnProgress = Callable[[int], None]
_AGAIN = "Remove its folder and run the stage again"
# settings whose values, digests, tell a reader nothing
OF_DIGESTS = {
    "input": "the input texts differ",
    "before": "the stage before it was run with other settings",
}


class Stage:
    """The output of one stage.

    Attributes:
        folder: where it is.
        settings: what its content depends on.
        counts: what it counted, once it is finished.
        digests: of its shards, by name.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        counts: Mapping[str, int] | None,
    ) -> None:
        self.folder = folder
        self.settings = settings
        self.counts = counts
        self.digests: dict[str, str] = {}

    @property
    def digest(self) -> str:
        """The digest of the settings, which stands for the content."""
        canonical = json.dumps(self.settings, sort_keys=True).encode()
        return blake2b(canonical, digest_size=16).hexdigest()

    @property
    def complete(self) -> bool:
        """Whether all of it is there."""
        return self.counts is not None

    @property
    def shards(self) -> list[Path]:
        """The shards there are, without a gap, in order."""
        shards: list[Path] = []
        for path in sorted(self.folder.glob("[0-9]*.*")):
            is_next = path.stem == f"{len(shards):05}"
            if is_next and path.suffix in (".jsonl", ".npy"):
                shards.append(path)
        return shards

    def write(self, rows: Iterable[Row] | Array) -> None:
        """Adds a shard, whole or not at all.

        Raises:
            ResourceError: the disk is full or gone.
        """
        suffix = "npy" if isinstance(rows, np.ndarray) else "jsonl"
        shard = self.folder / f"{len(self.shards):05}.{suffix}"
        with complete_file(shard) as path:
            _write_shard(path, rows)
            self.digests[shard.name] = _digest_of(path)
        self._save()

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
            check_regular(path, _AGAIN)
            self._check(path)
            for number, line in LineSource(path):
                yield parse_small_json(line, f"{path}:{number}", _AGAIN)

    def array(self, shards: Sequence[Path] | None = None) -> Array:
        """The rows of array shards, all unless some are named.

        Raises:
            InputError: a shard is damaged.
        """
        paths = self.shards if shards is None else shards
        for path in paths:
            check_regular(path, _AGAIN)
            self._check(path)
        return np.concatenate([np.load(path, allow_pickle=False) for path in paths])

    def _check(self, shard: Path) -> None:
        """Raises InputError if a shard is not as it was written."""
        expected = self.digests.get(shard.name)
        if expected is not None and _digest_of(shard) != expected:
            raise InputError("is damaged", where=str(shard), fix=_AGAIN)

    def _drop_unlisted(self) -> None:
        """Removes what a process that was killed wrote last, before it could be listed: it is made again."""
        for shard in self.shards:
            if shard.name not in self.digests:
                shard.unlink()

    def _save(self) -> None:
        """Writes ``stage.json``."""
        about: dict[str, Any] = {
            "complete": self.complete,
            "settings": self.settings,
            "counts": self.counts,
            "digests": self.digests,
        }
        if self.complete:
            about["shards"] = len(self.shards)
        with complete_file(self.folder / "stage.json") as path:
            plain = json.dumps(with_checksum(about), indent=1, ensure_ascii=False)
            path.write_text(plain + "\n", encoding="utf-8")


def _write_shard(path: Path, rows: Iterable[Row] | Array) -> None:
    if isinstance(rows, np.ndarray):
        with open(path, "wb") as file:
            np.save(file, rows)
        return
    with open(path, "w", encoding="utf-8") as text:
        for row in rows:
            text.write(json.dumps(row, ensure_ascii=False) + "\n")


def _digest_of(path: Path) -> str:
    return digest_of(path).hex()[:32]


def finished(folder: Path) -> Stage:
    """A stage that an earlier run has finished.

    Raises:
        ResumeError: there is none.
    """
    stage = _read(folder)
    if stage is None or not stage.complete:
        state = "has not been run" if stage is None else "is not finished"
        problem = f"the stage {folder.name} {state}"
        raise ResumeError(problem, where=str(folder), fix=f"Run it: {folder.name}")
    return stage


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
        problem = f"cannot be made: {error.strerror}"
        raise InputError(problem, where=str(folder), fix="Choose another folder") from error
    with locked(folder, folder / ".lock"):
        plain = json.loads(json.dumps(settings))
        stage = _read(folder) or Stage(folder, plain, None)
        problem = _difference(stage.settings, plain)
        if problem:
            fix = "Choose another folder, or remove this one and those of later stages"
            raise ResumeError(problem, where=str(folder), fix=fix)
        stage._drop_unlisted()
        stage._save()
        yield stage


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The settings that differ, in words; empty where none does."""
    differences = []
    for name in sorted({*old, *new}):
        before = old.get(name)
        now = new.get(name)
        if before != now:
            in_words = OF_DIGESTS.get(name) or f"{name} was {before!r}, now {now!r}"
            differences.append(in_words)
    return "; ".join(differences)


def _read(folder: Path) -> Stage | None:
    """The stage of a folder; None where none was begun.

    Raises:
        ResumeError: what is there is damaged.
    """
    path = folder / "stage.json"
    if not path.exists():
        return None
    try:
        about = read_small_json(path, "")
        settings = dict(about["settings"])
        counts = dict(about["counts"] or {})
        stage = Stage(folder, settings, counts if about["complete"] else None)
        if "digests" in about:
            stage.digests = dict(about["digests"])
        else:  # a stage of 0.1
            stage.digests = {shard.name: _digest_of(shard) for shard in stage.shards}
        written = int(about["shards"]) if stage.complete else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResumeError(f"cannot be read ({error})", where=str(path), fix=_AGAIN) from error
    try:
        check(about, str(path), _AGAIN)
    except InputError as error:
        raise ResumeError(error.problem, where=error.where, fix=error.fix) from None
    present = len(stage.shards)
    if written is not None and written != present:
        problem = f"{present} shards of {written} are there"
        fix = "Remove its folder and those of later stages, and run them again"
        raise ResumeError(problem, where=str(folder), fix=fix)
    return stage
