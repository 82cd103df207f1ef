"""Documents that come request by request: order, context, waiting, what is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.integrations.proxy.api_errors import ApiError
from discorank.integrations.proxy.document_streams import DocumentStreams
from discorank.metrics.text.texts import Context


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def streams(width: int = 2, most: int = 3, seconds: float = 10.0) -> tuple[DocumentStreams, Clock]:
    clock = Clock()
    return DocumentStreams(width, most, seconds, clock), clock


async def decide(documents: DocumentStreams, key: str, position: int, text: str) -> Context:
    """Decides a position; returns its context."""
    async with documents.turn(key, position) as turn, turn.taken() as place:
        context = place.context
        place.chosen(f"s{position}", text)
    return context


async def refused(documents: DocumentStreams, key: str, position: int) -> str:
    with pytest.raises(ApiError) as caught:
        await decide(documents, key, position, "?")
    assert caught.value.status in (400, 409, 429)
    return caught.value.message


def run(steps: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(steps())


def test_each_position_reads_what_was_chosen_before() -> None:
    async def steps() -> None:
        documents, _ = streams()
        contexts = [await decide(documents, "d", i, f"t{i}") for i in range(4)]
        assert [context.target for context in contexts] == [(), ("t0",), ("t0", "t1"), ("t1", "t2")]
        assert contexts[3].source == ("s1", "s2")
        assert (await decide(documents, "other", 0, "x")).target == ()
        assert (await decide(documents, "d", 4, "t4")).target == ("t2", "t3")

    run(steps)


def test_the_last_position_may_come_once_more() -> None:
    async def steps() -> None:
        documents, _ = streams()
        for i in range(3):
            await decide(documents, "d", i, f"t{i}")
        assert (await decide(documents, "d", 2, "other")).target == ("t0", "t1")
        assert (await decide(documents, "d", 3, "t3")).target == ("t1", "other")

    run(steps)


def test_position_0_begins_anew() -> None:
    async def steps() -> None:
        documents, _ = streams()
        for i in range(3):
            await decide(documents, "d", i, f"t{i}")
        assert (await decide(documents, "d", 0, "new")).target == ()
        assert (await decide(documents, "d", 1, "t")).target == ("new",)
        assert "found 3, expected 2" in await refused(documents, "d", 3)

    run(steps)


@pytest.mark.parametrize("position", [1, 4, 9])
def test_other_positions_are_refused(position: int) -> None:
    async def steps() -> None:
        documents, _ = streams()
        assert "Begin at 0" in await refused(documents, "d", position)
        assert len(documents) == 0
        for i in range(3):
            await decide(documents, "d", i, f"t{i}")
        message = await refused(documents, "d", position)
        assert "expected 3" in message

    run(steps)


def test_positions_under_way_wait_for_those_before() -> None:
    order: list[int] = []
    contexts: dict[int, Context] = {}

    async def one(documents: DocumentStreams, position: int, seconds: float) -> None:
        async with documents.turn("d", position) as turn:
            await asyncio.sleep(seconds)  # drawing, of which the earlier ones take longer
            async with turn.taken() as place:
                contexts[position] = place.context
                await asyncio.sleep(0.001)
                order.append(position)
                place.chosen("", f"t{position}")

    async def steps() -> None:
        documents, _ = streams()
        tasks = []
        for position in range(4):
            tasks.append(asyncio.create_task(one(documents, position, 0.01 * (4 - position))))
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    run(steps)
    assert order == [0, 1, 2, 3]
    assert contexts[3].target == ("t1", "t2")


def test_what_comes_to_nothing_leaves_the_document_as_it_was() -> None:
    async def steps() -> None:
        documents, _ = streams()
        await decide(documents, "d", 0, "t0")
        failing = asyncio.Event()

        async def fail() -> None:
            async with documents.turn("d", 1) as turn, turn.taken():
                await failing.wait()
                raise OSError

        first = asyncio.create_task(fail())
        await asyncio.sleep(0)
        behind = asyncio.create_task(decide(documents, "d", 2, "t2"))
        await asyncio.sleep(0)
        assert "position 1 is in progress" in await refused(documents, "d", 1)
        failing.set()
        outcomes = await asyncio.gather(first, behind, return_exceptions=True)
        assert isinstance(outcomes[0], OSError)
        assert isinstance(outcomes[1], ApiError)
        assert "found 2, expected 1" in outcomes[1].message
        assert (await decide(documents, "d", 1, "t1")).target == ("t0",)

    run(steps)


def test_a_client_that_goes_gives_way_to_the_next() -> None:
    async def steps() -> None:
        documents, _ = streams()
        await decide(documents, "d", 0, "t0")

        async def hang() -> None:
            async with documents.turn("d", 1) as turn, turn.taken():
                await asyncio.sleep(3600)

        hanging = asyncio.create_task(hang())
        await asyncio.sleep(0.001)
        waiting = asyncio.create_task(decide(documents, "d", 2, "t2"))
        await asyncio.sleep(0.001)
        assert not waiting.done()
        hanging.cancel()
        with pytest.raises(ApiError, match="expected 1"):
            await waiting
        assert (await decide(documents, "d", 1, "t1")).target == ("t0",)

    run(steps)


def test_documents_are_forgotten() -> None:
    async def steps() -> None:
        documents, clock = streams(most=2, seconds=10.0)
        await decide(documents, "a", 0, "t")
        clock.now = 6.0
        await decide(documents, "b", 0, "t")
        clock.now = 11.0
        assert "not known" in await refused(documents, "a", 1)
        await decide(documents, "b", 1, "t")
        # no more than two: the one that was used longest ago goes
        await decide(documents, "c", 0, "t")
        await decide(documents, "d", 0, "t")
        assert len(documents) == 2
        assert "not known" in await refused(documents, "b", 2)
        async with documents.turn("c", 1), documents.turn("d", 1):
            assert "2 documents are in progress" in await refused(documents, "e", 0)
            clock.now = 100.0
            assert "2 documents are in progress" in await refused(documents, "e", 0)
        await decide(documents, "e", 0, "t")

    run(steps)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4)), max_size=30))
def test_any_order_of_positions(arrivals: list[tuple[str, int]]) -> None:
    """Against the rule said plainly: a list of chosen texts for each document."""

    async def steps() -> None:
        documents, _ = streams(width=9)
        chosen: dict[str, list[str]] = {}
        for number, (key, position) in enumerate(arrivals):
            texts = chosen.get(key, [])
            is_good = position == 0 or (texts and position in (len(texts), len(texts) - 1))
            if not is_good:
                await refused(documents, key, position)
                continue
            before = texts[:position]
            context = await decide(documents, key, position, f"t{number}")
            assert context.target == tuple(before)
            chosen[key] = [*before, f"t{number}"]

    run(steps)
