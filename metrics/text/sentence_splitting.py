"""Texts split into sentences, losing no character but white space.

The rule: a sentence ends at ``.``, ``!``, ``?`` or ``…`` (with the quotes and brackets that close it) before white
space and a capital, a digit or a letter of a script without capitals (before which quotes and brackets may open),
unless the word is a usual abbreviation; at a full-width ``。！？``; and at line breaks. A text without any capital is
split before every letter.

The numbered lines of a text file that a metric is trained on or needs, packed or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path

from ..errors import InputError, MetricError, ModelLoadError, excerpt
from ..spec.user_code import function_named, is_function_name
from ..storage.line_source import LineSource, Packing
from .texts import Document, Text

_ABBREVIATED = """
    mr mrs ms dr st prof vs etc jr sr no vol fig al gen col sen rep gov inc ltd co corp dept approx pp ed eds cf e.g i.e
    jan feb mar apr jun jul aug sep sept oct nov dec
"""
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())
_CLOSERS = "[\"'”’)\\]]*"
_OPENERS = "[\"'“‘(\\[«„¿¡]*"
# groups: 1 marks before white space, 2 the white space, 3 the letter behind it; or 4 full-width marks, 5 white space
_END = re.compile(rf"([.!?…]+{_CLOSERS})(\s+)(?={_OPENERS}(\w))|([。！？]+[」』”’）]*)(\s*)")
_LAST = re.compile(r"[\w.]+$")

Split = Callable[[str], Sequence[str]]
REMEMBERED = 1 << 13  # texts whose sentences are remembered


def splitter(name: str) -> Split:
    """The sentence splitter that a setting names: rule, ``pysbd:LANGUAGE``, or the user's own ``module:function``.

    Raises:
        InputError: there is no such splitter or language.
        ModelLoadError: its package is missing.
    """
    if name == "rule":
        return sentences
    if name.startswith("pysbd:"):
        return _pysbd(name.partition(":")[2])
    if is_function_name(name):
        return _own(name)
    raise InputError(
        f"found {excerpt(name)}",
        where="sentences",
        fix="Write rule, pysbd:LANGUAGE or module:function",
    )


@lru_cache(REMEMBERED)
def as_document(text: Text, name: str) -> Text:
    """A text as a document of its sentences; a document, or a text of one sentence, as it is.

    Args:
        text: the text.
        name: lines (a sentence per line), rule, or ``pysbd:LANGUAGE``.

    Raises:
        InputError: there is no such splitter or language.
        ModelLoadError: its package is missing.
    """
    if not isinstance(text, str):
        return text
    parts = _stripped(text.splitlines()) if name == "lines" else splitter(name)(text)
    return Document(parts) if len(parts) > 1 else text


def sentences(text: str) -> list[str]:
    """The sentences of a text, none empty.

    >>> sentences('Mr. Smith left. "Why?" he asked.  It rained')
    ['Mr. Smith left.', '"Why?" he asked.', 'It rained']
    >>> sentences("it rained . we left .")
    ['it rained .', 'we left .']
    """
    is_lower = not any(map(str.isupper, text))
    parts: list[str] = []
    for line in text.splitlines():
        start = 0
        for mark in _END.finditer(line):
            if mark[1]:
                if not _ends(line, start, mark, is_lower):
                    continue
                parts.append(line[start : mark.end(1)])
            else:
                parts.append(line[start : mark.end(4)])
            start = mark.end()
        parts.append(line[start:])
    return _stripped(parts)


def _stripped(parts: Sequence[str]) -> list[str]:
    """The parts without surrounding white space; blank ones are left out."""
    stripped = [part.strip() for part in parts]
    return [part for part in stripped if part]


def _ends(line: str, start: int, mark: re.Match[str], is_lower: bool) -> bool:
    """Whether a sentence ends at a mark before white space; `is_lower`: the text has no capitals."""
    if mark[3].islower() and not is_lower:
        return False
    word = _LAST.search(line, start, mark.start())
    return not (mark[1].startswith(".") and word and _is_abbreviation(word.group()))


def _is_abbreviation(word: str) -> bool:
    return word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper())


@cache
def _pysbd(language: str) -> Split:
    """The rules of pysbd for a language."""
    where = f"sentences 'pysbd:{language}'"
    try:
        import pysbd
    except ImportError:
        fix = 'pip install "discorank[discourse]"'
        raise ModelLoadError("pysbd is not installed", where=where, fix=fix) from None
    try:
        segmenter = pysbd.Segmenter(language=language, clean=False)
    except ValueError as error:
        raise InputError(str(error), where=where, fix="Write pysbd:en, for instance") from None
    return lambda text: _stripped(segmenter.segment(text))


def _own(name: str) -> Split:
    """The user's own function, with errors that name it."""
    function = function_named(name, "sentences")
    where = f"sentences {name!r}"

    def split(text: str) -> list[str]:
        try:
            parts = function(text)
        except Exception as error:
            raise MetricError(f"{type(error).__name__}: {error}", where=where) from error
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            problem = f"returned {excerpt(parts)}, expected a list of strings"
            raise MetricError(problem, where=where)
        return _stripped(parts)

    return split


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
