"""The value of an answer, or None: it is read strictly, and nothing is guessed.

A number stands alone, behind a label of known words ("Score: 85"), before the end of its range ("85/100", "85 out of
100"), as the only value of a JSON object, or in prose once with the end of its range ("I'd give it 85/100"). A number
outside the range is none. A choice stands alone or behind such a label. Errors are a JSON object with a list, or that
list:

    sum_i weight(severity_i), not below the range.

An answer of a server is kept as its text, whether it is whole, and what it cost:

    chat         {"choices": [{"message": {"content", "refusal"}, "finish_reason"}],
                  "usage": {"prompt_tokens", "completion_tokens"}}
    completions  {"choices": [{"text", "finish_reason"}], "usage": {"prompt_tokens", "completion_tokens"}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import Ragged, Reps
from ...metrics.storage.json_and_yaml import parse_small_json
from ...rerank.messages import text_in, value_at
from ..files.reply_choices import sendable
from .judge_prompts import Worth

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
    text = _without_thought(answer.text)
    if worth.answer == "errors":
        return _of_errors(text, worth)
    return _number_in(text, worth) if worth.answer == "number" else _choice_in(text, worth)


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
    (number,) = value.values() if isinstance(value, Mapping) and len(value) == 1 else (None,)
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
    listed = _listed_errors(text)
    if listed is None:
        return None
    weights = {name.casefold(): weight for name, weight in (worth.weights or {}).items()}
    total = 0.0
    for error in listed:
        weight = weights.get(_severity(error))
        if weight is None:
            return None
        total += weight
    low, high = worth.bounds
    return min(max(total, low), high)


_SEVERITIES = frozenset({"minor", "major", "critical"})


def errors_in(answer: str, hypothesis: str) -> list[dict[str, Any]]:
    """The errors that an answer lists, where they stand in the hypothesis; those whose words it has not are left out.

    Words that are listed again mean the next place where they stand.

    >>> errors_in('[{"span": "cat", "severity": "major"}]', "a cat")
    [{'start': 2, 'end': 5, 'severity': 'major'}]
    """
    errors: list[dict[str, Any]] = []
    behind: dict[str, int] = {}  # the last place of words that were listed
    for error in _listed_errors(_without_thought(answer)) or ():
        words, severity = value_at(error, "span"), _severity(error)
        if not isinstance(words, str) or not words or severity not in _SEVERITIES:
            continue
        start = hypothesis.find(words, behind.get(words, 0))
        if start >= 0:
            behind[words] = start + len(words)
            errors.append({"start": start, "end": behind[words], "severity": severity})
    return errors


def _without_thought(answer: str) -> str:
    """An answer without the reasoning before it."""
    thought = _THOUGHT.match(answer)
    return answer[thought.end() :] if thought else answer


def _listed_errors(text: str) -> list[Any] | None:
    """The errors in a text, which is a list or an object with one; None where it is neither."""
    fenced = _FENCED.search(text)
    value = _json(fenced[1] if fenced else text)
    errors = value.get("errors") if isinstance(value, Mapping) else value
    return errors if isinstance(errors, list) else None


def _severity(error: Any) -> str:
    """The severity of an error in small letters; empty where it has none."""
    severity = value_at(error, "severity")
    return severity.strip().casefold() if isinstance(severity, str) else ""


def _json(text: str) -> Any:
    """The JSON value that a text is; None where it is none."""
    try:
        return parse_small_json(text.strip().encode("utf-8", "replace"), "answer", "")
    except InputError:
        return None


MAX_CHARACTERS = 1 << 16  # of an answer; a longer one is cut off here
BYTES_PER_TOKEN = 4  # where nobody counts tokens
_COLUMN = "answer"


class Answer(NamedTuple):
    """The answer of a server.

    Args:
        text: empty where there is none.
        is_whole: whether the model ended it, and did not refuse.
        prompt_tokens, answer_tokens: as the server counts them, else a quarter of the bytes.
    """

    text: str
    is_whole: bool
    prompt_tokens: int
    answer_tokens: int

    @classmethod
    def of_reply(cls, reply: Any, prompt: str) -> Self:
        """The answer in a reply to a prompt; an empty one where the reply has none."""
        choices = value_at(reply, "choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = value_at(choice, "message")
        refusal = value_at(message, "refusal")
        is_refused = isinstance(refusal, str) and bool(refusal)
        shown = text_in(choice) or ""
        if is_refused and not shown:
            shown = str(refusal)
        is_cut = value_at(choice, "finish_reason") in ("length", "content_filter")
        usage = value_at(reply, "usage")
        return cls(
            sendable(shown[:MAX_CHARACTERS]),
            not is_cut and not is_refused and len(shown) <= MAX_CHARACTERS,
            _count(value_at(usage, "prompt_tokens"), prompt),
            _count(value_at(usage, "completion_tokens"), shown),
        )

    def packed(self) -> Reps:
        """As an entry of the cache."""
        data = json.dumps(list(self), ensure_ascii=True).encode()
        return Reps({_COLUMN: Ragged.of_rows([np.frombuffer(data, np.uint8)])})

    @classmethod
    def unpacked(cls, reps: Reps) -> Self | None:
        """The inverse of `packed`; None for what is no answer."""
        column = reps.columns.get(_COLUMN)
        if not isinstance(column, Ragged):
            return None
        try:
            row = parse_small_json(column.values.tobytes(), "answer", "")
            text, is_whole, prompt_tokens, answer_tokens = row
            return cls(str(text), bool(is_whole), int(prompt_tokens), int(answer_tokens))
        except (ValueError, TypeError):
            return None


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has: a quarter of its bytes in UTF-8."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def _count(value: Any, text: str) -> int:
    """A number of tokens as a server says it, or about that of a text."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
    return value if is_count else estimated_tokens(text)
