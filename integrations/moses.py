"""Moses n-best lists: ``id ||| text ||| features ||| score``, the lines of one id adjacent.

Features are ``LM0= -3.2 TM0= -1 -2`` (also ``LM0=-3.2`` and ``LM0: -3.2``) and become fields of the candidate by their
names, several values a list, values before any name ``features``; the score becomes ``score``, which is a weighted sum
and no log-probability; further columns (alignments) become ``columns``. A bad line spoils the list of its id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

from ..metrics.errors import InputError
from ..rerank.lists import NOTHING, Candidate, CandidateList
from .blocks import ListLines
from .entries import Entry, good
from .source import Line, LineSource, without_trailing_blanks

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NAMED = re.compile(r"([^=\s]+)=(\S*)|(\S+):")
_TAKEN = frozenset({"text", "logprob", "roles", "foci", "rst", "columns"})
_SHAPE = "id ||| text ||| features ||| score"


def read_moses(source: LineSource) -> Iterator[Entry]:
    """One entry per run of lines with the same id.

    Raises:
        InputError: the first line has no ``|||``, or a list is larger than any real one.
    """
    current, block = "", ListLines(source.name)
    for number, line in without_trailing_blanks(source):
        mark = line.find(b"|||")
        if mark < 0 and not block.lines:
            raise source.refusal(number, f"no ||| in {line[:40]!r}, expected {_SHAPE}", "Is it a Moses n-best list?")
        identity = current if mark < 0 else line[:mark].decode().strip()
        if block.lines and identity != current:
            yield _entry(source.name, current, block)
            block = ListLines(source.name)
        current = identity
        block.add((number, line))
    if block.lines:
        yield _entry(source.name, current, block)


def _entry(name: str, identity: str, block: ListLines) -> Entry:
    candidates: list[Candidate] = []
    for line in block.lines:
        try:
            candidates.append(_candidate(line, identity))
        except InputError as error:
            fix = error.fix or f"The list {identity!r:.80} is left out"
            where = f"{name}:{line[0]}" + (f": {error.where}" if error.where else "")
            placed = InputError(error.found, where=where, fix=fix)
            return Entry(None, placed, block.first, block.raw, identity or None)
    return good(CandidateList(identity, tuple(candidates)), block.first, block.raw)


def _candidate(line: Line, identity: str) -> Candidate:
    columns = [column.strip() for column in line[1].decode().split("|||")]
    if len(columns) < 3:
        raise InputError(f"{len(columns)} columns, expected {_SHAPE}", fix="Is there a line break within a text?")
    if not identity:
        raise InputError("found nothing, expected an id", where="id")
    fields = _features(columns[2])
    if len(columns) > 3:
        if "score" in fields:
            raise InputError("a feature of this name beside the column", where="score", fix="Rename it")
        fields["score"] = _number(columns[3], "score")
    if len(columns) > 4:
        fields["columns"] = columns[4:]
    return Candidate(columns[1], None, fields or NOTHING)


def _features(column: str) -> dict[str, Any]:
    found: dict[str, list[float]] = {}
    name = "features"
    for token in column.split():
        value = token
        if named := _NAMED.fullmatch(token):
            name, value = named[1] or named[3], named[2] or ""
            if name in found or name in _TAKEN:
                raise InputError(f"a feature named {name!r:.80}", fix="The name is taken: rename the feature")
            found[name] = []
        if value:
            found.setdefault(name, []).append(_number(value, name))
    if empty := [name for name, values in found.items() if not values]:
        raise InputError("no value", where=empty[0])
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _number(text: str, where: str) -> float:
    number = float(text) if _NUMBER.fullmatch(text) else float("nan")
    if not isfinite(number):
        raise InputError(f"found {text!r:.40}, expected a finite number", where=where)
    return number
