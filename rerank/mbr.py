"""Minimum Bayes risk decoding: the candidate with the highest expected utility against pseudo-references.

    h* = argmax_h sum_r w(r) u(h, r)            (Kumar and Byrne 2004; Eikema and Aziz 2020 for samples)
O(N) representations and N^2 comparisons per list of N candidates; O(N) for utilities with a linear form. With a
shortlist, a cheap utility or a reference-free metric first keeps the `top_k` best (as candidates and pseudo-references)
and the expensive utility decides among them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Annotated, Any, NamedTuple, Protocol, cast

import numpy as np
from pydantic import AfterValidator, Field, PlainValidator

from ..metrics.errors import DiscorankError, InputError, excerpt
from ..metrics.execution.by_sentence import is_joined
from ..metrics.mixture import Utility
from ..metrics.registry import MetricLike, load_metric
from ..metrics.representations import FloatArray, IntArray
from ..metrics.spec.checked_settings import settings
from ..metrics.text.texts import Context, Document, Text
from .choice import Distinct, Ranking, candidate_weights, choose
from .engines.local import Engine, LocalEngine, Result, Task
from .lists import Candidate, CandidateList, read_list
from .prior import STRENGTH, Prior, check_strength, load_prior
from .scheduler import (
    Accept,
    Outcome,
    Program,
    Scheduler,
    Strategy,
    StrategySetting,
    accept_all,
    resolve,
)


def _weights(name: str) -> str:
    if name not in ("uniform", "logprob") and not (name.startswith("field:") and name != "field:"):
        raise InputError(
            f"found {name!r}", where="weights", fix='"uniform", "logprob" or "field:NAME"'
        )
    return name


def _metric_or_none(spec: MetricLike | None) -> Utility | None:
    return None if spec is None else load_metric(spec)


class Valued(NamedTuple):
    """Expected utilities [H], what the list's reader should know, and the utility matrix [H, R] if it was kept."""

    values: FloatArray
    flags: tuple[str, ...]
    matrix: FloatArray | None


