"""Answers that were paid for, by what was asked: in memory, and in a folder, where later runs find them.

The folder is a cache (`metrics.execution.cache`), which may be that of ``--cache``: entries have checksums, several
processes may share it, and what is damaged counts as absent and is asked again. An answer is written before anything
is made of it, and synced to the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import Lock, local

from ...metrics.execution.cache import FILE, MAX_BYTES, Cache
from ...metrics.execution.close_at_end import close_at_end
from .judge_answers import Answer

IN_MEMORY = 1 << 17  # answers remembered
AT_ONCE = 500  # answers read at once


class KeptAnswers:
    """Answers by key.

    Args:
        folder: where they are kept, made if it is not there; None: in memory alone.
        max_bytes: how many bytes are kept there; what was not used for longest goes first.
    """

    def __init__(self, folder: str | None, max_bytes: int = MAX_BYTES) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self._known: dict[bytes, Answer] = {}
        self._lock, self._num_users = Lock(), 0
        self._of_thread = local()  # sqlite's connections belong to threads

    def __getitem__(self, key: bytes) -> Answer:
        return self._known[key]

    def find(self, keys: Iterable[bytes]) -> set[bytes]:
        """Reads what the folder has of these keys; those that it has and were not in memory."""
        missing = [key for key in dict.fromkeys(keys) if key not in self._known]
        if self.folder is None:
            return set()
        in_folder: set[bytes] = set()
        for start in range(0, len(missing), AT_ONCE):
            answers = self._read(missing[start : start + AT_ONCE])
            self._known.update(answers)
            in_folder.update(answers)
        return in_folder

    def count(self, keys: Sequence[bytes]) -> int:
        """How many of these there are in the folder, which is not made; nothing is remembered."""
        if self.folder is None or not (Path(self.folder) / FILE).exists():
            return 0
        pieces = (keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE))
        return sum(len(self._read(piece)) for piece in pieces)

    def missing(self, keys: Iterable[bytes]) -> list[bytes]:
        """Those of the keys, each once, of which no answer is known."""
        return [key for key in dict.fromkeys(keys) if key not in self._known]

    def keep(self, answers: Mapping[bytes, Answer]) -> None:
        """Keeps some answers."""
        self._known.update(answers)
        if self.folder is not None and answers:
            self._opened().put({key: answer.packed() for key, answer in answers.items()})

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Nothing in memory is forgotten inside a ``with``, in whatever thread; what is too much goes afterwards."""
        with self._lock:
            self._num_users += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_users -= 1
                if not self._num_users:
                    self._trim()

    def _trim(self) -> None:
        """Forgets the oldest in memory where there are too many."""
        surplus = len(self._known) - IN_MEMORY
        if surplus > 0:
            self._known = dict(islice(self._known.items(), surplus, None))

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """The answers in the folder."""
        answers = {}
        for key, reps in self._opened().get(keys).items():
            answer = Answer.unpacked(reps)
            if answer is not None:
                answers[key] = answer
        return answers

    def _opened(self) -> Cache:
        """The folder's cache, opened by the first use in a thread."""
        cache: Cache | None = getattr(self._of_thread, "cache", None)
        if cache is None:
            cache = self._of_thread.cache = Cache(str(self.folder), self.max_bytes, is_synced=True)
            close_at_end(self)
        return cache

    def close(self) -> None:
        """Lets go of the folder in this thread; says how many entries were damaged, if any."""
        cache: Cache | None = getattr(self._of_thread, "cache", None)
        if cache is not None:
            cache.close()
            del self._of_thread.cache
