"""Scores by a model on a server: vLLM's /score, /rerank, /pooling and /classify, and the rerankers of others.

    score-server     score(query = reference, document = hypothesis)
    score-server-qe  score(query = source, document = hypothesis); reference-free
    reward-server    output of a reward model, user: source, assistant: hypothesis; reference-free

Forms of requests that servers answer (the `form` setting): `score` (vLLM), `rerank` (vLLM, Jina, Cohere v1 and v2, and
servers that follow them), `tei` (text-embeddings-inference); for reward models `pooling` and `classify` (vLLM, one
conversation a request, in the model's own chat template there). `auto` is the first of these that the server answers,
for a pair that it is asked at the beginning. `base_url` is the address before /score, /rerank or /pooling. Any finite
number, higher is better, not symmetric; an empty text is sent like any other. Scores are the server's: equal bytes for
equal texts are its to promise. They are those of `model`, which the signature names; how the server is reached is no
part of it.

Every distinct pair of texts is asked for once, many requests at a time. A request that is refused, failed at or
answered wrongly is made again in halves, so that a pair at fault is named and costs no other. The server is at fault,
and `ResourceError` says so, where it fails at another request too: its first request is made again. Scores and faults
of the last `KEPT` pairs are remembered, so that a list that shares a wave with a bad one is not asked for twice.

The body of a request, and the scores in its reply:

    score   POST score   {"model", "text_1": [q, ...], "text_2": [d, ...]}
            {"data": [{"index", "score"}]}                                vLLM
    rerank  POST rerank  {"model", "query": q, "documents": [d, ...], "top_n"}
            {"results": [{"index", "relevance_score"}]}                   vLLM, Jina, Cohere v1 and v2, and others
    tei     POST rerank  {"query": q, "texts": [d, ...]}
            [{"index", "score"}]                                          text-embeddings-inference
    pooling POST pooling  {"model", "messages", "use_activation": false}
            {"data": [{"data": [output, ...]}]}                           vLLM
    classify POST classify  {"model", "messages", "use_activation": false}
            {"data": [{"probs": [output, ...]}]}                          vLLM
q is the query, d a document. Results may stand in any order, and rerankers put the best first: the index says whose a
score is. Lists and names of scores are read from every form, as servers mix them.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import InputError, excerpt
from ...metrics.optional_packages import require
from ...metrics.representations import Block, FloatArray, IntArray, Reps
from ...metrics.scorer import Info, Scorer
from ...metrics.spec.checked_settings import Field, setting_names, settings
from ...metrics.text.texts import Item
from ...rerank.lists import finite
from ..files.reply_choices import sendable
from .exchange import Client, NotThereError, RefusedError, UnusableError
from .request_loop import AHEAD, MAX_PROBES, RequestLoop, ServerRequest, TextJob, forget_oldest
from .settings import Connection, further_keys

DEFAULTS = Connection("http://localhost")
PairFormName = Literal["auto", "score", "rerank", "tei"]


@settings
class ServerMetric(Metric):
    """The settings of metrics that ask a server.

    Args:
        model: the model's name on the server.
        base_url: the address up to the version, such as http://localhost:8000/v1; that in an environment variable if
            not given. No part of the signature.
        key_variable: the environment variable that holds the key; no key is sent if it is not named. No part of the
            signature.
        connections: how many requests are made at the same time. No part of the signature.
        timeout_seconds: how long one request may take in all. No part of the signature.
        retries: how often a request is repeated that failed for a reason that may pass. No part of the signature.
        backoff_seconds: how long the first repetition waits; each further one waits twice as long, up to a minute. No
            part of the signature.
    """

    model: str = ""
    base_url: str | None = field(default=None, compare=False, kw_only=True)
    key_variable: str | None = field(default=None, compare=False, kw_only=True)
    connections: int = field(default=DEFAULTS.connections, compare=False, kw_only=True)
    timeout_seconds: float = field(default=DEFAULTS.timeout_seconds, compare=False, kw_only=True)
    retries: int = field(default=DEFAULTS.retries, compare=False, kw_only=True)
    backoff_seconds: float = field(default=DEFAULTS.backoff_seconds, compare=False, kw_only=True)
    users_own: ClassVar[tuple[str, ...]] = ("base_url", "key_variable")
    # keys of a request that have settings of their own
    own_keys: ClassVar[frozenset[str]]
    # the environment has the server of a metric that a file names: addresses and keys are the user's to give
    address_variable: ClassVar[str]
    variable_of_key: ClassVar[str]

    def __post_init__(self) -> None:
        if not self.model:
            fix = "Name the model that the server runs: it stands for it in the signature"
            raise InputError("model missing", where=self.name, fix=fix)
        if taken := self.further.keys() & self.own_keys:
            problem = "is a key that has a setting of its own"
            raise InputError(problem, where=f"{self.name}.request.{min(taken)}")
        self._connection_at(DEFAULTS.base_url if self.base_url is None else self.base_url)

    @property
    def further(self) -> Mapping[str, Any]:
        """The further keys of a request."""
        return further_keys(getattr(self, "request", None))

    def connection(self) -> Connection:
        """The server that the settings name, or else the environment.

        Raises:
            InputError: neither names an address.
            ModelLoadError: a package of the extra is not installed.
        """
        require(self.name, "aiohttp")
        if self.base_url is not None:
            return self._connection_at(self.base_url)
        base_url = os.environ.get(self.address_variable)
        if not base_url:
            fix = f"Give the address of a server, or export it as {self.address_variable}"
            raise InputError("base_url missing", where=self.name, fix=fix)
        has_key = os.environ.get(self.variable_of_key)
        return self._connection_at(base_url, self.variable_of_key if has_key else None)

    def _connection_at(self, base_url: str, key_variable: str | None = None) -> Connection:
        """The server at an address; raises InputError for one, or a setting, that cannot be used."""
        own = {name: getattr(self, name) for name in setting_names(Connection)}
        own["key_variable"] = self.key_variable or key_variable
        return Connection(**{**own, "base_url": base_url})


@settings
class ServedMetric(ServerMetric):
    """The settings of scores: how a server is asked.

    Args:
        form: how it is asked; auto tries the forms in their order.
        request: more keys of a request, as a JSON object, such as {"truncate_prompt_tokens": 512}.
        base_url: its address before /score or /rerank, such as http://localhost:8000/v1; that in the environment
            variable DISCORANK_SCORE_SERVER if not given. No part of the signature.
        key_variable: the environment variable that holds the key; no key is sent if it is not named, but that in
            DISCORANK_SCORE_KEY, if any, to the address in the environment. No part of the signature.
        batch_pairs: most pairs of one request. No part of the signature.
    """

    form: str = "auto"
    request: str | None = None
    batch_pairs: Annotated[int, Field(ge=1)] = field(default=32, compare=False)
    address_variable: ClassVar[str] = "DISCORANK_SCORE_SERVER"
    variable_of_key: ClassVar[str] = "DISCORANK_SCORE_KEY"

    def load(self) -> ServedScorer:
        """Asks the server for the score of a pair.

        Raises:
            ResourceError: it cannot be reached.
            InputError: no address is given, or it refuses the key, does not know the model, or answers no form.
        """
        known = self.forms()
        forms = list(known.values()) if self.form == "auto" else [known[self.form]]
        try:
            scores = PairScores(
                self.connection(), self.model, forms, self.further, self.batch_pairs
            )
        except InputError as error:
            raise error.inside(self.name) from None
        return ServedScorer(self.info, scores)

    @abstractmethod
    def forms(self) -> Mapping[str, RequestForm[float]]:
        """How a server may be asked, by name."""


class PairServer(ServedMetric):
    """Base of both metrics that score a query with a document."""

    own_keys: ClassVar[frozenset[str]] = frozenset(
        {"model", "query", "documents", "texts", "text_1", "text_2", "top_n"}
    )

    def forms(self) -> Mapping[str, RequestForm[float]]:
        """As `ServedMetric`."""
        return FORMS


@settings
class ScoreServer(PairServer):
    """The score of a hypothesis as document with its reference as query.

    Args:
        form: how it is asked: score, rerank or tei; auto tries them in this order.
    """

    form: PairFormName = "auto"
    name: ClassVar[str] = "score-server"
    info: ClassVar[Info] = Info(
        summary="score of hypothesis and reference by a model on a server", costly_pairs=True
    )


@settings
class ScoreServerQE(PairServer):
    """The score of a hypothesis as document with its source as query.

    Args:
        form: how it is asked: score, rerank or tei; auto tries them in this order.
    """

    form: PairFormName = "auto"
    name: ClassVar[str] = "score-server-qe"
    info: ClassVar[Info] = Info(
        summary="score of hypothesis and source by a model on a server",
        needs_source=True,
        needs_references=False,
        costly_pairs=True,
    )


@settings
class RewardServer(ServedMetric):
    """The output of a reward model for the source as prompt and the hypothesis as reply.

    Args:
        form: how it is asked: pooling or classify; auto tries them in this order.
        output: the number of the output, where the model has several.
        system: a system text before the prompt.
        base_url: its address before /pooling, such as http://localhost:8000; a /v1 at its end is left out, as vLLM has
            these paths beside it.
        batch_pairs: of no use here: a request is one conversation.
    """

    form: Literal["auto", "pooling", "classify"] = "auto"
    output: Annotated[int, Field(ge=0)] | None = None
    system: str | None = None
    batch_pairs: Annotated[int, Field(ge=1, le=1)] = field(default=1, compare=False)
    own_keys: ClassVar[frozenset[str]] = frozenset({"model", "messages", "input"})
    name: ClassVar[str] = "reward-server"
    info: ClassVar[Info] = Info(
        summary="output of a reward model on a server for the source as prompt and the text as reply",
        papers=("ouyang2022training",),
        needs_source=True,
        needs_references=False,
        costly_pairs=True,
    )

    def connection(self) -> Connection:
        """As `ServedMetric`."""
        given = super().connection()
        return replace(given, base_url=given.base_url.rstrip("/").removesuffix("/v1"))

    def forms(self) -> Mapping[str, RequestForm[float]]:
        """As `ServedMetric`."""
        names = ("pooling", "classify")
        return {name: ChatForm(name, self.system, self.output) for name in names}


class ServedScorer(Scorer):
    """Keeps the texts as they are; a value is the server's score of a pair.

    Args:
        info: of the metric.
        scores: what the server is asked.
    """

    def __init__(self, info: Info, scores: PairScores[float]) -> None:
        self.info, self.scores = info, scores

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """The texts themselves, and their lengths in characters."""
        texts = np.empty(len(items), object)
        texts[:] = [sendable(str(item.text)) for item in items]
        lengths = np.fromiter(map(len, texts), np.int64, len(items))
        return Reps({"text": texts}), lengths

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block, [H, 1] without references; errors as `PairScores.of`."""
        grids = [self._pairs(reps["text"], block) for block in blocks]
        scores = self.scores.of(pair for grid in grids for row in grid for pair in row)
        return [np.array([[scores[pair] for pair in row] for row in grid]) for grid in grids]

    def _pairs(self, texts: Any, block: Block) -> list[list[Pair]]:
        """The pair of every cell, a row per hypothesis."""
        columns = block.references if self.info.needs_references else [block.source]
        queries = [texts[row] for row in columns]
        return [[Pair(query, texts[row]) for query in queries] for row in block.hypotheses]