@settings
class MBRDecoder:
    """Chooses by expected utility.

    Args:
        utility: a metric, its name or signature, or a function u(h, r).
        weights: "uniform", "logprob" or "field:NAME", the weights of pseudo-references.
        temperature: divides log-probabilities.
        self_pair: whether a candidate counts as a pseudo-reference for itself.
        prior: the file of a prior over systems (`discorank train prior`), which weighs pseudo-references instead, by
            their field "system".
        prior_strength: how much a prior counts; 0 not at all, a large one chooses the best system.
        nbest: how many places a ranking has; None (all, on the command line) for every distinct text.
        strategy: where context comes from in lists of a document; "auto" is "sequential" for metrics with context.
        shortlist: the utility of a first stage that keeps `top_k` distinct texts.
        top_k: how many the first stage keeps.
        oracle: decide against the human references instead: what the best choice would be.
        keep_matrix: whether rankings carry their utility matrix.
    """

    utility: Annotated[MetricLike, PlainValidator(load_metric)]
    weights: Annotated[str, AfterValidator(_weights)] = "uniform"
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    self_pair: bool = True
    prior: Annotated[Prior | str | None, PlainValidator(load_prior)] = None
    prior_strength: Annotated[float, Field(ge=0, allow_inf_nan=False)] = STRENGTH
    nbest: Annotated[int, Field(ge=1)] | None = 1
    strategy: StrategySetting = "auto"
    shortlist: Annotated[MetricLike | None, PlainValidator(_metric_or_none)] = None
    top_k: Annotated[int, Field(ge=1)] = 16
    oracle: bool = False
    keep_matrix: bool = False

    def __post_init__(self) -> None:
        resolve(self.strategy, self.width)
        check_strength(self.prior, self.prior_strength)
        if self.prior is not None and self.weights != "uniform":
            found = (
                f"weights {self.weights!r} beside a prior, which weighs pseudo-references itself"
            )
            raise InputError(found, where="prior", fix="Give one of them")

    @property
    def _utility(self) -> Utility:
        return cast(Utility, self.utility)

    @property
    def _shortlist(self) -> Utility | None:
        return cast("Utility | None", self.shortlist)

    @property
    def width(self) -> int:
        """How many preceding sentences the utilities read."""
        both = (self._utility, self._shortlist)
        return max(metric.reads.context for metric in both if metric is not None)

    @property
    def resolved_strategy(self) -> Strategy:
        """The strategy that "auto" stands for."""
        return resolve(self.strategy, self.width)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on."""
        return {
            "decoder": "mbr",
            **self.expectation,
            "nbest": self.nbest,
            "strategy": self.resolved_strategy,
            "shortlist": self._shortlist and f"{self._shortlist.signature()}, top {self.top_k}",
            "oracle": self.oracle,
        }

    @property
    def expectation(self) -> dict[str, Any]:
        """The settings that expected utilities depend on; a prior stands by what is in its file."""
        prior = cast("Prior | None", self.prior)
        return {
            "utility": self._utility.signature(),
            "weights": self.weights,
            "temperature": self.temperature,
            "self_pair": self.self_pair,
            **(
                {}
                if prior is None
                else {"prior": prior.digest, "prior_strength": self.prior_strength}
            ),
        }

    @property
    def metrics(self) -> tuple[Utility, ...]:
        """Every utility it uses."""
        return (self._utility,) if self._shortlist is None else (self._shortlist, self._utility)

    def decode(
        self, lists: Iterable[CandidateList | Mapping[str, Any]], engine: Engine | None = None
    ) -> Iterator[Ranking]:
        """Rankings of any iterable of lists, streamed, in input order (lists that only lend context give none).

        Raises:
            InputError: a list that cannot be decoded; the error names its id.
        """
        return decide_all(self, lists, engine)

    def outcomes(
        self, records: Iterable[Any], engine: Engine, accept: Accept = accept_all
    ) -> Iterator[tuple[Any, Outcome]]:
        """(tag, outcome) of (tag, record), errors as outcomes; see `Scheduler`."""
        return Scheduler(self.program, engine, self.resolved_strategy, self.width, accept).run(
            records
        )

    def program(self, record: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        """The decision of one list, task by task."""
        distinct = Distinct(record.candidates)
        kept = np.arange(len(distinct))
        if self._shortlist is not None and len(distinct) > self.top_k:
            result = yield self._task(self._shortlist, record, distinct, kept, context)
            flags = (*flags, *result.flags)
            best = choose(
                record, total(self._shortlist, result)[distinct.of], self.top_k, distinct=distinct
            ).ranking
            kept = np.unique([distinct.of[place.index] for place in best])
            flags = (*flags, "shortlisted")
        found, flags, matrix = yield from self.valued(record, distinct, kept, context, flags)
        values = np.full(len(distinct), np.nan)
        values[kept] = found
        left_out = set(range(len(distinct))) - set(kept.tolist())
        return choose(record, values[distinct.of], self.nbest, flags, matrix, distinct, left_out)

    def valued(
        self,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        context: Context,
        flags: tuple[str, ...],
    ) -> Generator[Task, Result, Valued]:
        """Expected utilities of the kept ones of a list's distinct texts, without a shortlist."""
        task = self._task(self._utility, record, distinct, kept, context)
        if any(
            is_joined(part, c)
            for (_, part), c in zip(self._utility.parts, task.comparisons, strict=True)
        ):
            flags = (*flags, "joined")
        result = yield task._replace(keep_matrix=self.keep_matrix)
        flags = (*flags, *(flag for flag in result.flags if flag not in flags))
        return Valued(total(self._utility, result), flags, total_matrix(self._utility, result))

    def _task(
        self,
        metric: Utility,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        context: Context,
    ) -> Task:
        """The kept texts against the list's pseudo-references."""
        hypotheses = tuple(distinct.texts[i] for i in kept.tolist())
        references, weights, own = self._pseudo_references(record, distinct, kept)
        comparisons = tuple(
            part.comparison(
                hypotheses,
                references or hypotheses,
                record.source,
                context.last(part.reads.context),
            )
            for _, part in metric.parts
        )
        return Task(record.id, metric, comparisons, weights, None if self.self_pair else own)

    def _pseudo_references(
        self, record: CandidateList, distinct: Distinct, kept: IntArray
    ) -> tuple[tuple[Text, ...], FloatArray, FloatArray | None]:
        """Distinct pseudo-references (none: the kept candidates), their weights [R], and the self weights [H]."""
        if self.oracle:
            if not record.references:
                raise InputError(
                    "no references", where="references", fix="An oracle decides against references"
                )
            pool = Distinct([Candidate(text) for text in record.references])
            return pool.texts, pool.pooled(np.ones(len(record.references))), None
        if record.pseudo_references:
            pool = Distinct(record.pseudo_references)
            weights = self._weighed(record.pseudo_references, "pseudo_references")
            return pool.texts, pool.pooled(weights), None
        weights = self._weighed(record.candidates, "candidates")
        pooled = distinct.pooled(weights)[kept]
        if not pooled.sum() > 0:
            raise InputError(
                "all weights of the shortlisted candidates are 0",
                where="candidates",
                fix="Raise top_k",
            )
        return (), pooled, weights[distinct.first][kept]

    def _weighed(self, pool: Sequence[Candidate], where: str) -> FloatArray:
        """The weight of every pseudo-reference, [N]."""
        if self.prior is None:
            return candidate_weights(pool, self.weights, self.temperature, where)
        return cast(Prior, self.prior).of_candidates(pool, self.prior_strength, where)


