"""``discorank rerank INPUT -m METRIC[*WEIGHT] ... -o OUT``: a weighted sum of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Composed, changed, settings
from ...rerank.capabilities import EVERY_VALUE, FIRST_STAGE, MATRIX, PSEUDO_REFERENCES, Needs
from ...rerank.choice import Choice
from ...rerank.engines.expectation import Normalize
from ...rerank.engines.interface import Engine
from ...rerank.engines.local import LocalEngine
from ...rerank.order import Order
from ...rerank.reranker import (
    EXPECTED,
    Reranker,
    compares_candidates,
    features_of_sums,
    is_plain,
    reads_candidates_alone,
)
from ...rerank.runs.first_pass import first_path, means_path, saved_means, with_scores
from ...rerank.shrinkage import SecondPass, Shrinkage
from ..options import command, needed
from ..options.decoders import DecoderOptions, EngineSettings, MetricOptions
from ..options.inputs import InputOptions
from ..options.output_formats import RunOptions
from ..running import check_not_input, run_decider
from ..terminal.console import say

_MEANS = "means of an earlier run (--system-means)"


@settings
class FeatureOptions:
    """The features.

    Args:
        metric: a sum of features, such as 'logprob/length + 0.5*comet-qe': logprob, logprob/tokens, length,
            field:NAME, reference-free metrics, or expected, the expected utility as decode computes it from --utility,
            --weights, --self-pair and --prior; --utility alone is -m expected.
    """

    heading: ClassVar = "utility"

    metric: tuple[str, ...] = ()


@settings
class RerankerOptions:
    """The settings of a `Reranker`.

    Args:
        normalize: what is done to each feature within a list: "none", "zscore", "minmax" (to 0..1) or "rank" (share of
            candidates that are worse).
        shrinkage: how far the sum is moved towards the mean of the candidate's system.
        choice: what is chosen.
        order: where context comes from in lists of a document.
    """

    heading: ClassVar = "estimator"

    normalize: Annotated[Normalize, Needs(EVERY_VALUE)] = "none"
    shrinkage: Annotated[Shrinkage, Composed()] = Shrinkage()
    choice: Annotated[Choice, Composed()] = Choice()
    order: Annotated[Order, Composed()] = Order()


@command(
    "Choose from every candidate list the candidate with the highest weighted sum of features. Run the same command "
    "again to resume after an interruption.",
    positional={"input": "?"},
    short={"metric": "m", "output": "o", "num_candidates": "n", "utility": "u"},
    needs=(PSEUDO_REFERENCES,),
    lacks=(MATRIX, FIRST_STAGE),
    first=["input", "metric", "output", "input_format", "normalize", "config"],
    examples=[
        "rerank examples:demo.jsonl -m logprob/length -o reranked.jsonl",
        "rerank examples:demo.jsonl -m '0.5*logprob + length' --normalize zscore --nbest 3",
        "rerank examples:context.jsonl -m doc-lm -o in-context.jsonl",
    ],
)
def rerank(
    input: InputOptions,
    features: FeatureOptions,
    reranker: RerankerOptions,
    decoder: DecoderOptions,
    run: RunOptions,
    engine: EngineSettings,
    metrics: MetricOptions,
) -> int:
    """Reranks; returns the exit code."""
    metrics = metrics.beside(run.output)
    utility, sums = _sums(decoder.utility, features.metric)
    chosen = chosen_features(sums, metrics)
    expected = None
    if EXPECTED in chosen:
        expected = replace(decoder, utility=utility).loaded(metrics, features=chosen)
    else:
        metrics.check(chosen, reranker.order.strategy)
        for name in (*changed(decoder.pool), *changed(decoder.estimator)):
            problem = f"is for the feature {EXPECTED}"
            raise InputError(problem, where=name, fix=f"Add -m {EXPECTED}")
    made = Reranker(
        chosen,
        reranker.normalize,
        reranker.shrinkage,
        run.every_rank(reranker.choice),
        reranker.order,
        expected,
    )
    if made.shrinkage.shrink and EXPECTED in chosen:
        likes_average = "a consensus prefers systems that are like the others"
        say(f"warning: --shrink with -m expected: {likes_average}, and did not gain")
    with engine.opened(metrics.cache()) as opened:
        if made.shrinkage.needs_means:
            return _in_two_passes(made, opened, input, run, decoder.file.prior)
        return run_decider(made, opened, input, run, decoder.file.prior)


def _sums(utility: str | None, sums: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """The utility and the features, where -u or -m stands alone and says both: which one it is, its metrics tell."""
    if utility and not sums:
        return (None, (utility,)) if reads_candidates_alone(utility) else (utility, (EXPECTED,))
    if sums and not utility and compares_candidates(" + ".join(sums)):
        return " + ".join(sums), (EXPECTED,)
    return utility, sums


def _in_two_passes(
    reranker: Reranker, engine: Engine, input: InputOptions, run: RunOptions, prior: str | None
) -> int:
    """Finds the means of systems, and decides by them; returns the exit code."""
    if not run.output or run.output == "-":
        problem = "is needed: the scores of a first pass are kept beside it"
        raise InputError(problem, where="--output", fix=f"Give a file, or {_MEANS}")
    if input.input == "-":
        problem = "is read once, and shrinking reads its lists twice"
        raise InputError(problem, where="stdin", fix=f"Give a file, or {_MEANS}")
    out = Path(run.output)
    for path in (first_path(out), means_path(out)):
        check_not_input(path, [*input.paths, prior])
    first = run.plain(str(first_path(out)))
    run_decider(reranker.with_settings(nbest=1), engine, input, first, prior, done="scored")
    means = saved_means(out)
    second = SecondPass(reranker, reranker.shrinkage, means)
    code = run_decider(
        second, LocalEngine(), input, run, prior, made_of=lambda entries: with_scores(entries, out)
    )
    say(f"{means_path(out)}: systems by their mean score: {means}")
    return code


def chosen_features(sums: Sequence[str], metrics: MetricOptions) -> dict[Any, float]:
    """The weight of every feature named with -m, metrics with the language, device and model that are set."""
    sums = needed(sums, "metric", example="-m logprob/length")

    def registered(name: str) -> str:
        return name if is_plain(name) else metrics.parsed(name).text

    return dict(features_of_sums(sums, metrics.code.allow_code, metrics.adapted, registered))
