"""Requests as they come: a question, to be chosen among candidates, or a request that passes through to the upstream.

What a request may cost is bounded before anything goes upstream: how many texts of how many tokens, on every path, over
the keys of every protocol that such servers speak, as a bound that holds for one key alone is none. Keys count in any
case of their letters, as servers in Go read them so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.storage.json_and_yaml import parse_json
from ...rerank.messages import user_text
from ..server.exchange import request_content
from .api_errors import ApiError, bad, shown
from .settings import DrawingSettings
from .tool_calls import Tools, tools_of

FIELD = "discorank"
CHOSEN_PATHS = ("chat/completions", "completions")  # beneath /v1: their answers are chosen
MAX_COUNT = 1 << 31
# how many tokens a text may have
TOKEN_KEYS = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "max_tokens_to_sample",
    "max_length",
    "n_predict",
    "num_predict",
    "maxOutputTokens",
)
MIN_TOKEN_KEYS = ("min_tokens", "min_new_tokens", "min_length", "budget_tokens")
# how many texts a prompt has
TEXT_KEYS = ("n", "best_of", "num_return_sequences", "num_beams", "beam_width", "candidate_count")
# objects of a request in which these keys may be as well
INNER_KEYS = frozenset(
    {"options", "parameters", "sampling_params", "thinking", "extra_body", "generationconfig"}
)
# keys that bound the tokens of a path's answers in every server
KEYS_OF_PATH = {
    "chat/completions": ("max_tokens", "max_completion_tokens"),
    "completions": ("max_tokens",),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
}
_ANSWER_KEYS = (FIELD, "n", "stream", "stream_options")  # what the answer does with the choice
_VARIED_KEYS = ("model", "seed", "logprobs", "top_logprobs")

# why nothing is chosen for a request, as headers and counters say it
Reason = Literal[
    "audio",
    "beam-search",
    "best_of",
    "echo",
    "images",
    "logprobs",
    "messages",
    "modalities",
    "n=1",
    "parts",
    "prompts",
    "temperature=0",
    "tools",
]
# keys that, unless empty, ask for something else than plain texts
OTHER_KEYS: Mapping[str, Reason] = {
    "functions": "tools",
    "audio": "audio",
    "prompt_logprobs": "logprobs",
    "best_of": "best_of",
    "num_return_sequences": "best_of",
    "candidate_count": "best_of",
    "use_beam_search": "beam-search",
    "num_beams": "beam-search",
    "beam_width": "beam-search",
    "echo": "echo",
}


@settings
class OwnFields:
    """The keys by which a request settles its choice.

    Args:
        utility: the decoder that chooses, by its name.
        n: how many candidates are drawn.
        explain: whether the answer tells about all candidates.
        document: the key of the document that the text belongs to.
        position: where in it.
        source: what the text is made of, for utilities that read it; the prompt, or what the user said last, if it is
            not given.
    """

    utility: str | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    explain: bool = False
    document: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    position: Annotated[int, Field(ge=0, lt=1 << 31)] | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        if (self.document is None) != (self.position is None):
            raise InputError("document and position go together", where="document")


class Allowed(NamedTuple):
    """The bounds of requests, and the upstreams that answer them.

    Args:
        utilities: names of decoders.
        default: the one where a request names none.
        drawing: how candidates are drawn.
        own_sizes: candidates of each upstream, None where it is as a request says.
        model: the name that the first of them has for its model; empty for the one that a request says.
    """

    utilities: Collection[str]
    default: str
    drawing: DrawingSettings
    own_sizes: tuple[int | None, ...] = (None,)
    model: str = ""

    @property
    def most_choices(self) -> int:
        """The most choices of an answer: no more than candidates, if every upstream has its own number."""
        own = [size for size in self.own_sizes if size is not None]
        most = self.drawing.most_candidates
        return min(most, sum(own)) if len(own) == len(self.own_sizes) else most


class PassThrough(NamedTuple):
    """A request that passes through: why, and its bytes."""

    reason: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Question:
    """A request for the best of many texts.

    Args:
        chat: whether it is a chat.
        content: the request upstream as JSON, without the number of candidates and what differs between requests.
        varied: the rest: keys whose values may differ between requests.
        sizes: candidates to draw from each upstream.
        wanted: how many choices the answer has.
        own: the field of ours, with the utility and the source filled in.
        response_format: the form that every text is to have; None for plain text.
        stream: whether the answer is a stream of events.
        with_usage: whether that stream ends with the usage.
        logprobs: whether the answer has log-probabilities.
        tools: that candidates may call; None without any.
    """

    chat: bool
    content: bytes
    varied: Mapping[str, Any]
    sizes: Sequence[int]
    wanted: int
    own: OwnFields
    response_format: Mapping[str, Any] | None
    stream: bool
    with_usage: bool
    logprobs: bool
    tools: Tools | None

    def content_with(self, more: Mapping[str, Any]) -> tuple[memoryview, bytes]:
        """The JSON of a request upstream: the content, which may be long and is not copied, and these keys."""
        return memoryview(self.content)[:-1], b", " + request_content(more)[1:]


def object_of(content: bytes, surrogates: bool = False) -> dict[str, Any]:
    """The JSON object of a request, whose texts may hold lone surrogates or not; raises ApiError for anything else."""
    try:
        body = parse_json(content, surrogates)
    except InputError as error:
        raise ApiError(400, f"the request: {error.problem}", code="invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, "the request is no JSON object", code="invalid_json")
    return body


def read_passing(content: bytes, path: str, kind: str, allowed: Allowed) -> PassThrough:
    """A request to a path whose answers are not chosen.

    Args:
        content: its bytes, which are JSON, but for a form of several parts.
        path: beneath the address of the upstream.
        kind: the type that the request says its content has.
        allowed: the bounds of requests.

    Raises:
        ApiError: it cannot be read, or asks for what is not allowed.
    """
    # some servers read JSON whatever its type is said to be, but none can be JSON that begins so
    is_form = kind.startswith("multipart/form-data") and content.startswith(b"--")
    if not content or is_form:
        return PassThrough("path", content)
    return _passing(content, object_of(content), path, "path", allowed)


def read_question(content: bytes, path: str, allowed: Allowed) -> Question | PassThrough:
    """A request to one of `CHOSEN_PATHS`; raises ApiError if it cannot be read, or asks for what is not allowed."""
    body, chat, drawing = object_of(content), path == "chat/completions", allowed.drawing
    own = _own_fields(body, allowed)
    reason = _other_than_text(body, chat) or _other_tools(body, chat)
    _check_numbers(body, ("n",), 1, allowed.most_choices if reason is None else None, "are drawn")
    wanted = body["n"] if body.get("n") is not None else 1
    n = max(wanted, own.n or drawing.num_candidates)
    sizes = [n if size is None else size for size in allowed.own_sizes]
    temperature = body.get("temperature")
    is_zero = temperature == 0 and not isinstance(temperature, bool)
    if is_zero and drawing.sampling_temperature is None:
        # a model would say the same again, but others say something else
        sizes = [1 for _ in sizes]
        if len(sizes) == 1 or wanted > len(sizes):
            reason = reason or "temperature=0"
    if sum(sizes) == 1 and own.document is None:
        reason = reason or "n=1"
    if reason is None:
        return _question(body, chat, own, sizes, wanted, allowed)
    if own.document is not None:
        problem = f"has a document, but passes through ({reason})"
        raise bad(problem, FIELD, "Leave the document out")
    return _passing(content, body, path, reason, allowed)


def _own_fields(body: Mapping[str, Any], allowed: Allowed) -> OwnFields:
    """The field of a request, all defaults without one; raises ApiError if it cannot be read or is not allowed."""
    values = {} if body.get(FIELD) is None else body[FIELD]
    if not isinstance(values, dict):
        raise bad(f"found {shown(values)}, expected an object", FIELD)
    try:
        fields = OwnFields(**values)
    except InputError as error:
        raise bad(error.problem, FIELD, error.fix) from None
    if fields.utility is not None and fields.utility not in allowed.utilities:
        names = ", ".join(sorted(allowed.utilities))
        raise bad(f"found {fields.utility!r:.60}", f"{FIELD}.utility", f"Allowed are: {names}")
    most = allowed.drawing.most_candidates
    if fields.n is not None and fields.n > most:
        raise bad(f"found {shown(fields.n)}, at most {most} are drawn", f"{FIELD}.n")
    return fields


def _other_than_text(body: Mapping[str, Any], chat: bool) -> Reason | None:
    """Why a request is not for plain texts; None if it is."""
    for key, reason in OTHER_KEYS.items():
        if body.get(key) not in (None, False, [], {}):
            return reason
    if not chat:
        return None if isinstance(body.get("prompt"), str) else "prompts"
    if body.get("modalities") not in (None, ["text"]):
        return "modalities"
    messages = body.get("messages")
    if not isinstance(messages, list):
        return "messages"
    return next(filter(None, map(_other_part, messages)), None)


def _other_part(message: Any) -> Reason | None:
    """The kind of content of a message that is not text; None without any."""
    content = message.get("content") if isinstance(message, Mapping) else None
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind != "text":
            return "images" if kind == "image_url" else "parts"
    return None


def _other_tools(body: Mapping[str, Any], chat: bool) -> Reason | None:
    """Why tools are not chosen; None if they are, or without any."""
    if body.get("tools") in (None, []):
        return None
    return None if chat and tools_of(body) is not None else "tools"


def _passing(
    content: bytes, asked: Mapping[str, Any], path: str, reason: str, allowed: Allowed
) -> PassThrough:
    """A request that passes through: its bytes as they came, unless a bound, a model or a field of ours changes it."""
    body = {key: value for key, value in asked.items() if key != FIELD}
    if allowed.model and path in KEYS_OF_PATH:
        body["model"] = allowed.model
    body = bounded(body, path, allowed.drawing)
    return PassThrough(reason, content if body == asked else _written(body))


def _question(
    body: Mapping[str, Any],
    chat: bool,
    own: OwnFields,
    sizes: Sequence[int],
    wanted: int,
    allowed: Allowed,
) -> Question:
    """The question of a request for plain texts; raises ApiError if it asks for more tokens than are allowed."""
    drawing = allowed.drawing
    tools = tools_of(body) if body.get("tools") else None
    if tools is not None and own.document is not None:
        raise bad("has a document, but tools are no texts", FIELD, "Leave the document out")
    kept_back = (*_ANSWER_KEYS, *_VARIED_KEYS)
    own_keys = {key: value for key, value in body.items() if key not in kept_back}
    upstream = {**drawing.further, **own_keys}
    if drawing.sampling_temperature is not None:
        upstream["temperature"] = drawing.sampling_temperature
    path = "chat/completions" if chat else "completions"
    tokens = _bound_tokens(upstream, path, sum(sizes), wanted, drawing)
    n = sum(sizes)
    if tokens and drawing.max_request_tokens is not None:
        n = min(n, drawing.max_request_tokens // tokens)
    options, form = body.get("stream_options"), body.get("response_format")
    is_text = not isinstance(form, Mapping) or form.get("type") in (None, "text")
    source = own.source
    if source is None:
        source = user_text(body["messages"], between="\n") if chat else body["prompt"]
    logprobs = body.get("logprobs")
    return Question(
        chat,
        _written(upstream),  # what cannot be sent is refused before anything is drawn
        {key: body[key] for key in _VARIED_KEYS if key in body},
        _shared(sizes, n),
        wanted,
        replace(own, utility=own.utility or allowed.default, source=source),
        None if is_text else form,
        body.get("stream") is True,
        isinstance(options, Mapping) and options.get("include_usage") is True,
        # of a chat a switch, of a completion a number as well, also 0
        logprobs is True or (not chat and type(logprobs) is int),
        tools,
    )


def _shared(sizes: Sequence[int], n: int) -> list[int]:
    """Candidates of each upstream, n in all at most: the largest share is lowered first.

    >>> _shared([4, 4, 1], 7)
    [3, 3, 1]
    """
    shared = list(sizes)
    while sum(shared) > n:
        largest = max(shared)
        place = len(shared) - 1 - shared[::-1].index(largest)
        shared[place] -= 1
    return shared


def _written(body: Mapping[str, Any]) -> bytes:
    """A request as JSON; raises ApiError for a number that JSON cannot write."""
    try:
        return request_content(body)
    except InputError as error:
        raise ApiError(400, error.problem, code="invalid_json") from None


def bounded(body: Mapping[str, Any], path: str, drawing: DrawingSettings) -> dict[str, Any]:
    """A request that passes through, with a bound on its tokens if it has none.

    Args:
        body: the request.
        path: beneath the address of the upstream.
        drawing: the bounds.

    Raises:
        ApiError: it is over a bound, or has something else than a number for one.
    """
    result, most = dict(body), drawing.most_candidates
    prompt = body.get("prompt")
    num_prompts = 1  # a text, or a list of tokens
    if isinstance(prompt, list) and not all(isinstance(token, int) for token in prompt):
        num_prompts = len(prompt)
    if num_prompts > most:
        raise bad(f"found {num_prompts} prompts, at most {most} texts are given", "prompt")
    _check_numbers(body, TEXT_KEYS, 0, most // num_prompts, "texts are given")
    num_texts = num_prompts * max([1, *(number for _, number in _found(body, TEXT_KEYS))])
    _bound_tokens(result, path, num_texts, num_texts, drawing)
    return result


def _bound_tokens(
    body: dict[str, Any], path: str, num_texts: int, wanted: int, drawing: DrawingSettings
) -> int | None:
    """Bound the tokens of a request, and return the most that each text may have, None without a bound.

    Args:
        body: the request, which gets a key that no server of its path overlooks if it has none.
        path: beneath the address of the upstream.
        num_texts: how many are drawn at most.
        wanted: how many of these the answer needs.
        drawing: the bounds.

    Raises:
        ApiError: it asks for more, or has something else than a number for tokens.
    """
    cap, budget = drawing.max_candidate_tokens, drawing.max_request_tokens
    if cap is None and budget is None:
        return None
    share = None if budget is None else budget // wanted
    if share == 0:
        raise bad(f"{wanted} texts, at most {budget} tokens are given", "n")
    for bound in (cap, share):
        # some servers read 0 tokens as no bound
        _check_numbers(body, TOKEN_KEYS, 1, bound, "tokens are given")
        _check_numbers(body, MIN_TOKEN_KEYS, 0, bound, "tokens are given")
    tokens = [number for _, number in _found(body, TOKEN_KEYS)]
    keys = KEYS_OF_PATH.get(path, ())
    if keys and all(body.get(key) is None for key in keys):
        shares = [cap, share] if cap is not None else [max(1, (budget or 0) // num_texts)]
        body[keys[0]] = min(one for one in (*shares, *tokens) if one is not None)
        tokens.append(body[keys[0]])
    return max(tokens, default=None)


def _check_numbers(
    body: Mapping[str, Any], keys: Sequence[str], least: int, most: int | None, what: str
) -> None:
    """Raises ApiError for the value of a key that is no whole number from `least` to `most`."""
    for key, number in _found(body, keys):
        if type(number) is not int or not least <= number < MAX_COUNT:
            expected = f"expected a whole number from {least} below {MAX_COUNT}"
            raise bad(f"found {shown(number)}, {expected}", key)
        if most is not None and number > most:
            raise bad(f"found {number}, at most {most} {what}", key)


def _found(body: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The keys of a request that are, in any case of letters, among some, with their values."""
    wanted = {key.casefold() for key in keys}
    inner = [
        part
        for key, part in body.items()
        if isinstance(part, dict) and key.casefold() in INNER_KEYS
    ]
    for part in (body, *inner):
        for key, value in part.items():
            if value is not None and key.casefold() in wanted:
                yield key, value
