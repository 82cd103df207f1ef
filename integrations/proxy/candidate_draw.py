"""The candidates of one request, as they come from upstream: texts to choose from, whole choices to answer with.

Each draw has requests of its own, so candidates of different requests cannot mix. Of several upstreams each gives its
share of the candidates, which carry its name as ``system``. Waiting ends when a quorum of upstreams has given its
candidates, when the others have failed, or at the deadline, with what has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self

from ...metrics.errors import InputError, ResourceError
from ...rerank.lists import NOTHING, Candidate
from ...rerank.messages import value_at
from ..files.reply_choices import is_unfinished, total_logprob
from ..server.exchange import Exchange, Hold, JsonReply, RefusedError
from ..server.generator import Drawing, candidates_in, seed_of
from .api_errors import ApiError, NoLogprobsError, from_upstream
from .questions import Question
from .settings import DrawingSettings, UpstreamSpec
from .tool_calls import calls_of

SYSTEM = "system"  # the field of a candidate that names its model
MAX_TOKENS = 1 << 53  # more is not a count; up to here, floats are exact
TIMES_FAILED = 3  # in a row, after which something is not tried for a while
PAUSE_SECONDS = 60.0
MAX_MODELS = 64  # of an upstream, of which is known whether they give log-probabilities
MAX_NAME = 256  # characters of a model's name by which models differ
LOGPROB_KEYS = {True: {"logprobs": True, "top_logprobs": 1}, False: {"logprobs": 1}}  # of chats


@dataclass(frozen=True, slots=True, eq=False)
class UpstreamReply:
    """A reply of an upstream.

    Args:
        value: what it answered.
        number: of the request among those to the upstream.
        system: the name of the upstream; empty for a single one without a name.
        request_id: that the upstream gave the request.
    """

    value: Any
    number: int
    system: str
    request_id: str | None

    @property
    def named(self) -> dict[str, str]:
        """The name of the upstream, as answers have it."""
        return {SYSTEM: self.system} if self.system else {}


class Drawn(NamedTuple):
    """A candidate, the choice that it was, and the reply that brought it."""

    candidate: Candidate
    choice: Mapping[str, Any]
    reply: UpstreamReply

    def with_text(self, text: str) -> Candidate:
        """The candidate with another text, such as its calls of tools."""
        return Candidate(text, self.candidate.logprob, self.reply.named or NOTHING)

    def left_out(self, reason: str) -> dict[str, Any]:
        """The entry of an answer about a choice that could not be used."""
        choices = self.reply.value["choices"]
        place = next(i for i, choice in enumerate(choices) if choice is self.choice)
        return left_out(self.reply, place, reason)


def left_out(reply: UpstreamReply, place: int, reason: str) -> dict[str, Any]:
    """The entry of an answer about the choice of a reply that could not be used."""
    return {"request": reply.number, "choice": place, "reason": reason, **reply.named}


def tokens_of(reply: Any) -> tuple[int, int]:
    """Tokens of the prompt and of the texts of a reply, as the server counts them; 0 where it does not say."""
    usage = value_at(reply, "usage")
    counts = [value_at(usage, f"{kind}_tokens") for kind in ("prompt", "completion")]
    prompt, completion = (
        count if isinstance(count, int) and 0 < count < MAX_TOKENS else 0 for count in counts
    )
    return prompt, completion


class WordlessError(Exception):
    """A reply whose choices have no text, such as a refusal; it answers as it is."""

    def __init__(self, reply: Mapping[str, Any]) -> None:
        super().__init__("no text")
        self.reply = reply


class FailuresInARow:
    """Failures of one kind, which is tried again a while after the last one, as it may have passed.

    Args:
        most: how many there are before it is not tried any more.
        clock: returns the time in seconds.
    """

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most, self._clock = most, clock
        self._number, self._paused_until = 0, 0.0

    def note(self, is_failure: bool) -> None:
        """Note what came; after a success, one failure alone is taken for chance."""
        if not is_failure:
            self._number, self._most, self._paused_until = 0, TIMES_FAILED, 0.0
            return
        self._number += 1
        if self.is_doubtful:
            self._paused_until = self._clock() + PAUSE_SECONDS

    @property
    def is_doubtful(self) -> bool:
        """Whether there were too many."""
        return self._number >= self._most

    @property
    def is_paused(self) -> bool:
        """True while the upstream is left alone."""
        return self._clock() < self._paused_until

    def begin(self) -> bool:
        """True if a request may try the upstream; after a failure one at a time."""
        is_paused = self.is_paused
        if self.is_doubtful and not is_paused:
            self._paused_until = self._clock() + PAUSE_SECONDS
        return not is_paused


class Upstream:
    """A server that candidates come from.

    Whether it gives several candidates for one request, or log-probabilities, is tried again after a while, as once may
    be a fault.

    Args:
        exchange: requests to it.
        spec: its name, and the name of its model.
        report: takes lines for the operator.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        exchange: Exchange,
        spec: UpstreamSpec,
        report: Callable[[str], object],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.exchange, self.name, self.model = exchange, spec.name, spec.model
        self.is_failing = False  # whether it gave nothing when it was asked last
        self.report = report
        self.single_replies = FailuresInARow(TIMES_FAILED, clock)  # to requests for several
        # replies without log-probabilities, by the name of the model, and whether it was asked in chats
        self.without_logprobs = lru_cache(MAX_MODELS)(lambda *asked: FailuresInARow(1, clock))

    def note(self, problem: ApiError | None) -> None:
        """Note why an upstream among others gave nothing, or that it gave something; reports changes."""
        if (problem is not None) != self.is_failing:
            self.is_failing = problem is not None
            words = "answers again" if problem is None else problem.report or problem.message
            self.report(f"discorank: upstream {self.name}: {words}")


