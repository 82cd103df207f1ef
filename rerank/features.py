"""Features of candidates for reranking, read off the list or by reference-free metrics, and their normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..metrics.errors import InputError, MetricError, excerpt, unknown
from ..metrics.mixture import Utility
from ..metrics.model_names import metric_of_model
from ..metrics.registry import load_metric, names
from ..metrics.representations import FloatArray
from ..metrics.storage.limits import limits
from .lists import Candidate, CandidateList, finite, number_field

PLAIN = ("logprob", "logprob/length", "logprob/tokens", "length", "copied")
COPIED_CHARACTERS = 4  # of an n-gram that source and candidate share
EXPECTED = "expected"
Feature = str | Utility
WeightedFeatures = tuple[tuple[Feature, float], ...]


def weighted_features(features: Any) -> WeightedFeatures:
    """Checked (plain name or metric, weight) pairs from a mapping; pairs that were checked before are returned.

    Raises:
        InputError: no mapping, an unknown feature, a metric with references, or a weight that is no finite number.
    """
    if _are_pairs(features):
        features = dict(features)  # as `dataclasses.replace` hands them back
    if not isinstance(features, Mapping) or not features:
        fix = 'Write {"logprob": 1.0, ...}'
        raise InputError(f"found {excerpt(features)}", where="features", fix=fix)
    limits().check("metrics", len(features), "features")
    pairs = []
    for feature, weight in features.items():
        number = finite(weight)
        if number is None:
            place = f"feature {feature!r}"
            raise InputError(f"weight {excerpt(weight)}", where=place, fix="Give a finite number")
        pairs.append((feature_of(feature), number))
    return tuple(pairs)


def _are_pairs(features: Any) -> bool:
    if not isinstance(features, tuple) or not features:
        return False
    return all(isinstance(pair, tuple) for pair in features)


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
        if is_name and spec not in names() and metric_of_model(spec) is None:
            raise unknown("feature", spec, (*PLAIN, EXPECTED, "field:NAME", *names())) from None
        raise error.inside("features") from None
    for _, part in metric.parts:
        if part.info.needs_references:
            raise InputError(
                f"{part.name} compares with references, which reranking does not have",
                where="features",
                fix=f"Choose with it as a utility instead: discorank decode -u {part.name}, or rerank -m {EXPECTED}",
            )
    return metric


def is_plain(name: str) -> bool:
    """Whether a feature is read off the list, without a metric."""
    return name in (*PLAIN, EXPECTED) or (name.startswith("field:") and name != "field:")


def name_of(feature: Feature) -> str:
    """The name of a feature that is read off the list, or the signature of a metric."""
    return feature if isinstance(feature, str) else feature.signature()


def plain_feature(name: str, record: CandidateList) -> FloatArray:
    """A feature of every candidate that needs no metric, [N].

    ``copied`` is the share of its 4-grams of characters that the source has, whatever their case; 0 without a source.

    Raises:
        InputError: a candidate does not have it.
    """
    if name == "copied":
        return _copied(record)
    candidates = record.candidates
    lengths = np.array([len(str(candidate.text)) for candidate in candidates], float)
    if name == "length":
        return lengths
    if name.startswith("field:"):
        field = name.removeprefix("field:")
        values = [number_field(c, field, f"candidates[{i}]") for i, c in enumerate(candidates)]
        return np.array(values)
    for i, candidate in enumerate(candidates):
        if candidate.logprob is None:
            fix = f"Leave the feature {name!r} out{_others(candidate)}"
            raise InputError("no logprob", where=f"candidates[{i}]", fix=fix)
    logprobs = np.array([candidate.logprob for candidate in candidates], float)
    if name == "logprob":
        return logprobs
    if name == "logprob/tokens":
        values = [number_field(c, "tokens", f"candidates[{i}]") for i, c in enumerate(candidates)]
        lengths = np.array(values)
    return np.asarray(logprobs / np.maximum(lengths, 1))


def _copied(record: CandidateList) -> FloatArray:
    source = set() if record.source is None else _character_ngrams(str(record.source))
    shares = []
    for candidate in record.candidates:
        own = _character_ngrams(str(candidate.text))
        shares.append(len(own & source) / max(1, len(own)))
    return np.array(shares)


def _character_ngrams(text: str) -> set[str]:
    lowered = text.lower()
    starts = range(len(lowered) - COPIED_CHARACTERS + 1)
    return {lowered[i : i + COPIED_CHARACTERS] for i in starts}


def _others(candidate: Candidate) -> str:
    """The numbers that stand beside a candidate, as features to take instead."""
    names = [name for name, value in candidate.fields.items() if isinstance(value, int | float)]
    features = [f"-m field:{name}" for name in names if " " not in name]
    return f", or rank by a number that is there: {', '.join(features)}" if features else ""


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
