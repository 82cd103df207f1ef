"""N-best reranking: the candidate with the highest weighted sum of features.

    h* = argmax_h sum_f w_f norm_f( f(h) )
A feature is a number of the candidate (its log-probability, its length, any field), a reference-free metric, or what an
MBR decoder expects of it. Each is normalised within its list if asked for, so that weights mean the same in every list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, cast

import numpy as np
from pydantic import Field, PlainValidator

from ..metrics.errors import InputError, excerpt, unknown
from ..metrics.mixture import Mix, Utility
from ..metrics.registry import load_metric, names
from ..metrics.representations import FloatArray
from ..metrics.spec.checked_settings import settings
from ..metrics.text.texts import Context
from .choice import Distinct, Ranking, choose, finite, number_field
from .engines.local import Engine, Task
from .lists import CandidateList
from .mbr import MBRDecoder, decide_all
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

PLAIN = ("logprob", "logprob/length", "length")
EXPECTED = "expected"


Feature = str | Utility


def _weighted(features: Any) -> tuple[tuple[Feature, float], ...]:
    """Checked (plain name or metric, weight) pairs from a mapping."""
    if (
        isinstance(features, tuple)
        and features
        and all(isinstance(pair, tuple) for pair in features)
    ):
        features = dict(features)  # as `dataclasses.replace` hands them back
    if not isinstance(features, Mapping) or not features:
        raise InputError(
            f"found {excerpt(features)}", where="features", fix='Write {"logprob": 1.0, ...}'
        )
    pairs = []
    for given, weight in features.items():
        number = finite(weight)
        if number is None:
            raise InputError(
                f"weight {excerpt(weight)}", where=f"feature {given!r}", fix="Give a finite number"
            )
        pairs.append((feature_of(given), number))
    return tuple(pairs)


def feature_of(given: Any) -> Feature:
    """A feature that is read off the list, by its name, or a metric without references; raises InputError."""
    if isinstance(given, str) and _is_plain(given):
        return given
    try:
        metric = load_metric(given)
    except InputError as error:
        if isinstance(given, str) and "(" not in given and "+" not in given:
            raise unknown("feature", given, (*PLAIN, EXPECTED, "field:NAME", *names())) from None
        raise error.inside("features") from None
    for _, part in metric.parts:
        if part.info.needs_references:
            raise InputError(
                f"{part.name} compares with references, which reranking does not have",
                where="features",
                fix=f"Choose with it as a utility instead: discorank decode -u {part.name}, or rerank -m {EXPECTED}",
            )
    return metric


@settings
class Reranker:
    """Chooses by a weighted sum of features.

    Args:
        features: weight of every feature: "logprob", "logprob/length" (per code point), "length" (code points),
            "field:NAME" (a number beside the candidate's text), "expected" (the expected utility of `decoder`), or a
            reference-free metric by name or signature (as a utility: a distance counts negatively).
        normalize: what is done to each feature within a list: "none", "zscore", "minmax" (to 0..1) or "rank" (share of
            candidates that are worse).
        nbest: how many places a ranking has; None (all, on the command line) for every distinct text.
        strategy: where context comes from, as for `MBRDecoder`.
        decoder: what "expected" is of: its utility, weights, prior, self pair; nothing else of it counts.
    """

    features: Annotated[
        Mapping[Any, float] | tuple[tuple[Feature, float], ...], PlainValidator(_weighted)
    ]
    normalize: Literal["none", "zscore", "minmax", "rank"] = "none"
    nbest: Annotated[int, Field(ge=1)] | None = 1
    strategy: StrategySetting = "auto"
    decoder: MBRDecoder | None = None

    def __post_init__(self) -> None:
        if (self.decoder is not None) != (EXPECTED in dict(self._features)):
            found = "a decoder" if self.decoder else f"the feature {EXPECTED!r}"
            fix = f"Give the feature {EXPECTED!r} with its weight, and a decoder (rerank --utility) that says of what"
            raise InputError(f"{found} alone", where="features", fix=fix)
        if self.decoder is not None and (self.decoder.oracle or self.decoder.shortlist is not None):
            raise InputError(
                "an oracle or a shortlist",
                where="decoder",
                fix="Leave it out: rerank has every candidate",
            )
        resolve(self.strategy, self.width)

    @property
    def _features(self) -> tuple[tuple[Feature, float], ...]:
        return cast("tuple[tuple[Feature, float], ...]", self.features)

    @property
    def _metrics(self) -> tuple[Utility, ...]:
        """The metrics among the features."""
        return tuple(feature for feature, _ in self._features if not isinstance(feature, str))

    @property
    def metrics(self) -> tuple[Utility, ...]:
        """Every metric it uses."""
        return self._metrics if self.decoder is None else (*self._metrics, self.decoder.metrics[-1])

    @property
    def width(self) -> int:
        """How many preceding sentences the metrics read."""
        return max((metric.reads.context for metric in self.metrics), default=0)

    @property
    def resolved_strategy(self) -> Strategy:
        """The strategy that "auto" stands for."""
        return resolve(self.strategy, self.width)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on."""
        return {
            "decoder": "rerank",
            "features": {_name(feature): weight for feature, weight in self._features},
            "normalize": self.normalize,
            "nbest": self.nbest,
            "strategy": self.resolved_strategy,
            **({} if self.decoder is None else {EXPECTED: self.decoder.expectation}),
        }

    def decode(
        self, lists: Iterable[CandidateList | Mapping[str, Any]], engine: Engine | None = None
    ) -> Iterator[Ranking]:
        """Rankings of any iterable of lists, streamed, in input order; errors as `MBRDecoder.decode`."""
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
        columns: dict[Feature, FloatArray] = {
            feature: _plain_feature(feature, record)
            for feature, _ in self._features
            if isinstance(feature, str) and feature != EXPECTED
        }
        if self.decoder is not None:
            everything = np.arange(len(distinct))
            found = yield from self.decoder.valued(record, distinct, everything, context, flags)
            columns[EXPECTED], flags = found.values[distinct.of], found.flags
        metrics = self._metrics
        if metrics:
            mix = Mix(tuple((weight, part) for metric in metrics for weight, part in metric.parts))
            comparisons = tuple(
                part.comparison(distinct.texts, (), record.source, context.last(part.reads.context))
                for _, part in mix.parts
            )
            result = yield Task(record.id, mix, comparisons, np.ones(1))
            flags = (*flags, *(flag for flag in result.flags if flag not in flags))
            rows = iter(result.values)
            for metric in metrics:
                value = sum(
                    weight * part.utility_sign * next(rows) for weight, part in metric.parts
                )
                columns[metric] = np.asarray(value)[distinct.of]
        scores = np.zeros(len(record.candidates))
        for feature, weight in self._features:
            if weight:
                scores = scores + weight * normalized(columns[feature], self.normalize)
        return choose(record, scores, self.nbest, flags, distinct=distinct)


def _is_plain(name: str) -> bool:
    """Whether a feature is read off the list, without a metric."""
    return name in (*PLAIN, EXPECTED) or (name.startswith("field:") and name != "field:")


def _name(feature: Feature) -> str:
    return feature if isinstance(feature, str) else feature.signature()


def _plain_feature(name: str, record: CandidateList) -> FloatArray:
    """A feature of every candidate that needs no metric, [N]."""
    lengths = np.array([len(str(candidate.text)) for candidate in record.candidates], float)
    if name == "length":
        return lengths
    if name.startswith("field:"):
        field = name.removeprefix("field:")
        found = [
            number_field(c, field, f"candidates[{i}]") for i, c in enumerate(record.candidates)
        ]
        return np.array(found)
    for i, candidate in enumerate(record.candidates):
        if candidate.logprob is None:
            raise InputError(
                "no logprob", where=f"candidates[{i}]", fix=f"Leave the feature {name!r} out"
            )
    values = np.array([candidate.logprob for candidate in record.candidates], float)
    return values if name == "logprob" else values / np.maximum(lengths, 1)


def normalized(values: FloatArray, how: str) -> FloatArray:
    """One feature of a list, [N], as `Reranker.normalize` says; a feature that does not vary becomes 0.

    >>> normalized(np.array([1.0, 3.0, 2.0]), "minmax").tolist()
    [0.0, 1.0, 0.5]
    """
    if how == "none":
        return values
    if how == "rank":
        return np.array([(values < value).mean() for value in values])
    finite = values[np.isfinite(values)]
    if not len(finite) or not finite.std() > 0:
        return np.where(np.isfinite(values), 0.0, values)
    if how == "zscore":
        return np.asarray((values - finite.mean()) / finite.std())
    return np.asarray((values - finite.min()) / (finite.max() - finite.min()))
