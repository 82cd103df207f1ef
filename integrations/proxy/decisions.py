"""One request from question to decision: candidates are drawn, in rounds if it is adaptive, and one is chosen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from time import perf_counter

from ...metrics.errors import DiscorankError
from ...metrics.text.texts import NO_CONTEXT, Context
from ...rerank.choice import Ranking
from ...rerank.decider import Decider
from ...rerank.lists import CandidateList
from ...rerank.mbr import MBRDecoder
from ...rerank.stopping_rule import StoppingRule
from .api_errors import ApiError, from_upstream, no_choice
from .candidate_draw import CandidateDraw, Drawn, Upstream, WordlessError
from .choosing_thread import ChoosingThread
from .counters import Counters
from .document_streams import DocumentLanes, DocumentTurn, check_length
from .questions import Question, with_form
from .replies import ChosenReply, Decision, untouched
from .settings import DrawingSettings


class Decisions:
    """Decides requests.

    Args:
        deciders: what chooses, by name.
        upstream: where candidates come from.
        choosing: the thread that chooses.
        documents: the documents that are known.
        drawing: how candidates are drawn.
        choice_seconds: how long a choice may take.
        counters: of the server.
    """

    def __init__(
        self,
        deciders: Mapping[str, Decider],
        upstream: Upstream,
        choosing: ChoosingThread,
        documents: DocumentLanes,
        drawing: DrawingSettings,
        choice_seconds: float,
        counters: Counters,
    ) -> None:
        self._deciders, self._upstream, self._choosing = deciders, upstream, choosing
        self._documents, self._drawing = documents, drawing
        self._choice_seconds, self._counters = choice_seconds, counters

    async def answer(self, question: Question) -> ChosenReply:
        """The answer to a request.

        Raises:
            ApiError: there is none.
        """
        decider = self._deciders[question.utility]
        draw = CandidateDraw(self._upstream, question, self._drawing, decider.reads_logprobs)
        try:
            async with self._turn(question) as turn, draw:
                decision = await self._in_turn(question, decider, draw, turn)
        except WordlessError as error:
            return untouched(error.reply, question)
        self._count(decision)
        return decision.answer()

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
            decision = await self._choice(question, decider, draw, rounds, context)
            missing = 0 if rule is None else rule.next_round(len(decision.drawn))
            if rule is None or not missing or draw.is_over:
                return decision
            if await asyncio.to_thread(_is_safe, rule, decider, decision.ranking):
                return decision
            await self._drawn(draw, len(decision.drawn) + missing)
            rounds += 1

    async def _drawn(self, draw: CandidateDraw, size: int) -> None:
        """Draws candidates up to so many."""
        start = perf_counter()
        try:
            await draw.draw(size)
        except DiscorankError as error:
            raise from_upstream(error) from None
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
        allowed, num_valid = await _allowed(question, drawn)
        candidates = tuple(drawn[number].candidate for number in allowed)
        record = CandidateList("request", candidates, question.source)
        try:
            async with asyncio.timeout(self._choice_seconds):
                ranking = await self._choosing.choose(decider, record, context)
        except DiscorankError as error:
            raise no_choice(error) from None
        except TimeoutError:
            problem = f"no choice within {self._choice_seconds:g} seconds"
            raise ApiError(503, problem, code="no_choice", retry_seconds=5) from None
        finally:
            self._counters.choice_seconds.observe(perf_counter() - start)
        replies = dict(draw.replies)
        hides = decider.reads_logprobs
        return Decision(question, drawn, replies, ranking, allowed, rounds, hides, num_valid)

    def _count(self, decision: Decision) -> None:
        """Counts what was drawn for a decision."""
        self._counters.candidates.inc(len(decision.drawn))
        self._counters.rounds.observe(decision.rounds)
        for reply in decision.replies.values():
            usage = reply.get("usage")
            for kind in ("prompt", "completion"):
                value = usage.get(f"{kind}_tokens") if isinstance(usage, Mapping) else None
                if isinstance(value, int) and value > 0:
                    self._counters.tokens.labels(kind).inc(value)


async def _allowed(question: Question, drawn: Sequence[Drawn]) -> tuple[Sequence[int], int | None]:
    """Numbers of the candidates to choose among, and how many have the form asked for, where that can be told."""
    everything = range(len(drawn))
    if question.response_format is None:
        return everything, None
    texts = [str(one.candidate.text) for one in drawn]
    valid = await asyncio.to_thread(with_form, texts, question.response_format)
    if valid is None:
        return everything, None
    return valid or everything, len(valid)


def _is_safe(rule: StoppingRule, decider: Decider, ranking: Ranking) -> bool:
    """Whether more candidates are not likely to change a choice for the better."""
    weights = None
    if isinstance(decider, MBRDecoder) and decider.pool.weights != "uniform":
        weights = decider.pool.weights_of(ranking.candidates)
    return rule.is_safe(rule.outlook_of(ranking, weights))