_LISTS = ("data", "results")
_SCORES = ("relevance_score", "score")


V = TypeVar("V")


class Pair(NamedTuple):
    """A query and a document, which are scored together."""

    query: str
    document: str


class RequestForm(ABC, Generic[V]):
    """How a server is asked, and what is read from its reply.

    Args:
        name: of the form.
        path: behind the address.
        one_query: whether all pairs of a request have one query.
        probe: a pair that shows whether a server works.
    """

    def __init__(self, name: str, path: str, one_query: bool, probe: Pair) -> None:
        self.name, self.path, self.one_query, self.probe = name, path, one_query, probe

    @abstractmethod
    def body(self, model: str, pairs: Sequence[Pair]) -> Mapping[str, Any]:
        """The request for some pairs, which have one query if `one_query`."""

    @abstractmethod
    def values(self, reply: Any, pairs: Sequence[Pair]) -> Sequence[V]:
        """The value of every pair of a request; raises InputError for a reply that has them not."""


class PairForm(RequestForm[float]):
    """How a server is asked for scores of pairs."""

    def body(self, model: str, pairs: Sequence[Pair]) -> dict[str, Any]:
        """As `RequestForm`."""
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
        PairForm("score", "score", one_query=False, probe=Pair("Hello", "Hello")),
        PairForm("rerank", "rerank", one_query=True, probe=Pair("Hello", "Hello")),
        PairForm("tei", "rerank", one_query=True, probe=Pair("Hello", "Hello")),
    )
}


