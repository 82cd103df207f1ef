"""Flat text: N lines per source, one candidate each, as most MBR tools take it; ids are ``0``, ``1``, ...

Where the files can be read twice, their lines are counted first, so a wrong N is refused before anything is decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ....metrics.errors import InputError
from ....metrics.storage.line_source import LineSource
from ....rerank.lists import Candidate, CandidateList
from ...files.entries import ListEntry, ListLines, TextLines, error_entry, list_entry
from ..format_table import NUMBERED, Format, ListOptions, ListWriting, OpenedFiles

_FIX = "Are the files the right ones, with one line per text and no empty line at the end?"
_GIVE_NUMBER = "Give the number of candidates per source, as --num-candidates N"


def count_candidates(
    path: str | Path,
    sources: str | Path | None,
    num_candidates: int | None,
) -> int:
    """How many lines belong to one source: `num_candidates`, or lines of candidates / lines of sources.

    Raises:
        InputError: neither is given, or the numbers of lines do not agree with one another.
    """
    name = str(path)
    if num_candidates is not None and (isinstance(num_candidates, bool) or num_candidates < 1):
        raise InputError(f"found {num_candidates!r}, expected at least 1", where="num_candidates")
    if num_candidates is None and sources is None:
        fix = f"{_GIVE_NUMBER}, or --sources FILE"
        raise InputError("flat text does not say where a list ends", where=name, fix=fix)
    num_lines = count_lines(path)
    num_sources = None if sources is None else count_lines(sources)
    if num_candidates is not None:
        _check_counts(name, num_lines, num_sources, num_candidates)
        return num_candidates
    if num_lines is None or num_sources is None:
        raise InputError("a pipe cannot be counted", where=name, fix=_GIVE_NUMBER)
    if not num_sources or not num_lines or num_lines % num_sources:
        problem = f"{num_lines} candidates for {num_sources} sources in {sources}"
        raise InputError(f"{problem}, expected a multiple", where=name, fix=_FIX)
    return num_lines // num_sources


def _check_counts(
    name: str, num_lines: int | None, num_sources: int | None, num_candidates: int
) -> None:
    """Raises InputError unless there are `num_candidates` lines for each source, where they could be counted."""
    if num_lines is None:
        return
    if num_lines % num_candidates:
        raise _leftover(num_lines, num_candidates).inside(name)
    num_lists = num_lines // num_candidates
    if num_sources not in (None, num_lists):
        problem = f"{num_lines} lines make {num_lists} lists of {num_candidates}"
        problem += f", but there are {num_sources} sources"
        raise InputError(problem, where=name, fix=_FIX)


def count_lines(path: str | Path) -> int | None:
    """The number of lines of a file; None where it cannot be read twice."""
    place = Path(path)
    is_pipe = place.exists() and not place.is_file() and not place.is_dir()
    return None if str(path) == "-" or is_pipe else sum(1 for _ in LineSource(path))


def read_flat(
    source: LineSource,
    num_candidates: int,
    sources: LineSource | None = None,
) -> Iterator[ListEntry]:
    """One entry per `num_candidates` lines; an empty line is an empty candidate.

    Raises:
        InputError: the two files do not fit each other, seen where they could not be counted before.
    """
    inputs = iter(sources or ())
    lines = iter(source)
    num_lists = 0
    while True:
        block = ListLines(source.name)
        for line in islice(lines, num_candidates):
            block.add(line)
        source_line = next(inputs, None)
        if not block.lines:
            break
        text = None if source_line is None else source_line[1]
        raw = block.raw + (b"" if text is None else text + b"\n")
        if len(block.lines) < num_candidates:
            error = _leftover(num_lists * num_candidates + len(block.lines), num_candidates)
            yield error_entry(error, source.name, block.first, raw, str(num_lists))
            return
        if sources is not None and text is None:
            problem = f"more than {num_lists} lists of {num_candidates} for {num_lists} sources"
            raise source.refusal(block.first, problem, _FIX)
        candidates = tuple(Candidate(line.decode()) for _, line in block.lines)
        source_text = None if text is None else text.decode()
        record = CandidateList(str(num_lists), candidates, source_text)
        yield list_entry(record, block.first, raw)
        num_lists += 1
    if sources is not None and source_line is not None:
        problem = f"more than {num_lists} sources for {num_lists} lists of {num_candidates}"
        raise sources.refusal(num_lists + 1, problem, _FIX)


def _leftover(num_lines: int, num_candidates: int) -> InputError:
    """The error for a last list that is not full."""
    remainder = num_lines % num_candidates
    problem = f"{num_lines} lines are not a multiple of {num_candidates} candidates"
    return InputError(f"{problem}: {remainder} left over", fix=_FIX)


def _open(path: str | Path, options: ListOptions) -> OpenedFiles:
    num_candidates = count_candidates(path, options.sources, options.num_candidates)
    files = [TextLines(name) for name in (path, options.sources) if name is not None]
    return [*files], read_flat(files[0], num_candidates, *files[1:])


FORMATS = (
    Format(
        "flat",
        "flat text",
        _open,
        NUMBERED | {"num_candidates"},
        reads_sources=True,
        written=ListWriting(
            lambda record: (str(candidate.text) for candidate in record.candidates),
            read_flat,
            "candidates",
            len,
            lambda lines, counts: counts["candidates"] // counts["rows"],
        ),
    ),
)
