"""A model in this process as the server upstream: it answers chats and completions without HTTP.

    GET models, models/NAME    its name
    POST chat/completions      messages of texts, in the model's chat template
    POST completions           one prompt

`LocalModel` is to `Exchange` what its connections are, so that all else here knows no difference. What comes within a
short window, or while other texts are generated, is one batch, whatever its lengths, seeds and settings. What a request
asks for and a plain model does not do (tools, JSON, penalties, echoes) is refused, never left out.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic, time
from typing import Annotated, Any, ClassVar, NamedTuple
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from ...metrics.errors import InputError, is_out_of_memory
from ...metrics.spec.checked_settings import Field, Rare, settings
from ..files.reply_choices import MAX_TOP
from ..huggingface.generator import HuggingFaceGenerator
from ..huggingface.mixed_rows import MixedRows, RowText, TextRow, TokenChoice
from ..huggingface.model_loading import GenerationSettings, check_ids, load, positions
from ..server.exchange import Parts
from .api_errors import ApiError, bad, shown
from .decisions import Gathered
from .questions import object_of, text_of_content
from .replies import as_json, reply_events

ADDRESS = "http://in-this-process/v1"  # of a connection that goes nowhere
WINDOW_SECONDS = 0.01  # for which a batch waits for more
STOP_SECONDS = 5.0  # for the next token of what is generated when the server stops
MAX_STOPS = 16
MAX_NEW_TOKENS = 1 << 16  # of a model that has no number of positions
MIN_LOGPROB = -9999.0  # stands for what JSON cannot write


@settings
class LocalModelSettings:
    """How the model of --generator generates.

    Args:
        max_new_tokens: longest text of a request that does not say it.
        sequences_at_once: texts in one batch.
        max_sequences: texts that are generated or wait; what is more is answered by 429.
        revision: which revision on the hub.
    """

    heading: ClassVar = "server"

    max_new_tokens: Annotated[int, Field(ge=1)] = 256
    sequences_at_once: Annotated[int, Field(ge=1), Rare()] = 64
    max_sequences: Annotated[int, Field(ge=1), Rare()] = 4096
    revision: Annotated[str | None, Rare()] = None


@settings
class Sampling:
    """The keys of a request that settle how texts are drawn, in OpenAI's names; other keys are looked at apart."""

    n: Annotated[int, Field(ge=1)] = 1
    seed: int | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] = 1.0
    top_p: Annotated[float, Field(ge=0, le=1)] = 1.0
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP)] | None = None
    stream: bool = False


_SAMPLING = frozenset(Sampling.__dataclass_fields__)
# keys that change no text
_WITHOUT_EFFECT = frozenset(
    {
        "model",
        "messages",
        "prompt",
        "stop",
        "logprobs",
        "stream_options",
        "parallel_tool_calls",
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
    }
)
# values that ask for nothing, beside null, false, 0 and what is empty
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "tool_choice": ("none", "auto"),
    "repetition_penalty": (1,),
    "best_of": (1,),
    "top_k": (-1,),
}
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


class _Waiting(NamedTuple):
    """A row that is asked for, and its place among the rows of its request."""

    row: TextRow
    gathered: Gathered
    place: int


