"""Reward functions of trainers: a metric against a column of the data, or the expected utility within the group.

    reward(h_i) = u(h_i, r)                              against the references of the prompt (`reward`)
    reward(h_i) = 1/G sum_j u(h_i, h_j)                  within its group of G samples (`group_reward`)

The second is what minimum Bayes risk decoding chooses by, as the reward of group-relative policy optimisation. A reward
is always a utility: higher is better. A completion without one raises or, if one says so, is None, which TRL leaves out
of its means: never 0, never NaN. What takes all rewards with it, such as a server that is gone, raises in any case.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from threading import Lock
from typing import Any, Literal

import numpy as np

from ...metrics.errors import DiscorankError, InputError, MetricError, ResourceError, excerpt
from ...metrics.mixture import Utility
from ...metrics.registry import MetricLike, load_metric
from ...metrics.representations import FloatArray
from ...metrics.text.library_values import plain_value
from ...metrics.text.texts import Text
from ...rerank.choice import Ranking
from ...rerank.decider import Decider
from ...rerank.engines.interface import Engine
from ...rerank.engines.local import LocalEngine
from ...rerank.engines.text_scores import (
    ScoreOutcome,
    check_scores_alone,
    needs_references,
    outcomes_of,
    score_of,
    score_tasks,
)
from ...rerank.lists import list_of, read_candidate, with_digits
from ...rerank.mbr import MBRDecoder
from ...rerank.messages import is_reply, reply_text, user_text, value_at
from .served_scores import Scores

OnError = Literal["raise", "mask"]
Form = Literal["utility", "centred", "rank"]
Rewards = list[float | None]
Outcomes = Sequence[float | DiscorankError]
Utilities = Sequence[float | None]
Texts = Sequence[str | InputError]  # of completions, or why one has none


class LocalScores:
    """A metric in this process; pickled without its model, which every process loads for itself.

    Args:
        utility: the metric.

    Raises:
        InputError: its scores depend on a corpus.
    """

    def __init__(self, utility: Utility) -> None:
        check_scores_alone(utility)
        self.utility = utility
        self._begin()

    def _begin(self) -> None:
        self._engine: Engine | None = None
        self._lock, self._process = Lock(), os.getpid()

    def __repr__(self) -> str:
        return f"{self.utility.name}, loaded in each process"

    def __getstate__(self) -> dict[str, Any]:
        return {"utility": self.utility}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.utility = state["utility"]
        self._begin()

    def outcomes(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Sequence[Text]] | None = None,
        sources: Sequence[Text | None] | None = None,
    ) -> list[ScoreOutcome]:
        """The score of every text as a utility, or its error; arguments and errors as `score_tasks`."""
        tasks = score_tasks(self.utility, hypotheses, references, sources)
        with self._locked():
            outcomes = outcomes_of(self._loaded(), tasks)
        return [score_of(self.utility, outcome) for outcome in outcomes]

    def expected(
        self, lists: Sequence[Mapping[str, Any]], self_pair: bool
    ) -> list[Utilities | DiscorankError]:
        """Expected utilities of the candidates of every list, in their order, or the error of a list.

        Args:
            lists: candidate lists in their JSON form.
            self_pair: whether a candidate counts as a pseudo-reference for itself.

        Raises:
            InputError: a list that cannot be read.
        """
        decoder = MBRDecoder(self.utility, nbest=None, self_pair=self_pair)
        records = [list_of(data, number) for number, data in enumerate(lists)]
        with self._locked():
            return [_utilities(outcome) for outcome in self._decided(decoder, records)]

    def _decided(self, decoder: Decider, records: Sequence[Any]) -> list[Any]:
        tagged = list(enumerate(records))
        return [outcome for _, outcome in decoder.outcomes(tagged, self._loaded())]

    def _locked(self) -> Lock:
        """One at a time; a process that was forked begins anew, as models do not survive it."""
        if self._process != os.getpid():
            self._begin()
        return self._lock

    def _loaded(self) -> Engine:
        if self._engine is None:
            engine = LocalEngine()
            engine.load([self.utility])
            self._engine = engine
        return self._engine


def _utilities(outcome: Ranking | DiscorankError) -> Utilities | DiscorankError:
    return outcome if isinstance(outcome, DiscorankError) else outcome.utilities


class RewardFunction(ABC):
    """A reward function: called with columns by name, as TRL calls it; what it does not read it leaves alone.

    Attributes:
        scores: what values texts: a metric in this process, or on a server.
    """

    def __init__(
        self,
        metric: MetricLike,
        source: str | None,
        server: str | Scores | None,
        on_error: OnError,
    ) -> None:
        if on_error not in ("raise", "mask"):
            raise InputError(f"found {on_error!r}", where="on_error", fix='"raise" or "mask"')
        utility = load_metric(metric)
        check_scores_alone(utility)
        self.utility, self.source, self.on_error = utility, source, on_error
        # the signature would look for the model's files, which stand on the server alone
        self.metric_name = metric if isinstance(metric, str) else utility.name
        self.scores = LocalScores(utility) if server is None else _at(server, metric)
        self._check()

    def _check(self) -> None:
        """Raises InputError for a metric that lacks what it reads."""
        for _, part in self.utility.parts:
            if part.reads.context:
                problem = f"{part.name} reads sentences before, which completions do not have"
                raise InputError(problem, where="metric", fix="Leave its context out")
            if part.needs_source and self.source is None:
                problem = f"{part.name} reads the source"
                raise InputError(problem, where="source", fix="Name the column that holds it")

    @property
    @abstractmethod
    def __name__(self) -> str:
        """The name under which trainers log it."""

    def __repr__(self) -> str:
        return f"{self.__name__} by {self.scores}"

    @abstractmethod
    def outcomes(self, texts: Texts, columns: Mapping[str, Any]) -> Outcomes:
        """The reward of every text, or its error."""

    def __call__(self, completions: Sequence[Any], **columns: Any) -> Rewards:
        """The reward of every completion, [n]; None for one without, if `on_error` is "mask".

        Args:
            completions: texts, or conversations whose last message is the text.
            columns: columns of the data, each with an entry per completion, and whatever else a trainer gives.

        Raises:
            InputError, MetricError: a column is missing, or a completion has no reward; the first is named.
            ResourceError: the metric's server or memory is gone.
        """
        texts = list(map(_text_or_error, completions))
        return self._rewards(self.outcomes(texts, columns))

    def _rewards(self, outcomes: Outcomes) -> Rewards:
        rewards: Rewards = []
        for i, outcome in enumerate(outcomes):
            if not isinstance(outcome, DiscorankError):
                rewards.append(outcome)
            elif self.on_error == "mask" and not isinstance(outcome, ResourceError):
                rewards.append(None)
            else:
                raise outcome.inside(f"completions[{i}]")
        return rewards

    def _sources(self, columns: Mapping[str, Any], num_texts: int) -> Sequence[Any] | None:
        return None if self.source is None else _column(columns, self.source, num_texts)


class ReferenceReward(RewardFunction):
    """The score of every completion against references of the data; see `reward`."""

    def __init__(
        self,
        metric: MetricLike,
        reference: str,
        source: str | None,
        server: str | Scores | None,
        on_error: OnError,
    ) -> None:
        self.reference = reference
        super().__init__(metric, source, server, on_error)

    @property
    def __name__(self) -> str:
        """The metric, as it was named."""
        return self.metric_name

    def outcomes(self, texts: Texts, columns: Mapping[str, Any]) -> Outcomes:
        """As `RewardFunction`."""
        references = None
        if needs_references(self.utility):
            references = _column(columns, self.reference, len(texts))
        return self._valued(texts, references, self._sources(columns, len(texts)))

    def _valued(
        self, texts: Texts, references: Sequence[Any] | None, sources: Sequence[Any] | None
    ) -> Outcomes:
        """The reward of every text; a row of the data that cannot be read costs itself alone."""
        outcomes: list[float | DiscorankError] = []
        rows = []
        for i in range(len(texts)):
            try:
                text = texts[i]
                if isinstance(text, InputError):
                    raise text
                own = None if references is None else _references(references[i], self.reference)
                source = None if sources is None else _own_source(sources[i], self.source)
                rows.append((i, text, own, source))
                outcomes.append(MetricError("has no score", where=f"completions[{i}]"))
            except InputError as error:
                outcomes.append(error)
        if rows:
            scored = self.scores.outcomes(
                [text for _, text, _, _ in rows],
                None if references is None else [own or [] for _, _, own, _ in rows],
                None if sources is None else [source for _, _, _, source in rows],
            )
            for (i, *_), outcome in zip(rows, scored, strict=True):
                outcomes[i] = outcome
        return outcomes

    def compute_score(
        self,
        data_source: str,
        solution_str: str,
        ground_truth: Any,
        extra_info: Any = None,
        **more: Any,
    ) -> float:
        """The reward of one text, as verl calls it; a source stands in `extra_info` under the name of its column.

        Raises:
            InputError, MetricError, ResourceError: there is none; verl has no other word for it.
        """
        rewards = self.compute_scores([data_source], [solution_str], [ground_truth], [extra_info])
        return rewards[0]

    def compute_scores(
        self,
        data_sources: Sequence[str],
        solution_strs: Sequence[str],
        ground_truths: Sequence[Any],
        extra_infos: Sequence[Any] | None = None,
        **more: Any,
    ) -> list[float]:
        """The rewards of some texts, as verl's batch manager calls it; errors as `compute_score`."""
        infos = extra_infos if extra_infos is not None else [None] * len(solution_strs)
        sources = None
        if self.source is not None:
            sources = [
                info.get(self.source) if isinstance(info, Mapping) else None for info in infos
            ]
        references = ground_truths if needs_references(self.utility) else None
        rewards = []
        for i, outcome in enumerate(
            self._valued(list(map(_text_or_error, solution_strs)), references, sources)
        ):
            if isinstance(outcome, DiscorankError):
                raise outcome.inside(f"solution_strs[{i}]")
            rewards.append(outcome)
        return rewards


