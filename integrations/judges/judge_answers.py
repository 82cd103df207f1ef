"""The value of an answer, or None: it is read strictly, and nothing is guessed.

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

An answer of a server as it is kept: its text, whether it is whole, what it cost, and likely tokens in their places.

    chat         {"choices": [{"message": {"content", "refusal"}, "finish_reason", "logprobs": {"content": [
                 {"token", "top_logprobs": [{"token", "logprob"}]}]}}], "usage": {"prompt_tokens", "completion_tokens"}}
    completions  {"choices": [{"text", "finish_reason", "logprobs": {"tokens": [], "top_logprobs": [{}]}}]}
Tokens of answers longer than `MAX_TOKENS` are not kept, as only the places of short answers are looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import exp
from typing import Any, NamedTuple, Self

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import Ragged, Reps
from ...metrics.storage.json_and_yaml import parse_small_json
from ...rerank.lists import finite
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


MAX_TOKENS = 8
MAX_CHARACTERS = 1 << 16  # of an answer; a longer one is cut off here
BYTES_PER_TOKEN = 4  # where nobody counts tokens
_COLUMN = "answer"


class AnswerToken(NamedTuple):
    """A token of an answer, and the likeliest in its place with their natural log-probabilities."""

    text: str
    likely: tuple[tuple[str, float], ...]


class Answer(NamedTuple):
    """The answer of a server.

    Args:
        text: empty where there is none.
        is_whole: whether the model ended it, and did not refuse.
        tokens: of a short answer, where the server gives log-probabilities.
        prompt_tokens, answer_tokens: as the server counts them, else a quarter of the bytes.
    """

    text: str
    is_whole: bool
    tokens: tuple[AnswerToken, ...]
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
            _tokens(value_at(choice, "logprobs")),
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
            text, is_whole, tokens, prompt_tokens, answer_tokens = row
            places = tuple(
                AnswerToken(
                    str(token), tuple((str(name), float(logprob)) for name, logprob in likely)
                )
                for token, likely in tokens
            )
            return cls(str(text), bool(is_whole), places, int(prompt_tokens), int(answer_tokens))
        except (ValueError, TypeError):
            return None


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has: a quarter of its bytes in UTF-8."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def _count(value: Any, text: str) -> int:
    """A number of tokens as a server says it, or about that of a text."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
    return value if is_count else estimated_tokens(text)


def _tokens(logprobs: Any) -> tuple[AnswerToken, ...]:
    """The tokens of an answer with what was likely in their places; none where that is not known of each."""
    content = value_at(logprobs, "content")
    if isinstance(content, list):
        texts = [value_at(entry, "token") for entry in content]
        places = [value_at(entry, "top_logprobs") for entry in content]
        likely = [
            _likely((value_at(one, "token"), value_at(one, "logprob")) for one in place)
            if isinstance(place, list)
            else ()
            for place in places
        ]
    else:
        texts, tops = value_at(logprobs, "tokens"), value_at(logprobs, "top_logprobs")
        if not isinstance(texts, list) or not isinstance(tops, list) or len(texts) != len(tops):
            return ()
        likely = [_likely(top.items()) if isinstance(top, Mapping) else () for top in tops]
    if not 0 < len(texts) <= MAX_TOKENS or not all(isinstance(text, str) for text in texts):
        return ()
    return tuple(
        AnswerToken(sendable(text), pairs) for text, pairs in zip(texts, likely, strict=True)
    )


def _likely(pairs: Any) -> tuple[tuple[str, float], ...]:
    """The pairs of a text and a log-probability among some pairs."""
    known = ((token, finite(value)) for token, value in pairs)
    return tuple(
        (sendable(token), min(logprob, 0.0))
        for token, logprob in known
        if isinstance(token, str) and logprob is not None
    )
