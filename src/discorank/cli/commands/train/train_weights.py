"""``discorank train combination LISTS -m METRIC ... -o MODEL.json``: tunes weights of metrics on preferences.

``discorank train prior SYSTEMS --human NAME:lower -o PRIOR.json``: the prior of every system, from judgements.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
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
from ...options import Options, build, needed
from ...options.inputs import CodeOptions, InputOptions, cache_in, metric_in, open_input
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
COMBINATION_OPTIONS = Options(
    "train combination",
    "Train a weighted combination of metrics on preferences. Its weights go to stdout.",
    [InputOptions, TrainCombinationOptions, Tuning, CodeOptions],
    positional={"input": "?"},
    short={"metric": "m", "output": "o"},
    first=["input", "metric", "teacher", "prefer", "output"],
    examples=[
        "train combination examples:systems.jsonl --from systems -m chrf bleu --teacher ter -o weights.json",
        "decode examples:demo.jsonl -u 'combination(model=\"weights.json\")'",
        "metrics combination",
    ],
)


def run_combination(arguments: Sequence[str]) -> int:
    """Trains; returns the exit code."""
    values = COMBINATION_OPTIONS.parse(arguments)
    metrics = [metric_in(values, spec) for spec in needed(values, "metric", "--metric")]
    out = needed(values, "output", "--output")
    check_not_input(out, [values["input"], values["rankings"]])
    check_writable(out)
    preferences = _preferences(values)
    if values["input_format"] == "systems" and values["prefer"] and not values["human"]:
        values["human"] = (values["prefer"],)
    with open_input(values) as lists:
        records = []
        for entry in lists:
            if entry.error is not None:
                raise entry.error
            if entry.record is not None:
                records.append(entry.record)
    model = train_combination(
        metrics,
        records,
        preferences,
        build(Tuning, values),
        lambda text: say(text, values["quiet"]),
        cache_in(values),
    )
    with complete_or_absent(out) as file:
        file.write(json.dumps(model, ensure_ascii=False, indent=1).encode() + b"\n")
    say(f"{out}: use it as {call('combination', {'model': out})}", values["quiet"])
    text = json.dumps(model) if values["format"] == "json" else combination_figures(model)
    sys.stdout.write(text + "\n")
    return 0


def _preferences(values: Mapping[str, Any]) -> Preferences:
    """Whose preferences the weights follow; raises InputError unless one option says so."""
    kinds = [name for name in ("prefer", "rankings", "teacher") if values[name]]
    if len(kinds) != 1:
        flags = " and ".join(f"--{name}" for name in kinds) or "none"
        raise InputError(
            f"found {flags}", where="preferences", fix="Give one of --prefer, --rankings, --teacher"
        )
    if values["teacher"]:
        return Preferences(teacher=metric_in(values, values["teacher"]))
    if values["rankings"]:
        return Preferences(rankings=read_rankings(LineSource(values["rankings"])))
    name, _, direction = str(values["prefer"]).partition(":")
    if direction not in ("", "lower", "higher"):
        raise InputError(
            f"found {values['prefer']!r}", where="--prefer", fix="Expected NAME or NAME:lower"
        )
    return Preferences(field=name, lower=direction == "lower")


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


PRIOR_OPTIONS = Options(
    "train prior",
    "Estimate from human judgements how many errors every system makes. The prior weighs pseudo-references: discorank "
    "decode SYSTEMS --from systems --utility chrf --prior PRIOR.json. Its numbers go to stdout.",
    [TrainPriorOptions, JudgementOptions],
    positional={"input": "?"},
    short={"output": "o"},
    first=["input", "human", "judged", "output"],
    examples=[
        "train prior examples:systems.jsonl --human mqm:lower -o prior.json",
        "decode examples:systems.jsonl --from systems -u chrf --prior prior.json -o by-prior.jsonl",
        "explain examples:systems.jsonl --from systems -u chrf --prior prior.json --limit 1",
    ],
)


def run_prior(arguments: Sequence[str]) -> int:
    """Estimates; returns the exit code."""
    values = PRIOR_OPTIONS.parse(arguments)
    path = needed(values, "input", "SYSTEMS")
    out = needed(values, "output", "--output")
    check_not_input(out, [path, values["rankings"], *values["judged"]])
    check_writable(out)
    judged = judged_documents(path, values)
    try:
        prior = estimate_prior(judged.documents, judged.dimension, judged.lower, values["root"])
    except InputError as error:
        raise error.inside(path) from None
    if doubt := doubtful_direction(judged.dimension, judged.lower, judged.documents):
        say(f"warning: {doubt}", values["quiet"])
    row = with_checksum(prior.as_json())
    with complete_or_absent(out) as file:
        file.write(json.dumps(row, ensure_ascii=False, indent=1).encode() + b"\n")
    raters = [] if judged.raters is None else [raters_table(judged.raters)]
    text = "\n".join([*raters, prior_figures(prior)])
    sys.stdout.write((json.dumps(row) if values["format"] == "json" else text) + "\n")
    say(f"{out}: use it as discorank decode --prior {out}", values["quiet"])
    return 0


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
