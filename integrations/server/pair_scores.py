"""What a server says of pairs of texts: every distinct pair is asked for once, many requests at a time.

A request that is refused, failed at or answered wrongly is made again in halves, so that a pair at fault is named and
costs no other. The server is at fault, and `ResourceError` says so, where it fails at another request too: what it was
asked at first is asked again. Scores and faults of the last `KEPT` pairs are remembered, so that a list that shares a
wave with a bad one is not asked for twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ...metrics.errors import InputError, ResourceError, excerpt
from .client import Client
from .pair_forms import Pair
from .server_errors import (
    BusyError,
    ExhaustedError,
    NotThereError,
    RefusedError,
    UnusableError,
)
from .settings import Connection

KEPT = 1 << 18  # pairs remembered
AHEAD = 4  # requests under way for each connection


V_co = TypeVar("V_co", covariant=True)
V = TypeVar("V")


class RequestForm(Protocol[V_co]):
    """How a server is asked, and what is read from its reply."""

    @property
    def name(self) -> str:
        """Of the form."""

    @property
    def path(self) -> str:
        """Behind the address."""

    @property
    def one_query(self) -> bool:
        """Whether all pairs of a request have one query."""

    @property
    def probe(self) -> Pair:
        """What shows whether a server works."""

    def body(self, model: str, pairs: Sequence[Pair]) -> Mapping[str, Any]:
        """The request for some pairs."""

    def values(self, reply: Any, pairs: Sequence[Pair]) -> Sequence[V_co]:
        """The value of every pair of a request; raises InputError for a reply that has them not."""


class _Fault(NamedTuple):
    """Why a pair has no value."""

    problem: str
    where: str

    def error(self) -> InputError:
        """As an error."""
        fix = "Shorten or mend the text, or leave it out"
        return InputError(self.problem, where=self.where, fix=fix)


class _Batch(NamedTuple):
    """The pairs of one request, and whether it is made once more."""

    pairs: tuple[Pair, ...]
    again: bool = False


class PairScores(Generic[V]):
    """The values that a server gives pairs.

    Args:
        connection: how it is reached.
        model: the model's name on the server.
        forms: how it may be asked; the first that it answers is taken.
        further: more keys of a request.
        batch_pairs: most pairs of a request.

    Raises:
        ResourceError: the server cannot be reached, or works at no request.
        InputError: it refuses the key, does not know the model, or answers no form.
    """

    def __init__(
        self,
        connection: Connection,
        model: str,
        forms: Sequence[RequestForm[V]],
        further: Mapping[str, Any],
        batch_pairs: int,
    ) -> None:
        self.connection, self.model = connection, model
        self.further, self.batch_pairs = further, batch_pairs
        self.known: dict[Pair, V | _Fault] = {}
        self.form = self._working_form(forms)

    def _working_form(self, forms: Sequence[RequestForm[V]]) -> RequestForm[V]:
        """The first form in which the server scores a pair."""
        refusals = []
        with Client(self.connection) as client:
            for form in forms:
                try:
                    form.values(self._post(client, form, [form.probe]).result(), [form.probe])
                except (NotThereError, RefusedError) as error:
                    refusals.append(f"{form.name}: {error.problem}")
                except UnusableError:
                    raise
                except InputError as error:
                    refusals.append(f"{form.name}: {error}")
                else:
                    return form
        raise InputError(
            f"gives no scores ({'; '.join(refusals)})",
            where=f"server {self.connection.base_url}",
            fix="Are base_url (such as http://localhost:8000/v1), model and form those of a server that scores?",
        )

    def of(self, pairs: Iterable[Pair]) -> dict[Pair, V]:
        """The value of every distinct pair.

        Raises:
            ResourceError: the server cannot be reached, fails at everything, or answers no more.
            InputError: the server scores the others, but not a pair, the first of which is named.
        """
        values: dict[Pair, V] = {}
        for pair, value in self.outcomes(pairs).items():
            if isinstance(value, InputError):
                raise value
            values[pair] = value
        return values

    def outcomes(self, pairs: Iterable[Pair]) -> dict[Pair, V | InputError]:
        """The value of every distinct pair, or the error of one that the server does not score while it does others.

        Raises:
            ResourceError: the server cannot be reached, fails at everything, or answers no more.
        """
        distinct = list(dict.fromkeys(pairs))
        new = [pair for pair in distinct if pair not in self.known]
        if new:
            with Client(self.connection) as client:
                self._ask(client, new)
        outcomes: dict[Pair, V | InputError] = {}
        for pair in distinct:
            value = self.known[pair]
            outcomes[pair] = value.error() if isinstance(value, _Fault) else value
        self._trim()
        return outcomes

    def _trim(self) -> None:
        """Forgets the oldest pairs where there are too many."""
        surplus = len(self.known) - KEPT
        if surplus > 0:
            self.known = dict(islice(self.known.items(), surplus, None))

    def _ask(self, client: Client, pairs: Sequence[Pair]) -> None:
        """Has every pair scored, or known to be at fault; some requests are under way at a time."""
        waiting = deque(self._batches(pairs))
        under_way: deque[tuple[_Batch, Future[Any]]] = deque()
        while waiting or under_way:
            while waiting and len(under_way) < AHEAD * self.connection.connections:
                batch = waiting.popleft()
                retries = self.connection.retries_again if batch.again else None
                under_way.append((batch, self._post(client, self.form, batch.pairs, retries)))
            batch, future = under_way.popleft()
            waiting.extendleft(reversed(self._take(client, batch, future)))

    def _batches(self, pairs: Sequence[Pair]) -> Iterator[_Batch]:
        """Requests for all pairs."""
        groups: dict[str, list[Pair]] = {}
        for pair in pairs:
            groups.setdefault(pair.query if self.form.one_query else "", []).append(pair)
        for group in groups.values():
            for start in range(0, len(group), self.batch_pairs):
                yield _Batch(tuple(group[start : start + self.batch_pairs]))

    def _post(
        self,
        client: Client,
        form: RequestForm[V],
        pairs: Sequence[Pair],
        retries: int | None = None,
    ) -> Future[Any]:
        """The reply to come to a request for some pairs; `retries` as `Exchange.post`."""
        return client.post(form.path, {**form.body(self.model, pairs), **self.further}, retries)

    def _take(self, client: Client, batch: _Batch, future: Future[Any]) -> list[_Batch]:
        """Takes the scores of a request that ended, or notes its fault; the requests to be made instead, if any."""
        try:
            values = self.form.values(future.result(), batch.pairs)
        except BusyError:
            raise
        except UnusableError as error:
            raise _gone(error) from None
        except ExhaustedError as error:
            self._check_server(client, error)
            if len(batch.pairs) == 1 and not batch.again:
                return [batch._replace(again=True)]
            problem = f"{error.problem}, while the server answers other requests"
            return self._faulty(batch, InputError(problem, where=error.where))
        except InputError as error:
            return self._faulty(batch, error)
        self.known.update(zip(batch.pairs, values, strict=True))
        return []

    def _check_server(self, client: Client, error: ExhaustedError) -> None:
        """Raises the error at which a server failed unless it scores something else."""
        probe = self.form.probe
        try:
            self.form.values(self._post(client, self.form, [probe]).result(), [probe])
        except UnusableError as unusable:
            raise _gone(unusable) from None
        except InputError:
            raise error from None

    def _faulty(self, batch: _Batch, error: InputError) -> list[_Batch]:
        """The halves of a batch at fault; a pair alone is remembered with its error."""
        if len(batch.pairs) > 1:
            middle = len(batch.pairs) // 2
            return [_Batch(batch.pairs[:middle]), _Batch(batch.pairs[middle:])]
        (pair,) = batch.pairs
        problem = f"{error.problem} (at {excerpt(pair.document)} with {excerpt(pair.query)})"
        self.known[pair] = _Fault(problem, error.where)
        return []


def _gone(error: UnusableError) -> ResourceError:
    """The error of a server that worked at first and now does nothing."""
    fix = "Run the same command again when it works as before"
    return ResourceError(error.problem, where=error.where, fix=fix)