class Decider(Protocol):
    """What decides lists: an MBRDecoder or a Reranker."""

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


def total(metric: Utility, result: Result) -> FloatArray:
    """The utility's expectation [H]: the weighted sum of its parts as utilities."""
    factors = np.array([weight * part.utility_sign for weight, part in metric.parts])
    return np.asarray((factors[:, None] * result.values).sum(axis=0))


def total_matrix(metric: Utility, result: Result) -> FloatArray | None:
    """The utility matrix [H, R], if the task kept it."""
    if not result.matrices:
        return None
    matrix = np.zeros(1)
    for (weight, part), u in zip(metric.parts, result.matrices, strict=True):
        matrix = matrix + weight * part.utility_sign * u
    return matrix


def decide_all(decider: Decider, lists: Iterable[Any], engine: Engine | None) -> Iterator[Ranking]:
    """Rankings of `lists` by an MBRDecoder or Reranker; raises the first error, naming the list."""
    engine = engine or LocalEngine()
    engine.load(decider.metrics)
    for name, outcome in decider.outcomes(map(_named, count(1), lists), engine):
        if isinstance(outcome, DiscorankError):
            raise outcome.inside(name)
        if outcome is not None:
            yield outcome


def _named(number: int, given: Any) -> tuple[str, CandidateList | DiscorankError]:
    try:
        record = read_list(given)
        return f"list {record.id!r}", record
    except DiscorankError as error:
        identity = given.get("id") if isinstance(given, Mapping) else None
        return (
            f"list {identity!r}" if isinstance(identity, str) else f"list number {number}"
        ), error


def decode(
    candidates: Sequence[Any] | CandidateList | Mapping[str, Any],
    utility: MetricLike,
    **settings: Any,
) -> Ranking:
    """The decision for one list, with all its places.

    Args:
        candidates: texts, `Candidate` objects or their JSON form; or a whole list as `CandidateList` or mapping.
        utility: as for `MBRDecoder`.
        settings: of `MBRDecoder`, or of the list (``source=...``, ``pseudo_references=[...]``).

    Raises:
        InputError: settings or candidates that cannot be used.
    """
    known = {"source", "pseudo_references", "references", "document"}
    data = {key: settings.pop(key) for key in known & settings.keys()}
    decoder = MBRDecoder(**{"utility": utility, "nbest": None, **settings})
    if isinstance(candidates, CandidateList | Mapping):
        return next(decoder.decode([candidates]))
    if isinstance(candidates, str | Document) or not isinstance(candidates, Sequence):
        raise InputError(
            f"found {excerpt(candidates)}", where="candidates", fix="Give a list of texts"
        )
    given = {
        "candidates": candidates,
        **data,
        "source": [data["source"]] if "source" in data else [],
    }
    for name, texts in given.items():
        for i, text in enumerate(texts if isinstance(texts, list | tuple) else ()):
            if isinstance(text, list | tuple):
                fix = "A document is written discorank.Document([...])"
                raise InputError(f"found {excerpt(text)}", where=f"{name}[{i}]", fix=fix)
    return next(decoder.decode([{"id": "list", "candidates": list(candidates), **data}]))