class ChatForm(RequestForm[float]):
    """How a server is asked for the output of a reward model, one conversation a request.

    Args:
        name: of the form, and its path.
        system: a system text before the prompt.
        output: the number of the output; the only one if not given.
    """

    def __init__(self, name: str, system: str | None, output: int | None) -> None:
        super().__init__(name, name, one_query=False, probe=Pair("Hello", "Hello"))
        self.begins = [{"role": "system", "content": system}] if system else []
        self.output = output

    def body(self, model: str, pairs: Sequence[Pair]) -> dict[str, Any]:
        """As `RequestForm`, of one pair; the raw output is asked for."""
        ((prompt, reply),) = pairs
        said = [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply}]
        return {"model": model, "messages": [*self.begins, *said], "use_activation": False}

    def values(self, reply: Any, pairs: Sequence[Pair]) -> list[float]:
        """The output for the pair; of a model that gives one for every token that for the last.

        Raises:
            InputError: the reply has none, several of which none is named, or one that is no finite number.
        """
        where, results = _results(reply)
        if len(results) != 1:
            raise InputError(f"{len(results)} outputs for one conversation", where=where)
        key = "data" if self.name == "pooling" else "probs"
        place = f"{where}[0].{key}"
        outputs = results[0].get(key) if isinstance(results[0], Mapping) else None
        if isinstance(outputs, list) and outputs and isinstance(outputs[-1], list):
            outputs = outputs[-1]
        if not isinstance(outputs, list) or not outputs:
            raise InputError(f"no outputs, found {excerpt(outputs)}", where=place)
        if self.output is None and len(outputs) > 1:
            fix = f"Name one: output=0 to {len(outputs) - 1}"
            raise InputError(f"the model has {len(outputs)} outputs", where=place, fix=fix)
        number = self.output or 0
        if number >= len(outputs):
            problem = f"the model has {len(outputs)} outputs, counted from 0"
            raise InputError(problem, where=f"{place}[{number}]")
        value = finite(outputs[number])
        if value is None:
            problem = f"found {excerpt(outputs[number])}, expected a finite number"
            raise InputError(problem, where=f"{place}[{number}]")
        return [value]


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


