"""The candidates of one request, as they come from upstream: texts to choose from, whole choices to answer with.

Candidates of other requests are never seen here: each draw has requests of its own. Where several models stand behind
the server, each gives its share of the candidates; which of them are waited for says `panel`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self

from ...metrics.errors import DiscorankError, InputError, ResourceError
from ...rerank.lists import NOTHING, Candidate
from ...rerank.messages import value_at
from ..files.reply_choices import is_unfinished, total_logprob
from ..server.exchange import BusyError, Exchange, Hold, RefusedError, UnusableError
from ..server.generator import Drawing, candidates_in, seed_of
from ..server.server_probe import LOGPROB_FORMS, LogprobForm, ServerProbe
from .api_errors import ApiError, from_upstream
from .panel import SYSTEM, ModelCost, Outcome, tokens_of
from .questions import Question
from .settings import DrawingSettings
from .tool_calls import calls_of

TIMES_IGNORED = 3  # requests for several in a row that brought one, after which no more are made
IGNORED_SECONDS = 60.0  # until one is made again
MAX_MODELS = 64  # of which is known how they give log-probabilities
_PLACE = "place"  # field of a candidate: where its choice stands in its reply


class UpstreamCall(NamedTuple):
    """A request upstream: the numbers of the server and of the request among those to it, and the model's name."""

    server: int
    number: int
    system: str = ""


class LeftOut(NamedTuple):
    """A choice of a reply that could not be used: the request, its place in the reply, and why."""

    call: UpstreamCall
    choice: int
    reason: str

    def as_json(self) -> dict[str, Any]:
        """As the answer tells it."""
        named = {SYSTEM: self.call.system} if self.call.system else {}
        return {"request": self.call.number, "choice": self.choice, "reason": self.reason, **named}


