"""Batches of similar length under a budget, and half the work where memory runs out, on a GPU or here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ..representations import IntArray

A = TypeVar("A")
B = TypeVar("B")


def in_batches(
    lengths: IntArray,
    budget: int,
    run: Callable[[IntArray], B],
) -> tuple[list[B], IntArray]:
    """Results of `run` on batches of rows of at most `budget` summed length (one row may be longer), shortest first.

    Args:
        lengths: of the rows, [rows].
        budget: summed lengths of one batch.
        run: the work on some rows, given by their numbers.

    Returns:
        The results, and where each row stands in them, one result after the other, [rows].
    """

    def run_batch(rows: Sequence[int]) -> list[B]:
        return [run(np.asarray(rows))]

    order = np.argsort(lengths, kind="stable")
    ends = lengths[order].cumsum()  # summed length up to each row, in that order
    results: list[B] = []
    start = 0
    while start < len(order):
        before = int(ends[start] - lengths[order[start]])
        stop = max(start + 1, int(np.searchsorted(ends, before + budget, "right")))
        results += in_halves(run_batch, order[start:stop].tolist())
        start = stop
    return results, np.argsort(order, kind="stable")


def in_halves(run: Callable[[Sequence[A]], Sequence[B]], work: Sequence[A]) -> list[B]:
    """Results of `run` on the work: on all of it, or on its halves where memory runs out, down to single pieces."""
    try:
        return list(run(work))
    except (MemoryError, RuntimeError) as error:
        if len(work) < 2 or not is_out_of_memory(error):
            raise
    _release()
    middle = len(work) // 2
    return in_halves(run, work[:middle]) + in_halves(run, work[middle:])


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; torch has a class for GPUs and a message for CPUs."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )


def _release() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
