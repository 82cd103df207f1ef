"""The outputs of a run that leaves nothing behind: rows on stdout, error records on stderr, nothing to resume."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from .run_file import Measured, State


class Stream:
    """The outputs of a run that leaves nothing behind: rows on stdout, error records on stderr."""

    resumed = False

    def __init__(self) -> None:
        self.state = State()
        self.sinks: dict[str, Path] = {}
        self.out = Path("-")

    def commit(self, raw: bytes, writes: Mapping[str, bytes], counts: Mapping[str, int]) -> None:
        """Writes what one input entry yields."""
        for name, data in writes.items():
            stream = sys.stderr if name == "errors" else sys.stdout
            stream.buffer.write(data)
            stream.flush()
        total = {
            name: self.state.counts.get(name, 0) + counts.get(name, 0)
            for name in {*self.state.counts, *counts}
        }
        self.state = replace(self.state, entries=self.state.entries + 1, counts=total)

    def keep(self, name: str, data: bytes, counts: Mapping[str, int]) -> None:
        """Nothing is kept."""

    def clear(self, name: str) -> None:
        """There is nothing to take away."""

    def leave(self, name: str, data: bytes) -> None:
        """Writes an error record that stops the run."""
        self.commit(b"", {name: data}, {})

    def skip(self, raw: bytes) -> None:
        """There is nothing to skip."""

    def check_input(self, where: str) -> None:
        """There is nothing to compare with."""

    def begin(self, measured: Callable[[], Measured] = Measured) -> None:
        """There is nothing to open."""

    def save(self, *, complete: bool = False) -> None:
        """There is nothing to save."""

    def close(self) -> None:
        """There is nothing to close."""