class GroupReward(RewardFunction):
    """The expected utility of every completion within the group of its prompt; see `group_reward`."""

    scores: LocalScores

    def __init__(
        self,
        utility: MetricLike,
        leave_one_out: bool,
        form: Form,
        num_generations: int | None,
        source: str | None,
        on_error: OnError,
    ) -> None:
        if form not in _FORMS:
            fix = " or ".join(f'"{name}"' for name in _FORMS)
            raise InputError(f"found {form!r}", where="form", fix=fix)
        _check_group_size(num_generations)
        self.leave_one_out, self.form = leave_one_out, form
        self.num_generations = num_generations
        super().__init__(utility, source, None, on_error)
        if not needs_references(self.utility):
            problem = f"{self.metric_name} compares no two completions"
            raise InputError(problem, where="utility", fix="Take reward() for it")

    @property
    def __name__(self) -> str:
        """The utility, as it was named."""
        return f"consensus({self.metric_name})"

    def outcomes(self, texts: Texts, columns: Mapping[str, Any]) -> Outcomes:
        """As `RewardFunction`; needs the column `prompts`."""
        groups = list(self._groups(columns, len(texts)))
        sources = self._sources(columns, len(texts))
        outcomes: list[float | DiscorankError] = [
            text if isinstance(text, InputError) else MetricError("has no value") for text in texts
        ]
        lists: list[dict[str, Any]] = []
        whole = [[i for i in rows if isinstance(texts[i], str)] for rows in groups]
        valued = [rows for rows in whole if rows]
        for number, rows in enumerate(valued):
            data: dict[str, Any] = {"id": f"group {number}", "candidates": [texts[i] for i in rows]}
            if sources is not None:
                data["source"] = _own_source(sources[rows[0]], self.source)
            lists.append(data)
        expected = self.scores.expected(lists, not self.leave_one_out) if lists else []
        for rows, outcome in zip(valued, expected, strict=True):
            for i, value in zip(rows, self._of_group(len(rows), outcome), strict=True):
                outcomes[i] = value
        return outcomes

    def _groups(self, columns: Mapping[str, Any], num_texts: int) -> Iterator[range]:
        """The rows of every group: neighbours with one prompt, `num_generations` of them where that is known.

        Raises:
            InputError: a group is not whole.
        """
        prompts = _column(columns, "prompts", num_texts)
        starts = [i for i in range(num_texts) if not i or prompts[i] != prompts[i - 1]]
        for start, end in pairwise([*starts, num_texts]):
            size = self.num_generations or end - start
            if end - start < 2 or (end - start) % size:
                expected = self.num_generations or "at least 2"
                raise InputError(
                    f"found {end - start} completions of one prompt, expected {expected}",
                    where=f"completions[{start}]",
                    fix="Choose a batch per process that holds whole groups",
                )
            yield from (range(at, at + size) for at in range(start, end, size))

    def _of_group(self, size: int, outcome: Any) -> list[float | DiscorankError]:
        """The rewards of a group from the expected utilities of its completions, or from its error."""
        if isinstance(outcome, DiscorankError):
            return [outcome] * size
        if len(outcome) != size:
            problem = f"found {excerpt(outcome)}, expected {size} utilities"
            raise InputError(problem, where="server: reply")
        values = np.array([np.nan if value is None else value for value in outcome])
        error = MetricError("has no finite utility", where=self.metric_name)
        has_value = np.isfinite(values)
        values[has_value] = _FORMS[self.form](values[has_value])
        return [
            float(value) if fine else error for value, fine in zip(values, has_value, strict=True)
        ]


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks from 0 to 1, [n]; equal values share the mean of their places."""
    below = (values[:, None] > values).sum(axis=1)
    equal = (values[:, None] == values).sum(axis=1)
    return np.asarray((below + (equal - 1) / 2) / max(1, len(values) - 1))


_FORMS: dict[str, Any] = {
    "utility": lambda values: values,
    "centred": lambda values: values - values.mean() if len(values) else values,
    "rank": _ranks,
}


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
        metric: a metric, its name or signature, or a sum; what is a distance counts negated.
        reference: the column of references, each a text or a list of them; not read for metrics without references.
        source: the column of sources, for metrics that read them.
        server: the address of `discorank serve`, which scores for all processes, or a `Scores` of it; without one
            each process loads the metric.
        on_error: "raise", or "mask": the reward of a completion that cannot be scored is None.

    Raises:
        InputError: a metric or settings that cannot be used.
    """
    return ReferenceReward(metric, reference, source, server, on_error)


