"""Stages of a longer job on disk: each a folder of numbered shards, so that a killed run resumes where it stopped.

A shard is JSON lines or one array; it counts once its digest is in ``stage.json``, beside the settings that the shards
depend on and the digest of the stage before. A stage of other settings or with a damaged shard is refused, a finished
one is kept as it is. One process at a time may write a stage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
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
SHARD = 1024  # texts
_AGAIN = "Remove its folder and those of later stages, and run them again"
# settings whose values, digests, mean nothing to a reader
_OF_DIGESTS = {
    "input": "the input texts differ",
    "before": "the stage before it was run with other settings",
}


class Stage:
    """The output of one stage.

    Attributes:
        folder: where it is.
        settings: what its content depends on.
        counts: what it counted, once it is finished.
        digests: of its shards, in order.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        counts: Mapping[str, int] | None = None,
        digests: Iterable[str] = (),
    ) -> None:
        self.folder = folder
        self.settings = settings
        self.counts = counts
        self.digests = list(digests)

    @property
    def digest(self) -> str:
        """The digest of the settings, which identifies the content."""
        canonical = json.dumps(self.settings, sort_keys=True).encode()
        return blake2b(canonical, digest_size=16).hexdigest()

    @property
    def complete(self) -> bool:
        """Whether all of it is there."""
        return self.counts is not None

    def write(self, content: Iterable[Row] | Array) -> None:
        """Adds a shard, whole or not at all.

        Raises:
            ResourceError: the disk is full or gone.
        """
        is_array = isinstance(content, np.ndarray)
        with complete_file(self._path(len(self.digests), is_array)) as path:
            with open(path, "wb") as file:
                if isinstance(content, np.ndarray):
                    np.save(file, content)
                else:
                    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in content)
                    file.writelines(line.encode() for line in lines)
            digest = _digest_of(path)
        self.digests.append(digest)
        self._save()

    def finish(self, counts: Mapping[str, int]) -> None:
        """Marks it as complete."""
        self.counts = dict(counts)
        self._save()

    def rows(self, shard: int | None = None) -> Iterator[dict[str, Any]]:
        """The rows of a shard of JSON lines, or of all.

        Raises:
            InputError: a shard is missing or damaged.
        """
        for path in self._checked(shard, is_array=False):
            for number, line in LineSource(path):
                yield parse_small_json(line, f"{path}:{number}", _AGAIN)

    def array(self, shard: int | None = None) -> Array:
        """The rows of a shard that is an array, or of all; raises as `rows`."""
        paths = self._checked(shard, is_array=True)
        return np.concatenate([np.load(path, allow_pickle=False) for path in paths])

    def _path(self, shard: int, is_array: bool) -> Path:
        return self.folder / f"{shard:05}.{'npy' if is_array else 'jsonl'}"

    def _checked(self, shard: int | None, is_array: bool) -> Iterator[Path]:
        """The file of a shard, or those of all, as they were written."""
        for number in range(len(self.digests)) if shard is None else (shard,):
            path = self._path(number, is_array)
            check_regular(path, _AGAIN)
            if _digest_of(path) != self.digests[number]:
                raise InputError("is damaged", where=str(path), fix=_AGAIN)
            yield path

    def _save(self) -> None:
        """Writes ``stage.json``."""
        about = {"settings": self.settings, "counts": self.counts, "digests": self.digests}
        with complete_file(self.folder / "stage.json") as path:
            plain = json.dumps(with_checksum(about), indent=1, ensure_ascii=False)
            path.write_text(plain + "\n", encoding="utf-8")


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
        stage = _read(folder) or Stage(folder, plain)
        problem = _difference(stage.settings, plain)
        if problem:
            fix = "Choose another folder, or remove this one and those of later stages"
            raise ResumeError(problem, where=str(folder), fix=fix)
        yield stage


def made(
    folder: Path,
    before: Stage,
    settings: Mapping[str, Any],
    start: Callable[[], Callable[[int], Iterable[Row] | Array]],
    count: Callable[[Stage], Mapping[str, int]],
    on_progress: OnProgress,
) -> Stage:
    """A stage with a shard for every shard of the stage before it; what an earlier run has written is kept.

    Args:
        folder: of the stage.
        before: the stage that it is made from.
        settings: what its content depends on, beside that of `before`.
        start: loads what is needed and returns a function from the number of a shard to its content.
        count: the counts of the whole stage.
        on_progress: called with the number of texts that are done.

    Raises:
        ResumeError: as `opened`.
        InputError: as `opened` and `Stage.rows`.
    """
    with opened(folder, {"before": before.digest, **settings}) as stage:
        if not stage.complete:
            make = start()
            for number in range(len(stage.digests), len(before.digests)):
                stage.write(make(number))
                on_progress(SHARD * (number + 1))
            stage.finish(count(stage))
        return stage


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The settings that differ, in words; empty where none does."""
    differences = []
    for name in sorted({*old, *new}):
        before = old.get(name)
        now = new.get(name)
        if before != now:
            in_words = _OF_DIGESTS.get(name) or f"{name} was {before!r}, now {now!r}"
            differences.append(in_words)
    return "; ".join(differences)


def _read(folder: Path) -> Stage | None:
    """The stage of a folder; None where none was begun.

    Raises:
        ResumeError: ``stage.json`` is damaged.
    """
    path = folder / "stage.json"
    if not path.exists():
        return None
    try:
        about = read_small_json(path, _AGAIN)
        check(about, str(path), _AGAIN)
        counts = None if about["counts"] is None else dict(about["counts"])
        return Stage(folder, dict(about["settings"]), counts, about["digests"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResumeError(f"cannot be read ({error})", where=str(path), fix=_AGAIN) from error
