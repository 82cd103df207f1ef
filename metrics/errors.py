"""The errors a user can meet: each says where, what was found and what was expected instead, and what to do.

Everything discorank raises on purpose is a `DiscorankError`; anything else that escapes is a fault of discorank.

The logger of the library, ``discorank``, is silent until the program that uses it says where its records go:

    logging.basicConfig(level=logging.INFO)

INFO tells what is loaded and how far a decoder is; WARNING what is tried again. Warnings of Python (texts that were
cut, damaged caches) stay warnings: ``logging.captureWarnings(True)`` brings them here as well.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from reprlib import repr as repr_of_start
from textwrap import fill, indent
from typing import Any

LOG = logging.getLogger("discorank")
LOG.addHandler(logging.NullHandler())
MAX_NAMES = 10_000  # of a folder, to look for a file's near namesakes
# Names that stand on one line, and the width of lines of more.
MAX_ON_A_LINE, LISTED_WIDTH = 16, 98
# Messages of libraries on CPUs and GPUs where memory ran out.
OUT_OF_MEMORY = re.compile(
    r"an(?:'t|not) allocate memory|CUBLAS_STATUS_ALLOC_FAILED|CUDA error: out of memory"
)


class DiscorankError(Exception):
    """Root of all errors raised on purpose.

    Args:
        problem: what is wrong: what was found, and what was expected instead.
        where: the place, such as ``lists.jsonl:12`` or ``candidates[3].logprob``.
        fix: what the user can do about it.
    """

    exit_code = 1

    def __init__(self, problem: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(problem, where, fix)
        self.problem, self.where, self.fix = problem, where, fix

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        fix = f". {self.fix}" if self.fix else ""
        return f"{place}{self.problem}{fix}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.problem, self.where, self.fix)

    def inside(self, where: str) -> DiscorankError:
        """The same error seen from a larger place: ``lists.jsonl:12`` around ``candidates[3]``."""
        place = f"{where}: {self.where}" if self.where else where
        return type(self)(self.problem, where=place, fix=self.fix)


def _unpickled(kind: type[DiscorankError], problem: str, where: str, fix: str) -> DiscorankError:
    """An error from another process."""
    return kind(problem, where=where, fix=fix)


class TruncationWarning(UserWarning):
    """Texts were too long for a model, and something of them or of their context was left out."""


class InputError(DiscorankError, ValueError):
    """A text, a file, a setting or a combination of settings that cannot be used."""

    exit_code = 2


class ModelLoadError(DiscorankError):
    """A model, a checkpoint or an optional package that cannot be loaded."""

    exit_code = 2


class MetricError(DiscorankError):
    """A metric failed on a text or a list: a user's own metric raised, or values are no numbers."""

    exit_code = 3


class ResumeError(DiscorankError):
    """The run standing at the output was made with other settings or another input."""

    exit_code = 4


class ResourceError(DiscorankError):
    """Workers, memory or disk are gone; the run can be resumed."""

    exit_code = 5


def excerpt(value: object) -> str:
    """The start of a value, for messages; never long, never slow.

    >>> excerpt(["a"] * 10**6)
    "['a', 'a', 'a', 'a', 'a', 'a', ...]"
    """
    try:
        return repr_of_start(value)[:60]
    except (ValueError, RecursionError):
        return "too large to show"


def is_interrupt(error: BaseException) -> bool:
    """Whether somebody stops the process: Ctrl-C, SIGTERM, or Ray, which marks its SystemExit in a worker."""
    return isinstance(error, KeyboardInterrupt) or hasattr(error, "ray_terminate_msg")


def near_files(path: str | Path) -> str:
    """Near names of a file that is not there, as advice; empty where nothing is near.

    >>> near_files("no/such/folder/lists.jsonl")
    'There is no folder no/such/folder'
    """
    folder, name = Path(path).parent, Path(path).name
    if not folder.is_dir():
        return f"There is no folder {folder}"
    if Path(path).exists():
        return ""
    try:
        names = [entry.name for entry in islice(folder.iterdir(), MAX_NAMES)]
    except OSError:
        return ""
    near = get_close_matches(name, names, n=1, cutoff=0.7)
    return f"Did you mean {folder / near[0]}?" if near else ""


def unknown(kind: str, name: str, known: Iterable[str], *, where: str = "") -> InputError:
    """The error for a name that does not exist, with its nearest matches.

    >>> str(unknown("metric", "chfr", ["chrf", "bleu"]))
    "unknown metric 'chfr'. Did you mean 'chrf'? All: bleu, chrf"
    """
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    listed = ", ".join(names) or "none"
    if len(names) > MAX_ON_A_LINE:
        listed = "\n" + indent(fill(listed, LISTED_WIDTH, break_on_hyphens=False), "  ")
    fix = f"{hint}All: {listed}".replace("All: \n", "All:\n")
    return InputError(f"unknown {kind} {name!r}", where=where, fix=fix)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; torch has a class for GPUs, and libraries a message for CPUs."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return OUT_OF_MEMORY.search(str(error)) is not None
