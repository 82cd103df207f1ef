"""N-best reranking: the candidate with the highest weighted sum of features.

    h* = argmax_h sum_f w_f norm_f( f(h) )
A feature is a number of the candidate (its log-probability, its length, any field), a reference-free metric, or what an
MBR decoder expects of it. Each is normalised within its list if asked for, so that weights mean the same in every list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import numpy as np

from ..metrics.errors import InputError, MetricError, ModelLoadError, excerpt, unknown
from ..metrics.mixture import NEGATED, Mix, Utility, added, rewards_errors
from ..metrics.registry import is_unknown, load_metric, names
from ..metrics.representations import FloatArray
from ..metrics.spec.checked_settings import Composed, Converted, Internal, settings
from ..metrics.spec.signature import parse, written_sum
from ..metrics.storage.limits import limits
from ..metrics.text.texts import Context
from .capabilities import EVERY_VALUE, MATRIX, Needs, check_together
from .choice import Choice, Ranking, choose, with_flags
from .decider import Decider
from .engines.expectation import Normalize, normalized
from .engines.interface import Engine, Result, Task
from .lists import CandidateList, Distinct, finite, finite_of, list_rows, number_field
from .mbr import MBRDecoder
from .order import Order
from .pool import remarks
from .scheduler import Program
from .shrinkage import Shrinkage, first_pass_row, in_memory, with_system
from .votes.confidence import SIGNS, confidences

LOGPROB_FEATURES = ("logprob", "logprob/length", "logprob/tokens")
PLAIN = (*LOGPROB_FEATURES, "length", "copied", *SIGNS)
COPIED_CHARACTERS = 4  # of an n-gram that source and candidate share
EXPECTED = "expected"
Feature = str | Utility
WeightedFeatures = tuple[tuple[Feature, float], ...]


def weighted_features(features: Any) -> WeightedFeatures:
    """Checked (plain name or metric, weight) pairs from a sum, several sums, or a mapping.

    Pairs that were checked before are returned.

    Raises:
        InputError: none of these, an unknown feature, a metric with references, a weight that is not a finite number,
            or one below 0 where lower is better.
    """
    if isinstance(features, str):
        features = features_of_sums([features])
    elif isinstance(features, list | tuple) and all(isinstance(text, str) for text in features):
        features = features_of_sums(features)
    elif isinstance(features, tuple) and all(isinstance(pair, tuple) for pair in features):
        features = dict(features)  # as `dataclasses.replace` hands them back
    if not isinstance(features, Mapping) or not features:
        fix = "Write 'logprob/length + 0.5*length', or {'logprob/length': 1.0, ...}"
        raise InputError(f"found {excerpt(features)}", where="features", fix=fix)
    limits().check("systems", len(features), "features", what="metrics")
    pairs = []
    for feature, weight in features.items():
        number = finite(weight)
        if number is None:
            place = f"feature {feature!r}"
            raise InputError(f"weight {excerpt(weight)}", where=place, fix="Give a finite number")
        pairs.append((feature_of(feature), number))
    _check_directions(pairs, [name_of(feature) for feature, _ in pairs])
    return tuple(pairs)


@settings
class Reranker(Decider):
    """Chooses by a weighted sum of features.

    Args:
        features: a sum, ``"logprob/length + 0.5*comet-qe"``, or the weight of every feature: "logprob",
            "logprob/length" (per code point), "logprob/tokens" (by the number of tokens that stands beside it),
            "length" (code points), "field:NAME" (a number beside the candidate's text), "expected" (the expected
            utility of `decoder`), or a reference-free metric by name or signature (as a utility: a distance counts
            negatively).
        normalize: what is done to each feature within a list: "none", "zscore", "minmax" (to 0..1) or "rank" (share of
            candidates that are worse).
        shrinkage: how far the sum is moved towards the mean of the candidate's system; its features are then
            standardised ("zscore").
        choice: what is chosen, as for `MBRDecoder`.
        order: where context comes from in lists of a document.
        decoder: what "expected" is of: its utility, weights, prior, self pair; nothing else of it counts.
    """

    heading: ClassVar = "estimator"

    features: Annotated[
        str | Sequence[str] | Mapping[Any, float] | WeightedFeatures,
        Converted(weighted_features),
        Internal(),
    ]
    normalize: Annotated[Normalize, Needs(EVERY_VALUE)] = "none"
    shrinkage: Annotated[Shrinkage, Composed()] = Shrinkage()
    choice: Annotated[Choice, Composed()] = Choice()
    order: Annotated[Order, Composed()] = Order()
    decoder: Annotated[MBRDecoder | None, Internal()] = None

    if TYPE_CHECKING:  # what `settings` makes of it

        def __init__(
            self,
            features: str | Sequence[str] | Mapping[Any, float] | WeightedFeatures,
            normalize: Normalize = ...,
            shrinkage: Shrinkage = ...,
            choice: Choice = ...,
            order: Order = ...,
            decoder: MBRDecoder | None = ...,
            **settings: Any,
        ) -> None: ...

    def __post_init__(self) -> None:
        if (self.decoder is not None) != (EXPECTED in dict(self._features)):
            problem = f"{'a decoder' if self.decoder else f'the feature {EXPECTED!r}'} alone"
            fix = f"Give the feature {EXPECTED!r} with its weight, and a decoder (rerank --utility) that says of what"
            raise InputError(problem, where="features", fix=fix)
        check_together(self, "a reranker", lacks=(MATRIX,))
        if self.decoder is not None:
            check_together(self.decoder, "a reranker", needs=(EVERY_VALUE,))
        if self.shrinkage.shrink and self.normalize not in ("none", "zscore"):
            problem = f"found {self.normalize!r}, but what is shrunk is standardised"
            raise InputError(problem, where="normalize", fix="Leave it out")
        if self.shrinkage.shrink and self.decides_documents:
            problem = "does not go with shrinking, which is of single lists"
            raise InputError(problem, where="choose", fix="Leave one of them out")
        _ = self.resolved_strategy  # refused now, not when the first list is decided

    @property
    def _features(self) -> WeightedFeatures:
        return cast(WeightedFeatures, self.features)  # checked when it was made

    @property
    def _normalize(self) -> Normalize:
        return "zscore" if self.shrinkage.shrink else self.normalize

    @property
    def _metrics(self) -> tuple[Utility, ...]:
        """The metrics among the features."""
        return tuple(feature for feature, _ in self._features if not isinstance(feature, str))

    @property
    def metrics(self) -> tuple[Utility, ...]:
        """Every metric it uses."""
        expected = () if self.decoder is None else self.decoder.utilities
        return (*self._metrics, *expected)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on."""
        return {
            "decoder": "rerank",
            "features": {name_of(feature): weight for feature, weight in self._features},
            "normalize": self._normalize,
            **self.shrinkage.identity,
            **self.choice.identity,
            "strategy": self.resolved_strategy,
            **({} if self.decoder is None else {EXPECTED: self.decoder.expectation_settings}),
        }

    @property
    def reads_logprobs(self) -> bool:
        """True if the log-probabilities of candidates are read."""
        if self.decoder is not None and self.decoder.reads_logprobs:
            return True
        return any(feature in LOGPROB_FEATURES for feature, _ in self._features)

    def program(self, record: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        """The decision of one list, task by task."""
        distinct = Distinct(record.candidates)
        columns: dict[Feature, FloatArray] = {  # [N] values of every feature
            feature: plain_feature(feature, record)
            for feature, _ in self._features
            if isinstance(feature, str) and feature != EXPECTED
        }
        if self.decoder is not None:
            everything = np.arange(len(distinct))
            expected = yield from self.decoder.expected(
                record, distinct, everything, context, flags
            )
            columns[EXPECTED], flags = expected.values[distinct.of], expected.flags
        if self._metrics:
            task = self._task(record, distinct, context)
            result = yield task
            flags = with_flags(flags, (*remarks(task), *result.flags))
            columns |= self._metric_columns(result, distinct)
        scores = self._sums(columns, record, distinct)
        if self.shrinkage.shrink:
            ranking = self._shrunk(record, scores, flags, distinct)
        else:
            ranking = choose(record, scores, self.choice.nbest, flags, distinct)
        return replace(ranking, context=context)

    def _shrunk(
        self, record: CandidateList, scores: FloatArray, flags: tuple[str, ...], distinct: Distinct
    ) -> Ranking:
        """The ranking by shrunk scores; before the means are known by scores [N], with what the second pass reads."""
        systems = self.shrinkage.systems_of(record.candidates)
        means = self.shrinkage.means
        if means is not None:
            scores = means.shrunk(scores, systems, self.shrinkage.shrink)
        ranking = choose(record, scores, self.choice.nbest, flags, distinct)
        if means is not None:
            return with_system(ranking, systems)
        return replace(ranking, extra={**ranking.extra, **first_pass_row(systems, scores)})

    def rankings(self, lists: Iterable[Any], engine: Engine | None) -> Iterator[Ranking]:
        """Those of `decode`; where means of systems must be found, all lists are read before the first."""
        if not self.shrinkage.needs_means:
            return super().rankings(lists, engine)
        records = list(list_rows(lists))
        return in_memory(super().rankings(records, engine), self, self.shrinkage)

    def _sums(
        self, columns: Mapping[Feature, FloatArray], record: CandidateList, distinct: Distinct
    ) -> FloatArray:
        """The weighted sum of these features, [N]; errors as `check_finite` where there is a choice."""
        scores = np.zeros(len(record.candidates))
        for feature, weight in self._features:
            if weight and feature in columns:
                if len(distinct) > 1:
                    check_finite(feature, columns[feature])
                column = normalized(columns[feature], self._normalize)
                scores = added(scores, weight, column, f"feature {name_of(feature)}")
        return scores

    def _task(self, record: CandidateList, distinct: Distinct, context: Context) -> Task:
        """The distinct texts under all metrics at once; a part counts as its feature does."""
        weights = dict(self._features)
        mix = Mix(
            tuple(
                (weight if weights[metric] else 0.0, part)
                for metric in self._metrics
                for weight, part in metric.parts
            )
        )
        comparisons = tuple(
            part.comparison(distinct.texts, (), record.source, context.last(part.reads.context))
            for _, part in mix.parts
        )
        return Task(record.id, mix, comparisons, np.ones(1))

    def _metric_columns(self, result: Result, distinct: Distinct) -> dict[Feature, FloatArray]:
        """The values of every metric as a utility, [N]."""
        columns: dict[Feature, FloatArray] = {}
        values = iter(result.values)
        for metric in self._metrics:
            of_distinct = np.zeros(len(distinct))
            for weight, part in metric.parts:
                factor = weight * part.utility_sign
                of_distinct = added(of_distinct, factor, next(values), metric.signature())
            columns[metric] = of_distinct[distinct.of]
        return columns


def _check_directions(pairs: Sequence[tuple[Feature, float]], names: Sequence[str]) -> None:
    """Raises InputError for a minus in front of a feature where lower is better, with the sum that is meant.

    `names` are those of the features in messages.
    """
    turned = [_rewards_errors(feature, weight) for feature, weight in pairs]
    if any(turned):
        weights = [
            abs(w) if is_wrong else w for (_, w), is_wrong in zip(pairs, turned, strict=True)
        ]
        meant = written_sum(zip(weights, names, strict=True))
        wrong = names[turned.index(True)]
        raise InputError(f"'-{wrong}': {NEGATED}", where="features", fix=f"Write {meant!r}")


def _rewards_errors(feature: Feature, weight: float) -> bool:
    """Whether a weight undoes the sign of an error rate, or of an entropy, which is negated as well."""
    if isinstance(feature, str):
        return weight < 0 and SIGNS.get(feature) == -1
    return rewards_errors(weight, feature)


def features_of_sums(
    sums: Sequence[str],
    allow_code: Sequence[str] = (),
    change: Callable[[Utility], Utility] = lambda metric: metric,
    rename: Callable[[str], str] = lambda name: name,
) -> dict[Feature, float]:
    """The weight of every feature in sums, each ``0.5*x + y`` or ``x*0.5 + y``.

    Args:
        sums: of names of plain features, and of metrics by name, signature or YAML file.
        allow_code: as of `load_metric`.
        change: what is made of the metrics among them.
        rename: what is made of the name of a term.

    Raises:
        InputError: a sum that cannot be read, an unknown feature, a metric with references, a feature given twice, a
            minus in front of one where lower is better.
    """
    weights: dict[Feature, float] = {}
    names: list[str] = []
    for text in sums:
        for weight, name in _terms(text):
            names.append(name)
            feature = feature_of(rename(name), allow_code)
            if not isinstance(feature, str):
                feature = change(feature)
            if feature in weights:
                raise InputError("is given twice", where=f"feature {name!r}", fix="Add the weights")
            weights[feature] = weight
    limits().check("systems", len(weights), "features", what="metrics")
    _check_directions(list(weights.items()), names)
    return weights


def _terms(text: str) -> list[tuple[float, str]]:
    """Weights and features of a sum; the name of a field may be any text, and stands alone then."""
    if text.endswith((".yaml", ".yml")):
        return [(1.0, text)]
    try:
        return [(term.weight, term.text) for term in parse(text)]
    except InputError:
        name, _, weight = text.rpartition("*")
        number = finite_of(weight)
        if number is not None and is_plain(name):
            return [(number, name)]
        if is_plain(text):
            return [(1.0, text)]
        raise


def feature_of(spec: Any, allow_code: Sequence[str] = ()) -> Feature:
    """A feature that is read off the list, by its name, or a metric without references; raises InputError.

    `allow_code` is that of `load_metric`.
    """
    if isinstance(spec, str) and is_plain(spec):
        return spec
    try:
        metric = load_metric(spec, allow_code=allow_code)
    except InputError as error:
        is_name = isinstance(spec, str) and "(" not in spec and "+" not in spec
        if is_name and is_unknown(spec):
            raise unknown("feature", spec, (*PLAIN, EXPECTED, "field:NAME", *names())) from None
        raise error.inside("features") from None
    for _, part in metric.parts:
        if part.info.needs_references:
            raise InputError(
                f"{part.name} compares with references, which reranking does not have",
                where="features",
                fix=f"Choose with it as a utility: -u {part.name}, in rerank beside -m {EXPECTED}",
            )
    return metric


def reads_candidates_alone(text: str) -> bool:
    """Whether all terms of a sum are features, or metrics that compare a candidate with no other."""
    try:
        features = features_of_sums([text])
    except InputError:
        return False
    return EXPECTED not in features


def compares_candidates(text: str) -> bool:
    """Whether all terms of a sum are metrics with references, so that candidates are compared with one another."""
    try:
        parts = load_metric(text).parts
    except (InputError, ModelLoadError):
        return False
    return all(part.info.needs_references for _, part in parts)


def is_plain(name: str) -> bool:
    """Whether a feature is read off the list, without a metric."""
    return name in (*PLAIN, EXPECTED) or (name.startswith("field:") and name != "field:")


def name_of(feature: Feature) -> str:
    """The name of a feature that is read off the list, or the signature of a metric."""
    return feature if isinstance(feature, str) else feature.signature()


def plain_feature(name: str, record: CandidateList) -> FloatArray:
    """A feature of every candidate that needs no metric, [N].

    ``copied`` is the share of its 4-grams of characters that the source has, whatever their case; 0 without a source.
    How sure the model was: `confidence`; more is surer, and ``tail-entropy`` is negative for it.

    Raises:
        InputError: a candidate does not have it.
    """
    if name == "copied":
        return _copied(record)
    if name in SIGNS:
        return confidences(name, record.candidates)
    if name.startswith("field:"):
        return _numbers(name.removeprefix("field:"), record, known=True)
    lengths = np.array([len(str(candidate.text)) for candidate in record.candidates], float)
    return lengths if name == "length" else _of_logprobs(name, record, lengths)


def _of_logprobs(name: str, record: CandidateList, lengths: FloatArray) -> FloatArray:
    """A feature of `LOGPROB_FEATURES`, [N]; raises InputError for a candidate without a log-probability."""
    for i, candidate in enumerate(record.candidates):
        if candidate.logprob is None:
            numbers = [key for key, value in candidate.fields.items() if finite(value) is not None]
            others = ", ".join(f"-m field:{key}" for key in numbers if " " not in key)
            instead = f", or rank by a number that is there: {others}" if others else ""
            fix = f"Add them with discorank logprobs, or leave the feature {name!r} out{instead}"
            raise InputError("no logprob", where=f"candidates[{i}]", fix=fix)
    logprobs = np.array([candidate.logprob for candidate in record.candidates], float)
    if name == "logprob":
        return logprobs
    if name == "logprob/tokens":
        lengths = _numbers("tokens", record)
    return np.asarray(logprobs / np.maximum(lengths, 1))


def _numbers(field: str, record: CandidateList, known: bool = False) -> FloatArray:
    """A field of every candidate, [N]; InputError where it is missing; `known` suggests the fields that are there."""
    for i, candidate in enumerate(record.candidates):
        if known and candidate.fields and field not in candidate.fields:
            raise unknown("field", field, candidate.fields, where=f"candidates[{i}]")
    return np.array(
        [number_field(one, field, f"candidates[{i}]") for i, one in enumerate(record.candidates)]
    )


def _copied(record: CandidateList) -> FloatArray:
    def ngrams(text: object) -> set[str]:
        lowered = str(text).lower()
        starts = range(len(lowered) - COPIED_CHARACTERS + 1)
        return {lowered[i : i + COPIED_CHARACTERS] for i in starts}

    source = ngrams(record.source or "")
    own = [ngrams(candidate.text) for candidate in record.candidates]
    return np.array([len(one & source) / max(1, len(one)) for one in own])


def check_finite(feature: Feature, values: FloatArray) -> None:
    """Refuses a feature of a list, [N], by which nothing can be chosen.

    Raises:
        InputError, MetricError: no candidate has a finite value.
    """
    if np.isfinite(values).any():
        return
    kinds = ", ".join(sorted(set(map(str, values.tolist()))))
    kind = InputError if isinstance(feature, str) and feature != EXPECTED else MetricError
    raise kind(
        f"no candidate has a finite value, found {kinds}",
        where=f"feature {name_of(feature)}",
        fix="Leave the feature out, or mend the list",
    )
