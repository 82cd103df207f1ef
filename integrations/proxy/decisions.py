"""One request from question to decision: candidates are drawn, in rounds if it is adaptive, and one is chosen.

One thread chooses: open lists are valued together, by an engine that nothing else uses. Metrics need not be safe for
threads, models are loaded once, and the event loop runs meanwhile. A choice is a program that hands out tasks (see
`scheduler`); all that are open go to the engine in one wave.

While the engine works at a batch, what comes next waits. When it ends, its clients answer within moments, and whoever
began at once would begin with the first of them. So a batch waits for as many programs as the last one had, but for no
longer than a small share of the time that the last one took, from its end. A server that is idle, or has one client,
does not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic, perf_counter
from typing import Any

from ...metrics.errors import DiscorankError, MetricError, ResourceError
from ...metrics.mixture import Utility
from ...metrics.text.texts import NO_CONTEXT, Context
from ...rerank.choice import Ranking
from ...rerank.decider import Decider
from ...rerank.engines.interface import Engine, Result, Task
from ...rerank.lists import CandidateList, finite
from ...rerank.mbr import MBRDecoder
from ...rerank.stopping_rule import Outlook, StoppingRule, changing_in_steps
from ..files.reply_choices import is_unfinished
from ..server.exchange import Hold
from .api_errors import ApiError, no_choice
from .candidate_draw import CandidateDraw, Drawn, LeftOut, Upstream, WordlessError
from .counters import Counters
from .document_streams import DocumentStreams, DocumentTurn, check_length
from .json_forms import with_form
from .panel import header_of, tokens_of
from .questions import Question
from .replies import ChosenReply, Decision, untouched
from .settings import DrawingSettings
from .tool_calls import CallVote, Tools, call_vote


class Decisions:
    """Decides requests.

    Args:
        deciders: what chooses, by name.
        upstreams: where candidates come from.
        choosing: the thread that chooses.
        documents: the documents that are known.
        drawing: how candidates are drawn.
        choice_seconds: how long a choice may take.
        counters: of the server.
        quorum: how many of several models are waited for; None for all.
    """

    def __init__(
        self,
        deciders: Mapping[str, Decider],
        upstreams: Sequence[Upstream],
        choosing: ChoosingThread,
        documents: DocumentStreams,
        drawing: DrawingSettings,
        choice_seconds: float,
        counters: Counters,
        quorum: int | None = None,
    ) -> None:
        self._deciders, self._upstreams, self._choosing = deciders, upstreams, choosing
        self._quorum = quorum
        self._documents, self._drawing = documents, drawing
        self._choice_seconds, self._counters = choice_seconds, counters

    async def answer(self, question: Question, hold: Hold | None = None) -> ChosenReply:
        """The answer to a request.

        Args:
            question: the request.
            hold: takes the size of each piece of a reply from upstream, all of which are kept until it is answered.

        Raises:
            ApiError: there is none.
        """
        decider = self._deciders[question.utility]
        draw = CandidateDraw(
            self._upstreams, question, self._drawing, decider.reads_logprobs, hold, self._quorum
        )
        try:
            async with self._turn(question) as turn, draw:
                decision = await self._in_turn(question, decider, draw, turn)
        except WordlessError as error:
            answer = untouched(error.reply, question)
        else:
            self._count(decision)
            answer = decision.answer()
        finally:
            for cost in draw.costs:
                self._counters.models.note(cost)
        return replace(answer, costs=header_of(draw.costs))

    @asynccontextmanager
    async def _turn(self, question: Question) -> AsyncIterator[DocumentTurn | None]:
        """The turn of a request in its document, None where it has none."""
        own = question.own
        if own.document is None or own.position is None:
            yield None
            return
        check_length(question.source or "", "the source")
        async with self._documents.turn(own.document, own.position) as turn:
            yield turn

    async def _in_turn(
        self, question: Question, decider: Decider, draw: CandidateDraw, turn: DocumentTurn | None
    ) -> Decision:
        """The decision in the context of the document, which it becomes part of; a first round comes before it."""
        rule = self._drawing.rule(question.n)
        first = question.n if rule is None else min(question.n, max(rule.first, question.wanted))
        await self._drawn(draw, first)
        if turn is None:
            return await self._decided(question, decider, draw, rule, NO_CONTEXT)
        async with turn.taken() as place:
            decision = await self._decided(question, decider, draw, rule, place.context)
            text = decision.ranking.text
            if decider.resolved_strategy == "one-best":
                text = decision.drawn[0].candidate.text
            place.chosen(question.source or "", str(text))
        return decision

    async def _decided(
        self,
        question: Question,
        decider: Decider,
        draw: CandidateDraw,
        rule: StoppingRule | None,
        context: Context,
    ) -> Decision:
        """The decision, after as many rounds as it needs."""
        rounds = 1
        while True:
            num_drawn = len(draw.drawn)
            missing = 0 if rule is None else rule.next_round(num_drawn)
            is_last = rule is None or not missing or draw.is_over
            try:
                decision = await self._choice(question, decider, draw, rounds, context)
            except ApiError:
                if is_last or question.tools is None:
                    raise  # else candidates that may answer may come
            else:
                if rule is None or is_last:
                    return decision
                if await asyncio.to_thread(_is_safe, rule, decider, decision):
                    return decision
            await self._drawn(draw, num_drawn + missing)
            rounds += 1

    async def _drawn(self, draw: CandidateDraw, size: int) -> None:
        """Draws candidates up to so many."""
        start = perf_counter()
        try:
            await draw.draw(size)
        finally:
            self._counters.draw_seconds.observe(perf_counter() - start)

    async def _choice(
        self,
        question: Question,
        decider: Decider,
        draw: CandidateDraw,
        rounds: int,
        context: Context,
    ) -> Decision:
        """The choice among what was drawn; among those that have the form asked for, if there are any."""
        drawn = draw.drawn
        start = perf_counter()
        vote, decides = None, decider
        if question.tools is not None:
            weights = _prior_weights(drawn, decider)
            vote = await asyncio.to_thread(self._call_vote, drawn, question.tools, weights)
        if vote is not None and vote.texts is not None:
            left_out: list[LeftOut] = []
            allowed, num_valid, num_unfinished = vote.numbers, None, 0
            compared = zip(allowed, vote.texts, strict=True)
            candidates = tuple(drawn[number].with_text(text) for number, text in compared)
            decides = decider if vote.by_utility else _votes_like(decider)
        else:
            numbers = range(len(drawn)) if vote is None else vote.numbers
            usable, left_out = _usable(drawn, numbers, decider)
            allowed, num_valid = await _allowed(question, drawn, usable)
            allowed, num_unfinished = _preferred(drawn, allowed, self._drawing)
            candidates = tuple(drawn[number].candidate for number in allowed)
        record = CandidateList("request", candidates, question.source)
        try:
            async with asyncio.timeout(self._choice_seconds):
                ranking = await self._choosing.choose(decides, record, context)
        except DiscorankError as error:
            raise no_choice(error) from None
        except TimeoutError:
            problem = f"no choice within {self._choice_seconds:g} seconds"
            raise ApiError(503, problem, code="no_choice", retry_seconds=5) from None
        finally:
            self._counters.choice_seconds.observe(perf_counter() - start)
        replies = dict(draw.replies)
        return Decision(
            question,
            drawn,
            replies,
            ranking,
            allowed,
            rounds,
            hides_logprobs=decider.reads_logprobs and not question.logprobs,
            num_valid=num_valid,
            left_out=[*draw.failed, *left_out],
            num_unfinished=num_unfinished,
            call_vote=vote,
            request_ids=draw.request_ids,
            costs=draw.costs,
        )

    def _call_vote(
        self, drawn: Sequence[Drawn], tools: Tools, weights: Sequence[float] | None
    ) -> CallVote:
        """The vote over candidates that may call tools."""
        choices = [one.choice for one in drawn]
        ignored, text_key = self._drawing.ignore_arguments, self._drawing.argument_text
        return call_vote(choices, tools, ignored, text_key, weights)

    def _count(self, decision: Decision) -> None:
        """Counts what was drawn for a decision."""
        self._counters.candidates.inc(len(decision.drawn))
        self._counters.rounds.observe(decision.rounds)
        self._counters.unfinished.inc(decision.num_unfinished)
        if len(decision.drawn) > 1 and decision.num_distinct == 1:
            self._counters.copies.inc()
        for reply in decision.replies.values():
            for kind, count in zip(("prompt", "completion"), tokens_of(reply), strict=True):
                if count:
                    self._counters.tokens.labels(kind).inc(count)
        if decision.system:
            self._counters.models.chosen.labels(decision.system).inc()


CALLS = MBRDecoder(utility='vote(answer="text",agree="exact")', nbest=None)  # over calls as JSON


def _prior_weights(drawn: Sequence[Drawn], decider: Decider) -> Sequence[float] | None:
    """What the votes of candidates count by the prior of a decider; None where it has none."""
    if not isinstance(decider, MBRDecoder) or decider.pool.prior is None:
        return None
    weights: list[float] = decider.pool.weights_of([one.candidate for one in drawn]).tolist()
    return weights


def _votes_like(decider: Decider) -> MBRDecoder:
    """The vote over calls, with the prior of a decider."""
    if not isinstance(decider, MBRDecoder) or decider.pool.prior is None:
        return CALLS
    pool = decider.pool
    return CALLS.with_settings(prior=pool.prior, prior_strength=pool.prior_strength)


def _usable(
    drawn: Sequence[Drawn], everything: Sequence[int], decider: Decider
) -> tuple[Sequence[int], list[LeftOut]]:
    """Numbers of the candidates that can be chosen among, of `everything`, and the others.

    Where log-probabilities are read, a candidate without one is left out, unless all are.
    """
    if not decider.reads_logprobs:
        return everything, []
    usable = [i for i in everything if finite(drawn[i].candidate.logprob) is not None]
    if not usable:
        return everything, []
    lacking = sorted(set(everything) - set(usable))
    return usable, [drawn[i].left_out("a choice without a log-probability") for i in lacking]


async def _allowed(
    question: Question, drawn: Sequence[Drawn], usable: Sequence[int]
) -> tuple[Sequence[int], int | None]:
    """Numbers of the candidates to choose among, and how many have the form asked for, where that can be told."""
    if question.response_format is None:
        return usable, None
    texts = [str(drawn[number].candidate.text) for number in usable]
    valid = await asyncio.to_thread(with_form, texts, question.response_format)
    if valid is None:
        return usable, None
    return [usable[i] for i in valid] or usable, len(valid)


def _preferred(
    drawn: Sequence[Drawn], allowed: Sequence[int], drawing: DrawingSettings
) -> tuple[Sequence[int], int]:
    """Numbers of the candidates to choose among, and how many of them were left out as they were cut off."""
    if drawing.prefer == "any":
        return allowed, 0
    finished = [number for number in allowed if not is_unfinished(drawn[number].choice)]
    return (finished, len(allowed) - len(finished)) if finished else (allowed, 0)


def _is_safe(rule: StoppingRule, decider: Decider, decision: Decision) -> bool:
    """Whether more candidates are not likely to change a choice for the better."""
    vote = decision.call_vote
    if vote is not None:
        if not vote.steps:
            return False  # a utility decided, among candidates that others may join
        chance = changing_in_steps(vote.steps, rule.cap - len(decision.drawn))
        return rule.is_safe(Outlook(chance, 0.0, is_of_answers=True))
    ranking, weights = decision.ranking, None
    if isinstance(decider, MBRDecoder) and decider.pool.weights != "uniform":
        weights = decider.pool.weights_of(ranking.candidates)
    return rule.is_safe(rule.outlook_of(ranking, weights))


WINDOW_SHARE = 0.1  # of the time of a batch


@dataclass(slots=True)
class _Outcome:
    """One of several outcomes that are waited for together, an error as well; the last that comes ends the future."""

    place: int
    number: int
    outcomes: dict[int, Any]
    future: Future[list[Any]]

    def set_running_or_notify_cancel(self) -> bool:
        """Whether it is still waited for."""
        return not self.future.cancelled()

    def cancelled(self) -> bool:
        """Whether it is waited for no more."""
        return self.future.cancelled()

    def set_result(self, result: Any) -> None:
        """Takes the result."""
        self.outcomes[self.place] = result
        if len(self.outcomes) == self.number and self.future.set_running_or_notify_cancel():
            self.future.set_result([self.outcomes[place] for place in range(self.number)])

    set_exception = set_result


class BatchWindow:
    """How long a batch that could begin waits for more.

    Args:
        max_seconds: at most; 0 for never.
        clock: tells the time, in seconds.
    """

    def __init__(self, max_seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._max_seconds, self._clock = max_seconds, clock
        self._begun = self._until = clock()
        self._last_size = 0

    def begin(self) -> None:
        """Notes that a batch begins."""
        self._begun = self._clock()

    def end(self, size: int) -> None:
        """Notes that it ended, with so many outcomes."""
        now = self._clock()
        seconds = min(self._max_seconds, WINDOW_SHARE * (now - self._begun))
        self._until, self._last_size = now + seconds, size

    def seconds_left(self, size: int) -> float:
        """How long to wait for more, where so many are there; 0 to begin."""
        if size >= self._last_size:
            return 0.0
        return max(0.0, self._until - self._clock())


@dataclass(slots=True, eq=False)
class _Choice:
    """A choice that is asked for."""

    begin: Callable[[], Generator[Task, Result, Any]]
    future: Future[Any] | _Outcome
    program: Generator[Task, Result, Any] | None = None


class ChoosingThread:
    """Chooses with an engine, in a thread of its own.

    Args:
        engine: what values lists.
        max_waiting: choices that may wait; more are refused.
        window: how long a batch waits for more.
    """

    def __init__(self, engine: Engine, max_waiting: int, window: BatchWindow | None = None) -> None:
        self._engine, self._max_waiting = engine, max_waiting
        self._window = window or BatchWindow(0.0)
        self._asked: SimpleQueue[_Choice | None] = SimpleQueue()
        self._running: dict[int, _Choice] = {}  # by the key that the engine has for them
        self._thread = Thread(target=self._run, name="discorank-choosing", daemon=True)
        self._is_ending = False

    def start(self, metrics: Sequence[Utility]) -> None:
        """Loads the metrics and begins.

        Raises:
            DiscorankError: one of them cannot be loaded.
        """
        self._engine.load(metrics)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Ends the thread when nothing waits, or leaves it behind after so long."""
        self._asked.put(None)
        self._thread.join(seconds)

    @property
    def num_waiting(self) -> int:
        """How many choices wait or are being made."""
        return self._asked.qsize() + len(self._running)

    async def choose(
        self, decider: Decider, record: CandidateList, context: Context = NO_CONTEXT
    ) -> Ranking:
        """The choice.

        Raises:
            DiscorankError: it cannot be made.
            ResourceError: too many wait.
        """
        if self.num_waiting >= self._max_waiting:
            raise ResourceError("too many choices wait", where="choosing")
        future: Future[Ranking] = Future()
        self._asked.put(_Choice(lambda: decider.program(record, context, ()), future))
        return await asyncio.wrap_future(future)

    async def outcomes(
        self, programs: Sequence[Callable[[], Generator[Task, Result, Any]]]
    ) -> list[Any]:
        """The outcomes of programs that go to the engine together; errors stand in their places.

        What is cancelled is forgotten, also where the engine has it already.

        Raises:
            DiscorankError: the engine failed altogether.
        """
        future: Future[list[Any]] = Future()
        outcomes: dict[int, Any] = {}
        for place, program in enumerate(programs):
            outcome = _Outcome(place, len(programs), outcomes, future)
            self._asked.put(_Choice(program, outcome))
        return await asyncio.wrap_future(future) if programs else []

    def _run(self) -> None:
        """Admits what is asked for, and has the engine value it, until the end is asked for."""
        while self._running or not self._is_ending:
            self._admit()
            if self._running:
                self._collect()

    def _admit(self) -> None:
        """Begins all choices that are asked for; waits for one if nothing is under way, then for more of a batch."""
        is_idle = not self._running and not self._is_ending
        while True:
            seconds: float | None = 0.0
            if is_idle:
                size = len(self._running)
                seconds = self._window.seconds_left(size) if size else None
            try:
                choice = self._asked.get(block=seconds != 0.0, timeout=seconds)
            except Empty:
                return
            if choice is None:
                self._is_ending = True
                return
            if choice.future.set_running_or_notify_cancel():
                self._step(choice, None)

    def _collect(self) -> None:
        """Takes the results that the engine has; where it fails altogether, so does all that is under way."""
        self._forget_cancelled()
        if not self._running:
            return
        self._window.begin()
        try:
            results = self._engine.collect()
        except BaseException as error:  # a user's metric may try to end the process
            failed, self._running = self._running, {}
            self._engine.forget(failed)
            for choice in failed.values():
                choice.future.set_exception(_as_ours(error))
            return
        self._window.end(len(results))
        for key, result in results:
            if key not in self._running:
                continue
            choice = self._running.pop(key)
            if isinstance(result, DiscorankError):
                choice.future.set_exception(result)
            else:
                self._step(choice, result)

    def _forget_cancelled(self) -> None:
        """Lets go of what nobody waits for any more."""
        gone = [key for key, choice in self._running.items() if choice.future.cancelled()]
        if gone:
            self._engine.forget(gone)
            for key in gone:
                del self._running[key]

    def _step(self, choice: _Choice, result: Result | None) -> None:
        """Runs a choice to its next task or its end."""
        try:
            if choice.program is None:
                choice.program = choice.begin()
            task = next(choice.program) if result is None else choice.program.send(result)
            self._engine.submit(id(choice), task)
            self._running[id(choice)] = choice
        except StopIteration as end:
            choice.future.set_result(end.value)
        except BaseException as error:
            choice.future.set_exception(_as_ours(error))


def _as_ours(error: BaseException) -> DiscorankError:
    """An error that is no fault of the process: what a metric raised."""
    if isinstance(error, DiscorankError):
        return error
    ours = MetricError(f"{type(error).__name__}: {error}", where="metric")
    ours.__cause__ = error
    return ours
