"""Scores of pairs of texts by a server: every distinct pair is asked for once, many requests at a time.

A request that is refused, failed at or answered wrongly is made again in halves, so that a pair at fault is named and
costs no other. The server is at fault, and `ResourceError` says so, where it fails at another request too: what it was
asked at first is asked again. Scores and faults of the last `KEPT` pairs are remembered, so that a list that shares a
wave with a bad one is not asked for twice.

Forms in which servers are asked for scores of pairs of texts: the body of a request, and the scores in its reply.

    score   POST score   {"model", "text_1": [q, ...], "text_2": [d, ...]}
            {"data": [{"index", "score"}]}                                vLLM
    rerank  POST rerank  {"model", "query": q, "documents": [d, ...], "top_n"}
            {"results": [{"index", "relevance_score"}]}                   vLLM, Jina, Cohere v1 and v2, and others
    tei     POST rerank  {"query": q, "texts": [d, ...]}
            [{"index", "score"}]                                          text-embeddings-inference
q is the query, d a document. Results may stand in any order, and rerankers put the best first: the index says whose a
score is. Lists and names of scores are read from every form, as servers mix them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ...metrics.errors import InputError, ResourceError, excerpt
from ...rerank.lists import finite
from .exchange import Client
from .server_errors import BusyError, ExhaustedError, NotThereError, RefusedError, UnusableError
from .settings import Connection

_LISTS = ("data", "results")
_SCORES = ("relevance_score", "score")


class Pair(NamedTuple):
    """Pairs that are scored together."""

    query: str
    document: str


class PairForm(NamedTuple):
    """How a server is asked.

    Args:
        name: of the form.
        path: behind the address.
        one_query: whether all pairs of a request have one query.
        probe: what shows whether a server works.
    """

    name: str
    path: str
    one_query: bool
    probe: Pair = Pair("Hello", "Hello")

    def body(self, model: str, pairs: Sequence[Pair]) -> dict[str, Any]:
        """The request for some pairs, which have one query if `one_query`."""
        documents = [pair.document for pair in pairs]
        if self.name == "score":
            queries = [pair.query for pair in pairs]
            return {"model": model, "text_1": queries, "text_2": documents}
        query = pairs[0].query
        if self.name == "tei":
            return {"query": query, "texts": documents}
        return {"model": model, "query": query, "documents": documents, "top_n": len(documents)}

    def values(self, reply: Any, pairs: Sequence[Pair]) -> list[float]:
        """The score of every pair of a request; errors as `scores_in`."""
        return scores_in(reply, len(pairs))


FORMS = {
    form.name: form
    for form in (
        PairForm("score", "score", one_query=False),
        PairForm("rerank", "rerank", one_query=True),
        PairForm("tei", "rerank", one_query=True),
    )
}


def scores_in(reply: Any, num_pairs: int) -> list[float]:
    """The score of every pair of a request, in the order of the request.

    Raises:
        InputError: the reply has no list of results, more or fewer than pairs, one of them twice, or a score that is
            no finite number; says where.
    """
    where, results = _results(reply)
    if len(results) != num_pairs:
        raise InputError(f"{len(results)} scores for {num_pairs} pairs", where=where)
    scores: dict[int, float] = {}
    for number, result in enumerate(results):
        place = f"{where}[{number}]"
        index, score = _result(result, place)
        if not 0 <= index < num_pairs or index in scores:
            problem = f"index {index}, expected each of 0 to {num_pairs - 1} once"
            raise InputError(problem, where=place)
        scores[index] = score
    return [scores[index] for index in range(num_pairs)]


def _results(reply: Any) -> tuple[str, list[Any]]:
    """The list of results in a reply, and where it stands."""
    if isinstance(reply, list):
        return "server: reply", reply
    for key in _LISTS:
        value = reply.get(key) if isinstance(reply, Mapping) else None
        if isinstance(value, list):
            return f"server: reply.{key}", value
    raise InputError(f"no list of scores, found {excerpt(reply)}", where="server: reply")


def _result(result: Any, place: str) -> tuple[int, float]:
    """The index and the score of one result."""
    fields = result if isinstance(result, Mapping) else {}
    index = fields.get("index")
    if isinstance(index, bool) or not isinstance(index, int):
        raise InputError(f"no index, found {excerpt(result)}", where=place)
    name = next((name for name in _SCORES if name in fields), None)
    if name is None:
        raise InputError(f"no score, found {excerpt(result)}", where=place)
    score = finite(fields[name])
    if score is None:
        problem = f"found {excerpt(fields[name])}, expected a finite number"
        raise InputError(problem, where=f"{place}.{name}")
    return index, score


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
        """The probe that shows whether a server works."""

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
