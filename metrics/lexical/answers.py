r"""Where the answer stands in a text: all of it, its last line, a box of LaTeX, a match of a pattern, a JSON value.

Where models are not told how to write it, `written_answers` looks for it.

An answer has no white space around it and is not empty; a text may have none. Every search is bounded: a box and a JSON
value are found in one pass, and a pattern has `PATTERN_SECONDS` of the processor for a text.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import regex

from ..errors import InputError, MetricError, excerpt
from ..storage.limits import limits

PATTERN_SECONDS = 1.0
MAX_CHARACTERS = 1_000  # of a pattern or a path
_BRACES = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)
_FENCED = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.DOTALL)
_KEY, _INDEX = r"[^.\[\]]+", r"\[(-?\d{1,9})\]"
_PATH = re.compile(rf"(?:{_KEY}|{_INDEX})(?:\.{_KEY}|{_INDEX})*")
_STEP = re.compile(rf"({_KEY})|{_INDEX}")


def whole(text: str) -> str | None:
    """All of the text."""
    return text.strip() or None


def last_line(text: str) -> str | None:
    """The last line that is not blank."""
    lines = text.strip().splitlines()
    return lines[-1].strip() or None if lines else None


def boxed(text: str) -> str | None:
    r"""The content of the last ``\boxed{...}`` that is closed; braces nest, ``\{`` and ``\}`` are no braces.

    >>> boxed(r"so \boxed{1} or rather \boxed{\frac{1}{2}}, not \boxed{3")
    '\\frac{1}{2}'
    """
    open_braces: list[
        tuple[bool, int]
    ] = []  # whether a box begins there, and where its content does
    start, end = -1, -1
    for match in _BRACES.finditer(text):
        mark = match[0]
        if mark.startswith("\\boxed"):
            open_braces.append((True, match.end()))
        elif mark == "{":
            open_braces.append((False, match.end()))
        elif mark == "}" and open_braces:
            is_box, content = open_braces.pop()
            if is_box and content > start:
                start, end = content, match.start()
    return text[start:end].strip() or None if start >= 0 else None


def compiled(pattern: str) -> Any:
    """A regular expression of the package regex.

    Raises:
        InputError: it is none, or too long.
    """
    if len(pattern) > MAX_CHARACTERS:
        problem = f"{len(pattern)} characters, at most {MAX_CHARACTERS} are read"
        raise InputError(problem, where="pattern", fix="Write a shorter one")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        problem = f"{excerpt(pattern)} is no regular expression ({error})"
        raise InputError(problem, where="pattern", fix="See the package regex") from None


def matched(pattern: Any, text: str) -> str | None:
    """The last match that is not empty: its first group that took part, or all of it where there is no group.

    Raises:
        MetricError: the search takes more than `PATTERN_SECONDS`.
    """
    last = None
    try:
        # other threads run on meanwhile
        for match in pattern.finditer(text, timeout=PATTERN_SECONDS, concurrent=True):
            last = match if match[0] else last
    except TimeoutError:
        raise MetricError(
            f"more than {PATTERN_SECONDS:g} s on a text of {len(text)} characters",
            where=f"pattern {excerpt(pattern.pattern)}",
            fix="Write one that backtracks less: no repetition within a repetition",
        ) from None
    if last is None:
        return None
    groups = [group for group in last.groups() if group is not None]
    answer = groups[0] if groups else last[0]
    return answer.strip() or None


def steps_of(path: str) -> tuple[str | int, ...]:
    """The keys and indexes of a path.

    >>> steps_of("steps[-1].result.value")
    ('steps', -1, 'result', 'value')

    Raises:
        InputError: it is none.
    """
    if len(path) > MAX_CHARACTERS or not _PATH.fullmatch(path):
        fix = "Write keys and indexes, such as answer or steps[-1].value"
        raise InputError(f"{excerpt(path)} is no JSON path", where="path", fix=fix)
    return tuple(key or int(index) for key, index in _STEP.findall(path))


def json_value(steps: tuple[str | int, ...], text: str) -> str | None:
    """The value at a path of the JSON that a text is, or that stands in its last fenced block.

    A string is itself, a number stands as it is written, an array or object as JSON with sorted keys. There is no
    answer where the text is no JSON or nested too deeply, nothing stands at the path, or null does.

    Raises:
        InputError: the text is longer than a JSON file may be, or has the marks of more values.
    """
    limits().check("json_bytes", len(text), "text")
    limits().check("json_values", sum(map(text.count, "[{,:")), "text")
    value = _parsed(text)
    if value is None:
        blocks = _FENCED.findall(text)
        value = _parsed(blocks[-1]) if blocks else None
    for step in steps:
        value = _inside(value, step)
    if value is None:
        return None
    if isinstance(value, str):
        return value.strip() or None
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        return None


def _parsed(text: str) -> Any:
    """The JSON of a text, its numbers as they are written; None where it is none."""
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _inside(value: Any, step: str | int) -> Any:
    """The value at a key of an object, or at an index of an array; None where there is none."""
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
        return value[step]
    return None
