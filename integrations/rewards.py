"""Rewards of trainers: a metric against a column of the data, or the expected utility within the group.

    reward(h_i) = u(h_i, r)                              against the references of the prompt (`reward`)
    reward(h_i) = 1/G sum_j u(h_i, h_j)                  within its group of G samples (`group_reward`)

The second is the criterion of minimum Bayes risk decoding as the reward of group-relative policy optimisation. A reward
is always a utility: higher is better. A completion without one raises or, with ``on_error="mask"``, is None, which TRL
leaves out of its means: never 0, never NaN. An outage, such as of the server, raises in any case.

`Scores` is the client of `discorank serve`, for many processes that share one metric.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from threading import Lock
from typing import Any, Literal, get_args

import numpy as np

from ..metrics.base import as_long_as
from ..metrics.errors import DiscorankError, InputError, MetricError, ResourceError, excerpt
from ..metrics.mixture import Utility
from ..metrics.registry import MetricLike, load_metric
from ..metrics.representations import FloatArray
from ..metrics.text.texts import Document, Text, plain_value
from ..rerank.choice import Ranking
from ..rerank.engines.local import LocalEngine
from ..rerank.engines.text_scores import (
    ScoreOutcome,
    check_scores_alone,
    needs_references,
    outcomes_of,
    score_of,
    score_tasks,
)
from ..rerank.lists import Candidate, CandidateList, finite, read_candidate, with_digits
from ..rerank.mbr import MBRDecoder
from ..rerank.messages import is_reply, reply_text, user_text, value_at
from .server.exchange import Client, NotJsonError, RefusedError
from .server.settings import Connection

OnError = Literal["raise", "mask"]
Columns = Mapping[str, Any]
Texts = Sequence[str | InputError]  # of completions, or why one has none
Outcomes = Sequence[ScoreOutcome]
Row = tuple[str, list[Text] | None, str | None]  # a text, its references, its source
ROWS_AT_ONCE = 256  # texts of one request
# codes of refusals of what is too large: a part of it may pass
TOO_LARGE = frozenset({"too_large", "too_long", "too_many_characters", "too_many_pairs"})


class Scores:
    """A metric on a server.

    Transient failures are retried, after the time that the server names. Other failures raise a `ResourceError` if
    the server is at fault, or an `InputError` if the request is. A text that the server cannot score has an error of
    its own; no number stands for a failure.

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

    def score(
        self, hypotheses: Sequence[Text], references: Any = None, sources: Any = None
    ) -> FloatArray:
        """Scores as utilities, float64 [n]; arguments as `Metric.score`.

        Raises:
            InputError, MetricError: a text cannot be scored; the first is named.
            ResourceError: the server cannot be reached, or does not answer any more.
            ModelLoadError: a package of the extra "server" is missing.
        """
        outcomes = self.outcomes(hypotheses, references, sources)
        for i, outcome in enumerate(outcomes):
            if isinstance(outcome, DiscorankError):
                raise outcome.inside(f"hypotheses[{i}]")
        return np.array(outcomes, np.float64)

    def outcomes(
        self, hypotheses: Sequence[Text], references: Any = None, sources: Any = None
    ) -> list[ScoreOutcome]:
        """The score of every text, or its error; errors of the whole request as `score`."""
        given = {"hypotheses": hypotheses, "references": references, "sources": sources}
        columns = {
            name: _json(as_long_as(hypotheses, values, name, "the server"))
            for name, values in given.items()
            if values is not None
        }
        with Client(self.connection) as client:
            return [
                outcome
                for start in range(0, len(hypotheses), ROWS_AT_ONCE)
                for outcome in self._results(client, columns, start, start + ROWS_AT_ONCE)
            ]

    def _results(
        self, client: Client, columns: Mapping[str, list[Any]], start: int, end: int
    ) -> list[ScoreOutcome]:
        """The score of every row of a range, or its error; a request that is too large is split in half."""
        model = {} if self.model is None else {"model": self.model}
        rows = {name: own[start:end] for name, own in columns.items()}
        size = len(rows["hypotheses"])
        try:
            reply = client.post("score", {**rows, **model, "errors": "each"}).result()
            return _scores(reply, size)
        except (NotJsonError, RefusedError) as error:
            if isinstance(error, RefusedError) and error.details.code not in TOO_LARGE:
                raise
            if size == 1:
                return [error]
        middle = start + size // 2
        halves = (start, middle), (middle, start + size)
        return [one for half in halves for one in self._results(client, columns, *half)]


