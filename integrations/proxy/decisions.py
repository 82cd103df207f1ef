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
from dataclasses import dataclass
from functools import partial
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
from ..server.server_probe import NO_SAMPLES
from .api_errors import ApiError, no_choice
from .candidate_draw import CandidateDraw, Drawn, Upstream, WordlessError, tokens_of
from .counters import Counters
from .document_streams import DocumentStreams, DocumentTurn, check_length
from .questions import Question
from .replies import ChosenReply, Decision, Eligible, untouched
from .settings import DrawingSettings
from .tool_calls import call_vote, with_form

# how long a batch waits at most for what comes with it, and by the time that the last one took
WINDOW_SECONDS = 0.02
WINDOW_SHARE = 0.1
MANY_COPIES = 20  # requests in a row after which the operator is told
MAX_WAITING = 1 << 20  # programs that wait; those of requests that were dropped hold no texts
CALLS = MBRDecoder(utility='vote(answer="text",agree="exact")', nbest=None)  # over calls as JSON
Program = Callable[[], Generator[Task, Result, Any]]


@dataclass(eq=False)
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
    """

    deciders: Mapping[str, Decider]
    upstreams: Sequence[Upstream]
    choosing: ChoosingThread
    documents: DocumentStreams
    drawing: DrawingSettings
    choice_seconds: float
    counters: Counters
    num_copies: int = 0  # choices in a row whose candidates were all the same

    async def answer(self, question: Question, hold: Hold | None = None) -> ChosenReply:
        """The answer to a request.

        Args:
            question: the request.
            hold: takes the size of each piece of a reply from upstream, all of which are kept until it is answered.

        Raises:
            ApiError: there is none.
        """
        decider = self.deciders[str(question.own.utility)]
        draw = CandidateDraw(self.upstreams, question, self.drawing, decider.reads_logprobs, hold)
        try:
            async with self._turn(question) as turn, draw:
                decision = await self._in_turn(question, decider, draw, turn)
        except WordlessError as error:
            return untouched(error.reply, question)
        self._count(decision)
        return decision.answer()

    @asynccontextmanager
    async def _turn(self, question: Question) -> AsyncIterator[DocumentTurn | None]:
        """The turn of a request in its document, None without one."""
        own = question.own
        if own.document is None or own.position is None:
            yield None
            return
        check_length(own.source or "", "the source")
        async with self.documents.turn(own.document, own.position) as turn:
            yield turn

    async def _in_turn(
        self, question: Question, decider: Decider, draw: CandidateDraw, turn: DocumentTurn | None
    ) -> Decision:
        """The decision in the context of the document, which it becomes part of; a first round comes before it."""
        n = sum(question.sizes)
        rule = self.drawing.rule(n)
        await self._drawn(draw, n if rule is None else min(n, max(rule.first, question.wanted)))
        if turn is None:
            return await self._decided(question, decider, draw, rule, NO_CONTEXT)
        async with turn.taken() as place:
            decision = await self._decided(question, decider, draw, rule, place.context)
            text = decision.ranking.text
            if decider.resolved_strategy == "one-best":
                text = decision.drawn[0].candidate.text
            place.chosen(question.own.source or "", str(text))
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
        """Draw candidates up to so many."""
        with self.counters.draw_seconds.time():
            await draw.draw(size)

    async def _choice(
        self,
        question: Question,
        decider: Decider,
        draw: CandidateDraw,
        rounds: int,
        context: Context,
    ) -> Decision:
        """The choice among what was drawn."""
        drawn = draw.drawn
        start = perf_counter()
        eligible = await self._eligible(question, drawn, decider)
        record = CandidateList("request", eligible.candidates, question.own.source)
        try:
            async with asyncio.timeout(self.choice_seconds):
                ranking = await self.choosing.choose(eligible.decider, record, context)
        except DiscorankError as error:
            raise no_choice(error) from None
        except TimeoutError:
            problem = f"no choice within {self.choice_seconds:g} seconds"
            raise ApiError(503, problem, code="no_choice") from None
        finally:
            self.counters.choice_seconds.observe(perf_counter() - start)
        hides_logprobs = decider.reads_logprobs and not question.logprobs
        return Decision(question, draw, drawn, eligible, ranking, rounds, hides_logprobs)

    async def _eligible(
        self, question: Question, drawn: Sequence[Drawn], decider: Decider
    ) -> Eligible:
        """The candidates to choose among: of the calls that most make, or with the form asked for and not cut off."""
        numbers: Sequence[int] = range(len(drawn))
        vote = None
        if question.tools is not None:
            choices = [one.choice for one in drawn]
            weights, ignored = _prior_weights(drawn, decider), self.drawing.ignore_arguments
            vote = await asyncio.to_thread(call_vote, choices, question.tools, ignored, weights)
            numbers = vote.numbers
            if vote.texts is not None:
                compared = zip(numbers, vote.texts, strict=True)
                calls = tuple(drawn[number].with_text(text) for number, text in compared)
                return Eligible(numbers, calls, _votes_like(decider), vote)
        left_out = []
        if decider.reads_logprobs:
            usable = [i for i in numbers if finite(drawn[i].candidate.logprob) is not None]
            usable = usable or list(numbers)
            lacking = sorted(set(numbers) - set(usable))
            left_out = [drawn[i].left_out("a choice without a log-probability") for i in lacking]
            numbers = usable
        num_valid = None
        if question.response_format is not None:
            texts = [str(drawn[number].candidate.text) for number in numbers]
            valid = await asyncio.to_thread(with_form, texts, question.response_format)
            if valid is not None:
                num_valid = len(valid)
                numbers = [numbers[i] for i in valid] or numbers
        finished = [number for number in numbers if not is_unfinished(drawn[number].choice)]
        finished = finished or list(numbers)
        candidates = tuple(drawn[number].candidate for number in finished)
        num_unfinished = len(numbers) - len(finished)
        return Eligible(finished, candidates, decider, vote, left_out, num_valid, num_unfinished)

    def _count(self, decision: Decision) -> None:
        """Count what was drawn for a decision."""
        self.counters.candidates.inc(len(decision.drawn))
        self.counters.rounds.observe(decision.rounds)
        self.counters.unfinished.inc(decision.eligible.num_unfinished)
        if len(decision.drawn) > 1:
            is_copy = decision.num_distinct == 1
            self.counters.copies.inc(is_copy)
            self.num_copies = self.num_copies + 1 if is_copy else 0
            if self.num_copies == MANY_COPIES:
                line = f"discorank: {MANY_COPIES} requests in a row brought copies. {NO_SAMPLES}"
                self.upstreams[0].report(line)
        for reply in decision.draw.replies:
            for kind, count in zip(("prompt", "completion"), tokens_of(reply.value), strict=True):
                self.counters.tokens.labels(kind).inc(count)


def _prior_weights(drawn: Sequence[Drawn], decider: Decider) -> Sequence[float] | None:
    """The weights of candidates' votes by the prior of a decider; None without one."""
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


