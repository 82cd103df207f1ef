"""``discorank rerank INPUT -m METRIC[*WEIGHT] ... -o OUT``: a weighted sum of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..metrics.errors import InputError
from ..metrics.settings import settings
from ..rerank.reranker import Reranker, feature_of
from ..rerank.runs import RunSettings
from .engines import GROUPS, engine_in
from .inputs import InputOptions, adapted, check_model
from .options import Options, build, needed
from .running import OutputOptions, run_decider


@settings
class FeatureOptions:
    """The features.

    Args:
        metric: features with weights, such as logprob*0.2, length, field:score, or a reference-free metric.
    """

    metric: tuple[str, ...] = ()


OPTIONS = Options(
    "rerank",
    "Choose from every candidate list the candidate with the highest weighted sum of features. Run the same command "
    "again to go on after an interruption.",
    [InputOptions, OutputOptions, FeatureOptions, Reranker, RunSettings],
    positional={"input": "?"},
    short={"metric": "m", "output": "o", "num_candidates": "n"},
    hidden=["features", "save_utilities"],
    groups=GROUPS,
)


def run(arguments: Sequence[str]) -> int:
    """Reranks; returns the exit code."""
    values = OPTIONS.parse(arguments)
    chosen = features(values)
    check_model(values, chosen)
    reranker = build(Reranker, values, features=chosen)
    with engine_in(values) as engine:
        return run_decider(values, reranker, engine)


def features(values: Mapping[str, Any]) -> dict[Any, float]:
    """Weight of every feature named with -m, metrics with the language, device and model that are set."""
    found: dict[Any, float] = {}
    for text in needed(values, "metric", "--metric"):
        name, weight = split_weight(text)
        feature = feature_of(name)
        feature = feature if isinstance(feature, str) else adapted(feature, values)
        if feature in found:
            raise InputError("is given twice", where=f"feature {name!r}", fix="Add the weights")
        found[feature] = weight
    return found


def split_weight(text: str) -> tuple[str, float]:
    """A feature and its weight.

    >>> split_weight("logprob*0.2"), split_weight("length")
    (('logprob', 0.2), ('length', 1.0))
    """
    name, mark, weight = text.rpartition("*")
    try:
        return (name, float(weight)) if mark else (text, 1.0)
    except ValueError:
        return text, 1.0