class _Batch(TextJob, Generic[V]):
    """The pairs of one request."""

    def __init__(self, scores: PairScores[V], pairs: Sequence[Pair]) -> None:
        super().__init__()
        self.scores, self.pairs = scores, pairs
        self.values: Sequence[V] = ()
        # a batch at fault is halved, and a pair alone asked again
        self.max_probes = MAX_PROBES if len(pairs) == 1 else 1

    def request(self) -> ServerRequest:
        """As `TextJob`."""
        return self.scores.request(self.scores.form, self.pairs)

    def take(self, request: ServerRequest, reply: Any) -> None:
        """As `Job`."""
        self.values = self.scores.form.values(reply, self.pairs)

    def named(self) -> str:
        """As `TextJob`."""
        return f"at {excerpt(self.pairs[0].document)} with {excerpt(self.pairs[0].query)}"


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
        self.known: dict[Pair, V | InputError] = {}
        self.form = self._working_form(forms)

    def _working_form(self, forms: Sequence[RequestForm[V]]) -> RequestForm[V]:
        """The first form in which the server scores a pair."""
        refusals = []
        with Client(self.connection) as client:
            for form in forms:
                path, body, _ = self.request(form, [form.probe])
                try:
                    form.values(client.post(path, body).result(), [form.probe])
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
                raise InputError(value.problem, where=value.where, fix=value.fix)
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
        outcomes = {pair: self.known[pair] for pair in distinct}
        forget_oldest(self.known, KEPT)
        return outcomes

    def _ask(self, client: Client, pairs: Sequence[Pair]) -> None:
        """Have every pair scored, or known to be at fault."""

        def probe() -> ServerRequest:
            return self.request(self.form, [self.form.probe])

        def check(reply: Any) -> None:
            self.form.values(reply, [self.form.probe])

        loop: RequestLoop[_Batch[V]] = RequestLoop(client, probe, check)
        waiting = deque(self._batches(pairs))
        for ended in loop.run(waiting, AHEAD * self.connection.connections):
            for batch in ended:
                waiting.extendleft(reversed(self._take(batch)))

    def _take(self, batch: _Batch[V]) -> list[_Batch[V]]:
        """Keep the scores of a batch, or the fault of a pair; the halves of a batch at fault, to be made instead."""
        if batch.fatal is not None:
            raise batch.fatal
        size = len(batch.pairs)
        if batch.error is None:
            self.known.update(zip(batch.pairs, batch.values, strict=True))
        elif size == 1:
            self.known[batch.pairs[0]] = batch.error
        else:
            halves = batch.pairs[: size // 2], batch.pairs[size // 2 :]
            return [_Batch(self, half) for half in halves]
        return []

    def _batches(self, pairs: Sequence[Pair]) -> Iterator[_Batch[V]]:
        """Requests for all pairs."""
        groups: dict[str, list[Pair]] = {}
        for pair in pairs:
            groups.setdefault(pair.query if self.form.one_query else "", []).append(pair)
        for group in groups.values():
            for start in range(0, len(group), self.batch_pairs):
                yield _Batch(self, group[start : start + self.batch_pairs])

    def request(self, form: RequestForm[V], pairs: Sequence[Pair]) -> ServerRequest:
        """The request for some pairs."""
        return ServerRequest(form.path, {**form.body(self.model, pairs), **self.further})