def _is_safe(rule: StoppingRule, decider: Decider, decision: Decision) -> bool:
    """Whether more candidates are not likely to change a choice for the better."""
    vote = decision.eligible.vote
    if vote is not None:
        if not vote.steps:
            return False  # a utility decided, among candidates that others may join
        chance = changing_in_steps(vote.steps, rule.cap - len(decision.drawn))
        return rule.is_safe(Outlook(chance, 0.0, is_of_answers=True))
    ranking, weights = decision.ranking, None
    if isinstance(decider, MBRDecoder) and decider.pool.weights != "uniform":
        weights = decider.pool.weights_of(ranking.candidates)
    return rule.is_safe(rule.outlook_of(ranking, weights))


class _Batch:
    """Programs whose outcomes are waited for together.

    Args:
        size: how many.
    """

    def __init__(self, size: int) -> None:
        self.future: Future[list[Any]] = Future()
        self._outcomes: list[Any] = [None] * size
        self._num_missing = size

    def take(self, number: int, outcome: Any) -> None:
        """Take the outcome of a program, which may be an error; the last one ends the future."""
        self._outcomes[number] = outcome
        self._num_missing -= 1
        if not self._num_missing and self.future.set_running_or_notify_cancel():
            self.future.set_result(self._outcomes)


@dataclass(slots=True, eq=False)
class _Running:
    """A program, its batch and its number in that."""

    begin: Program
    batch: _Batch
    number: int
    program: Generator[Task, Result, Any] | None = None

    def end(self, outcome: Any) -> None:
        """Note the outcome, which may be an error."""
        if isinstance(outcome, BaseException) and not isinstance(outcome, DiscorankError):
            # it is not the fault of this process: a metric raised it
            ours = MetricError(f"{type(outcome).__name__}: {outcome}", where="metric")
            ours.__cause__ = outcome
            outcome = ours
        self.batch.take(self.number, outcome)