class _Share:
    """The candidates that one upstream is asked for.

    Args:
        upstream: where they come from.
        size: how many it gives at most.
        question: the request.
        reads_logprobs: whether log-probabilities are asked for, whether the request does or not.
        most_at_once: for how many candidates one request upstream may be; None for all.
        retries: how often a request is repeated at most; as the connection says if not given.
    """

    def __init__(
        self,
        upstream: Upstream,
        size: int,
        question: Question,
        reads_logprobs: bool,
        most_at_once: int | None,
        retries: int | None,
    ) -> None:
        self.upstream, self.size, self._question = upstream, size, question
        self._reads_logprobs, self._retries = reads_logprobs, retries
        model = str(upstream.model or question.varied.get("model"))[:MAX_NAME]
        self._without_logprobs = upstream.without_logprobs(model, question.chat)
        self.drawing: Drawing[Drawn] = Drawing(0, self._body, most_at_once)
        self.wordless: Mapping[str, Any] | None = None
        self.left_out: list[dict[str, Any]] = []
        self.replies: list[UpstreamReply] = []
        self._num_requests = 0
        self._refused_n = False  # and nothing came since
        self._began = self._last_reply = monotonic()

    @property
    def outcome(self) -> str:
        """What became of it so far."""
        if not self.drawing.done:
            return "dropped"
        return "answered" if self.drawing.came or self.wordless is not None else "failed"

    @property
    def problem(self) -> ApiError:
        """Why nothing came of it, as an answer to the request."""
        return from_upstream(self.drawing.error or InputError("nothing came", where="server"))

    @property
    def cost(self) -> dict[str, Any]:
        """The requests to its upstream and their outcomes, as the answer reports them."""
        tokens = [tokens_of(reply.value) for reply in self.replies]
        is_known = self.drawing.done and self._last_reply > self._began
        until, outcome = self._last_reply if is_known else monotonic(), self.outcome
        return {
            SYSTEM: self.upstream.name,
            "outcome": outcome,
            "candidates": len(self.drawing.candidates()),
            "requests": self._num_requests,
            "prompt_tokens": sum(prompt for prompt, _ in tokens),
            "completion_tokens": sum(completion for _, completion in tokens),
            "seconds": round(until - self._began, 4),
            **({"problem": self.problem.message} if outcome == "failed" else {}),
        }

    def requests(self, hold: Hold | None) -> list[tuple[asyncio.Task[JsonReply], int, int]]:
        """Send the requests that are lacking; the number of each, and for how many candidates it is."""
        lacking = []
        if self._reads_logprobs and not self._num_requests:
            self.drawing.is_trial = self._without_logprobs.is_doubtful
            if not self._without_logprobs.begin():
                self.drawing.failed(0, NoLogprobsError())
        path = "chat/completions" if self._question.chat else "completions"
        for call, n, body in self.drawing.requests(not self.upstream.single_replies.is_paused):
            content = self._question.content_with(body)
            sending = self.upstream.exchange.reply_to(
                path, content, self._retries, surrogates=True, hold=hold
            )
            lacking.append((asyncio.create_task(sending), call, n))
        self._num_requests += len(lacking)
        return lacking

    def _body(self, call: int, n: int) -> dict[str, Any]:
        """The fields of a request for n candidates; with a seed from the user, later requests get other seeds."""
        body = {**self._question.varied, "n": n}
        if self._reads_logprobs:
            asked = body if self._question.logprobs else {}
            body = {**body, **LOGPROB_KEYS[self._question.chat], **asked}
        if self.upstream.model:
            body["model"] = self.upstream.model
        if call and isinstance(body.get("seed"), int):
            body["seed"] = seed_of(body["seed"], call)
        return body

    def take(self, task: asyncio.Task[JsonReply], call: int, n: int) -> None:
        """Take the reply to a request for n candidates, or its error; raises ApiError if it finds no memory."""
        self._last_reply = monotonic()
        try:
            reply = task.result()
        except RefusedError as error:
            self.drawing.refused(n, error)
            self._refused_n = n > 1
        except (ResourceError, InputError) as error:
            self.drawing.failed(n, error)
        else:
            self._take_reply(call, n, reply)

    def _take_reply(self, call: int, n: int, answer: JsonReply) -> None:
        """Take the candidates of a reply."""
        reply = UpstreamReply(answer.value, call, self.upstream.name, answer.request_id)
        given, texts = value_at(reply.value, "choices"), candidates_in(reply.value)
        choices: list[Drawn | InputError] = []
        for place, text in enumerate(texts):
            choice: Any = given[place] if isinstance(given, list) and given else None
            candidate = text if self._question.tools is None else _calling(choice, text)
            if isinstance(candidate, InputError):
                self.left_out.append(left_out(reply, place, candidate.problem))
                choices.append(candidate)
            else:
                named = replace(candidate, fields={**candidate.fields, **reply.named})
                choices.append(Drawn(named, choice, reply))
        came = [one for one in choices if isinstance(one, Drawn)]
        if (
            self._reads_logprobs and came and self._question.tools is None
        ):  # as calls are voted over
            is_lacking = all(one.candidate.logprob is None for one in came)
            self._without_logprobs.note(is_lacking)
            if is_lacking:
                self.drawing.failed(n, NoLogprobsError())
                return
        self.drawing.take(call, n, choices)
        if isinstance(reply.value, Mapping):
            self.replies.append(reply)
        if not self.drawing.candidates_of[call]:
            self._note_wordless(reply.value)
        elif self._refused_n or n > 1:
            is_one = len(choices) == 1
            self.upstream.single_replies.note(is_one)
            self.drawing.one_at_a_time |= is_one
            self._refused_n = False

    def _note_wordless(self, reply: Any) -> None:
        """Keep a reply that has choices without a text: more requests would bring no other."""
        choices = value_at(reply, "choices")
        listed = choices if isinstance(choices, list) else []
        messages = [value_at(choice, "message") for choice in listed]
        if messages and all(isinstance(message, Mapping) for message in messages):
            self.wordless = reply
            self.drawing.given_up = True


