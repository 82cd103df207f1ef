"""Every family of promises by its name: what tries it so many times with a seed, in an empty folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.reliability import decode_storms
from benchmarks.reliability.promises import Tried
from benchmarks.reliability.storms import Target, stormed

Trial = Callable[[int, int, Path], list[Tried]]


def storm(target_in: Callable[[Path], Target]) -> Trial:
    """The trial that disturbs a command; `target_in` makes its inputs in a folder."""

    def trial(tries: int, seed: int, folder: Path) -> list[Tried]:
        return stormed(target_in(folder / "inputs"), tries, seed, folder / "runs")

    return trial


FAMILIES: Mapping[str, Trial] = {
    "decode": storm(decode_storms.decode),
    "decode-sum": storm(decode_storms.decode_plain),
    "decode-cache": storm(decode_storms.decode_cached),
    "rerank": storm(decode_storms.rerank),
}
