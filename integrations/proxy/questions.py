"""Questions of requests: a choice among candidates, or something that passes through to the server upstream."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.storage.json_and_yaml import parse_json
from ...rerank.messages import user_text
from ..server.exchange import request_content
from .api_errors import ApiError, bad, shown
from .cost import KEYS_OF_PATH, bounded, bounded_tokens, default_tokens, keep_below, keep_choices
from .settings import DrawingSettings
from .tool_calls import Tools, tools_of

FIELD = "discorank"
CHOSEN_PATHS = ("chat/completions", "completions")  # beneath /v1: their answers are chosen


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
    """What requests may ask for, and of whom.

    Args:
        utilities: names of decoders.
        default: the one where a request names none.
        most_candidates: of each model.
        own_sizes: candidates of each of the servers upstream, None where it is as a request says.
        model: the name that the first of them has for its model; empty for the one that a request says.
    """

    utilities: Collection[str]
    default: str
    most_candidates: int
    own_sizes: tuple[int | None, ...] = (None,)
    model: str = ""

    @property
    def most_choices(self) -> int:
        """The most choices of an answer: no more than there are candidates, where every server has its own number."""
        own = [size for size in self.own_sizes if size is not None]
        is_all = len(own) == len(self.own_sizes)
        return min(self.most_candidates, sum(own)) if is_all else self.most_candidates


def read_own_fields(body: Mapping[str, Any], allowed: Allowed) -> OwnFields:
    """The field of a request, all defaults where there is none.

    Raises:
        ApiError: it cannot be read, or asks for what is not allowed.
    """
    values = body.get(FIELD)
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise bad(f"found {shown(values)}, expected an object", FIELD)
    try:
        fields = OwnFields(**values)
    except InputError as error:
        raise bad(error.problem, FIELD, error.fix) from None
    if fields.utility is not None and fields.utility not in allowed.utilities:
        names = ", ".join(sorted(allowed.utilities))
        raise bad(f"found {fields.utility!r:.60}", f"{FIELD}.utility", f"Allowed are: {names}")
    if fields.n is not None and fields.n > allowed.most_candidates:
        problem = f"found {shown(fields.n)}, at most {allowed.most_candidates} are drawn"
        raise bad(problem, f"{FIELD}.n")
    return fields


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


def other_than_text(body: Mapping[str, Any], chat: bool) -> Reason | None:
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
    reasons = map(_other_part, messages)
    return next((reason for reason in reasons if reason is not None), None)


def _other_part(message: Any) -> Reason | None:
    """The content of a message beside text; None if there is nothing."""
    content = message.get("content") if isinstance(message, Mapping) else None
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind != "text":
            return "images" if kind == "image_url" else "parts"
    return None


def source_of(body: Mapping[str, Any], chat: bool) -> str | None:
    """The source of the texts: the prompt, or the last message of the user; None where there is none."""
    if not chat:
        prompt = body.get("prompt")
        return prompt if isinstance(prompt, str) else None
    return user_text(body.get("messages"), between="\n")


MAX_MODEL = 256  # characters of a model's name
_ANSWER_KEYS = (FIELD, "n", "stream", "stream_options")  # what the answer does with the choice
_VARIED_KEYS = ("model", "seed", "logprobs", "top_logprobs")


class PassThrough(NamedTuple):
    """A request that passes through: why, and its bytes."""

    reason: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Question:
    """A request for the best of many texts.

    Args:
        chat: whether it is a chat.
        content: what is asked upstream, as JSON, but for the number of candidates and what differs between requests.
        varied: the rest: keys whose values may be others in each request.
        n: candidates to draw.
        sizes: of each server upstream; n in all.
        wanted: how many choices the answer has.
        utility: name of the decoder.
        own: the field of ours.
        source: what the texts are made of.
        response_format: what every text is to be; None for plain text.
        stream: whether the answer is a stream of events.
        with_usage: whether that stream ends with the usage.
        model: the name of the model, as the request has it; empty if it has none.
        logprobs: whether the answer has log-probabilities.
        tools: that candidates may call; None where there are none.
    """

    chat: bool
    content: bytes
    varied: Mapping[str, Any]
    n: int
    sizes: Sequence[int]
    wanted: int
    utility: str
    own: OwnFields
    source: str | None = None
    response_format: Mapping[str, Any] | None = None
    stream: bool = False
    with_usage: bool = False
    model: str = ""
    logprobs: bool = False
    tools: Tools | None = None

    def content_with(self, more: Mapping[str, Any]) -> tuple[memoryview, bytes]:
        """The JSON of a request upstream: the content, which may be long and is not copied, and these keys."""
        return memoryview(self.content)[:-1], b", " + request_content(more)[1:]


def read_question(
    content: bytes, path: str, allowed: Allowed, drawing: DrawingSettings
) -> Question | PassThrough:
    """A request to one of `CHOSEN_PATHS`; raises ApiError if it cannot be read, or asks for what is not allowed."""
    asked, chat = object_of(content), path == "chat/completions"
    counts = _counts(asked, chat, allowed, drawing)
    if not counts.reason:
        return _question(counts, chat, allowed, drawing)
    return _passing(content, asked, path, counts.reason, drawing, allowed.model)


class _Counts(NamedTuple):
    """How a request is drawn: its body, our field, candidates of each server, choices, and why none is chosen."""

    body: Mapping[str, Any]
    own: OwnFields
    sizes: list[int]
    wanted: int
    reason: Reason | None


def _counts(
    asked: Mapping[str, Any], chat: bool, allowed: Allowed, drawing: DrawingSettings
) -> _Counts:
    """How a request is drawn; raises ApiError if it cannot be read, or asks for what is not allowed."""
    body = dict(asked)
    own = read_own_fields(body, allowed)
    reason = other_than_text(body, chat) or _other_tools(body, chat, drawing)
    is_greedy = _is_greedy(body, drawing)
    if is_greedy and len(allowed.own_sizes) == 1:
        reason = reason or "temperature=0"
    if reason is None:
        keep_below(body, ("n",), allowed.most_choices, drawing, "are drawn")
    wanted = _number(body, "n")
    n = max(wanted, own.n or drawing.num_candidates)
    sizes = [n if size is None else size for size in allowed.own_sizes]
    if is_greedy:  # a model would say the same again, but others say something else
        sizes = [1 for _ in sizes]
        if wanted > len(sizes):
            reason = reason or "temperature=0"
    if reason is None and sum(sizes) == 1 and own.document is None:
        reason = "n=1"
    if reason is not None and own.document is not None:
        problem = f"has a document, but passes through ({reason})"
        raise bad(problem, FIELD, "Leave the document out")
    return _Counts(body, own, sizes, wanted, reason)


def read_passing(
    content: bytes, path: str, kind: str, drawing: DrawingSettings, model: str = ""
) -> PassThrough:
    """A request to another path.

    Args:
        content: its bytes, which are JSON, but for a form of several parts.
        path: beneath the address of the server.
        kind: the type that the request says its content has.
        drawing: the bounds of what it may ask for.
        model: the name that the server has for its model; empty for the one that the request says.

    Raises:
        ApiError: it cannot be read, or asks for what is not allowed.
    """
    # some servers read JSON whatever its type is said to be, but none can be JSON that begins so
    is_form = kind.startswith("multipart/form-data") and content.startswith(b"--")
    if not content or is_form:
        return PassThrough("path", content)
    return _passing(content, object_of(content), path, "path", drawing, model)


def object_of(content: bytes, surrogates: bool = False) -> dict[str, Any]:
    """The JSON object of a request, whose texts may hold lone surrogates or not; raises ApiError for anything else."""
    try:
        body = parse_json(content, surrogates)
    except InputError as error:
        raise ApiError(400, f"the request: {error.problem}", code="invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, "the request is no JSON object", code="invalid_json")
    return body


def _passing(
    content: bytes,
    asked: dict[str, Any],
    path: str,
    reason: str,
    drawing: DrawingSettings,
    model: str,
) -> PassThrough:
    """A request that passes through: its bytes as they came, unless a bound, a model or a field of ours changes it."""
    kept = {key: value for key, value in asked.items() if key != FIELD}
    if model and path in KEYS_OF_PATH:
        kept["model"] = model
    result = bounded(kept, path, drawing)
    return PassThrough(reason, content if result == asked else written(result))


def _question(counts: _Counts, chat: bool, allowed: Allowed, drawing: DrawingSettings) -> Question:
    """The question of a request for plain texts."""
    body, own, sizes, wanted, _ = counts
    kept_back = (*_ANSWER_KEYS, *_VARIED_KEYS)
    upstream = {key: value for key, value in body.items() if key not in kept_back}
    tools = tools_of(body) if body.get("tools") else None
    if tools is not None and own.document is not None:
        raise bad("has a document, but tools are no texts", FIELD, "Leave the document out")
    upstream = {**drawing.further, **upstream}
    if drawing.sampling_temperature is not None:
        upstream["temperature"] = drawing.sampling_temperature
    keep_choices(upstream, wanted, drawing)
    path = "chat/completions" if chat else "completions"
    tokens = bounded_tokens(upstream, path, default_tokens(sum(sizes), wanted, drawing))
    n = _affordable(sum(sizes), wanted, tokens, drawing.max_request_tokens)
    sizes = _shared(sizes, n)
    content = written(upstream)  # what cannot be sent is refused before anything is drawn
    options, model = body.get("stream_options"), body.get("model")
    wanted_format = body.get("response_format")
    is_text = not isinstance(wanted_format, Mapping) or wanted_format.get("type") in (None, "text")
    return Question(
        chat,
        content,
        {key: body[key] for key in _VARIED_KEYS if key in body},
        sum(sizes),
        sizes,
        wanted,
        own.utility or allowed.default,
        own,
        source_of(body, chat) if own.source is None else own.source,
        None if is_text else wanted_format,
        body.get("stream") is True,
        isinstance(options, Mapping) and options.get("include_usage") is True,
        model if isinstance(model, str) and len(model) <= MAX_MODEL else "",
        asks_logprobs(body, chat),
        tools,
    )


def asks_logprobs(body: Mapping[str, Any], chat: bool) -> bool:
    """Whether the answer is to have log-probabilities: of a chat a switch, of a completion also a number, 0 too."""
    value = body.get("logprobs")
    return value is True or (not chat and type(value) is int)


def _other_tools(body: Mapping[str, Any], chat: bool, drawing: DrawingSettings) -> Reason | None:
    """Why tools are not chosen; None if there are none, or if they are."""
    if body.get("tools") in (None, []):
        return None
    is_chosen = chat and drawing.tool_calls == "choose" and tools_of(body) is not None
    return None if is_chosen else "tools"


def _number(values: Mapping[str, Any], key: str) -> int:
    """A whole number from 1, which it is where there is none."""
    number = values.get(key)
    if number is None:
        return 1
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number < 1 << 31:
        raise bad(f"found {shown(number)}, expected a whole number from 1", key)
    return number


def _is_greedy(body: Mapping[str, Any], drawing: DrawingSettings) -> bool:
    """Whether all candidates of a model would be the same."""
    temperature = body.get("temperature")
    is_zero = temperature == 0 and not isinstance(temperature, bool)
    return is_zero and drawing.sampling_temperature is None


def _shared(sizes: Sequence[int], n: int) -> list[int]:
    """Candidates of each server, n in all at most: the largest share is lowered first.

    >>> _shared([4, 4, 1], 7)
    [3, 3, 1]
    """
    shared = list(sizes)
    while sum(shared) > n:
        largest = max(shared)
        place = len(shared) - 1 - shared[::-1].index(largest)
        shared[place] -= 1
    return shared


def _affordable(n: int, wanted: int, tokens: int | None, budget: int | None) -> int:
    """How many of n candidates of so many tokens the budget has; raises ApiError if fewer than are wanted."""
    if not tokens or budget is None:
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
