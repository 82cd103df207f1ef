"""The client of `discorank serve`: scores by a metric on a server, with retries.

Failures that may pass (connections, 429, 503 and their like) are tried again, after the time that the server names.
Other failures raise a `ResourceError` if the server is at fault, or an `InputError` if the request is. A text that the
server cannot score has an error of its own; no number stands for a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...metrics.base import as_long_as
from ...metrics.errors import DiscorankError, InputError, MetricError, excerpt
from ...metrics.representations import FloatArray
from ...metrics.text.texts import Document, Text
from ...rerank.lists import finite
from ..server.exchange import Client, NotJsonError, RefusedError
from ..server.settings import Connection

Texts = Sequence[Text]
Outcomes = list[float | DiscorankError]
ROWS = 256  # texts of one request
# refusals of what is too large: a part of it may do
TOO_LARGE = frozenset({"too_large", "too_long", "too_many_characters", "too_many_pairs"})


class Scores:
    """A metric on a server.

    Args:
        base_url: the address of `discorank serve`, such as http://localhost:8484.
        model: the metric, by the name that the server has for it; its first one if not given.
        settings: of `discorank.integrations.server.settings.Connection`: key_variable, connections, timeout_seconds,
            retries, backoff_seconds.

    Raises:
        InputError: not an address, or a setting out of range.
    """

    def __init__(self, base_url: str, model: str | None = None, **settings: Any) -> None:
        address = str(base_url).rstrip("/").removesuffix("/v1")
        self.connection, self.model = Connection(f"{address}/v1", **settings), model

    def __repr__(self) -> str:
        return f"{self.model or 'its first metric'} at {self.connection.base_url}"

    def score(self, hypotheses: Texts, references: Any = None, sources: Any = None) -> FloatArray:
        """Scores as utilities, float64 [n]; arguments as `Metric.score`.

        Raises:
            InputError, MetricError: a text cannot be scored, the first of which is named.
            ResourceError: the server cannot be reached, or does not answer any more.
            ModelLoadError: a package of the extra "server" is missing.
        """
        outcomes = self.outcomes(hypotheses, references, sources)
        for i, outcome in enumerate(outcomes):
            if isinstance(outcome, DiscorankError):
                raise outcome.inside(f"hypotheses[{i}]")
        return np.array(outcomes, np.float64)

    def outcomes(self, hypotheses: Texts, references: Any = None, sources: Any = None) -> Outcomes:
        """The score of every text, or its error; errors of the whole request as `score`."""
        given = {"hypotheses": hypotheses, "references": references, "sources": sources}
        body = {
            name: _json(as_long_as(hypotheses, values, name, "the server"))
            for name, values in given.items()
            if values is not None
        }
        return self._results(body, len(hypotheses))

    def _results(self, body: dict[str, Any], count: int) -> Outcomes:
        """The score of every row, or its error; a request that is too large for a row in it is made again in halves."""
        model = {} if self.model is None else {"model": self.model}
        with Client(self.connection) as client:

            def results(rows: slice) -> Outcomes:
                own = {k: v[rows] if isinstance(v, list) else v for k, v in body.items()}
                sent, middle = rows.stop - rows.start, (rows.start + rows.stop) // 2
                try:
                    reply = client.post("score", {**own, **model, "errors": "each"}).result()
                    return _scores(reply, sent)
                except (NotJsonError, RefusedError) as error:
                    if isinstance(error, RefusedError) and error.details.code not in TOO_LARGE:
                        raise
                    if sent == 1:
                        return [error]
                return results(slice(rows.start, middle)) + results(slice(middle, rows.stop))

            parts = [slice(at, min(at + ROWS, count)) for at in range(0, count, ROWS)]
            return [value for part in parts for value in results(part)]


def _json(value: Any) -> Any:
    """The JSON form of texts in lists."""
    if isinstance(value, Document):
        return list(value.sentences)
    return list(map(_json, value)) if isinstance(value, list | tuple) else value


def _scores(reply: Any, count: int) -> Outcomes:
    """The scores of a reply in the order of the request, errors in their places."""
    data = reply.get("data") if isinstance(reply, Mapping) else None
    rows = data if isinstance(data, list) else []
    by_index = {row.get("index"): row for row in rows if isinstance(row, Mapping)}
    if len(rows) != count or set(by_index) != set(range(count)):
        problem = f"found {excerpt(reply)}, expected results with the indices 0 to {count - 1}"
        raise InputError(problem, where="server: reply", fix="Is base_url that of discorank serve?")
    return [_score(by_index[i]) for i in range(count)]


def _score(row: Mapping[str, Any]) -> float | DiscorankError:
    """The score of a result, or its error."""
    error, score = row.get("error"), finite(row.get("score"))
    if isinstance(error, Mapping):
        kind = InputError if error.get("code") == "bad_text" else MetricError
        return kind(str(error.get("message")), where="server")
    if score is None:
        return MetricError(f"found {excerpt(row)}, expected a finite score", where="server")
    return score
