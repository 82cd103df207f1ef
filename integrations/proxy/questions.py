"""What a request asks for: a choice among candidates, or something that passes through to the server upstream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...metrics.errors import InputError
from ...metrics.storage.json_and_yaml import parse_json
from ..server.exchange import request_content
from .api_errors import ApiError, bad
from .own_fields import FIELD, Allowed, OwnFields, read_own_fields
from .plain_texts import other_than_text, source_of
from .settings import DrawingSettings

_LIMIT_KEYS = ("max_completion_tokens", "max_tokens")
_ANSWER_KEYS = (FIELD, "n", "stream", "stream_options")  # what the answer does with the choice


class PassThrough(NamedTuple):
    """A request that passes through: why, and its bytes."""

    reason: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Question:
    """A request for the best of many texts.

    Args:
        chat: whether it is a chat.
        body: what is asked upstream, but for the number of candidates.
        n: candidates to draw.
        wanted: how many choices the answer has.
        utility: name of the decoder.
        own: the field of ours.
        source: what the texts are made of.
        response_format: what every text is to be; None for plain text.
        stream: whether the answer is a stream of events.
        with_usage: whether that stream ends with the usage.
    """

    chat: bool
    body: Mapping[str, Any]
    n: int
    wanted: int
    utility: str
    own: OwnFields
    source: str | None = None
    response_format: Mapping[str, Any] | None = None
    stream: bool = False
    with_usage: bool = False


def read_question(
    content: bytes, chat: bool, allowed: Allowed, drawing: DrawingSettings
) -> Question | PassThrough:
    """What a request to /chat/completions or /completions asks for.

    Raises:
        ApiError: it cannot be read, or asks for what is not allowed.
    """
    body = _object(content)
    own = read_own_fields(body, allowed)
    wanted = _number(body, "n")
    reason = other_than_text(body, chat) or _no_samples(body, drawing)
    if reason is None and wanted > drawing.most_candidates:
        raise bad(f"found {wanted}, at most {drawing.most_candidates} are drawn", "n")
    n = max(wanted, own.n or drawing.num_candidates)
    if reason is None and n == 1 and own.document is None:
        reason = "n=1"
    if reason is None:
        return _question(body, own, chat, n, wanted, own.utility or allowed.default, drawing)
    if own.document is not None:
        raise bad(f"has a document, but passes through ({reason})", FIELD, "Leave the document out")
    _asked_tokens(body, drawing)  # what passes through has the bound too
    if FIELD in body:
        content = written({key: value for key, value in body.items() if key != FIELD})
    return PassThrough(reason, content)


def _question(
    body: Mapping[str, Any],
    own: OwnFields,
    chat: bool,
    n: int,
    wanted: int,
    utility: str,
    drawing: DrawingSettings,
) -> Question:
    """The question of a request for plain texts."""
    upstream = {key: value for key, value in body.items() if key not in _ANSWER_KEYS}
    if drawing.sampling_temperature is not None:
        upstream["temperature"] = drawing.sampling_temperature
    tokens = _asked_tokens(upstream, drawing)
    if tokens is None:
        tokens = _default_tokens(n, drawing)
        if tokens is not None:
            upstream["max_tokens"] = tokens
    n = _affordable(n, wanted, tokens, drawing.max_request_tokens)
    written(upstream)  # what cannot be sent is refused before anything is drawn
    options = body.get("stream_options")
    wanted_format = body.get("response_format")
    is_text = not isinstance(wanted_format, Mapping) or wanted_format.get("type") in (None, "text")
    return Question(
        chat,
        upstream,
        n,
        wanted,
        utility,
        own,
        source_of(body, chat) if own.source is None else own.source,
        None if is_text else wanted_format,
        body.get("stream") is True,
        isinstance(options, Mapping) and options.get("include_usage") is True,
    )


def _object(content: bytes) -> dict[str, Any]:
    """The JSON object that a request is."""
    try:
        body = parse_json(content)
    except InputError as error:
        raise ApiError(400, f"the request: {error.problem}", code="invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, "the request is no JSON object", code="invalid_json")
    return body


def _number(values: Mapping[str, Any], key: str) -> int:
    """A whole number from 1, which it is where there is none."""
    number = values.get(key)
    if number is None:
        return 1
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number < 1 << 31:
        raise bad(f"found {number!r:.60}, expected a whole number from 1", key)
    return number


def _no_samples(body: Mapping[str, Any], drawing: DrawingSettings) -> str | None:
    """Why all candidates would be the same; None if they may differ."""
    temperature = body.get("temperature")
    is_greedy = temperature == 0 and not isinstance(temperature, bool)
    return "temperature=0" if is_greedy and drawing.sampling_temperature is None else None


def _asked_tokens(body: Mapping[str, Any], drawing: DrawingSettings) -> int | None:
    """The most tokens that a request asks of a candidate, None if it says nothing; raises ApiError above the most."""
    key = next((key for key in _LIMIT_KEYS if body.get(key) is not None), None)
    cap = drawing.max_candidate_tokens
    if key is None or (cap is None and drawing.max_request_tokens is None):
        return None
    asked = _number(body, key)
    if cap is not None and asked > cap:
        raise bad(f"found {asked}, at most {cap} tokens are given", key)
    return asked


def _default_tokens(n: int, drawing: DrawingSettings) -> int | None:
    """The most tokens of each of n candidates whose request does not say it; None where there is no bound."""
    budget = drawing.max_request_tokens
    if drawing.max_candidate_tokens is not None or budget is None:
        return drawing.max_candidate_tokens
    return max(1, budget // n)


def _affordable(n: int, wanted: int, tokens: int | None, budget: int | None) -> int:
    """How many of n candidates of so many tokens the budget has; raises ApiError if fewer than are wanted."""
    if tokens is None or budget is None:
        return n
    if wanted * tokens > budget:
        raise bad(f"{wanted} choices of {tokens} tokens, at most {budget} are given", "n")
    return min(n, budget // tokens)


def written(body: Mapping[str, Any]) -> bytes:
    """A request as JSON; raises ApiError for a number that JSON cannot write."""
    try:
        return request_content(body)
    except InputError as error:
        raise ApiError(400, error.problem, code="invalid_json") from None