def _calling(choice: Any, text: Candidate | InputError) -> Candidate | InputError:
    """The candidate of a choice that calls tools, whose text may be missing; any other as it is."""
    if isinstance(text, Candidate) or not isinstance(choice, Mapping) or not calls_of(choice):
        return text
    try:
        logprob = total_logprob(choice)
    except InputError:
        logprob = None
    return Candidate("", logprob, {"unfinished": True} if is_unfinished(choice) else NOTHING)


class CandidateDraw:
    """Draws the candidates of a request; a context manager, at whose end requests in flight are dropped.

    Args:
        upstreams: where they come from, each its share of `question.sizes`.
        question: the request.
        settings: how they are drawn.
        reads_logprobs: whether log-probabilities are asked for, whether the request does or not.
        hold: takes the size of each piece of a reply, which is kept.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        question: Question,
        settings: DrawingSettings,
        reads_logprobs: bool,
        hold: Hold | None = None,
    ) -> None:
        self._hold = hold
        # of several, those that are late are left out as they are: one request each brings all of its share
        is_panel = len(upstreams) > 1
        most_at_once = settings.candidates_per_request if is_panel else settings.most_at_once
        # if others work, nobody waits for the repetitions of one that failed when it was asked last
        others_work = not all(upstream.is_failing for upstream in upstreams)
        self._shares: list[_Share] = []
        for upstream, size in zip(upstreams, question.sizes, strict=True):
            if size:
                retries = 0 if upstream.is_failing and others_work else None
                share = _Share(upstream, size, question, reads_logprobs, most_at_once, retries)
                self._shares.append(share)
        self._quorum = min(settings.quorum or len(self._shares), len(self._shares))
        self._in_flight: dict[asyncio.Task[JsonReply], tuple[_Share, int, int]] = {}
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
        """Drop the requests in flight."""
        for task in self._in_flight:
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)

    async def draw(self, size: int) -> None:
        """Draw until there are `size` candidates, as many upstreams as need be gave theirs, or the time is up.

        Raises:
            WordlessError: what came has no text.
            ApiError: nothing came.
        """
        for share in self._shares:
            share.drawing.size = min(size, share.size)
        await self._wait()
        for share in self._shares:
            if share.upstream.name and share.outcome != "dropped":
                share.upstream.note(share.problem if share.outcome == "failed" else None)
        if not self.drawn:
            for share in self._shares:
                if share.wordless is not None:
                    raise WordlessError(share.wordless)
            raise self._problem()

    async def _wait(self) -> None:
        """Send requests and take replies until it is enough, or the time is up and there is a candidate."""
        self._send()
        while not self._is_enough:
            done, _ = await asyncio.wait(
                self._in_flight, timeout=self._seconds_left(), return_when=asyncio.FIRST_COMPLETED
            )
            if not done and self.drawn:
                return
            for task in done:
                share, call, n = self._in_flight.pop(task)
                share.take(task, call, n)
            self._send()

    def _send(self) -> None:
        """Send the requests that are lacking."""
        for share in self._shares:
            for task, call, n in share.requests(self._hold):
                self._in_flight[task] = (share, call, n)

    @property
    def _is_enough(self) -> bool:
        """Whether nothing more is waited for."""
        over = [share for share in self._shares if share.drawing.done]
        num_answers = sum(share.drawing.came for share in over)
        return len(over) == len(self._shares) or num_answers >= self._quorum

    def _seconds_left(self) -> float | None:
        """Seconds until the time is up; there is always time for one candidate."""
        if self.until is None or not self.drawn:
            return None
        return max(0.0, self.until - monotonic())

    @property
    def is_over(self) -> bool:
        """Whether no more candidates will come."""
        is_late = self.until is not None and monotonic() >= self.until
        return is_late or all(share.drawing.given_up for share in self._shares)

    @property
    def drawn(self) -> list[Drawn]:
        """The candidates so far, in the order of the upstreams and of the requests to each."""
        return [one for share in self._shares for one in share.drawing.candidates()]

    @property
    def replies(self) -> list[UpstreamReply]:
        """The answers of the upstreams, in the same order."""
        return [
            reply
            for share in self._shares
            for reply in sorted(share.replies, key=lambda reply: reply.number)
        ]

    @property
    def left_out(self) -> list[dict[str, Any]]:
        """Choices without a text that can be used, as the answer has them."""
        return [one for share in self._shares for one in share.left_out]

    @property
    def costs(self) -> list[dict[str, Any]]:
        """The requests to each model and their outcomes; empty for a single model without a name."""
        return [share.cost for share in self._shares if share.upstream.name]

    def _problem(self) -> ApiError:
        """Why nothing came at all: of several the words of each, by a status that is not the fault of the request."""
        problems = [share.problem for share in self._shares]
        problem = next((one for one in problems if one.status != 400), problems[0])
        if len(problems) > 1:
            words = zip(self._shares, problems, strict=True)
            problem.message = "; ".join(
                f"{share.upstream.name}: {one.message}" for share, one in words
            )
        return problem