def _json(value: Any) -> Any:
    """The JSON form of texts in lists."""
    if isinstance(value, Document):
        return list(value.sentences)
    return list(map(_json, value)) if isinstance(value, list | tuple) else value


def _scores(reply: Any, count: int) -> list[ScoreOutcome]:
    """The scores of a reply in the order of the request, with errors in their places."""
    data = value_at(reply, "data")
    rows = data if isinstance(data, list) else []
    by_index = {row.get("index"): row for row in rows if isinstance(row, Mapping)}
    if len(rows) != count or set(by_index) != set(range(count)):
        problem = f"found {excerpt(reply)}, expected results with the indices 0 to {count - 1}"
        raise InputError(problem, where="server: reply", fix="Is base_url that of discorank serve?")
    return [_score(by_index[i]) for i in range(count)]


def _score(row: Mapping[str, Any]) -> ScoreOutcome:
    """The score of a result, or its error."""
    error, score = row.get("error"), finite(row.get("score"))
    if isinstance(error, Mapping):
        kind = InputError if error.get("code") == "bad_text" else MetricError
        return kind(str(error.get("message")), where="server")
    if score is None:
        return MetricError(f"found {excerpt(row)}, expected a finite score", where="server")
    return score


@dataclass(eq=False, kw_only=True)
class RewardFunction(ABC):
    """A reward function: called with columns by name, as TRL calls it; it ignores columns that it does not read.

    Pickled without its model, which every process loads for itself.

    Attributes:
        __name__: under which trainers log it.
        utility: the metric.
        source, on_error: see `reward`.
    """

    __name__: str
    utility: Utility
    source: str | None
    on_error: OnError
    engines: dict[int, tuple[LocalEngine, Lock]] = field(default_factory=dict)  # by process

    def __getstate__(self) -> dict[str, Any]:
        """The settings alone."""
        return {**self.__dict__, "engines": {}}

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """The reward of every completion, [n]; None for one without, if `on_error` is "mask".

        Args:
            completions: texts, or conversations whose last message is the text.
            columns: columns of the data, each with an entry per completion, and other arguments of a trainer.

        Raises:
            InputError, MetricError: a column is missing, or a completion has no reward; the first is named.
            ResourceError: the metric's server or memory is gone.
        """
        rewards: list[float | None] = []
        for i, outcome in enumerate(self.outcomes(list(map(_text, completions)), columns)):
            if not isinstance(outcome, DiscorankError):
                rewards.append(outcome)
            elif self.on_error == "mask" and not isinstance(outcome, ResourceError):
                rewards.append(None)
            else:
                raise outcome.inside(f"completions[{i}]")
        return rewards

    @abstractmethod
    def outcomes(self, texts: Texts, columns: Columns) -> Outcomes:
        """The reward of every text, or its error."""

    def sources(self, columns: Columns, num_texts: int) -> Sequence[Any]:
        """The source of every text, None where none is read."""
        if self.source is None:
            return [None] * num_texts
        return _column(columns, self.source, num_texts)

    def engine(self) -> tuple[LocalEngine, Lock]:
        """What computes values in this process, for one thread at a time; a fork loads its own, as models break."""
        process = os.getpid()
        if process not in self.engines:
            engine = LocalEngine()
            engine.load([self.utility])
            self.engines[process] = engine, Lock()
        return self.engines[process]