def group_reward(
    utility: MetricLike,
    *,
    leave_one_out: bool = False,
    form: Form = "utility",
    num_generations: int | None = None,
    source: str | None = None,
    on_error: OnError = "raise",
) -> GroupReward:
    """A reward function by consensus: the expected utility of a completion within the group of its prompt.

    Args:
        utility: a metric that compares two texts, its name or signature, or a sum.
        leave_one_out: whether a completion is not compared with itself; a copy of it in the group is.
        form: "utility", "centred" (less the mean of the group), or "rank" (from 0, the worst, to 1, the best).
        num_generations: completions of a group; neighbours with the same prompt if not given.
        source, on_error: as for `reward`; where a group cannot be valued, all of its rewards are None.

    Raises:
        InputError: a utility or settings that cannot be used.
    """
    return GroupReward(utility, leave_one_out, form, num_generations, source, on_error)


def _at(server: str | Scores, metric: MetricLike) -> Scores:
    """The metric on a server; raises InputError for one that has no name there."""
    if isinstance(server, Scores):
        return server
    if not isinstance(metric, str):
        problem = f"found {excerpt(metric)}, expected a name that the server knows"
        raise InputError(problem, where="metric", fix="Name it as it was named to discorank serve")
    return Scores(server, metric)


def _column(columns: Mapping[str, Any], name: str, num_texts: int) -> Sequence[Any]:
    """A column of the data; raises InputError where it is missing, or has not an entry per completion."""
    values = columns.get(name)
    if values is None:
        names = ", ".join(sorted(columns)) or "none"
        problem = f"no column {name!r}, found {names}"
        raise InputError(problem, where="columns", fix="Name the column of the data that holds it")
    values = plain_value(values)
    if not isinstance(values, Sequence) or isinstance(values, str):
        problem = f"found {excerpt(values)}, expected a list with an entry per completion"
        raise InputError(problem, where=f"columns.{name}")
    if len(values) != num_texts:
        problem = f"{len(values)} entries for {num_texts} completions"
        raise InputError(problem, where=f"columns.{name}")
    return values