class GenerationThread:
    """Generates in a thread of its own, batch after batch.

    Args:
        rows: what generates.
        at_once: rows of a batch.
        max_waiting: rows that may be generated or wait.
    """

    def __init__(self, rows: MixedRows, at_once: int, max_waiting: int) -> None:
        self._rows, self._at_once, self._max_waiting = rows, at_once, max_waiting
        self._asked: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._taken: list[_Waiting] = []
        self._is_ending = False
        self._thread = Thread(target=self._run, name="discorank-generating", daemon=True)
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        """How many rows wait or are generated."""
        return self._asked.qsize() + len(self._taken)

    def stop(self, seconds: float) -> None:
        """Ends the thread after the next token, or leaves it behind after so long; what waits is dropped."""
        self._is_ending = True
        self._asked.put(None)
        self._thread.join(seconds)

    async def texts(self, asked: AskedTexts) -> list[RowText]:
        """The texts of a request; what is cancelled ends with the next token.

        Raises:
            ApiError: there is no room, or they cannot be generated.
        """
        if asked.n > self._max_waiting:
            raise bad(f"found {asked.n}, at most {self._max_waiting} texts are generated", "n")
        if self.num_waiting + asked.n > self._max_waiting:
            problem = f"{self.num_waiting} texts are generated or wait"
            raise ApiError(429, problem, code="too_many_texts")
        gathered = Gathered(asked.n)

        def is_wanted() -> bool:
            return not (self._is_ending or gathered.future.cancelled())

        for place in range(asked.n):
            self._asked.put(_Waiting(asked.row(place, is_wanted), gathered, place))
        outcomes = await asyncio.wrap_future(gathered.future)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise _failure(outcome)
        return outcomes

    def _run(self) -> None:
        """Generates batches until the end is asked for."""
        while batch := self._next():
            try:
                outcomes: Sequence[Any] = self._rows.texts([one.row for one in batch])
            except Exception as error:
                outcomes = [error] * len(batch)
            if self._is_ending:
                break  # what was cut off by the end is no answer
            self._taken = self._taken[len(batch) :]
            for (_, gathered, place), outcome in zip(batch, outcomes, strict=True):
                gathered.put(place, outcome)
        for _, gathered, _ in self._taken:
            gathered.future.cancel()

    def _next(self) -> list[_Waiting]:
        """The next batch: what waits, and what comes in the window; empty at the end."""
        until = monotonic() + WINDOW_SECONDS if self._taken else None
        while not self._is_ending:
            self._taken = [one for one in self._taken if one.row.is_wanted()]
            if len(self._taken) >= self._at_once:
                break
            if not self._taken:
                until = None
            left = None if until is None else until - monotonic()
            try:
                one = self._asked.get(block=left is None or left > 0, timeout=left)
            except Empty:
                break
            if one is not None:
                self._taken.append(one)
                until = until or monotonic() + WINDOW_SECONDS
        return [] if self._is_ending else self._taken[: self._at_once]


def _failure(error: BaseException) -> ApiError:
    """What went wrong when texts were generated."""
    if is_out_of_memory(error):
        problem = "there was no memory for the text: shorten it, or lower --sequences-at-once"
        return ApiError(503, problem, code="out_of_memory", retry_seconds=5, report=problem)
    problem = f"the model failed ({type(error).__name__}: {error})"
    return ApiError(500, problem, code="generation_failed", report=problem)


@dataclass(frozen=True, slots=True)
class AskedTexts:
    """A request for texts.

    Args:
        ids: the tokens of its prompt.
        chat: whether it is a chat.
        sampling: how they are drawn.
        max_tokens: longest text.
        seed: of their chance.
        stop: strings that end them.
        top_logprobs: of how many of the likeliest tokens log-probabilities are asked for; None for none at all.
        with_usage: whether a stream ends with the usage.
    """

    ids: tuple[int, ...]
    chat: bool
    sampling: Sampling
    max_tokens: int
    seed: int
    stop: tuple[str, ...]
    top_logprobs: int | None
    with_usage: bool

    @property
    def n(self) -> int:
        """How many texts."""
        return self.sampling.n

    def row(self, number: int, is_wanted: Callable[[], bool]) -> TextRow:
        """One of them."""
        return TextRow(
            self.ids,
            number,
            self.seed,
            self.sampling.temperature,
            self.sampling.top_p,
            self.max_tokens,
            self.stop,
            self.top_logprobs,
            is_wanted,
        )


