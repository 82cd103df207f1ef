"""The candidates of one request, as they come from upstream: texts to choose from, whole choices to answer with.

Candidates of other requests are never seen here: each draw has requests of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self

from ...metrics.errors import DiscorankError, InputError, ResourceError
from ...rerank.lists import NOTHING, Candidate
from ..files.reply_choices import is_unfinished, total_logprob
from ..server.exchange import Exchange, Hold, RefusedError, UnusableError
from ..server.generator import Drawing, candidates_in, seed_of
from ..server.server_probe import LOGPROB_FORMS, LogprobForm, ServerProbe
from .api_errors import ApiError
from .questions import Question
from .settings import DrawingSettings
from .tool_calls import calls_of

TIMES_IGNORED = 3  # requests for several in a row that brought one, after which no more are made
IGNORED_SECONDS = 60.0  # until one is made again
MAX_MODELS = 64  # of which is known how they give log-probabilities
_PLACE = "place"  # field of a candidate: where its choice stands in its reply


class LeftOut(NamedTuple):
    """A choice of a reply that could not be used: the number of the request, its place in the reply, and why."""

    request: int
    choice: int
    reason: str


class Drawn(NamedTuple):
    """A candidate, the choice that it was, and the number of the request that brought it."""

    candidate: Candidate
    choice: Mapping[str, Any]
    call: int

    def left_out(self, reason: str) -> LeftOut:
        """The same as a choice that could not be used."""
        return LeftOut(self.call, int(self.candidate.fields[_PLACE]), reason)


def _calling(choice: Any, text: Candidate | InputError) -> Candidate | InputError:
    """The candidate of a choice that calls tools, which need not say anything; any other as it is."""
    if isinstance(text, Candidate) or not isinstance(choice, Mapping) or not calls_of(choice):
        return text
    try:
        logprob = total_logprob(choice)
    except InputError:
        logprob = None
    return Candidate("", logprob, {"unfinished": True} if is_unfinished(choice) else NOTHING)


class WordlessError(Exception):
    """A reply whose choices have no text, such as a refusal, or the call of a tool; it answers as it is."""

    def __init__(self, reply: Mapping[str, Any]) -> None:
        super().__init__("no text")
        self.reply = reply


class Upstream:
    """The server that candidates come from.

    Whether it gives several candidates for one request is asked again after a while, as once may be a fault.

    Args:
        exchange: requests to it.
        clock: tells the time, in seconds.
    """

    def __init__(self, exchange: Exchange, clock: Callable[[], float] = monotonic) -> None:
        self.exchange = exchange
        self._clock = clock
        self._num_ignored = 0  # requests for several in a row that brought one
        self._ignores_until = 0.0
        # by model, and whether it is a chat
        self._forms: dict[tuple[str, bool], asyncio.Task[LogprobForm | None]] = {}

    async def logprob_form(self, question: Question, further: Mapping[str, Any]) -> LogprobForm:
        """The form that brings log-probabilities of a model, which is asked once.

        Raises:
            DiscorankError: it cannot be asked.
            ApiError: there is none, so that candidates would be paid for nothing.
        """
        key = (question.model, question.chat)
        if key not in self._forms:
            probe = ServerProbe(self.exchange, *key, further, {})
            while len(self._forms) >= MAX_MODELS:
                self._forms.pop(next(iter(self._forms))).cancel()
            self._forms[key] = asyncio.create_task(probe.logprob_form())
        try:
            form = await asyncio.shield(self._forms[key])
        except DiscorankError:
            self._forms.pop(key, None)  # it may be another time
            raise
        if form is None:
            tried = " or ".join(one.name for one in LOGPROB_FORMS[question.chat])
            problem = (
                f"upstream gives no log-probabilities (asked by {tried}), and the choice reads them"
            )
            raise ApiError(503, problem, code="no_choice", retry_seconds=5, report=problem)
        return form

    @property
    def accepts_n(self) -> bool:
        """Whether it is believed to give several candidates for one request."""
        return self._clock() >= self._ignores_until

    def gave(self, is_one: bool) -> None:
        """Notes whether a request for several candidates brought one."""
        self._num_ignored = self._num_ignored + 1 if is_one else 0
        if self._num_ignored >= TIMES_IGNORED:
            self._ignores_until = self._clock() + IGNORED_SECONDS
            self._num_ignored -= 1


class CandidateDraw:
    """Draws the candidates of a request; a context manager, at whose end what is under way is dropped.

    Args:
        upstream: where they come from.
        question: the request.
        settings: how they are drawn.
        logprobs: the form that asks for log-probabilities, whether the request does or not; None if none are read.
        hold: takes the size of each piece of a reply, which is kept.
    """

    def __init__(
        self,
        upstream: Upstream,
        question: Question,
        settings: DrawingSettings,
        logprobs: LogprobForm | None,
        hold: Hold | None = None,
    ) -> None:
        self._hold = hold
        self._upstream, self._question, self._logprobs = upstream, question, logprobs
        self._path = "chat/completions" if question.chat else "completions"
        self._drawing = Drawing(0, self._body, settings.most_at_once)
        self._under_way: dict[asyncio.Task[Any], tuple[int, int]] = {}
        self._fatal: DiscorankError | None = None
        self._wordless: Mapping[str, Any] | None = None
        self._refused_n = False  # and nothing came since
        self.replies: dict[int, Mapping[str, Any]] = {}  # by number of the request
        self.request_ids: dict[int, str] = {}  # that upstream gave them
        self.failed: list[LeftOut] = []  # choices without a text that can be used
        self.until: float | None = None  # by the clock of `monotonic`, when waiting ends
        if settings.deadline_seconds is not None:
            self.until = monotonic() + settings.deadline_seconds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drops what is under way."""
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def draw(self, size: int) -> None:
        """Draws until there are `size` candidates, no more come, or the time is up.

        Raises:
            WordlessError: what came has no text.
            DiscorankError: nothing came.
        """
        self._drawing.size = size
        self._send()
        while not self._drawing.done and self._fatal is None:
            done, _ = await asyncio.wait(
                self._under_way, timeout=self._seconds_left(), return_when=asyncio.FIRST_COMPLETED
            )
            if not done and self.drawn:
                return
            for task in done:
                self._take(task)
            self._send()
        if self.drawn:
            return
        if self._wordless is not None:
            raise WordlessError(self._wordless)
        raise self._fatal or self._drawing.error or InputError("nothing came", where="server")

    @property
    def is_over(self) -> bool:
        """Whether no more candidates will come."""
        is_late = self.until is not None and monotonic() >= self.until
        return is_late or self._drawing.given_up or self._fatal is not None

    @property
    def drawn(self) -> list[Drawn]:
        """The candidates so far, in the order of the requests."""
        calls = sorted(self._drawing.candidates_of)
        return [
            Drawn(candidate, self._choice(call, candidate), call)
            for call in calls
            for candidate in self._drawing.candidates_of[call]
        ]

    def _choice(self, call: int, candidate: Candidate) -> Mapping[str, Any]:
        """The choice that a candidate was."""
        choice: Mapping[str, Any] = self.replies[call]["choices"][candidate.fields[_PLACE]]
        return choice

    def _seconds_left(self) -> float | None:
        """Seconds until the time is up; there is always time for one candidate."""
        if self.until is None or not self._drawing.candidates_of:
            return None
        return max(0.0, self.until - monotonic())

    def _body(self, call: int, n: int) -> dict[str, Any]:
        """What a request for n candidates has of its own: where the user names a seed, others after the first."""
        body = {**self._question.varied, "n": n}
        if call and isinstance(body.get("seed"), int):
            body["seed"] = seed_of(body["seed"], call)
        if self._logprobs is not None:
            asked = body if self._question.logprobs else {}
            body |= {**self._logprobs.keys, **asked}
        return body

    def _send(self) -> None:
        """Sends the requests that are lacking."""
        if self._fatal is not None:
            return
        for call, n, body in self._drawing.requests(self._upstream.accepts_n):
            content = self._question.content_with(body)
            exchange = self._upstream.exchange
            request = exchange.reply_to(self._path, content, surrogates=True, hold=self._hold)
            self._under_way[asyncio.create_task(request)] = (call, n)

    def _take(self, task: asyncio.Task[Any]) -> None:
        """Takes the candidates of a request that ended, or notes its error."""
        call, n = self._under_way.pop(task)
        try:
            reply, request_id = task.result()
        except RefusedError as error:
            self._drawing.refused(n, error)
            self._refused_n = n > 1
        except UnusableError as error:
            self._fatal = error
        except (ResourceError, InputError) as error:
            self._drawing.failed(n, error)
        else:
            if request_id is not None:
                self.request_ids[call] = request_id
            self._take_reply(call, n, reply)

    def _take_reply(self, call: int, n: int, reply: Any) -> None:
        """Takes the candidates of a reply, each with its place."""
        texts = candidates_in(reply, self._question.chat)
        if self._question.tools is not None:
            texts = [
                _calling(choice, text)
                for choice, text in zip(reply.get("choices") or [], texts, strict=False)
            ] or texts
        choices = [
            replace(text, fields={**text.fields, _PLACE: place})
            if isinstance(text, Candidate)
            else text
            for place, text in enumerate(texts)
        ]
        self.replies[call] = reply
        self.failed += [
            LeftOut(call, place, error.problem)
            for place, error in enumerate(texts)
            if isinstance(error, InputError)
        ]
        self._drawing.take(call, n, choices)
        if not self._drawing.candidates_of[call]:
            self._note_wordless(reply)
            return
        if self._refused_n or n > 1:
            is_one = len(choices) == 1
            self._upstream.gave(is_one)
            self._drawing.one_at_a_time |= is_one
            self._refused_n = False

    def _note_wordless(self, reply: Any) -> None:
        """Keeps a reply that has choices, but no text: more requests would bring no other."""
        choices = reply.get("choices") if isinstance(reply, Mapping) else None
        messages = [
            choice.get("message") if isinstance(choice, Mapping) else None
            for choice in (choices if isinstance(choices, list) else [])
        ]
        if messages and all(isinstance(message, Mapping) for message in messages):
            self._wordless = reply
            self._drawing.given_up = True
