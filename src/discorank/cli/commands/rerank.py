"""``discorank rerank INPUT -m METRIC[*WEIGHT] ... -o OUT``: a weighted sum of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ...metrics.errors import InputError, excerpt
from ...metrics.registry import without_aliases
from ...metrics.spec.checked_settings import setting_names, settings
from ...metrics.storage.json_and_yaml import read_small_json, read_yaml
from ...rerank.capabilities import FIRST_STAGE, MATRIX, PSEUDO_REFERENCES
from ...rerank.engines.interface import Engine
from ...rerank.engines.local import LocalEngine
from ...rerank.mbr import MBRDecoder
from ...rerank.reranker import (
    EXPECTED,
    Reranker,
    compares_candidates,
    features_of_sums,
    reads_candidates_alone,
)
from ...rerank.runs.first_pass import first_path, means_path, saved_means, with_scores
from ...rerank.runs.run import RunSettings
from ...rerank.shrinkage import SecondPass
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
    say_aliases,
)
from ..options.output_formats import DecisionOptions, OutputFormatOptions, with_every_place
from ..running import OutputOptions, check_not_input, run_decider
from ..terminal.console import say


@settings
class FeatureOptions:
    """The features.

    Args:
        metric: a sum of features, such as 'logprob/length + 0.5*comet-qe': logprob, logprob/tokens, length,
            field:NAME, reference-free metrics, qe (the one whose checkpoint --model names), or expected, the expected
            utility as decode computes it from --utility, --weights, --self-pair and --prior; --utility alone is -m
            expected.
    """

    heading: ClassVar = "utility"

    metric: tuple[str, ...] = ()


QE = "qe"  # stands for the metric without references that a checkpoint is of
_QE_BY_CLASS = {
    "referenceless_regression_metric": "comet-qe",
    "unified_metric": "comet-qe",
    "xcomet_metric": "xcomet-qe",
}
_MEANS = "means of an earlier run (--system-means)"
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
    first=["input", "metric", "output", "input_format", "normalize", "config"],
    examples=[
        "rerank examples:demo.jsonl -m logprob/length -o reranked.jsonl",
        "rerank examples:demo.jsonl -m '0.5*logprob + length' --normalize zscore --nbest 3",
        "rerank examples:context.jsonl -m doc-lm -o in-context.jsonl",
    ],
)


def run(arguments: Sequence[str]) -> int:
    """Reranks; returns the exit code."""
    values = OPTIONS.parse(arguments)
    with_every_place(values)
    values |= _sums(values["utility"], values["metric"])
    chosen = chosen_features(values)
    expected = _decoder(values, EXPECTED in chosen)
    check_model(values, [*chosen, *(expected.metrics if expected else ())])
    budget = budget_in(values)
    reranker = build(Reranker, values, features=chosen, decoder=expected, budget=budget)
    if reranker.shrinkage.shrink and EXPECTED in chosen:
        likes_average = "a consensus prefers systems that are like the others"
        say(
            f"warning: --shrink with -m expected: {likes_average}, and did not gain",
            values["quiet"],
        )
    with engine_in(values) as engine:
        if reranker.shrinkage.needs_means:
            return _in_two_passes(values, reranker, engine)
        return run_decider(values, reranker, engine)


def _sums(utility: Any, sums: Sequence[str]) -> dict[str, Any]:
    """The utility and the features, where -u or -m stands alone and says both: which one it is, its metrics tell."""
    if utility and not sums:
        if isinstance(utility, str) and reads_candidates_alone(utility):
            return {"utility": None, "metric": (utility,)}
        return {"metric": (EXPECTED,)}
    if sums and not utility and compares_candidates(" + ".join(sums)):
        return {"utility": " + ".join(sums), "metric": (EXPECTED,)}
    return {}


def _in_two_passes(values: dict[str, Any], reranker: Reranker, engine: Engine) -> int:
    """Finds the means of systems, and decides by them; returns the exit code."""
    if not values["output"] or values["output"] == "-":
        problem = "is needed: the scores of a first pass are kept beside it"
        raise InputError(problem, where="--output", fix=f"Give a file, or {_MEANS}")
    if values["input"] == "-":
        problem = "is read once, and shrinking reads its lists twice"
        raise InputError(problem, where="stdin", fix=f"Give a file, or {_MEANS}")
    out = Path(values["output"])
    files = (first_path(out), means_path(out))
    for path in files:
        check_not_input(path, [values["input"], values.get("prior"), values.get("sources")])
    plain = {"output_format": None, "format": "jsonl", "save_utilities": None}
    first_values = {**values, **plain, "output": str(first_path(out))}
    run_decider(first_values, reranker.with_settings(nbest=1), engine, done="scored")
    means = saved_means(out)
    second = SecondPass(reranker, reranker.shrinkage, means)
    code = run_decider(values, second, LocalEngine(), lambda entries: with_scores(entries, out))
    say(f"{means_path(out)}: systems by their mean score: {means}", values["quiet"])
    return code


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
    sums = needed(values, "metric", "--metric", "-m logprob/length")
    for text in sums:
        say_aliases(text, values)
    if values.get("model"):
        sums = [without_aliases(text) for text in sums]
    return dict(
        features_of_sums(
            sums,
            values["allow_code"],
            lambda metric: adapted(metric, values),
            lambda name: qe_metric(values["model"]) if name == QE else name,
        )
    )


def qe_metric(model: str | None) -> str:
    """The metric without references that the checkpoint in a folder is of.

    Raises:
        InputError: no folder is named, or it holds another kind of model.
    """
    folder = Path(model or "").expanduser()
    hparams, config = folder / "hparams.yaml", folder / "config.json"
    if model and hparams.is_file():
        kind = read_yaml(hparams).get("class_identifier")
        if kind in _QE_BY_CLASS:
            return _QE_BY_CLASS[str(kind)]
    elif model and config.is_file():
        settings = read_small_json(config, "Give the folder of a model")
        if isinstance(settings, dict) and settings.get("model_type") == "mt5":
            return "metricx-qe"
    problem = f"{excerpt(model)} is no folder with a checkpoint of COMET-QE, xCOMET or MetricX"
    fix = "Give one, or name the metric: -m comet-qe, metricx-qe or xcomet-qe"
    raise InputError(problem if model else "is needed by -m qe", where="--model", fix=fix)
