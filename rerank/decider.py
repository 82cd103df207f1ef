"""The base of every chooser, an MBRDecoder or a Reranker: lists in, rankings out, through any engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Self, cast, overload

from ..metrics.errors import LOG, DiscorankError
from ..metrics.mixture import Utility
from ..metrics.text.texts import Context
from .choice import Accept, Choice, Ranking
from .engines.interface import Engine
from .engines.local import LocalEngine
from .lists import CandidateList, list_of, list_rows
from .order import Order, Strategy
from .scheduler import Outcome, Program, Scheduler
from .whole_documents import document_outcomes

LISTS_PER_RECORD = 1000  # of the log


class Decider(ABC):
    """A decider of lists.

    Attributes:
        choice: what is chosen.
        order: where the context of a list comes from.
    """

    choice: Choice
    order: Order

    @property
    @abstractmethod
    def metrics(self) -> tuple[Utility, ...]:
        """Every metric it uses, in the order of use."""

    @property
    def scored_by(self) -> tuple[Utility, ...]:
        """The metrics whose values it decides by; other than `metrics` where these are known already.

        What stands for a metric in a list is not named beside it.
        """
        variants = {variant for metric in self.metrics for variant in metric.variants}
        return tuple(metric for metric in self.metrics if metric not in variants)

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on."""

    @property
    @abstractmethod
    def reads_logprobs(self) -> bool:
        """Whether it looks at the log-probabilities of candidates."""

    @abstractmethod
    def program(self, record: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        """The decision of one list, task by task."""

    def with_settings(self, **settings: Any) -> Self:
        """The same with other settings, its own or those of its values by their names."""
        changed: Self = replace(cast(Any, self), **settings)
        return changed

    @property
    def width(self) -> int:
        """How many preceding sentences its metrics read."""
        return max((metric.reads.context for metric in self.metrics), default=0)

    @property
    def resolved_strategy(self) -> Strategy:
        """Where the context of a list comes from; errors as `Order.resolved`."""
        return self.order.resolved(self.width)

    @property
    def decides_documents(self) -> bool:
        """Whether the lists of a document are decided as one."""
        return self.choice.choose == "document"

    @overload
    def decode(
        self, lists: Iterable[Sequence[str]], engine: Engine | None = None
    ) -> Iterator[Ranking[str]]: ...

    @overload
    def decode(
        self, lists: Iterable[CandidateList | Mapping[str, Any]], engine: Engine | None = None
    ) -> Iterator[Ranking]: ...

    @overload
    def decode(
        self, lists: Iterable[Sequence[Any]], engine: Engine | None = None
    ) -> Iterator[Ranking]: ...

    def decode(
        self,
        lists: Iterable[CandidateList | Mapping[str, Any]] | Iterable[Sequence[Any]],
        engine: Engine | None = None,
    ) -> Iterator[Ranking]:
        """Rankings of any iterable of lists, streamed, in input order (lists that only lend context give none).

        A list is a `CandidateList`, its JSON form, or its candidates alone; one without an id has its number, from 0.
        A `datasets.Dataset` or `IterableDataset` is one too; `discorank.to_dataset` makes a dataset of the rankings.

        Raises:
            InputError: a list that cannot be decoded; the error names its id.
        """
        return self.rankings(lists, engine)

    def rankings(self, lists: Iterable[Any], engine: Engine | None) -> Iterator[Ranking]:
        """The rankings of `decode`; raises the first error, naming the list."""
        num_decided = 0
        for name, outcome in self.outcomes(
            map(_named, count(1), list_rows(lists)), engine or LocalEngine()
        ):
            if isinstance(outcome, DiscorankError):
                raise outcome.inside(name)
            if outcome is not None:
                num_decided += 1
                if num_decided % LISTS_PER_RECORD == 0:
                    LOG.info("%d lists decided", num_decided)
                yield outcome
        LOG.info("all %d lists decided", num_decided)

    def outcomes(
        self, records: Iterable[Any], engine: Engine, accept: Accept | None = None
    ) -> Iterator[tuple[Any, Outcome]]:
        """(tag, outcome) of (tag, record), errors as outcomes; see `Scheduler`.

        The engine loads the metrics before the first task: a list that is refused needs no model.
        Where documents are chosen whole, the outcome of a document stands at each of its lists.
        """

        def decided(groups: Iterable[Any], accept: Accept | None) -> Iterator[tuple[Any, Outcome]]:
            strategy, width = self.resolved_strategy, self.width
            scheduler = Scheduler(self.program, engine, strategy, width, accept, self.metrics)
            return scheduler.run(groups)

        if self.decides_documents:
            return document_outcomes(lambda groups: decided(groups, None), records, accept)
        return decided(records, accept)


def _named(number: int, data: Any) -> tuple[str, CandidateList | DiscorankError]:
    """The name of a list for messages, and the list or what is wrong with it."""
    try:
        record = list_of(data, number - 1)
    except DiscorankError as error:
        identity = data.get("id") if isinstance(data, Mapping) else None
        is_known = isinstance(identity, str)
        return (f"list {identity!r}" if is_known else f"list number {number}"), error
    return f"list {record.id!r}", record