@dataclass(eq=False, kw_only=True)
class ReferenceReward(RewardFunction):
    """The score of every completion against references of the data; see `reward`."""

    reference: str
    server: Scores | None

    def outcomes(self, texts: Texts, columns: Columns) -> Outcomes:
        """As `RewardFunction`; a row of the data that cannot be read fails alone."""
        references: Sequence[Any] = [None] * len(texts)
        if needs_references(self.utility):
            references = _column(columns, self.reference, len(texts))
        sources = self.sources(columns, len(texts))
        rows = list(map(self._row, texts, references, sources))
        readable = [row for row in rows if not isinstance(row, DiscorankError)]
        scores = iter(self._scores(readable) if readable else ())
        return [row if isinstance(row, DiscorankError) else next(scores) for row in rows]

    def _row(self, text: str | InputError, references: Any, source: Any) -> Row | InputError:
        """The text, the references and the source of a completion, or why it has none."""
        if isinstance(text, InputError):
            return text
        try:
            own = None
            if needs_references(self.utility):
                own = _references(references, self.reference)
            return text, own, None if self.source is None else _source(source, self.source)
        except InputError as error:
            return error

    def _scores(self, rows: Sequence[Row]) -> Outcomes:
        """The scores of rows as utilities, or their errors."""
        texts = [text for text, _, _ in rows]
        references = [own for _, own, _ in rows if own is not None] or None
        sources = None if self.source is None else [source for _, _, source in rows]
        if self.server is not None:
            return self.server.outcomes(texts, references, sources)
        engine, lock = self.engine()
        with lock:
            outcomes = outcomes_of(engine, score_tasks(self.utility, texts, references, sources))
        return [score_of(self.utility, outcome) for outcome in outcomes]

    def compute_score(
        self,
        data_source: str,
        solution_str: str,
        ground_truth: Any,
        extra_info: Any = None,
        **_: Any,
    ) -> float:
        """The reward of one text, as verl calls it; its source is in `extra_info` under the name of its column.

        Raises:
            InputError, MetricError, ResourceError: it has none, which verl cannot express otherwise.
        """
        columns = {self.reference: [ground_truth]}
        if self.source is not None:
            columns[self.source] = [value_at(extra_info, self.source)]
        (outcome,) = self.outcomes([_text(solution_str)], columns)
        if isinstance(outcome, DiscorankError):
            raise outcome.inside("solution_str")
        return outcome


@dataclass(eq=False, kw_only=True)
class GroupReward(RewardFunction):
    """The expected utility of every completion within the group of its prompt; see `group_reward`."""

    decoder: MBRDecoder
    num_generations: int | None

    def outcomes(self, texts: Texts, columns: Columns) -> Outcomes:
        """As `RewardFunction`; needs the column `prompts`."""
        sources = self.sources(columns, len(texts))
        lists: dict[tuple[int, ...], CandidateList] = {}
        for group in self._groups(_column(columns, "prompts", len(texts))):
            rows = tuple(i for i in group if isinstance(texts[i], str))
            if rows:
                candidates = tuple(Candidate(str(texts[i])) for i in rows)
                source = None if self.source is None else _source(sources[rows[0]], self.source)
                lists[rows] = CandidateList(f"group {group[0]}", candidates, source)
        engine, lock = self.engine()
        # those with an error in place of a text keep it
        outcomes: list[Any] = list(texts)
        with lock:
            for rows, outcome in self.decoder.outcomes(lists.items(), engine):
                rewards = self._rewards(outcome, len(rows))
                for i, value in zip(rows, rewards, strict=True):
                    outcomes[i] = value
        return outcomes

    def _groups(self, prompts: Sequence[Any]) -> Iterator[range]:
        """The rows of every group: neighbours with one prompt, `num_generations` of them where that is given.

        Raises:
            InputError: a group is not whole.
        """
        start = 0
        for _, same in groupby(prompts):
            end = start + len(list(same))
            size = self.num_generations or end - start
            if end - start < 2 or (end - start) % size:
                expected = self.num_generations or "at least 2"
                raise InputError(
                    f"found {end - start} completions of one prompt, expected {expected}",
                    where=f"completions[{start}]",
                    fix="Choose a batch per process that holds whole groups",
                )
            yield from (range(at, at + size) for at in range(start, end, size))
            start = end

    def _rewards(self, outcome: Ranking | DiscorankError | None, size: int) -> Outcomes:
        """The rewards of a group from the expected utilities of its completions, or from its error."""
        if outcome is None or isinstance(outcome, DiscorankError):
            return [outcome or MetricError("has no value")] * size
        error = MetricError("has no finite utility", where=self.utility.name)
        known = map(finite, outcome.utilities)
        return [error if value is None else value for value in known]


def reward(
    metric: MetricLike,
    reference: str = "reference",
    *,
    source: str | None = None,
    server: str | Scores | None = None,
    on_error: OnError = "raise",
) -> ReferenceReward:
    """A reward function by a metric, for ``reward_funcs`` of TRL and, as its `compute_score`, for verl.

    Args:
        metric: a metric, its name or signature, or a sum; a distance counts negated.
        reference: the column of references, each a text or a list of them; not read for metrics without references.
        source: the column of sources, for metrics that read them.
        server: the address of `discorank serve`, which scores for all processes, or a `Scores` of it; without one
            each process loads the metric.
        on_error: "raise", or "mask": the reward of a completion that cannot be scored is None.

    Raises:
        InputError: a metric or settings that cannot be used.
    """
    name, utility = _checked(metric, source, on_error)
    if isinstance(server, str):
        if not isinstance(metric, str):
            problem = f"found {excerpt(metric)}, expected a name that the server knows"
            raise InputError(problem, where="metric", fix="Name it as for discorank serve")
        server = Scores(server, metric)
    return ReferenceReward(
        __name__=name,
        utility=utility,
        source=source,
        on_error=on_error,
        reference=reference,
        server=server,
    )


