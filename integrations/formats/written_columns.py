"""Candidates as lines of Moses and Marian n-best lists; `moses` and `marian` read them.

    Moses    id ||| text ||| logprob= total LM0= -3.2 TM0= -1 -2 ||| score ||| further columns
    Marian   id ||| text ||| alignment, WordScores=, WordCounts= ||| F0= logprob LM0= -3.2 ||| score
Fields that are numbers, or several of them, become features by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metrics.errors import InputError, excerpt
from ...rerank.lists import Candidate
from .nbest_columns import LOGPROB, MODEL

SCORE = "score"
BAR = " ||| "
_WORD_COLUMNS = ("WordScores", "WordCounts")


def moses_line(list_id: str, candidate: Candidate) -> str:
    """The line of a candidate, without its end.

    Raises:
        InputError: a field is no number, or there are further columns without a score.
    """
    fields = dict(candidate.fields)
    further = fields.pop("columns", [])
    score = fields.pop(SCORE, None)
    if candidate.logprob is not None:
        fields = {LOGPROB: candidate.logprob, **fields}
    columns = [list_id, str(candidate.text), feature_column(fields)]
    if score is not None:
        columns.append(number_text(score, SCORE))
    elif further:
        raise InputError("stand behind a score, and there is none", where="columns")
    if not isinstance(further, list) or not all(isinstance(text, str) for text in further):
        raise InputError(f"found {excerpt(further)}, expected texts", where="columns")
    return BAR.join([*columns, *further])


def marian_line(list_id: str, candidate: Candidate) -> str:
    """The line of a candidate, without its end.

    Raises:
        InputError: a field is no number, or there is no score, no log-probability or F0.
    """
    fields = dict(candidate.fields)
    score = fields.pop(SCORE, None)
    if score is None:
        raise InputError("no score, the last column of Marian", where=SCORE, fix="Write moses")
    further = []
    if "alignment" in fields:
        further.append(_text(fields.pop("alignment"), "alignment"))
    for name in _WORD_COLUMNS:
        if name in fields:
            further.append(f"{name}= {numbers_text(fields.pop(name), name)}")
    if candidate.logprob is not None:
        if "F0" in fields:
            problem = "a field of this name, by which Marian calls the log-probability"
            raise InputError(problem, where="F0")
        fields = {"F0": candidate.logprob, **fields}
    if not any(MODEL.fullmatch(name) for name in fields):
        problem = "no log-probability and no F0, with which Marian's features begin"
        raise InputError(problem, where="logprob", fix="Write moses, which has all features")
    columns = [list_id, str(candidate.text), *further, feature_column(fields)]
    return BAR.join([*columns, number_text(score, SCORE)])


def feature_column(fields: Mapping[str, Any]) -> str:
    """Features as ``name= value``, several values behind one name.

    >>> feature_column({"LM0": -3.5, "TM0": [1, 2.25]})
    'LM0= -3.5 TM0= 1 2.25'

    Raises:
        InputError: a value is no number, and no several of them, or a name is not one word.
    """
    for name in fields:
        if not name or "=" in name or "|||" in name or name.split() != [name]:
            problem = f"a field named {excerpt(name)}, and the name of a feature is one word"
            raise InputError(problem, fix="Rename it")
    return " ".join(f"{name}= {numbers_text(value, name)}" for name, value in fields.items())


def is_feature(value: Any) -> bool:
    """Whether a field can be a feature: a number, or at least two of them."""
    values = value if isinstance(value, list | tuple) and len(value) > 1 else [value]
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)


def numbers_text(value: Any, where: str) -> str:
    """A number or a list of numbers, with spaces between."""
    values = value if isinstance(value, list | tuple) else [value]
    return " ".join(number_text(one, where) for one in values)


def number_text(value: Any, where: str) -> str:
    """The shortest digits that are read as the same number.

    Raises:
        InputError: it is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        problem = f"found {excerpt(value)}, and a feature is a number"
        raise InputError(problem, where=where, fix="Leave it out: --lossy")
    return repr(value)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"found {excerpt(value)}, expected a text", where=where)
    return value