def _check_group_size(size: int | None) -> None:
    """Raises InputError for what is no number of completions of a group."""
    if size is not None and (type(size) is not int or size < 2):
        problem = f"found {excerpt(size)}, expected a whole number, at least 2"
        raise InputError(problem, where="num_generations", fix="A text alone has no consensus")


def _references(value: Any, name: str | None) -> list[Any]:
    """The references of a completion: a text, a number or a conversation, or a list of them."""
    value = plain_value(value)
    is_list = isinstance(value, list | tuple) and not _is_conversation(value)
    values = value if is_list else [value]
    if not values:
        raise InputError("found none, expected a text or a list of texts", where=f"{name}")
    places = [f"{name}[{i}]" if is_list else f"{name}" for i in range(len(values))]
    return [
        read_candidate(with_digits(one), at).text for one, at in zip(values, places, strict=True)
    ]


def _is_conversation(value: Sequence[Any]) -> bool:
    """Whether a list is a conversation, and not references that are messages each."""
    return is_reply(value) and len({value_at(message, "role") for message in value}) > 1


def _own_source(value: Any, name: str | None) -> str:
    """The source of a completion: a text, or the last message of the user in a conversation."""
    value = plain_value(value)
    text = user_text(value) if is_reply(value) else value
    if not isinstance(text, str):
        raise InputError(f"found {excerpt(value)}, expected a text", where=f"{name}")
    return str(text)


def _text_or_error(completion: Any) -> str | InputError:
    """The text of a completion, or why it has none, which costs itself alone."""
    try:
        return reply_text(plain_value(completion))
    except InputError as error:
        return error