def group_reward(
    utility: MetricLike,
    *,
    leave_one_out: bool = False,
    num_generations: int | None = None,
    source: str | None = None,
    on_error: OnError = "raise",
) -> GroupReward:
    """A reward function by consensus: the expected utility of a completion within the group of its prompt.

    Args:
        utility: a metric that compares two texts, its name or signature, or a sum.
        leave_one_out: whether a completion is not compared with itself; a copy of it in the group is.
        num_generations: completions of a group; neighbours with the same prompt if not given.
        source, on_error: as for `reward`; where a group cannot be valued, all of its rewards are None.

    Raises:
        InputError: a utility or settings that cannot be used.
    """
    name, loaded = _checked(utility, source, on_error)
    if num_generations is not None and not (type(num_generations) is int and num_generations > 1):
        problem = f"found {excerpt(num_generations)}, expected a whole number, at least 2"
        raise InputError(problem, where="num_generations", fix="A text alone has no consensus")
    if not needs_references(loaded):
        problem = f"{name} compares no two completions"
        raise InputError(problem, where="utility", fix="Take reward() for it")
    return GroupReward(
        __name__=f"consensus({name})",
        utility=loaded,
        source=source,
        on_error=on_error,
        decoder=MBRDecoder(loaded, nbest=None, self_pair=not leave_one_out),
        num_generations=num_generations,
    )


def _checked(metric: MetricLike, source: str | None, on_error: OnError) -> tuple[str, Utility]:
    """The metric by its name for people and loaded; raises InputError for one, or a setting, that cannot be used."""
    if on_error not in get_args(OnError):
        raise InputError(f"found {on_error!r}", where="on_error", fix='"raise" or "mask"')
    utility = load_metric(metric)
    check_scores_alone(utility)
    for _, part in utility.parts:
        if part.reads.context:
            problem = f"{part.name} reads preceding sentences, which completions do not have"
            raise InputError(problem, where="metric", fix="Leave its context out")
        if part.needs_source and source is None:
            problem = f"{part.name} reads the source"
            raise InputError(problem, where="source", fix="Name the column that holds it")
    # the signature would look for the model's files, which may be on the server alone
    return metric if isinstance(metric, str) else utility.name, utility


def _text(completion: Any) -> str | InputError:
    """The text of a completion, or why it has none."""
    try:
        return reply_text(plain_value(completion))
    except InputError as error:
        return error


def _column(columns: Columns, name: str, num_texts: int) -> Sequence[Any]:
    """A column of the data; raises InputError where it is missing or not as long as the completions."""
    if columns.get(name) is None:
        names = ", ".join(sorted(columns)) or "none"
        problem = f"no column {name!r}, found {names}"
        raise InputError(problem, where="columns", fix="Name the column of the data that holds it")
    values = plain_value(columns[name])
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != num_texts:
        problem = f"found {excerpt(values)}, expected a list of {num_texts}, one per completion"
        raise InputError(problem, where=f"columns.{name}")
    return values


def _references(value: Any, name: str) -> list[Text]:
    """The references of a completion: a text, a number or a conversation, or a list of them."""
    value = plain_value(value)
    is_list = isinstance(value, list | tuple) and not _is_conversation(value)
    values = value if is_list else [value]
    if not values:
        raise InputError("found none, expected a text or a list of texts", where=name)
    places = [f"{name}[{i}]" if is_list else name for i in range(len(values))]
    return [
        read_candidate(with_digits(one), at).text for one, at in zip(values, places, strict=True)
    ]


def _is_conversation(value: Sequence[Any]) -> bool:
    """Whether a list is a conversation, and not a list of references that are messages."""
    return is_reply(value) and len({value_at(message, "role") for message in value}) > 1


def _source(value: Any, name: str) -> str:
    """The source of a completion: a text, or the last message of the user in a conversation."""
    value = plain_value(value)
    text = user_text(value) if is_reply(value) else value
    if not isinstance(text, str):
        raise InputError(f"found {excerpt(value)}, expected a text", where=name)
    return str(text)
