"""The client of `discorank serve`: scores by a metric on a server, with retries.

What may pass (connections, 429, 503 and their like) is tried again, after the time that the server names. What stays is
a `ResourceError`, where the server is at fault, or an `InputError`, where the request is. A text that the server cannot
score has an error of its own; there is no number that stands for a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from types import TracebackType
from typing import Any, Self

import numpy as np

from ...metrics.base import as_long_as
from ...metrics.errors import DiscorankError, InputError, MetricError, excerpt
from ...metrics.optional_packages import require
from ...metrics.representations import FloatArray
from ...metrics.text.texts import Document, Text
from ...rerank.engines.text_scores import ScoreOutcome
from ...rerank.lists import finite, plain
from ..server.exchange import Client, NotJsonError, RefusedError
from ..server.settings import Connection

ROWS = 256  # texts of one request
# refusals of what is too large: a part of it may do
TOO_LARGE = frozenset({"too_large", "too_long", "too_many_characters", "too_many_pairs"})
# classes of errors by the codes that the server gives them
_KINDS: Mapping[str, type[DiscorankError]] = {"bad_text": InputError, "not_scored": MetricError}


class Scores:
    """A metric on a server.

    Args:
        base_url: the address of `discorank serve`, such as http://localhost:8484.
        model: the metric, by the name that the server has for it; its first one if not given.
        settings: of `discorank.integrations.server.settings.Connection`: key_variable, connections, timeout_seconds,
            retries, backoff_seconds.

    Raises:
        InputError: no address, or a setting out of range.
        ModelLoadError: a package of the extra "server" is missing.
    """

    def __init__(self, base_url: str, model: str | None = None, **settings: Any) -> None:
        require("Scores", "aiohttp")
        if model is not None and not isinstance(model, str):
            problem = f"found {excerpt(model)}, expected a name that the server knows"
            raise InputError(problem, where="model", fix="Name it as it was named to serve")
        if not isinstance(base_url, str):
            problem = f"found {excerpt(base_url)}, expected the address of discorank serve"
            raise InputError(problem, where="base_url", fix="Such as http://localhost:8484")
        address = base_url.rstrip("/")
        address = address if address.endswith("/v1") else f"{address}/v1"
        self.connection = Connection(address, **settings)
        self.model = model
        self._client: Client | None = None

    def __repr__(self) -> str:
        model = "its first metric" if self.model is None else self.model
        return f"{model} at {self.connection.base_url}, one for all processes"

    def __getstate__(self) -> dict[str, Any]:
        return {"connection": self.connection, "model": self.model}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.connection, self.model = state["connection"], state["model"]
        self._client = None

    def __enter__(self) -> Self:
        """Itself, whose connections stay open within the block; outside of one, every call has its own."""
        self._client = Client(self.connection).__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Closes the connections."""
        client, self._client = self._client, None
        if client is not None:
            client.__exit__(kind, error, at)

    def score(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text | Sequence[Text]] | None = None,
        sources: Sequence[Text | None] | None = None,
        documents: Sequence[str] | None = None,
    ) -> FloatArray:
        """Scores as utilities, float64 [n]; arguments as `Metric.score`.

        Raises:
            InputError, MetricError: a text cannot be scored, the first of which is named.
            ResourceError: the server cannot be reached, or answers no more.
        """
        values = []
        for i, outcome in enumerate(self.outcomes(hypotheses, references, sources, documents)):
            if isinstance(outcome, DiscorankError):
                raise outcome.inside(f"hypotheses[{i}]")
            values.append(outcome)
        return np.array(values, np.float64)

    def outcomes(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text | Sequence[Text]] | None = None,
        sources: Sequence[Text | None] | None = None,
        documents: Sequence[str] | None = None,
    ) -> list[ScoreOutcome]:
        """The score of every text, or its error.

        Raises:
            InputError: the request as a whole is refused.
            ResourceError: the server cannot be reached, or answers no more.
        """
        given: dict[str, list[Any] | None] = {
            "hypotheses": [plain(text) for text in hypotheses],
            "references": None
            if references is None
            else [_references(own, i) for i, own in enumerate(references)],
            "sources": None if sources is None else [text and plain(text) for text in sources],
            "documents": None if documents is None else list(documents),
        }
        columns = {
            name: as_long_as(hypotheses, values, name, "the server")
            for name, values in given.items()
            if values is not None
        }
        # sentences of a document are context of one another
        step = ROWS if documents is None else max(1, len(hypotheses))
        parts = [
            {name: list(values[start : start + step]) for name, values in columns.items()}
            for start in range(0, len(hypotheses), step)
        ]
        outcomes: list[ScoreOutcome] = []
        for part, reply in self._replies("score", parts):
            if isinstance(reply, InputError):
                outcomes.append(reply)
            else:
                outcomes += [_score(result) for result in _results(reply, len(part["hypotheses"]))]
        return outcomes

    def _replies(
        self, path: str, parts: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[dict[str, Any], Any]]:
        """Every part of a request with its reply, in order; many are under way at a time.

        A part that is refused as a whole for one text in it is asked for in halves; one row has its error as its reply.
        """
        named = {} if self.model is None else {"model": self.model}
        own = Client(self.connection) if self._client is None else nullcontext(self._client)
        with own as client:
            futures: list[Future[Any]] = []

            def post(part: dict[str, Any]) -> Future[Any]:
                futures.append(client.post(path, {**named, **part, "errors": "each"}))
                return futures[-1]

            try:
                for part, future in [(part, post(part)) for part in parts]:
                    yield from _in_halves(part, future, post)
            finally:
                for future in futures:
                    future.cancel()


