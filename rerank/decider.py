"""What every chooser is, an MBRDecoder or a Reranker: lists in, rankings out, through any engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Protocol

from ..metrics.errors import DiscorankError
from ..metrics.log import LOG
from ..metrics.mixture import Utility
from ..metrics.text.texts import Context
from .choice import Ranking
from .engines.interface import Engine
from .engines.local import LocalEngine
from .lists import CandidateList, list_of, list_rows
from .order import Strategy
from .scheduler import Accept, Outcome, Program, Scheduler, accept_all


class Decider(Protocol):
    """What decides lists."""

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on."""

    @property
    def resolved_strategy(self) -> Strategy:
        """Where the context of a list comes from."""

    @property
    def metrics(self) -> tuple[Utility, ...]:
        """Every metric it uses."""

    @property
    def width(self) -> int:
        """How many preceding sentences its metrics read."""

    def outcomes(
        self, records: Iterable[Any], engine: Engine, accept: Accept = accept_all
    ) -> Iterator[tuple[Any, Outcome]]:
        """(tag, outcome) of (tag, record)."""

    def program(self, record: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        """The decision of one list, task by task."""


def scheduled(
    decider: Decider, records: Iterable[Any], engine: Engine, accept: Accept
) -> Iterator[tuple[Any, Outcome]]:
    """The outcomes of a decider's programs; see `Scheduler`."""
    scheduler = Scheduler(decider.program, engine, decider.resolved_strategy, decider.width, accept)
    return scheduler.run(records)


LISTS_PER_RECORD = 1000  # of the log


def decide_all(
    decider: Decider, lists: Iterable[Any], engine: Engine | None = None
) -> Iterator[Ranking]:
    """Rankings of an iterable of lists or a Hugging Face dataset, streamed; raises the first error, naming the list."""
    engine = engine or LocalEngine()
    engine.load(decider.metrics)
    records = map(_named, count(1), list_rows(lists))
    num_decided = 0
    for name, outcome in decider.outcomes(records, engine):
        if isinstance(outcome, DiscorankError):
            raise outcome.inside(name)
        if outcome is not None:
            num_decided += 1
            if num_decided % LISTS_PER_RECORD == 0:
                LOG.info("%d lists decided", num_decided)
            yield outcome
    LOG.info("all %d lists decided", num_decided)


def _named(number: int, data: Any) -> tuple[str, CandidateList | DiscorankError]:
    """The name of a list for messages, and the list or what is wrong with it."""
    try:
        record = list_of(data, number - 1)
    except DiscorankError as error:
        identity = data.get("id") if isinstance(data, Mapping) else None
        is_known = isinstance(identity, str)
        return (f"list {identity!r}" if is_known else f"list number {number}"), error
    return f"list {record.id!r}", record
