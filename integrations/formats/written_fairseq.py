"""Candidate lists as fairseq-generate logs them; `fairseq_log` reads them.

    S-<id> source    T-<id> reference    W-<id> seconds    C-<id> constraint
    H-<id> score text    D-<id> score text    P-<id> scores of tokens
    A-<id> alignment    I-<id> steps    E-<id>_<step> text    F-<id> name= value ...
Logarithms are written to base 2, a log-probability without scores of tokens as that of one token. F- lines are ours:
fairseq has no place for features, and its tools pass over lines of other letters.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import c_float
from math import inf, log, nextafter
from typing import Any

from ...metrics.errors import InputError, excerpt
from ...rerank.lists import Candidate, CandidateList
from .written_columns import SCORE, feature_column, number_text

LN2 = log(2)
# fields that have lines of their own
OWN = (SCORE, "tokenized", "token_scores", "alignment", "steps", "history")
_MANY_DIGITS = 14  # a number of as many was not rounded when it was written
_LIST_KEYS = ("seconds", "constraints")


def fairseq_lines(record: CandidateList) -> Iterator[str]:
    """The lines of a list, without their ends.

    Raises:
        InputError: the id is no number, or a field has no line.
    """
    number = record.id
    if not (number.isascii() and number.isdigit()) or str(int(number[:19])) != number:
        problem = f"found {number!r:.60}, and fairseq numbers its sentences"
        raise InputError(problem, where="id", fix="Write moses, which takes any id")
    if record.source is not None:
        yield f"S-{number}\t{record.source}"
    if len(record.references) > 1:
        problem = f"found {len(record.references)}, and fairseq has one"
        raise InputError(problem, where="references", fix="Leave them out: --lossy")
    for reference in record.references:
        yield f"T-{number}\t{reference}"
    yield from _list_lines(record, number)
    for i, candidate in enumerate(record.candidates):
        try:
            yield from _candidate_lines(candidate, number)
        except InputError as error:
            raise error.inside(f"candidates[{i}]") from None


def _list_lines(record: CandidateList, number: str) -> Iterator[str]:
    """What a list has beside its texts."""
    if "seconds" in record.extra:
        yield f"W-{number}\t{number_text(record.extra['seconds'], 'seconds')}\tseconds"
    for constraint in _texts(record.extra.get("constraints", []), "constraints"):
        yield f"C-{number}\t{constraint}"


def _candidate_lines(candidate: Candidate, number: str) -> Iterator[str]:
    """The lines of a hypothesis."""
    fields = dict(candidate.fields)
    score = base2(fields.pop(SCORE, -inf), SCORE)
    tokenized = fields.pop("tokenized", candidate.text)
    yield f"H-{number}\t{score}\t{tokenized}"
    yield f"D-{number}\t{score}\t{candidate.text}"
    if "token_scores" in fields:
        yield f"P-{number}\t{fields.pop('token_scores')}"
    elif candidate.logprob is not None:
        yield f"P-{number}\t{base2(candidate.logprob, 'logprob')}"
    if "alignment" in fields:
        yield f"A-{number}\t{fields.pop('alignment')}"
    if "steps" in fields:
        yield f"I-{number}\t{fields.pop('steps')}"
    for step, text in enumerate(_texts(fields.pop("history", []), "history")):
        yield f"E-{number}_{step}\t{text}"
    if fields:
        yield f"F-{number}\t{feature_column(fields)}"


def base2(value: Any, where: str) -> str:
    """A natural logarithm to base 2, so that ln 2 times it is the value again, or the number next to it.

    Of several such numbers it is the one of the fewest digits, or in single precision, as logs have them.

    >>> base2(-log(2) * 3.25, "score"), base2(-log(2) * 0.395419, "score")
    ('-3.25', '-0.395419')
    """
    number_text(value, where)
    if value == -inf:
        return "-inf"
    quotient = value / LN2
    of_single = c_float(quotient).value  # fairseq computes in single precision
    near = {quotient, nextafter(quotient, -inf), nextafter(quotient, inf), of_single}

    def key(one: float) -> tuple[float, int, bool, float]:
        num_digits = len(repr(float(one)))
        return abs(LN2 * one - value), min(num_digits, _MANY_DIGITS), one != of_single, one

    return repr(float(min(near, key=key)))


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InputError(f"found {excerpt(value)}, expected texts", where=where)
    return value
