"""``discorank rerank INPUT -m METRIC[*WEIGHT] ... -o OUT``: a weighted sum of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import setting_names, settings
from ...rerank.capabilities import FIRST_STAGE, MATRIX, PSEUDO_REFERENCES
from ...rerank.mbr import MBRDecoder
from ...rerank.reranker import EXPECTED, Reranker, feature_of
from ...rerank.runs.run import RunSettings
from ..options import Options, build, flag_of, needed
from ..options.budget import BudgetOptions, budget_in
from ..options.engines import GROUPS, engine_in
from ..options.inputs import (
    CodeOptions,
    InputOptions,
    JudgeOptions,
    adapted,
    check_model,
    metric_in,
)
from ..options.output_formats import DecisionOptions, OutputFormatOptions, with_every_place
from ..running import OutputOptions, run_decider


@settings
class FeatureOptions:
    """The features.

    Args:
        metric: features with weights, such as logprob*0.2, logprob/tokens, length, field:score, a reference-free
            metric, or expected, the expected utility as decode computes it from --utility, --weights, --self-pair and
            --prior.
    """

    heading: ClassVar = "utility"

    metric: tuple[str, ...] = ()


# what only the feature "expected" has
_OF_EXPECTED = frozenset(setting_names(MBRDecoder)) - frozenset(setting_names(Reranker))
OPTIONS = Options(
    "rerank",
    "Choose from every candidate list the candidate with the highest weighted sum of features. Run the same command "
    "again to resume after an interruption.",
    [
        InputOptions,
        OutputOptions,
        FeatureOptions,
        BudgetOptions,
        Reranker,
        MBRDecoder,
        RunSettings,
        OutputFormatOptions,
        DecisionOptions,
        CodeOptions,
        JudgeOptions,
    ],
    positional={"input": "?"},
    short={"metric": "m", "output": "o", "num_candidates": "n", "utility": "u"},
    needs=(PSEUDO_REFERENCES,),
    lacks=(MATRIX, FIRST_STAGE),
    groups=GROUPS,
)


def run(arguments: Sequence[str]) -> int:
    """Reranks; returns the exit code."""
    values = OPTIONS.parse(arguments)
    with_every_place(values)
    chosen = chosen_features(values)
    expected = _decoder(values, EXPECTED in chosen)
    check_model(values, [*chosen, *(expected.metrics if expected else ())])
    budget = budget_in(values)
    reranker = build(Reranker, values, features=chosen, decoder=expected, budget=budget)
    with engine_in(values) as engine:
        return run_decider(values, reranker, engine)


def _decoder(values: Mapping[str, Any], is_feature: bool) -> MBRDecoder | None:
    """The decoder of the feature "expected", None where it is no feature."""
    if not is_feature:
        for name in OPTIONS.given(values):
            if name in _OF_EXPECTED:
                problem = "is for the feature expected"
                raise InputError(problem, where=flag_of(name), fix=f"Add -m {EXPECTED}")
        return None
    utility = metric_in(values, needed(values, "utility", "--utility"))
    return build(MBRDecoder, values, utility=utility, budget=None)


def chosen_features(values: Mapping[str, Any]) -> dict[Any, float]:
    """Weight of every feature named with -m, metrics with the language, device and model that are set."""
    weights: dict[Any, float] = {}
    for text in needed(values, "metric", "--metric", "-m logprob/length"):
        name, weight = split_weight(text)
        feature = feature_of(name, values["allow_code"])
        feature = feature if isinstance(feature, str) else adapted(feature, values)
        if feature in weights:
            raise InputError("is given twice", where=f"feature {name!r}", fix="Add the weights")
        weights[feature] = weight
    return weights


def split_weight(text: str) -> tuple[str, float]:
    """A feature and its weight.

    >>> split_weight("logprob*0.2"), split_weight("length")
    (('logprob', 0.2), ('length', 1.0))
    """
    name, mark, weight = text.rpartition("*")
    if not mark:
        return text, 1.0
    try:
        return name, float(weight)
    except ValueError:
        return text, 1.0
