"""``discorank train combination LISTS -m METRIC ... -o MODEL.json``: tunes weights of metrics on preferences."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ....integrations.formats.human_scores import read_rankings
from ....metrics.errors import InputError
from ....metrics.spec.checked_settings import settings
from ....metrics.spec.signature import call
from ....metrics.storage.line_source import LineSource
from ....rerank.training.combination_training import Preferences, Tuning, train_combination
from ....tables import aligned
from ...options import Options, build, needed
from ...options.inputs import CodeOptions, InputOptions, cache_in, metric_in, open_input
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
OPTIONS = Options(
    "train combination",
    "Train a weighted combination of metrics on preferences. Its weights go to stdout.",
    [InputOptions, TrainCombinationOptions, Tuning, CodeOptions],
    positional={"input": "?"},
    short={"metric": "m", "output": "o"},
)


def run(arguments: Sequence[str]) -> int:
    """Trains; returns the exit code."""
    values = OPTIONS.parse(arguments)
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
    text = json.dumps(model) if values["format"] == "json" else shown(model)
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


def shown(model: Mapping[str, Any]) -> str:
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
