"""Scores by a model on a server: vLLM's /score and /rerank, and the rerankers of others.

    score-server     score(query = reference, document = hypothesis)
    score-server-qe  score(query = source, document = hypothesis); reference-free

Forms of requests that servers answer (the `form` setting): `score` (vLLM), `rerank` (vLLM, Jina, Cohere v1 and v2, and
servers that follow them), `tei` (text-embeddings-inference); `auto` is the first of these that the server answers, for
a pair that it is asked at the beginning. `base_url` is the address before /score or /rerank. Any finite number, higher
is better, not symmetric; an empty text is sent like any other. Scores are the server's: equal bytes for equal texts
are its to promise. They are those of `model`, which the signature names; how the server is reached is no part of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import InputError
from ...metrics.optional_packages import require
from ...metrics.representations import Block, FloatArray, IntArray, Reps
from ...metrics.scorer import Info, Scorer
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.text.texts import Item
from .pair_scores import FORMS, Pair, PairScores
from .settings import Connection, further_keys

DEFAULTS = Connection("http://localhost")


class ServedSettings(Protocol):
    """The settings of such a metric."""

    @property
    def name(self) -> str:
        """Of the metric."""

    @property
    def base_url(self) -> str | None:
        """The address, if it is given."""

    @property
    def key_variable(self) -> str | None:
        """The environment variable that holds the key, if it is given."""

    @property
    def connections(self) -> int:
        """As `Connection`."""

    @property
    def timeout_seconds(self) -> float:
        """As `Connection`."""

    @property
    def retries(self) -> int:
        """As `Connection`."""

    @property
    def backoff_seconds(self) -> float:
        """As `Connection`."""


def connection_at(
    metric: ServedSettings, base_url: str, key_variable: str | None = None
) -> Connection:
    """How the server at an address is reached; raises InputError for what is no address."""
    return Connection(
        base_url,
        key_variable=metric.key_variable or key_variable,
        connections=metric.connections,
        timeout_seconds=metric.timeout_seconds,
        retries=metric.retries,
        backoff_seconds=metric.backoff_seconds,
    )


def check_connection(metric: ServedSettings) -> None:
    """Raises InputError for settings by which no server can be reached."""
    connection_at(metric, DEFAULTS.base_url if metric.base_url is None else metric.base_url)


def connection_of(metric: ServedSettings, address_variable: str, key_variable: str) -> Connection:
    """The server that the settings name, or else the environment.

    Args:
        metric: its settings.
        address_variable: the environment variable that holds the address where the settings have none.
        key_variable: the one that holds the key of the server there.

    Raises:
        InputError: neither names an address.
        ModelLoadError: a package of the extra is not installed.
    """
    require(metric.name, "httpx2", "tenacity")
    if metric.base_url is not None:
        return connection_at(metric, metric.base_url)
    base_url = os.environ.get(address_variable)
    if not base_url:
        fix = f"Give the address of a server, or export it as {address_variable}"
        raise InputError("base_url missing", where=metric.name, fix=fix)
    return connection_at(metric, base_url, key_variable if os.environ.get(key_variable) else None)


# where a metric that a file names finds its server: addresses and keys are the user's to say
ADDRESS_VARIABLE = "DISCORANK_SCORE_SERVER"
KEY_VARIABLE = "DISCORANK_SCORE_KEY"


@settings
class ServedMetric(Metric):
    """Base of both metrics: how a server is asked.

    Args:
        model: the model's name on the server.
        form: how it is asked: score, rerank or tei; auto tries them in this order.
        request: more keys of a request, as a JSON object, such as {"truncate_prompt_tokens": 512}.
        base_url: its address before /score or /rerank, such as http://localhost:8000/v1; that in the environment
            variable DISCORANK_SCORE_SERVER if not given. No part of the signature.
        key_variable: the environment variable that holds the key; no key is sent if it is not named, but that in
            DISCORANK_SCORE_KEY, if any, to the address in the environment. No part of the signature.
        batch_pairs: most pairs of one request. No part of the signature.
        connections: how many requests are made at the same time. No part of the signature.
        timeout_seconds: how long one request may take in all. No part of the signature.
        retries: how often a request is repeated that failed for a reason that may pass. No part of the signature.
        backoff_seconds: how long the first repetition waits; each further one waits twice as long, up to a minute. No
            part of the signature.
    """

    model: str = ""
    form: Literal["auto", "score", "rerank", "tei"] = "auto"
    request: str | None = None
    base_url: str | None = field(default=None, compare=False)
    key_variable: str | None = field(default=None, compare=False)
    batch_pairs: Annotated[int, Field(ge=1)] = field(default=32, compare=False)
    connections: int = field(default=DEFAULTS.connections, compare=False)
    timeout_seconds: float = field(default=DEFAULTS.timeout_seconds, compare=False)
    retries: int = field(default=DEFAULTS.retries, compare=False)
    backoff_seconds: float = field(default=DEFAULTS.backoff_seconds, compare=False)
    users_own: ClassVar[tuple[str, ...]] = ("base_url", "key_variable")

    def __post_init__(self) -> None:
        if not self.model:
            fix = "Name the model that the server runs: it stands for it in the signature"
            raise InputError("model missing", where=self.name, fix=fix)
        taken = further_keys(self.request).keys() & {
            *("model", "query", "documents", "texts", "text_1", "text_2", "top_n")
        }
        if taken:
            problem = "is a key that discorank sets itself"
            raise InputError(problem, where=f"{self.name}.request.{min(taken)}")
        check_connection(self)

    def load(self) -> ServedScorer:
        """Asks the server for the score of a pair.

        Raises:
            ResourceError: it cannot be reached.
            InputError: no address is given, or it refuses the key, does not know the model, or answers no form.
        """
        connection = connection_of(self, ADDRESS_VARIABLE, KEY_VARIABLE)
        forms = list(FORMS.values()) if self.form == "auto" else [FORMS[self.form]]
        further = further_keys(self.request)
        try:
            scores = PairScores(connection, self.model, forms, further, self.batch_pairs)
        except InputError as error:
            raise error.inside(self.name) from None
        return ServedScorer(self.info, scores)


@settings
class ScoreServer(ServedMetric):
    """The score of a hypothesis as document with its reference as query."""

    name: ClassVar[str] = "score-server"
    info: ClassVar[Info] = Info(
        summary="score of hypothesis and reference by a model on a server", costly_pairs=True
    )


@settings
class ScoreServerQE(ServedMetric):
    """The score of a hypothesis as document with its source as query."""

    name: ClassVar[str] = "score-server-qe"
    info: ClassVar[Info] = Info(
        summary="score of hypothesis and source by a model on a server",
        needs_source=True,
        needs_references=False,
        costly_pairs=True,
    )


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
        texts[:] = [_sendable(str(item.text)) for item in items]
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


def _sendable(text: str) -> str:
    """A text that UTF-8 can hold: halves of characters are question marks."""
    return text.encode("utf-8", "replace").decode()
