"""The numbered lines of a text file that a metric is trained on or needs, packed or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..errors import InputError
from ..storage.line_source import LineSource, Packing


def numbered_lines(path: str | Path, fix: str) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file that are not blank, with their numbers from 1; ``.gz`` and ``.bz2`` are unpacked.

    A line ends at ``\\n``, ``\\r\\n`` or ``\\r``, read as ``\\n``.

    Raises:
        InputError: the file cannot be read, with what to do, `fix`; a line is too long; packed data is a bomb.
    """
    try:
        yield from _numbered_lines(path)
    except InputError as error:
        if error.__cause__ is None:
            raise
        problem = f"cannot be read: {type(error.__cause__).__name__}"
        raise InputError(problem, where=str(path), fix=fix) from error


def _numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    # a file named "-" is not standard input here
    file = "./-" if str(path) == "-" else path
    source = LineSource(file, packing=_packing_of(str(path)))
    number = 0
    for source_number, line_bytes in source:
        *ended, last = line_bytes.decode().split("\r")
        lines = [f"{line}\n" for line in ended]
        lines.append(last if source_number == source.open_line else f"{last}\n")
        for line in lines:
            number += 1
            if line.strip():
                yield number, line


def _packing_of(path: str) -> Packing:
    if path.endswith(".gz"):
        return "gzip"
    if path.endswith(".bz2"):
        return "bzip2"
    return "plain"