def _forgotten() -> Generator[Task, Result, None]:
    """The program of a request that was dropped."""
    yield from ()


class ChoosingThread:
    """Chooses with an engine, in a thread of its own.

    Args:
        engine: what values lists.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._last_size, self._window_end = (
            0,
            0.0,
        )  # of the last batch: its outcomes, and when the next one begins
        self._asked: SimpleQueue[_Running | None] = SimpleQueue()
        self._running: dict[int, _Running] = {}  # by the key that the engine has for them
        self._thread = Thread(target=self._run, name="discorank-choosing", daemon=True)
        self._is_ending = False

    def start(self, metrics: Sequence[Utility]) -> None:
        """Load the metrics and begin; raises DiscorankError if one of them cannot be loaded."""
        self._engine.load(metrics)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End the thread when nothing waits, or leave it behind after so long."""
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
        if self.num_waiting >= MAX_WAITING:
            raise ResourceError("too many choices wait", where="choosing")
        (outcome,) = await self.outcomes([partial(decider.program, record, context, ())])
        if isinstance(outcome, DiscorankError):
            raise outcome
        ranking: Ranking = outcome
        return ranking

    async def outcomes(self, programs: Sequence[Program]) -> list[Any]:
        """The outcomes of programs that go to the engine together, errors among them.

        If the call is cancelled, its programs are forgotten, also those that the engine has already.
        """
        if not programs:
            return []
        batch = _Batch(len(programs))
        asked = [_Running(program, batch, number) for number, program in enumerate(programs)]
        for one in asked:
            self._asked.put(one)
        future = asyncio.wrap_future(batch.future)
        try:
            await asyncio.wait(
                [future]
            )  # not the future itself, which would keep this frame with its error
        finally:
            if not future.done():
                future.cancel()
                for one in asked:
                    one.begin = _forgotten
        return future.result()

    def _run(self) -> None:
        """Admit what is asked for, and have the engine value it, until the end is asked for."""
        while self._running or not self._is_ending:
            self._admit()
            if self._running:
                self._collect()

    def _admit(self) -> None:
        """Begin all programs that are asked for; wait for one if none is running, then for more of a batch."""
        is_idle = not self._running and not self._is_ending
        while True:
            seconds: float | None = 0.0
            if is_idle:
                seconds = self._window_left() if self._running else None
            try:
                asked = self._asked.get(block=seconds != 0.0, timeout=seconds)
            except Empty:
                return
            if asked is None:
                self._is_ending = True
                return
            if not asked.batch.future.cancelled():
                self._step(asked, None)

    def _window_left(self) -> float:
        """How long a batch waits for more programs; 0 to begin."""
        if len(self._running) >= self._last_size:
            return 0.0
        return max(0.0, self._window_end - monotonic())

    def _collect(self) -> None:
        """Take the results that the engine has; if it fails altogether, so do all programs that are running."""
        gone = [key for key, one in self._running.items() if one.batch.future.cancelled()]
        if gone:
            self._engine.forget(gone)
            for key in gone:
                del self._running[key]
        if not self._running:
            return
        begun = monotonic()
        try:
            results = self._engine.collect()
        except BaseException as error:  # a user's metric may try to end the process
            failed, self._running = self._running, {}
            self._engine.forget(failed)
            for one in failed.values():
                one.end(error)
            return
        now = monotonic()
        self._last_size = len(results)
        self._window_end = now + min(WINDOW_SECONDS, WINDOW_SHARE * (now - begun))
        for key, result in results:
            if key in self._running:
                self._step(self._running.pop(key), result)

    def _step(self, running: _Running, result: Result | DiscorankError | None) -> None:
        """Run a program to its next task or its end; an error of its task ends it."""
        if isinstance(result, DiscorankError):
            running.end(result)
            return
        try:
            if running.program is None:
                running.program = running.begin()
            task = next(running.program) if result is None else running.program.send(result)
            self._engine.submit(id(running), task)
            self._running[id(running)] = running
        except StopIteration as end:
            running.end(end.value)
        except BaseException as error:
            running.end(error)
