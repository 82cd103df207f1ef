"""Flat text: N lines per source, one candidate each, as most MBR tools take it; ids are ``0``, ``1``, ...

Where the files can be read twice, their lines are counted first, so a wrong N is refused before anything is decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ....metrics.errors import InputError
from ....metrics.storage.line_source import Line, LineSource
from ....rerank.lists import Candidate, CandidateList
from ...files.entries import ListEntry, ListLines, TextLines, error_entry, list_entry
from ..format_table import NUMBERED, Format, ListOptions, ListWriting, OpenedFiles

_FIX = "Are the files the right ones, with one line per text and no empty line at the end?"


def count_candidates(
    path: str | Path,
    sources: str | Path | None,
    num_candidates: int | None,
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
            fix="Give the number of candidates per source, as --num-candidates N, or --sources FILE",
        )
    num_lines = count_lines(path)
    num_sources = None if sources is None else count_lines(sources)
    if num_candidates is None:
        if num_lines is None or num_sources is None:
            raise InputError(
                "a pipe cannot be counted",
                where=str(path),
                fix="Give the number of candidates per source, as --num-candidates N",
            )
        if not num_sources or not num_lines or num_lines % num_sources:
            problem = f"{num_lines} candidates for {num_sources} sources in {sources}, expected a multiple"
            raise InputError(problem, where=str(path), fix=_FIX)
        return num_lines // num_sources
    if num_lines is not None:
        _check_counts(str(path), num_lines, num_sources, num_candidates)
    return num_candidates


def count_lines(path: str | Path) -> int | None:
    """The number of lines of a file; None where it cannot be read twice."""
    if str(path) == "-" or _is_pipe(Path(path)):
        return None
    return sum(1 for _ in LineSource(path))


def read_flat(
    source: LineSource,
    num_candidates: int,
    sources: LineSource | None = None,
) -> Iterator[ListEntry]:
    """One entry per `num_candidates` lines; an empty line is an empty candidate.

    Raises:
        InputError: the two files do not fit each other, seen where they could not be counted before.
    """
    inputs = None if sources is None else iter(sources)
    lines = iter(source)
    num_lists = 0
    while (block := _take(source.name, lines, num_candidates)).lines:
        source_line = None if inputs is None else next(inputs, None)
        raw = block.raw
        source_text = None
        if source_line is not None:
            _, text = source_line
            raw += text + b"\n"
            source_text = text.decode()
        if len(block.lines) < num_candidates:
            error = _leftover(num_lists * num_candidates + len(block.lines), num_candidates)
            yield error_entry(error, source.name, block.first, raw, str(num_lists))
            return
        if inputs is not None and source_line is None:
            raise source.refusal(
                block.first,
                f"more than {num_lists} lists of {num_candidates} for {num_lists} sources",
                _FIX,
            )
        candidates = tuple(Candidate(line.decode()) for _, line in block.lines)
        record = CandidateList(str(num_lists), candidates, source_text)
        yield list_entry(record, block.first, raw)
        num_lists += 1
    if inputs is not None and sources is not None and next(inputs, None) is not None:
        raise sources.refusal(
            num_lists + 1,
            f"more than {num_lists} sources for {num_lists} lists of {num_candidates}",
            _FIX,
        )


def _take(name: str, lines: Iterator[Line], count: int) -> ListLines:
    """The next lines, `count` of them or as many as there are."""
    block = ListLines(name)
    for line in lines:
        block.add(line)
        if len(block.lines) == count:
            break
    return block


def _is_pipe(path: Path) -> bool:
    """Whether a path is there, but neither as a file nor as a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _check_counts(
    name: str,
    num_lines: int,
    num_sources: int | None,
    num_candidates: int,
) -> None:
    """Raises InputError unless there are `num_candidates` lines for each source."""
    if num_lines % num_candidates:
        raise _leftover(num_lines, num_candidates).inside(name)
    if num_sources is not None and num_lines != num_sources * num_candidates:
        num_lists = num_lines // num_candidates
        problem = (
            f"{num_lines} lines make {num_lists} lists of {num_candidates}, "
            f"but there are {num_sources} sources"
        )
        raise InputError(problem, where=name, fix=_FIX)


def _leftover(num_lines: int, num_candidates: int) -> InputError:
    """The error for a last list that is not full."""
    remainder = num_lines % num_candidates
    problem = (
        f"{num_lines} lines are not a multiple of {num_candidates} candidates: "
        f"{remainder} left over"
    )
    return InputError(problem, fix=_FIX)


def _open(path: str | Path, options: ListOptions) -> OpenedFiles:
    num_candidates = count_candidates(path, options.sources, options.num_candidates)
    candidates = TextLines(path)
    if options.sources is None:
        return [candidates], read_flat(candidates, num_candidates)
    sources = TextLines(options.sources)
    return [candidates, sources], read_flat(candidates, num_candidates, sources)


def _lines(record: CandidateList) -> Iterator[str]:
    for candidate in record.candidates:
        yield str(candidate.text)


def _shape(record: CandidateList) -> tuple[int, str]:
    return len(record.candidates), "flat text has as many candidates in every list"


def _earlier_shape(lines: Iterator[str], counts: Mapping[str, int]) -> int:
    return counts["candidates"] // counts["rows"]


FORMATS = (
    Format(
        "flat",
        "flat text",
        _open,
        NUMBERED | {"num_candidates"},
        reads_sources=True,
        written=ListWriting(
            _lines,
            read_flat,
            own_fields=None,
            shape=_shape,
            earlier_shape=_earlier_shape,
            numbers_lists=True,
        ),
    ),
)
