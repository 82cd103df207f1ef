"""``discorank train combination LISTS -m METRIC ... -o MODEL.json``: tunes weights of metrics on preferences.

``discorank train prior SYSTEMS --human NAME:lower -o PRIOR.json``: the prior of every system, from judgements.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from ....integrations.formats.wmt.judgements import read_rankings
from ....metrics.errors import InputError
from ....metrics.spec.checked_settings import settings
from ....metrics.spec.signature import call
from ....metrics.storage.checksums import with_checksum
from ....metrics.storage.line_source import LineSource
from ....rerank.prior import STRENGTH, Prior
from ....rerank.selection.judged_systems import doubtful_direction
from ....rerank.training.combination_training import Preferences, Tuning, train_combination
from ....rerank.training.prior_estimation import Raters, Root, estimate_prior
from ....tables import aligned
from ...options import command, needed
from ...options.inputs import InputOptions
from ...options.metric_options import MetricOptions
from ...options.system_outputs import JudgementOptions, judged_documents
from ...running import check_not_input, check_writable, complete_or_absent
from ...terminal.console import say


@settings
class TrainCombinationOptions:
    """What is combined, whose preferences count, and where the model goes.

    Args:
        metric: metrics by name or signature.
        prefer: the score of candidates that says which is better, NAME, or NAME:lower where lower is better; for a
            systems file it is read from --human of the same name.
        rankings: a JSONL of rankings instead, {"id" of the list, "ranks": {system: rank}}, rank 1 is best.
        teacher: a metric whose scores against the references stand for people instead.
        output: the file of the model, .json.
        format: how the weights are printed, text or json.
    """

    metric: tuple[str, ...] = ()
    prefer: str | None = None
    rankings: str | None = None
    teacher: str | None = None
    output: str | None = None
    format: Literal["text", "json"] = "text"


_TOWARD = {"mean": "their mean", "zero": "zero"}


@command(
    "Train a weighted combination of metrics on preferences. Its weights go to stdout.",
    name="train combination",
    positional={"input": "?"},
    short={"metric": "m", "output": "o"},
    hidden=["max_calls", "max_tokens"],
    first=["input", "metric", "teacher", "prefer", "output"],
    examples=[
        "train combination examples:systems.jsonl --from systems -m chrf bleu --teacher ter -o weights.json",
        "decode examples:demo.jsonl -u 'combination(model=\"weights.json\")'",
        "metrics combination",
    ],
)
def combination(
    input: InputOptions, options: TrainCombinationOptions, tuning: Tuning, loading: MetricOptions
) -> None:
    """Trains."""
    metrics = [loading.load(spec) for spec in needed(options.metric, "metric")]
    out = needed(options.output, "output")
    check_not_input(out, [input.input, options.rankings])
    check_writable(out)
    preferences = _preferences(options, loading)
    if input.input_format == "systems" and options.prefer and not input.human:
        input = replace(input, human=(options.prefer,))
    with input.opened() as lists:
        records = list(lists.records())
    model = train_combination(metrics, records, preferences, tuning, say, loading.cache())
    with complete_or_absent(out) as file:
        file.write(json.dumps(model, ensure_ascii=False, indent=1).encode() + b"\n")
    say(f"{out}: use it as {call('combination', {'model': out})}")
    text = json.dumps(model) if options.format == "json" else combination_figures(model)
    sys.stdout.write(text + "\n")


def _preferences(options: TrainCombinationOptions, loading: MetricOptions) -> Preferences:
    """Whose preferences the weights follow; raises InputError unless one option says so."""
    kinds = [name for name in ("prefer", "rankings", "teacher") if getattr(options, name)]
    if len(kinds) != 1:
        flags = " and ".join(f"--{name}" for name in kinds) or "none"
        fix = "Give one of --prefer, --rankings, --teacher"
        raise InputError(f"found {flags}", where="preferences", fix=fix)
    if options.teacher:
        return Preferences(teacher=loading.load(options.teacher))
    if options.rankings:
        return Preferences(rankings=read_rankings(LineSource(options.rankings)))
    name, lower = directed(options.prefer or "", "prefer")
    return Preferences(field=name, lower=lower)


def directed(text: str, name: str) -> tuple[str, bool]:
    """The name of a score in NAME, NAME:lower or NAME:higher, and whether lower is better.

    Args:
        text: the value of an option.
        name: the option.

    Raises:
        InputError: another direction.
    """
    score, _, direction = text.partition(":")
    if direction not in ("", "lower", "higher"):
        raise InputError(f"found {text!r}", where=name, fix="Expected NAME or NAME:lower")
    return score, direction == "lower"


def combination_figures(model: Mapping[str, Any]) -> str:
    """The weights and the figures held out, as text."""
    rows = [["metric", "weight", "95 %", "min", "max"]]
    for feature in model["features"]:
        interval = f"[{feature['low']:.2f}, {feature['high']:.2f}]"
        ends = [f"{feature[name]:.4g}" for name in ("min", "max")]
        rows.append([feature["metric"], f"{feature['weight']:.3f}", interval, *ends])
    held_out, penalty = model["held_out"], model["penalty"]
    accuracy, single_accuracy = held_out["accuracy"], held_out["best_single_accuracy"]
    tried = [trial["penalty"] for trial in model["penalties_tried"]]
    remark = ""
    if tried and penalty == max(tried):
        center = _TOWARD[model["toward"]]
        remark = f"\nThis penalty is the largest tried: it holds the weights at {center}"
    size = f"{model['pairs']} pairs of {model['documents']} documents"
    return (
        f"{aligned(rows)}\n{size}, penalty {penalty:g}; "
        f"held out: {100 * accuracy:.1f} % right "
        f"(the single metric that is best on the other folds {100 * single_accuracy:.1f} %), "
        f"loss {held_out['loss']:.4f}{remark}"
    )


@settings
class TrainPriorOptions:
    """How errors are counted, and where the prior goes.

    Args:
        input: the systems file, a document per line, or human evaluations as WMT releases them; "mqm": null where
            nobody judged one.
        root: whether an error is the square root of a score; auto, where lower is better and no score is negative.
        output: the file of the prior, .json.
        format: how the prior is printed, text or json.
    """

    input: str | None = None
    root: Root = "auto"
    output: str | None = None
    format: Literal["text", "json"] = "text"


@command(
    "Estimate from human judgements how many errors every system makes. The prior weighs pseudo-references: discorank "
    "decode SYSTEMS --from systems --utility chrf --prior PRIOR.json. Its numbers go to stdout.",
    name="train prior",
    positional={"input": "?"},
    short={"output": "o"},
    first=["input", "human", "judged", "output"],
    examples=[
        "train prior examples:systems.jsonl --human mqm:lower -o prior.json",
        "decode examples:systems.jsonl --from systems -u chrf --prior prior.json -o by-prior.jsonl",
        "explain examples:systems.jsonl --from systems -u chrf --prior prior.json --limit 1",
    ],
)
def prior(options: TrainPriorOptions, judgements: JudgementOptions) -> None:
    """Estimates."""
    path = needed(options.input, "input", "SYSTEMS")
    out = needed(options.output, "output")
    check_not_input(out, [path, judgements.rankings, *judgements.judged])
    check_writable(out)
    judged = judged_documents(path, judgements)
    try:
        made = estimate_prior(judged.documents, judged.dimension, judged.lower, options.root)
    except InputError as error:
        raise error.inside(path) from None
    if doubt := doubtful_direction(judged.dimension, judged.lower, judged.documents):
        say(f"warning: {doubt}")
    row = with_checksum(made.as_json())
    with complete_or_absent(out) as file:
        file.write(json.dumps(row, ensure_ascii=False, indent=1).encode() + b"\n")
    raters = [] if judged.raters is None else [raters_table(judged.raters)]
    text = "\n".join([*raters, prior_figures(made)])
    sys.stdout.write((json.dumps(row) if options.format == "json" else text) + "\n")
    say(f"{out}: use it as discorank decode --prior {out}")


def raters_table(raters: Raters) -> str:
    """How strict raters are, as text."""
    what = "times the mean rater's scores" if raters.are_factors else "added to scores"
    effects = [[name, f"{effect:.3f}"] for name, effect in raters.effects.items()]
    return aligned([["rater", what], *effects])


def prior_figures(prior: Prior) -> str:
    """Every system's prior, the best first, and what it makes of a weight, as text."""
    names = [name for name, _ in prior.systems]
    weights = prior.weights(names, STRENGTH).tolist()
    ordered = sorted(
        zip(prior.systems, weights, strict=True),
        key=lambda pair: pair[0][1].mean,
    )
    rows = [
        [
            "system",
            "segments",
            "documents",
            "judged",
            "prior",
            "+-",
            f"weight at strength {STRENGTH:g}",
        ]
    ]
    for (name, system), weight in ordered:
        rows.append(
            [
                name,
                str(system.segments),
                str(system.documents),
                "-" if system.effect is None else f"{system.effect:+.3f}",
                f"{system.mean:+.3f}",
                f"{system.error:.3f}",
                f"{weight:.4f}",
            ]
        )
    return (
        f"{aligned(rows)}\nAn error is {_error(prior)}; below 0 is better than the mean system. "
        f"{prior.segments} segments of {prior.documents} documents, sigma {prior.sigma:.3f}, "
        f"between systems {prior.between:.3f}, design effect {prior.design_effect:.2f}{_unjudged(prior)}"
    )


def _error(prior: Prior) -> str:
    """How an error follows from a human score."""
    if prior.rooted:
        return f"the square root of {prior.human}"
    return prior.human if prior.lower else f"minus {prior.human}"


def _unjudged(prior: Prior) -> str:
    """A line on the systems without judgements, nothing if there are none."""
    names = [name for name, system in prior.systems if system.effect is None]
    if not names:
        return ""
    have = "they have" if len(names) > 1 else "it has"
    return f"\nNobody judged {', '.join(names)}: {have} the mean of all."