class Drawn(NamedTuple):
    """A candidate, the choice that it was, and the request that brought it."""

    candidate: Candidate
    choice: Mapping[str, Any]
    call: UpstreamCall

    def with_text(self, text: str) -> Candidate:
        """The candidate as one of this text, such as an argument of its call."""
        fields = {SYSTEM: self.call.system} if self.call.system else NOTHING
        return Candidate(text, self.candidate.logprob, fields)

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
    """A server that candidates come from.

    Whether it gives several candidates for one request is asked again after a while, as once may be a fault.

    Args:
        exchange: requests to it.
        name: of its model among others; empty where there is one server without a name.
        model: what the server calls it; empty for what a request says.
        report: takes what is worth telling people, if anybody is to be told.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        exchange: Exchange,
        name: str = "",
        model: str = "",
        report: Callable[[str], object] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.exchange, self.name, self.model = exchange, name, model
        self._report = report
        # whether it gave nothing when it was asked last, while others answered
        self.is_failing = False
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
        key = (self.model or question.model, question.chat)
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

    def note(self, problem: ApiError | None) -> None:
        """Takes why nothing came of one of several servers, or that something did; tells people when that changes."""
        if (problem is not None) == self.is_failing:
            return
        self.is_failing = problem is not None
        if self._report is None:
            return
        words = "answers again" if problem is None else problem.report or problem.message
        self._report(f"discorank: upstream {self.name}: {words}")

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


class _Share:
    """The candidates that one server is asked for.

    Args:
        number: of the server.
        upstream: the server.
        question: the request.
        settings: how candidates are drawn.
        reads_logprobs: whether log-probabilities are asked for, whether the request does or not.
        most_at_once: for how many candidates one request to the server may be; None for all.
        retries: how often a request is repeated at most; as the connection says if not given.
    """

    def __init__(
        self,
        number: int,
        upstream: Upstream,
        question: Question,
        settings: DrawingSettings,
        reads_logprobs: bool,
        most_at_once: int | None,
        retries: int | None,
    ) -> None:
        self.number, self.upstream, self.name = number, upstream, upstream.name
        self._question, self._settings = question, settings
        self._reads_logprobs, self._retries = reads_logprobs, retries
        self._path = "chat/completions" if question.chat else "completions"
        self.drawing = Drawing(0, self._body, most_at_once)
        self.fatal: DiscorankError | ApiError | None = None
        self.wordless: Mapping[str, Any] | None = None
        self.failed: list[LeftOut] = []
        self.num_requests = 0
        self._refused_n = False  # and nothing came since
        self._began = monotonic()
        self._last_reply: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.fatal is not None or self.drawing.done

    @property
    def has_candidates(self) -> bool:
        """Whether anything came of it."""
        return any(self.drawing.candidates_of.values())

    @property
    def outcome(self) -> Outcome:
        """What became of it so far."""
        if not self.is_over:
            return "dropped"
        return "answered" if self.has_candidates or self.wordless is not None else "failed"

    @property
    def problem(self) -> ApiError:
        """Why nothing came of it, as an answer to the request."""
        error = self.fatal or self.drawing.error or InputError("nothing came", where="server")
        return error if isinstance(error, ApiError) else from_upstream(error)

    @property
    def seconds(self) -> float:
        """How long it took: until its last reply, or until now where it has none, or more are awaited."""
        if self._last_reply is None or not self.is_over:
            return monotonic() - self._began
        return self._last_reply - self._began

    def note(self) -> None:
        """Tells its server what came of it, where that is known and there are others."""
        if self.name and self.outcome != "dropped":
            self.upstream.note(self.problem if self.outcome == "failed" else None)

    @property
    def pause_seconds(self) -> float:
        """Seconds until its server may be asked again."""
        return self.upstream.exchange.pause_seconds

    def leave_out(self) -> None:
        """Ask its server for nothing, as it is paused."""
        problem = f"busy; it may be asked again in {self.pause_seconds:.0f} seconds"
        self.drawing.failed(0, BusyError(problem, where="server"))

    def call(self, number: int) -> UpstreamCall:
        """A request to it."""
        return UpstreamCall(self.number, number, self.name)

    def requests(self, hold: Hold | None) -> list[tuple[asyncio.Task[Any], int, int]]:
        """The requests that are lacking, under way: number, and for how many candidates each is."""
        if self.fatal is not None:
            return []
        lacking = []
        for call, n, body in self.drawing.requests(self.upstream.accepts_n):
            asked = asyncio.create_task(self._asked(body, hold))
            lacking.append((asked, call, n))
        self.num_requests += len(lacking)
        return lacking

    async def _asked(self, body: dict[str, Any], hold: Hold | None) -> Any:
        """The reply to a request; raises ApiError where the log-probabilities that are read cannot be had."""
        if self._reads_logprobs:
            try:
                form = await self.upstream.logprob_form(self._question, self._settings.further)
            except DiscorankError as error:
                raise from_upstream(error) from None
            asked = body if self._question.logprobs else {}
            body = {**body, **form.keys, **asked}
        content = self._question.content_with(body)
        exchange, retries = self.upstream.exchange, self._retries
        return await exchange.reply_to(self._path, content, retries, surrogates=True, hold=hold)

    def _body(self, call: int, n: int) -> dict[str, Any]:
        """What a request for n candidates has of its own: where the user names a seed, others after the first."""
        body = {**self._question.varied, "n": n}
        if self.upstream.model:
            body["model"] = self.upstream.model
        if call and isinstance(body.get("seed"), int):
            body["seed"] = seed_of(body["seed"], call)
        return body

    def take(self, task: asyncio.Task[Any], n: int) -> Any:
        """The reply of a request for n candidates that ended; None where it failed, whose error is noted."""
        self._last_reply = monotonic()
        try:
            return task.result()
        except RefusedError as error:
            self.drawing.refused(n, error)
            self._refused_n = n > 1
        except (UnusableError, ApiError) as error:
            self.fatal = error
        except (ResourceError, InputError) as error:
            self.drawing.failed(n, error)
        return None

    def take_reply(self, call: int, n: int, reply: Any) -> None:
        """Takes the candidates of a reply, each with its place."""
        texts = candidates_in(reply)
        given = value_at(reply, "choices")
        if self._question.tools is not None and isinstance(given, list):
            texts = [_calling(*pair) for pair in zip(given, texts, strict=False)] or texts
        named = {SYSTEM: self.name} if self.name else {}
        choices = [
            replace(text, fields={**text.fields, _PLACE: place, **named})
            if isinstance(text, Candidate)
            else text
            for place, text in enumerate(texts)
        ]
        self.failed += [
            LeftOut(self.call(call), place, error.problem)
            for place, error in enumerate(texts)
            if isinstance(error, InputError)
        ]
        self.drawing.take(call, n, choices)
        if not self.drawing.candidates_of[call]:
            self._note_wordless(reply)
            return
        if self._refused_n or n > 1:
            is_one = len(choices) == 1
            self.upstream.gave(is_one)
            self.drawing.one_at_a_time |= is_one
            self._refused_n = False

    def _note_wordless(self, reply: Any) -> None:
        """Keeps a reply that has choices, but no text: more requests would bring no other."""
        choices = value_at(reply, "choices")
        listed = choices if isinstance(choices, list) else []
        messages = [value_at(choice, "message") for choice in listed]
        if messages and all(isinstance(message, Mapping) for message in messages):
            self.wordless = reply
            self.drawing.given_up = True


class CandidateDraw:
    """Draws the candidates of a request; a context manager, at whose end what is under way is dropped.

    Args:
        upstreams: where they come from, each its share of `question.sizes`.
        question: the request.
        settings: how they are drawn.
        reads_logprobs: whether log-probabilities are asked for, whether the request does or not.
        hold: takes the size of each piece of a reply, which is kept.
        quorum: how many servers have to have given their candidates; then the others are not waited for. All if it is
            None.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        question: Question,
        settings: DrawingSettings,
        reads_logprobs: bool,
        hold: Hold | None = None,
        quorum: int | None = None,
    ) -> None:
        self._hold = hold
        # of several, those that are late are left out as they are: one request each brings all of its share
        self._is_panel = len(upstreams) > 1
        most_at_once = settings.candidates_per_request if self._is_panel else settings.most_at_once
        # where others work, nobody waits for the repetitions of one that failed when it was asked last
        others_work = not all(upstream.is_failing for upstream in upstreams)
        self._shares = []
        for number, upstream in enumerate(upstreams):
            retries = 0 if upstream.is_failing and others_work else None
            if question.sizes[number]:
                share = _Share(
                    number, upstream, question, settings, reads_logprobs, most_at_once, retries
                )
                self._shares.append(share)
                if self._is_panel and share.pause_seconds:
                    share.leave_out()
        self._sizes = question.sizes
        self._quorum = min(quorum or len(self._shares), len(self._shares))
        self._under_way: dict[asyncio.Task[Any], tuple[_Share, int, int]] = {}
        self.replies: dict[UpstreamCall, Mapping[str, Any]] = {}
        self.request_ids: dict[UpstreamCall, str] = {}  # that upstream gave them
        self.costs: Sequence[ModelCost] = ()  # of each model, as it was when drawing ended
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
        """Draws until there are `size` candidates, as many servers as need be gave theirs, or the time is up.

        Raises:
            WordlessError: what came has no text.
            ApiError: nothing came.
        """
        for share in self._shares:
            share.drawing.size = min(size, self._sizes[share.number])
        try:
            await self._waited()
            if self._is_panel and not self.drawn and not any(s.wordless for s in self._shares):
                await self._resumed()
        finally:
            self.costs = [self._cost(share) for share in self._shares if share.name]
            for share in self._shares:
                share.note()
        if self.drawn:
            return
        for share in self._shares:
            if share.wordless is not None:
                raise WordlessError(share.wordless)
        raise self._problem()

    async def _waited(self) -> None:
        """Sends requests and takes replies until it is enough, or the time is up and there is a candidate."""
        self._send()
        while not self._is_enough:
            done, _ = await asyncio.wait(
                self._under_way, timeout=self._seconds_left(), return_when=asyncio.FIRST_COMPLETED
            )
            if not done and self.drawn:
                return
            for task in done:
                self._take(task)
            self._send()

    async def _resumed(self) -> None:
        """Wait for the first of the servers that are paused, as no other gave anything, and ask it."""
        paused = [share for share in self._shares if share.pause_seconds]
        if paused:
            first = min(paused, key=lambda share: share.pause_seconds)
            await asyncio.sleep(first.pause_seconds)
            first.fatal = None
            first.drawing.begin_again()
            await self._waited()

    @property
    def _is_enough(self) -> bool:
        """Whether nothing more is waited for."""
        over = [share for share in self._shares if share.is_over]
        num_answers = sum(share.has_candidates for share in over)
        return len(over) == len(self._shares) or num_answers >= self._quorum

    @property
    def is_over(self) -> bool:
        """Whether no more candidates will come."""
        is_late = self.until is not None and monotonic() >= self.until
        ended = [share.drawing.given_up or share.fatal is not None for share in self._shares]
        return is_late or all(ended)

    @property
    def drawn(self) -> list[Drawn]:
        """The candidates so far, in the order of the servers and of the requests to each."""
        drawn = []
        for share in self._shares:
            for number, candidates in sorted(share.drawing.candidates_of.items()):
                call = share.call(number)
                drawn += [Drawn(one, self._choice(call, one), call) for one in candidates]
        return drawn

    @property
    def failed(self) -> list[LeftOut]:
        """Choices without a text that can be used."""
        return [one for share in self._shares for one in share.failed]

    def _cost(self, share: _Share) -> ModelCost:
        """What a model was asked for, and what came of it."""
        replies = [reply for call, reply in self.replies.items() if call.server == share.number]
        tokens = [tokens_of(reply) for reply in replies]
        outcome = share.outcome
        return ModelCost(
            share.name,
            outcome,
            candidates=sum(map(len, share.drawing.candidates_of.values())),
            requests=share.num_requests,
            prompt_tokens=sum(prompt for prompt, _ in tokens),
            completion_tokens=sum(completion for _, completion in tokens),
            seconds=share.seconds,
            problem=share.problem.message if outcome == "failed" else "",
        )

    def _choice(self, call: UpstreamCall, candidate: Candidate) -> Mapping[str, Any]:
        """The choice that a candidate was."""
        choice: Mapping[str, Any] = self.replies[call]["choices"][candidate.fields[_PLACE]]
        return choice

    def _seconds_left(self) -> float | None:
        """Seconds until the time is up; there is always time for one candidate."""
        if self.until is None or not any(share.has_candidates for share in self._shares):
            return None
        return max(0.0, self.until - monotonic())

    def _send(self) -> None:
        """Sends the requests that are lacking."""
        for share in self._shares:
            for task, number, n in share.requests(self._hold):
                self._under_way[task] = (share, number, n)

    def _take(self, task: asyncio.Task[Any]) -> None:
        """Takes the candidates of a request that ended, or notes its error."""
        share, number, n = self._under_way.pop(task)
        answer = share.take(task, n)
        if answer is not None:
            call = share.call(number)
            if answer.request_id is not None:
                self.request_ids[call] = answer.request_id
            if isinstance(answer.value, Mapping):
                self.replies[call] = answer.value
            share.take_reply(number, n, answer.value)

    def _problem(self) -> ApiError:
        """Why nothing came at all: of several models the words of each, by a status that is no fault of the request."""
        problems = [share.problem for share in self._shares]
        problem = next((one for one in problems if one.status != 400), problems[0])
        if len(problems) > 1:
            words = zip(self._shares, problems, strict=True)
            problem.message = "; ".join(f"{share.name}: {one.message}" for share, one in words)
        return problem
