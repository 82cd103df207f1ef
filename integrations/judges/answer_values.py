"""What an answer is worth, or None: it is read strictly, and nothing is guessed.

A number stands alone, behind a label of known words ("Score: 85"), before the end of its range ("85/100", "85 out of
100"), as the only value of a JSON object, or in prose once with the end of its range ("I'd give it 85/100"). A number
outside the range is none. A choice stands alone or behind such a label. Errors are a JSON object with a list, or that
list:

    sum_i weight(severity_i), not below the range.

Where log-probabilities of the likeliest tokens came back and the answer is a single token, a number or a choice has
the expectation over those of them that are numbers of the range, or choices:

    sum_v v p(v) / sum_v p(v)

so values that are not among the likeliest, and other answers, count for nothing: the value is drawn towards what is
likely. A number of one digit is a single token for sure only where the range has no longer ones; elsewhere it may be
the beginning of a longer one, and the number is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import exp
from typing import Any

from ...metrics.errors import InputError
from ...metrics.storage.json_and_yaml import parse_small_json
from .judge_answers import Answer, AnswerToken
from .prompt_files import Worth

_NUMBER = r"[-+]?[0-9]{1,9}(?:\.[0-9]{1,9})?"
# "Score:", "My final answer is"; any other word, such as "worse", "no" or "maximum", may turn the meaning round
_LABEL_WORD = (
    "(?:the|my|final|overall|total|quality|translation|better|best|score|rating|grade|mark|value|number|answer|"
    "choice|verdict|judge?ment|result|stars?|one)"
)
_LABEL = rf"(?:{_LABEL_WORD}(?:[ -]{_LABEL_WORD}){{0,4}}\s{{0,3}}(?::|=|\bis\b)\s{{0,9}})?"
# up to the last end tag: some servers leave the first tag in the prompt, and a thought may quote an end
_THOUGHT = re.compile(r".*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_MARKUP = " \t\r\n_\"'#$[]()"
_FENCED = re.compile(r"```[a-z]*\s*\n(.*?)\n?\s*```", re.DOTALL | re.IGNORECASE)


def value_of(answer: Answer, worth: Worth) -> float | None:
    """The value of an answer; None for one that is cut off, refused, or not of the form that was asked for."""
    if not answer.is_whole:
        return None
    thought = _THOUGHT.match(answer.text)
    text = answer.text[thought.end() :] if thought else answer.text
    if worth.answer == "errors":
        return _of_errors(text, worth)
    values = _number_in if worth.answer == "number" else _choice_in
    value = values(text, worth)
    if value is None or not answer.tokens:
        return value
    return _expected(answer.tokens, worth, value)


def _number_in(text: str, worth: Worth) -> float | None:
    """The number that a text says."""
    if text.lstrip().startswith("{"):
        return _number_in_json(text, worth)
    _, high = worth.bounds
    top = re.escape(f"{high:g}")
    of_top = rf"\s*(?:/|out\s+of)\s*{top}(?![\d.]*\d)"
    bare = _bare(text)
    alone = re.fullmatch(rf"{_LABEL}[_\"']*({_NUMBER})(?:{of_top})?", bare, re.IGNORECASE)
    if alone:
        return _in_range(alone[1], worth)
    # "1/5 of the text" is a share of something, no value
    in_prose = re.findall(rf"(?<![\w.])({_NUMBER}){of_top}(?!\s+of\b)", text, re.IGNORECASE)
    distinct = {float(number) for number in in_prose}
    return _in_range(in_prose[0], worth) if len(distinct) == 1 else None


def _number_in_json(text: str, worth: Worth) -> float | None:
    """The number that is the only value of a JSON object."""
    value = _json(text)
    if not isinstance(value, Mapping) or len(value) != 1:
        return None
    (number,) = value.values()
    if isinstance(number, bool) or not isinstance(number, int | float | str):
        return None
    bare = _bare(str(number))
    return _in_range(bare, worth) if re.fullmatch(_NUMBER, bare) else None


def _in_range(number: str, worth: Worth) -> float | None:
    """A number as a value; None outside the range."""
    low, high = worth.bounds
    value = float(number)
    return value if low <= value <= high else None


def _choice_in(text: str, worth: Worth) -> float | None:
    """The value of the choice that a text makes."""
    choices = {name.casefold(): value for name, value in (worth.choices or {}).items()}
    names = "|".join(map(re.escape, sorted(choices, key=len, reverse=True)))
    bare = _bare(text).casefold()
    made = re.fullmatch(rf"{_LABEL}[_\"'(\[]*({names})", bare)
    return choices[made[1]] if made else None


def _bare(text: str) -> str:
    """A text without marks of emphasis, and without quotes and a full stop around it."""
    plain = text.replace("*", " ").replace("`", " ")
    return plain.strip(_MARKUP).rstrip(".!" + _MARKUP)


def _of_errors(text: str, worth: Worth) -> float | None:
    """The summed weights of the errors that a text lists."""
    fenced = _FENCED.search(text)
    value = _json(fenced[1] if fenced else text)
    if isinstance(value, Mapping):
        value = value.get("errors")
    if not isinstance(value, list):
        return None
    weights = {name.casefold(): weight for name, weight in (worth.weights or {}).items()}
    total = 0.0
    for error in value:
        severity = error.get("severity") if isinstance(error, Mapping) else None
        weight = weights.get(severity.strip().casefold()) if isinstance(severity, str) else None
        if weight is None:
            return None
        total += weight
    low, high = worth.bounds
    return min(max(total, low), high)


def _json(text: str) -> Any:
    """The JSON value that a text is; None where it is none."""
    try:
        return parse_small_json(text.strip().encode("utf-8", "replace"), "answer", "")
    except InputError:
        return None


def _expected(tokens: tuple[AnswerToken, ...], worth: Worth, value: float) -> float:
    """The expectation over the likeliest tokens in the place of the only one that says something; else the value."""
    speaking = [token for token in tokens if _bare(token.text).strip(".")]
    if len(speaking) != 1:
        return value
    (token,) = speaking
    own = _token_value(token.text, worth)
    if own != value or not _is_one_token(token.text, worth):
        return value
    mass = total = 0.0
    for text, logprob in token.likely:
        likely = _token_value(text, worth)
        if likely is not None and _is_one_token(text, worth):
            mass += exp(logprob)
            total += exp(logprob) * likely
    low, high = worth.bounds
    return min(max(total / mass, low), high) if mass > 0 else value


def _token_value(text: str, worth: Worth) -> float | None:
    """The value of a token that is a whole number, or a choice."""
    bare = _bare(text)
    if worth.answer == "choice":
        return _choice_in(text, worth)
    return _in_range(bare, worth) if re.fullmatch("[0-9]{1,9}", bare) else None


def _is_one_token(text: str, worth: Worth) -> bool:
    """Whether a token of this kind is never the beginning of a longer number."""
    _, high = worth.bounds
    return worth.answer == "choice" or high < 10 or len(_bare(text)) > 1