def _sampling(body: Mapping[str, Any]) -> Sampling:
    """The keys of sampling of a request; raises ApiError for one that is wrong, or that asks for what is not done."""
    given = {key: value for key, value in body.items() if value is not None}
    for key, value in given.items():
        is_known = key in _SAMPLING or key in _WITHOUT_EFFECT
        if not is_known and value and value not in _NEUTRAL.get(key, ()):
            fix = "Leave it out, or put a server that does it upstream"
            raise bad("the local model does not do this", key, fix, "unsupported_parameter")
    try:
        return Sampling(**{key: given[key] for key in _SAMPLING & given.keys()})
    except InputError as error:
        key, _, problem = error.problem.partition(" = ")
        raise bad(f"found {problem}", key) from None


def _stops(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The strings that end a text."""
    given = body.get("stop")
    stops = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(stops, list) or len(stops) > MAX_STOPS:
        raise bad(f"found {shown(given)}, expected at most {MAX_STOPS} texts", "stop")
    if not all(isinstance(stop, str) and stop for stop in stops):
        raise bad(f"found {shown(given)}, expected texts that are not empty", "stop")
    return tuple(stops)


def _num_likeliest(body: Mapping[str, Any], chat: bool, sampling: Sampling) -> int | None:
    """Of how many of the likeliest tokens log-probabilities are asked for; None for none at all."""
    value = body.get("logprobs")
    if value is None or value is False:
        if sampling.top_logprobs:
            raise bad("stands without logprobs", "top_logprobs", "Add logprobs: true")
        return None
    if value is True:
        return sampling.top_logprobs or 0
    if chat or type(value) is not int or not 0 <= value <= MAX_TOP:
        expected = "true or false" if chat else f"a whole number from 0 to {MAX_TOP}"
        raise bad(f"found {shown(value)}, expected {expected}", "logprobs")
    return value


def _messages(body: Mapping[str, Any]) -> list[dict[str, str]]:
    """The messages of a chat, with texts alone."""
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        raise bad(f"found {shown(given)}, expected a list of messages", "messages")
    messages = []
    for number, message in enumerate(given):
        where = f"messages[{number}]"
        if not isinstance(message, dict):
            raise bad(f"found {shown(message)}, expected an object", where)
        role, text = message.get("role"), text_of_content(message.get("content"))
        if role not in _ROLES or message.get("tool_calls"):
            problem = f"found {shown(role)}, expected a text of {', '.join(_ROLES)}"
            raise bad(problem, f"{where}.role", code="unsupported_value")
        if text is None:
            raise bad("found no text", f"{where}.content", code="unsupported_value")
        messages.append({"role": _ROLES[role], "content": text})
    return messages


def _prompt(body: Mapping[str, Any]) -> str:
    """The prompt of a completion, which may be a list of one."""
    given = body.get("prompt")
    text = given[0] if isinstance(given, list) and len(given) == 1 else given
    if not isinstance(text, str):
        raise bad(f"found {shown(given)}, expected one text", "prompt", code="unsupported_value")
    return text


class LocalReply(NamedTuple):
    """A reply, as connections give it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content(self) -> LocalReply:
        """What its bytes are read from: itself."""
        return self

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Its bytes."""
        yield self.body


class LocalModel:
    """The server upstream that a model in this process is.

    Args:
        generator: the model and its tokenizer.
        name: what it is called.
        digest: of its files.
        generation: how it generates.
    """

    def __init__(
        self,
        generator: HuggingFaceGenerator,
        name: str,
        digest: str,
        generation: LocalModelSettings,
    ) -> None:
        self._generator, self._generation = generator, generation
        self._name, self._digest = name, digest
        self._begun = int(time())
        at_once, most = generation.sequences_at_once, generation.max_sequences
        self._thread = GenerationThread(MixedRows(generator), at_once, most)

    async def close(self) -> None:
        """Ends what is generated."""
        await asyncio.to_thread(self._thread.stop, STOP_SECONDS)

    @asynccontextmanager
    async def request(
        self, method: str, url: str, parts: Parts, headers: Mapping[str, str]
    ) -> AsyncIterator[LocalReply]:
        """The reply to a request; one that is cancelled meanwhile ends with the next token."""
        path = unquote(urlsplit(url).path.removeprefix(urlsplit(ADDRESS).path)).strip("/")
        try:
            reply = await self._reply(method, path, b"".join(parts))
        except ApiError as error:
            reply = _reply(error.body, error.status, error.headers)
        yield reply

    async def _reply(self, method: str, path: str, content: bytes) -> LocalReply:
        """The reply to a request; raises ApiError."""
        if method == "GET" and path == "models":
            return _reply({"object": "list", "data": [self._model()]})
        if method == "GET" and path.startswith("models/"):
            self._check_name(path.removeprefix("models/"))
            return _reply(self._model())
        if method != "POST" or path not in ("chat/completions", "completions"):
            problem = f"the local model does not answer {method} /v1/{path}"
            raise ApiError(404, problem, code="not_found")
        chat = path == "chat/completions"
        asked = await asyncio.to_thread(self._asked, content, chat)
        body = self._body(asked, await self._thread.texts(asked))
        named = {"x-request-id": body["id"]}
        if not asked.sampling.stream:
            return _reply(body, 200, named)
        events = b"".join(reply_events(body, chat, asked.with_usage))
        return LocalReply(200, {"content-type": "text/event-stream", **named}, events)

    def _model(self) -> dict[str, Any]:
        """The model, as servers list theirs."""
        about = {"created": self._begun, "owned_by": "discorank"}
        return {"id": self._name, "object": "model", **about}

    def _check_name(self, name: Any) -> None:
        """Raises ApiError for another model."""
        if name not in (None, "", self._name):
            problem = f"found {shown(name)}, the only model is {self._name!r}"
            raise ApiError(404, problem, "model", "model_not_found")

    def _asked(self, content: bytes, chat: bool) -> AskedTexts:
        """The texts that a request asks for; raises ApiError for what cannot be read or is not done."""
        body = object_of(content)
        self._check_name(body.get("model"))
        sampling, stops = _sampling(body), _stops(body)
        top = _num_likeliest(body, chat, sampling)
        ids = self._ids(body, chat)
        options = body.get("stream_options")
        with_usage = isinstance(options, dict) and options.get("include_usage") is True
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        max_tokens = self._max_tokens(sampling, len(ids), "messages" if chat else "prompt")
        return AskedTexts(ids, chat, sampling, max_tokens, seed, stops, top, with_usage)

    def _ids(self, body: Mapping[str, Any], chat: bool) -> tuple[int, ...]:
        """The tokens of the prompt."""
        messages, text, key = [], "", "messages" if chat else "prompt"
        if chat:
            messages = _messages(body)
        else:
            text = _prompt(body)
        generator = self._generator
        try:
            ids = generator.tokens_of(text, messages)
            check_ids(ids, generator.tokenizer, not generator.token_generator.encodes)
        except InputError as error:
            raise bad(error.problem, key, error.fix) from None
        return tuple(ids)

    def _max_tokens(self, sampling: Sampling, num_prompt_tokens: int, key: str) -> int:
        """The longest text; raises ApiError where the model has no positions for it."""
        asked = sampling.max_completion_tokens or sampling.max_tokens
        most = positions(self._generator.model)
        if most is None:
            if asked is not None and asked > MAX_NEW_TOKENS:
                raise bad(f"found {asked}, at most {MAX_NEW_TOKENS} new tokens", "max_tokens")
            return asked or self._generation.max_new_tokens
        encodes = self._generator.token_generator.encodes
        left = most - 1 if encodes else most - num_prompt_tokens
        is_too_long = num_prompt_tokens > most or left < (asked or 1)
        if is_too_long:
            problem = f"{num_prompt_tokens} tokens and {asked or 1} new ones, the model has {most} positions"
            raise bad(problem, key, "Shorten it, or lower max_tokens", "context_length_exceeded")
        return asked or min(left, self._generation.max_new_tokens)

    def _body(self, asked: AskedTexts, texts: Sequence[RowText]) -> dict[str, Any]:
        """The answer in one piece."""
        num_tokens = sum(text.num_tokens for text in texts)
        usage = {
            "prompt_tokens": len(asked.ids),
            "completion_tokens": num_tokens,
            "total_tokens": len(asked.ids) + num_tokens,
        }
        return {
            "id": f"{'chatcmpl' if asked.chat else 'cmpl'}-{uuid4().hex}",
            "object": "chat.completion" if asked.chat else "text_completion",
            "created": int(time()),
            "model": self._name,
            "system_fingerprint": self._digest,
            "choices": [self._choice(asked, i, text) for i, text in enumerate(texts)],
            "usage": usage,
        }

    def _choice(self, asked: AskedTexts, index: int, text: RowText) -> dict[str, Any]:
        """One text as a choice."""
        choice: dict[str, Any] = {"index": index}
        if asked.chat:
            choice["message"] = {"role": "assistant", "content": text.text}
        else:
            choice["text"] = text.text
        choice["logprobs"] = None
        if asked.top_logprobs is not None:
            make = self._content if asked.chat else self._columns
            choice["logprobs"] = make(text.choices)
        choice["finish_reason"] = "stop" if text.is_finished else "length"
        return choice

    def _content(self, choices: Sequence[TokenChoice]) -> dict[str, Any]:
        """Log-probabilities in the form of chats."""
        content = []
        for choice in choices:
            likeliest = [self._token(*pair) for pair in choice.likeliest]
            own = self._token(choice.token, choice.logprob)
            content.append({**own, "top_logprobs": likeliest})
        return {"content": content, "refusal": None}

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        """A token with its log-probability; it has no bytes of its own where it is a part of a character."""
        text = self._text_of(token)
        is_whole = "\ufffd" not in text
        own = list(text.encode()) if is_whole else None
        return {"token": text, "logprob": max(MIN_LOGPROB, logprob), "bytes": own}

    def _columns(self, choices: Sequence[TokenChoice]) -> dict[str, Any]:
        """Log-probabilities in the form of completions."""
        tokens = [self._text_of(choice.token) for choice in choices]
        likeliest = [
            {self._text_of(token): max(MIN_LOGPROB, value) for token, value in choice.likeliest}
            for choice in choices
        ]
        offsets = [0, *accumulate(map(len, tokens))]
        return {
            "tokens": tokens,
            "token_logprobs": [max(MIN_LOGPROB, choice.logprob) for choice in choices],
            "top_logprobs": likeliest,
            "text_offset": offsets[: len(tokens)],
        }

    def _text_of(self, token: int) -> str:
        """The text of a token; empty for a special one."""
        return str(self._generator.tokenizer.decode([token], skip_special_tokens=True))


def _reply(
    value: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> LocalReply:
    """A reply of JSON."""
    return LocalReply(
        status, {"content-type": "application/json", **(headers or {})}, as_json(value)
    )


def loaded_model(
    name: str, generation: LocalModelSettings, device: str | None = None, dtype: str | None = None
) -> LocalModel:
    """A model that is ready to answer.

    Args:
        name: a folder, a GGUF file, a bundled name or a name on the hub.
        generation: how it generates.
        device, dtype: as `load`.

    Raises:
        DiscorankError: it cannot be loaded, or generates no text.
    """
    loaded = load(name, generation.revision, device, dtype or "float32")
    generator = HuggingFaceGenerator(
        loaded.model, loaded.tokenizer, GenerationSettings(num_candidates=1), name
    )
    path = Path(name)
    called = path.resolve().name if path.exists() else name
    return LocalModel(generator, called, f"sha256:{loaded.digest}", generation)