def _in_halves(
    part: dict[str, Any], future: Future[Any], post: Callable[[dict[str, Any]], Future[Any]]
) -> Iterator[tuple[dict[str, Any], Any]]:
    """A part with its reply, or its halves with theirs where it is too large or no JSON, or a row with its error.

    Raises:
        InputError, ResourceError: it is refused for another reason, or its rows are context of one another.
    """
    try:
        reply = future.result()
    except (NotJsonError, RefusedError) as error:
        is_too_large = isinstance(error, RefusedError) and error.details.code in TOO_LARGE
        if "documents" in part or not (is_too_large or isinstance(error, NotJsonError)):
            raise
        reply = error
    columns = {name: values for name, values in part.items() if isinstance(values, list)}
    middle = max(map(len, columns.values())) // 2
    if not isinstance(reply, InputError) or not middle:
        yield part, reply
        return
    for rows in (slice(middle), slice(middle, None)):
        half = part | {name: values[rows] for name, values in columns.items()}
        yield from _in_halves(half, post(half), post)


def _references(texts: Text | Sequence[Text], i: int) -> list[Any]:
    """The references of text i, as JSON; raises InputError for what is no text."""
    if not isinstance(texts, str | Document | Iterable):
        problem = f"found {excerpt(texts)}, expected a text or a list of texts"
        raise InputError(problem, where=f"references[{i}]")
    several = [texts] if isinstance(texts, str | Document) else texts
    return [plain(text) for text in several]


def _results(reply: Any, expected: int) -> list[Mapping[str, Any]]:
    """The results of a reply in the order of the request.

    Raises:
        InputError: there are more or fewer, or one stands twice.
    """
    data = reply.get("data") if isinstance(reply, Mapping) else None
    results = data if isinstance(data, list) else []
    by_index = {result.get("index"): result for result in results if isinstance(result, Mapping)}
    if len(results) != expected or set(by_index) != set(range(expected)):
        problem = f"found {excerpt(reply)}, expected results with the indices 0 to {expected - 1}"
        raise InputError(problem, where="server: reply", fix="Is base_url that of discorank serve?")
    return [by_index[i] for i in range(expected)]


def _error(result: Mapping[str, Any]) -> DiscorankError | None:
    """The error of a result, if it is one."""
    error = result.get("error")
    if error is None:
        return None
    about = error if isinstance(error, Mapping) else {}
    kind = _KINDS.get(str(about.get("code")), MetricError)
    return kind(str(about.get("message", excerpt(error))), where="server")


def _score(result: Mapping[str, Any]) -> ScoreOutcome:
    error, score = _error(result), finite(result.get("score"))
    if error is not None:
        return error
    if score is None:
        return MetricError(f"found {excerpt(result)}, expected a finite score", where="server")
    return score
