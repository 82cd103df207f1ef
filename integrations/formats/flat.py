"""Flat text: N lines per source, one candidate each, as most MBR tools take it; ids are ``0``, ``1``, ...

Where the files can be read twice, their lines are counted first, so a wrong N is refused before anything is decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...metrics.errors import InputError
from ...metrics.text.line_source import Line, LineSource
from ...rerank.lists import Candidate, CandidateList
from ..files.entries import Entry, bad, good
from ..files.list_lines import ListLines


def count_candidates(
    path: str | Path, sources: str | Path | None, num_candidates: int | None
) -> int:
    """How many lines belong to one source: `num_candidates`, or lines of candidates / lines of sources.

    Raises:
        InputError: neither is given, or the numbers of lines do not agree with one another.
    """
    if num_candidates is not None and (isinstance(num_candidates, bool) or num_candidates < 1):
        raise InputError(f"found {num_candidates!r}, expected at least 1", where="num_candidates")
    if num_candidates is None and sources is None:
        raise InputError(
            "flat text does not say where a list ends",
            where=str(path),
            fix="Give num_candidates or a sources file",
        )
    lines = count_lines(path)
    wanted = None if sources is None else count_lines(sources)
    if num_candidates is None:
        return _divided(path, lines, sources, wanted)
    if lines is not None:
        _check_counts(str(path), lines, wanted, num_candidates)
    return num_candidates


def read_flat(
    source: LineSource, num_candidates: int, sources: LineSource | None = None
) -> Iterator[Entry]:
    """One entry per `num_candidates` lines; an empty line is an empty candidate.

    Raises:
        InputError: the two files do not fit each other, seen where they could not be counted before.
    """
    inputs = None if sources is None else iter(sources)
    lines, lists = iter(source), 0
    while (block := _take(source.name, lines, num_candidates)).lines:
        given = None if inputs is None else next(inputs, None)
        raw = block.raw + (given[1] + b"\n" if given else b"")
        if len(block.lines) < num_candidates:
            error = _leftover(lists * num_candidates + len(block.lines), num_candidates)
            yield bad(error, source.name, block.first, raw, str(lists))
            return
        if inputs is not None and given is None:
            raise source.refusal(
                block.first,
                f"more than {lists} lists of {num_candidates} for {lists} sources",
                _FIX,
            )
        text = None if given is None else given[1].decode()
        candidates = tuple(Candidate(line.decode()) for _, line in block.lines)
        yield good(CandidateList(str(lists), candidates, text), block.first, raw)
        lists += 1
    if inputs is not None and sources is not None and next(inputs, None) is not None:
        raise sources.refusal(
            lists + 1, f"more than {lists} sources for {lists} lists of {num_candidates}", _FIX
        )


_FIX = "Are the files the right ones, with one line per text and no empty line at the end?"


def _take(name: str, lines: Iterator[Line], count: int) -> ListLines:
    block = ListLines(name)
    for line in lines:
        block.add(line)
        if len(block.lines) == count:
            break
    return block


def count_lines(path: str | Path) -> int | None:
    """The number of lines of a file; None where it cannot be read twice."""
    if str(path) == "-" or (
        Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()
    ):
        return None
    return sum(1 for _ in LineSource(path))


def _divided(
    path: str | Path, lines: int | None, sources: str | Path | None, wanted: int | None
) -> int:
    if lines is None or wanted is None:
        raise InputError("a pipe cannot be counted", where=str(path), fix="Give num_candidates")
    if not wanted or not lines or lines % wanted:
        raise InputError(
            f"{lines} candidates for {wanted} sources in {sources}, expected a multiple",
            where=str(path),
            fix=_FIX,
        )
    return lines // wanted


def _check_counts(name: str, lines: int, wanted: int | None, num_candidates: int) -> None:
    if lines % num_candidates:
        raise _leftover(lines, num_candidates).inside(name)
    if wanted is not None and lines != wanted * num_candidates:
        raise InputError(
            f"{lines} lines make {lines // num_candidates} lists of {num_candidates}, but there are {wanted} sources",
            where=name,
            fix=_FIX,
        )


def _leftover(lines: int, num_candidates: int) -> InputError:
    return InputError(
        f"{lines} lines are not a multiple of {num_candidates} candidates: {lines % num_candidates} left over",
        fix=_FIX,
    )
