"""How much is read at most: every bound by name, with its default. What is larger is refused before it costs anything.

A bound is raised, or lowered, with ``--max NAME=VALUE`` on the command line, ``max: [NAME=VALUE]`` in a config
file, and ``with discorank.use_limits(NAME=VALUE)`` in Python. No bound changes what comes out for what is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from ..errors import InputError, excerpt, unknown

MiB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The bounds on what is read.

    Args:
        candidates: candidates, pseudo-references or references of one list.
        systems: systems of a document, a prior or a comparison; metrics of a sum, features of a combination.
        rows: segments of a test set that is read whole; values in one line of JSON, and in one JSON file.
        entries: sentences of one text, lists of one document that is chosen whole, members of one archive, tensors in
            one file of weights or of one model, entries in the header of a GGUF file, labels of a classifier.
        line_bytes: bytes of one line of text, of one list that takes several lines, of a request to `discorank serve`.
        file_bytes: bytes of a file that is read whole (JSON, trees, a vocabulary), of the structure of a torch
            checkpoint or GGUF file, of a text that `vote` reads as JSON, of a reply of a server.
        memory_bytes: bytes of the arrays of one .npz file, of the rows of a Parquet or Arrow file that are in memory at
            once, and of what a saved comparison says of whole systems. Also bytes of memory that all requests to
            `discorank serve` may take together: four for each of theirs and of the replies they get, eight where texts
            are not ASCII, and 256 for each value of their JSON.
        saved_bytes: bytes of the saved utilities of one list, of which 10,000 distinct texts have 1 GiB; bytes of the
            documents of a saved comparison.
        layers: layers of a model, attention heads and experts of a layer.
        tokens: items in the arrays of a GGUF file.

    Raises:
        InputError: one is no whole number from 1.
    """

    candidates: int = 32_768
    systems: int = 1_024
    rows: int = 1_000_000
    entries: int = 100_000
    line_bytes: int = 32 * MiB
    file_bytes: int = 64 * MiB
    memory_bytes: int = 256 * MiB
    saved_bytes: int = 2048 * MiB
    layers: int = 4_096
    tokens: int = 1 << 22

    def __post_init__(self) -> None:
        for name, bound in asdict(self).items():
            if type(bound) is not int or bound < 1:
                problem = f"{name} = {excerpt(bound)}, expected a whole number from 1"
                raise InputError(
                    problem, where="limits", fix=f"By itself it is {getattr(Limits, name)}"
                )

    def check(self, name: str, count: int, where: str = "", what: str = "") -> None:
        """Raises InputError if there is more of something than the bound of this name."""
        bound = getattr(self, name)
        if count > bound:
            problem = f"{count} {what or name}, at most {bound} are read"
            raise InputError(problem, where=where, fix=more(name))


NAMES = tuple(field.name for field in fields(Limits))
# Of this process: workers of Ray are handed those of the driver.
_in_force = Limits()


def limits() -> Limits:
    """The bounds in force."""
    return _in_force


def set_limits(bounds: Limits) -> None:
    """Puts bounds in force in this process."""
    global _in_force
    _in_force = bounds


@contextmanager
def use_limits(**bounds: int) -> Iterator[Limits]:
    """Other bounds on what is read inside a ``with``: those named here, the others as they are.

    Raises:
        InputError: there is no such bound, or it is no whole number from 1.
    """
    before = _in_force
    chosen = _changed(before, bounds, "limits")
    set_limits(chosen)
    try:
        yield chosen
    finally:
        set_limits(before)


def limits_of(assignments: Iterable[str]) -> Limits:
    """The bounds that ``NAME=VALUE`` assignments make, the others at their defaults; the last of a name counts.

    >>> limits_of(["candidates=100000", "line-bytes=1000"]).line_bytes
    1000

    Raises:
        InputError: there is no such bound, or it is no whole number from 1.
    """
    bounds: dict[str, Any] = {}
    for assignment in assignments:
        name, _, text = assignment.partition("=")
        text = text.strip()
        is_number = text.isascii() and text.isdecimal() and len(text) < 19
        bounds[name.strip().replace("-", "_")] = int(text) if is_number else text
    return _changed(Limits(), bounds, "--max")


def _changed(before: Limits, bounds: Mapping[str, Any], where: str) -> Limits:
    """Bounds of which some are others; raises InputError for a name that none has."""
    for name in bounds:
        if name not in NAMES:
            raise unknown("limit", name, NAMES, where=where)
    return replace(before, **bounds)


def more(name: str) -> str:
    """The advice where a bound is passed.

    >>> more("candidates")
    'Is this the right file? If so: --max candidates=NUMBER'
    """
    return f"Is this the right file? If so: --max {name}=NUMBER"
