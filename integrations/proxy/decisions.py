"""One request from question to decision: candidates are drawn, in rounds if it is adaptive, and one is chosen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from ...metrics.errors import DiscorankError
from ...metrics.text.texts import NO_CONTEXT, Context
from ...rerank.choice import Ranking
from ...rerank.lists import CandidateList
from ...rerank.mbr_decoder import MBRDecoder
from ...rerank.reranker import Reranker
from ..generation.utility_argument import reads_logprobs
from .api_errors import ApiError, from_upstream, no_choice
from .candidate_draw import CandidateDraw, Drawn, Upstream
from .choosing_thread import ChoosingThread
from .chosen_replies import Decision
from .counters import Counters
from .document_lanes import DocumentLanes, Turn
from .questions import Question
from .settings import DrawingSettings

Decider = MBRDecoder | Reranker


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

    async def decide(self, question: Question) -> Decision:
        """The decision of a request.

        Raises:
            ApiError: there is none.
        """
        decider = self._deciders[question.utility]
        logprobs = reads_logprobs(decider)
        draw = CandidateDraw(self._upstream, question, self._drawing, logprobs)
        async with self._turn(question) as turn, draw:
            await self._drawn(draw, question.n)
            drawn = draw.drawn
            ranking = await self._in_turn(question, decider, drawn, turn)
        self._count(drawn, draw.replies)
        return Decision(question, drawn, draw.replies, ranking, range(len(drawn)), 1, logprobs)

    @asynccontextmanager
    async def _turn(self, question: Question) -> AsyncIterator[Turn | None]:
        """The turn of a request in its document, None where it has none."""
        own = question.own
        if own.document is None or own.position is None:
            yield None
            return
        async with self._documents.turn(own.document, own.position) as turn:
            yield turn

    async def _drawn(self, draw: CandidateDraw, size: int) -> None:
        """Draws candidates up to so many."""
        start = perf_counter()
        try:
            await draw.draw(size)
        except DiscorankError as error:
            raise from_upstream(error) from None
        finally:
            self._counters.draw_seconds.observe(perf_counter() - start)

    async def _in_turn(
        self, question: Question, decider: Decider, drawn: Sequence[Drawn], turn: Turn | None
    ) -> Ranking:
        """The choice in the context of the document, which it becomes part of."""
        if turn is None:
            return await self._choice(question, decider, drawn, NO_CONTEXT)
        async with turn.taken() as place:
            ranking = await self._choice(question, decider, drawn, place.context)
            place.chosen(question.source or "", str(ranking.text))
        return ranking

    async def _choice(
        self, question: Question, decider: Decider, drawn: Sequence[Drawn], context: Context
    ) -> Ranking:
        """The choice among candidates."""
        candidates = tuple(one.candidate for one in drawn)
        record = CandidateList("request", candidates, question.source)
        start = perf_counter()
        try:
            async with asyncio.timeout(self._choice_seconds):
                return await self._choosing.choose(decider, record, context)
        except DiscorankError as error:
            raise no_choice(error) from None
        except TimeoutError:
            problem = f"no choice within {self._choice_seconds:g} seconds"
            raise ApiError(503, problem, code="no_choice", retry_seconds=5) from None
        finally:
            self._counters.choice_seconds.observe(perf_counter() - start)

    def _count(self, drawn: Sequence[Drawn], replies: Mapping[int, Mapping[str, Any]]) -> None:
        """Counts what was drawn."""
        self._counters.candidates.inc(len(drawn))
        for reply in replies.values():
            usage = reply.get("usage")
            for kind in ("prompt", "completion"):
                value = usage.get(f"{kind}_tokens") if isinstance(usage, Mapping) else None
                if isinstance(value, int) and value > 0:
                    self._counters.tokens.labels(kind).inc(value)
