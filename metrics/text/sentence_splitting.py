"""Texts split into sentences, losing no character but white space.

The rule: a sentence ends at ``.``, ``!``, ``?`` or ``…`` (with the quotes and brackets that close it) before white
space and a capital, a digit or a letter of a script without capitals (before which quotes and brackets may open),
unless the word is a usual abbreviation; at a full-width ``。！？``; and at line breaks. A text without any capital is
split before every letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from ..errors import InputError, MetricError, ModelLoadError, excerpt
from ..spec.user_functions import function_named, is_function_name

_SHORT = """
    mr mrs ms dr st prof vs etc jr sr no vol fig al gen col sen rep gov inc ltd co corp dept approx pp ed eds cf e.g i.e
    jan feb mar apr jun jul aug sep sept oct nov dec
"""
_ABBREVIATIONS = frozenset(_SHORT.split())
_CLOSERS = "[\"'”’)\\]]*"
_OPENERS = "[\"'“‘(\\[«„¿¡]*"
_END = re.compile(rf"([.!?…]+{_CLOSERS})(\s+)(?={_OPENERS}(\w))|([。！？]+[」』”’）]*)(\s*)")
_LAST = re.compile(r"[\w.]+$")

Split = Callable[[str], Sequence[str]]


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


def sentences(text: str) -> list[str]:
    """The sentences of a text, none empty.

    >>> sentences('Mr. Smith left. "Why?" he asked.  It rained')
    ['Mr. Smith left.', '"Why?" he asked.', 'It rained']
    >>> sentences("it rained . we left .")
    ['it rained .', 'we left .']
    """
    lower = not any(map(str.isupper, text))
    found: list[str] = []
    for line in text.splitlines():
        start = 0
        for end in _END.finditer(line):
            if end[1] and not _ends(line, start, end, lower):
                continue
            found.append(line[start : end.end(1) if end[1] else end.end(4)])
            start = end.end()
        found.append(line[start:])
    return [sentence.strip() for sentence in found if sentence.strip()]


def _ends(line: str, start: int, end: re.Match[str], lower: bool) -> bool:
    """Whether a sentence ends at a mark before white space."""
    if not lower and end[3].islower():
        return False
    before = _LAST.search(line, start, end.start())
    return not (end[1].startswith(".") and before and _short(before.group()))


def _short(word: str) -> bool:
    return word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper())


@cache
def _pysbd(language: str) -> Split:
    try:
        import pysbd
    except ImportError:
        fix = 'pip install "discorank[discourse]"'
        raise ModelLoadError(
            "pysbd is not installed", where=f"sentences 'pysbd:{language}'", fix=fix
        ) from None
    try:
        segmenter = pysbd.Segmenter(language=language, clean=False)
    except ValueError as error:
        raise InputError(
            str(error), where=f"sentences 'pysbd:{language}'", fix="Write pysbd:en, for instance"
        ) from None
    return lambda text: [part.strip() for part in segmenter.segment(text) if part.strip()]


def _own(name: str) -> Split:
    function = function_named(name, "sentences")

    def split(text: str) -> list[str]:
        try:
            found = function(text)
        except Exception as error:
            raise MetricError(
                f"{type(error).__name__}: {error}", where=f"sentences {name!r}"
            ) from error
        if not isinstance(found, list | tuple) or not all(isinstance(part, str) for part in found):
            raise MetricError(
                f"returned {excerpt(found)}, expected a list of strings",
                where=f"sentences {name!r}",
            )
        return [part.strip() for part in found if part.strip()]

    return split
