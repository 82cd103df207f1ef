"""``discorank train rst|roles|sescore2``: a discourse parser, a classifier of discourse roles, or sescore2.

``discorank train combination LISTS -m METRIC ... -o MODEL.json``: weights of metrics, tuned on preferences.

``discorank train prior SYSTEMS --human NAME:lower -o PRIOR.json``: the prior of every system, from judgements.

Each prints how good its model is, on data that it was not trained on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...integrations.formats.corpora import RatedText, read_rated, read_texts
from ...integrations.formats.wmt.judgements import read_rankings
from ...metrics.discourse.roles.training.role_training import RoleTraining
from ...metrics.discourse.roles.training.role_training import train as train_classifier
from ...metrics.errors import InputError
from ...metrics.rst.parser.training.parser_training import ParserTraining
from ...metrics.rst.parser.training.parser_training import train as train_parser
from ...metrics.rst.parser.weights import save as save_parser
from ...metrics.sescore2.training.regression_training import (
    FEWEST_TO_HOLD_OUT,
    Predict,
    SyntheticPair,
    Training,
    TrainingProgress,
    Validate,
    check_free,
    fit,
)
from ...metrics.sescore2.training.severity import Severity
from ...metrics.sescore2.training.synthesis import Synthesis, synthetic_pairs, usable_texts
from ...metrics.spec.checked_settings import settings
from ...metrics.spec.signature import call
from ...metrics.storage.atomic_files import locked_folder, unwritable
from ...metrics.storage.checksums import with_checksum
from ...metrics.storage.line_source import LineSource
from ...rerank.prior import STRENGTH, Prior
from ...rerank.selection.judged_systems import doubtful_direction
from ...rerank.selection.statistics import correlation
from ...rerank.training.combination_training import Preferences, Tuning, train_combination
from ...rerank.training.prior_estimation import Root, estimate_prior
from ...tables import Column, Table, decimals, numbers, shown, whole, words
from ..options import command, needed
from ..options.command_options import ModelOptions
from ..options.decoders import MetricOptions
from ..options.inputs import InputOptions
from ..options.system_outputs import JudgementOptions, judged_documents
from ..running import check_not_input, check_writable, complete_or_absent
from ..terminal.console import Progress, say

# settings of models that are of no use in training
NOT_TRAINED_WITH = ("dtype", "batch_tokens", "cache", "cache_bytes")
STAGES = 3  # of a text: encoded, searched for, given mistakes
INTERVAL = Column("95 %", ("low", "high"), lambda low, high: f"[{low:.1f}, {high:.1f}]")
TEST_COLUMNS = (words("test documents", "part"), decimals("%", "value", 1), INTERVAL)
WEIGHT_COLUMNS = (
    words("metric", "metric"),
    decimals("weight", "weight", 3),
    Column("95 %", ("low", "high"), lambda low, high: f"[{low:.2f}, {high:.2f}]"),
    *numbers({"min": "min", "max": "max"}),
)


@settings
class FormatOptions:
    """How figures are printed.

    Args:
        format: how the figures are printed, text or json.
    """

    format: Literal["text", "json"] = "text"

    def print(self, data: Mapping[str, Any], tables: Sequence[Table]) -> None:
        """Prints figures as one JSON object, or as tables."""
        text = json.dumps(data) + "\n" if self.format == "json" else shown(tables, "table")
        sys.stdout.write(text)


@settings
class TrainRSTOptions:
    """What is trained on and where the weights go.

    Args:
        input: the treebank, JSONL (.gz too): per document id, edus, sent and tree; see the documentation of
            discorank.metrics.rst.parser.training.treebank.
        output: the file of weights, .npz.
    """

    input: str | None = None
    output: str | None = None


@command(
    "Train the discourse parser on a treebank. Figures on its test documents go to stdout.",
    name="train rst",
    positional={"input": "?"},
    short={"output": "o"},
    first=["input", "output", "format"],
    examples=[
        "train rst gum/rst -o parser",
        "train rst gum/rst -o parser --format json",
        "decode examples:summaries.jsonl -u dr",
    ],
)
def rst(options: TrainRSTOptions, printing: FormatOptions, training: ParserTraining) -> None:
    """Trains."""
    data = needed(options.input, "input", "TREEBANK")
    out = needed(options.output, "output")
    check_not_input(out, [data])
    check_writable(out)
    parser = train_parser(training, Path(data), say)
    with complete_or_absent(out) as file:
        save_parser(file, parser.arrays, parser.about)
    figures = parser.about["figures"]
    printing.print(figures, [parser_table(figures["test"])])
    say(f"{out}: {Path(out).stat().st_size / 1e6:.2f} MB")


def parser_table(figures: Mapping[str, Any]) -> Table:
    """F1 with 95 % intervals by document."""
    rows = []
    for name, value in figures.items():
        if isinstance(value, Mapping):
            entries = {f"F1 {name}: {part}": entry for part, entry in value.items()}
            for part, entry in ({f"F1 {name}": value} if "f1" in value else entries).items():
                rows.append({"part": part, "value": entry["f1"], **entry})
    return Table(_size(figures), TEST_COLUMNS, rows)


def _size(figures: Mapping[str, Any]) -> str:
    return f"{figures['documents']} documents, {figures['sentences']} sentences"


@settings
class TrainRolesOptions:
    """What is trained on and where the classifier goes.

    Args:
        input: documents, JSONL (.gz too), one per line: sentences, roles, id and split (train, dev or test).
        output: the folder of the classifier, a new one.
    """

    input: str | None = None
    output: str | None = None


@command(
    "Train a classifier of discourse roles for pdd and role-match. Figures on its test documents go to stdout.",
    name="train roles",
    positional={"input": "?"},
    short={"output": "o"},
    hidden=NOT_TRAINED_WITH,
    first=["input", "output", "format", "device"],
    examples=[
        "train roles labelled.jsonl -o roles",
        "train roles labelled.jsonl -o roles --format json",
        "metrics pdd",
    ],
)
def roles(
    options: TrainRolesOptions,
    printing: FormatOptions,
    training: RoleTraining,
    models: ModelOptions,
) -> None:
    """Trains."""
    data = needed(options.input, "input", "DOCUMENTS")
    out = needed(options.output, "output")
    check_not_input(out, [data])
    figures = train_classifier(training, Path(data), Path(out), models.device, say)
    printing.print(figures, [roles_table(figures)])


def roles_table(figures: Mapping[str, Any]) -> Table:
    """The share of right roles with its interval, and F1 of every role."""
    accuracy = {"value": figures["accuracy"], "low": figures["low"], "high": figures["high"]}
    values = {"most frequent role": figures["majority"], "macro F1": figures["macro_f1"]}
    values |= {f"F1 {name}": value for name, value in figures["f1"].items()}
    rows = [{"part": "accuracy", **accuracy}]
    rows += [{"part": part, "value": value} for part, value in values.items()]
    return Table(_size(figures), TEST_COLUMNS, rows)


@settings
class TrainSEScore2Options:
    """What is trained on and where the model goes.

    Args:
        input: texts of the language, one per line, or JSON lines with --text-field (.gz too).
        output: the folder of the model.
        work: the folder that an interrupted run resumes from; next to the model if not given.
        text_field: the field of JSON lines with a text or a list of texts.
        source_field: the field with their sources, for severity under a cross-lingual model.
        validation: rated texts that pick the best weights: JSON lines with hypothesis, reference or references, score.
            Never the data that the metric is tested on. Held-out synthetic pairs if not given.
        validation_score: the field of the rating, NAME, or NAME:lower where lower is better.
    """

    input: tuple[str, ...] = ()
    output: str | None = None
    work: str | None = None
    text_field: str | None = None
    source_field: str | None = None
    validation: str | None = None
    validation_score: str = "score"


@command(
    "Train the metric sescore2 on texts. An interrupted run resumes with the same command.",
    name="train sescore2",
    positional={"input": "*"},
    short={"output": "o"},
    hidden=NOT_TRAINED_WITH,
    first=["input", "output", "validation", "device"],
    examples=[
        "train sescore2 texts.txt -o sescore2",
        "train sescore2 texts.txt -o sescore2 --frozen --epochs 3",
        "metrics sescore2",
    ],
)
def sescore2(
    options: TrainSEScore2Options,
    synthesis: Synthesis,
    severity: Severity,
    training: Training,
    models: ModelOptions,
) -> None:
    """Trains."""
    out = Path(needed(options.output, "output"))
    paths = needed(options.input, "input", "TEXTS")
    work = Path(options.work or f"{out}.work")
    # what would fail at the end is checked at the start
    check_free(out)
    rated = _rated(options)
    with locked_folder(work):
        read = read_texts(paths, options.text_field, options.source_field)
        texts, counts = usable_texts(read, synthesis)
        _say_counts("texts", counts)
        try:
            work.mkdir(exist_ok=True)
        except OSError as error:
            raise unwritable(work, error) from error
        done = 0
        with Progress("texts", lambda: done / (STAGES * len(texts))) as progress:

            def tell(now: int) -> None:
                nonlocal done
                done = now
                progress(now // STAGES)

            pairs, name = synthetic_pairs(work, texts, synthesis, severity, models.device, tell)
        _say_counts("pairs", {"pairs": len(pairs)})
        _say_counts("fit", _fit(training, rated, work, out, pairs, name, models.device))
    say(f'{out}: use it as sescore2(model="{out}")')


def _say_counts(step: str, counts: Mapping[str, int]) -> None:
    say(f"{step}: {', '.join(f'{n} {noun}' for noun, n in counts.items())}")


def _rated(options: TrainSEScore2Options) -> list[RatedText] | None:
    """The rated texts that pick the best weights; None where there are none."""
    if not options.validation:
        return None
    field, lower = directed(options.validation_score, "validation_score")
    return read_rated(options.validation, field, lower)


def _fit(
    training: Training,
    rated: list[RatedText] | None,
    work: Path,
    out: Path,
    pairs: Sequence[SyntheticPair],
    name: str,
    device: str | None,
) -> Mapping[str, int]:
    """Trains the model on pairs and says how good it is at every validation."""
    measure, validate = "correlation held out", None
    if rated is not None:
        measure, validate = "Kendall", validator(rated)
        name += blake2b(repr(rated).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    share = 0.0
    with Progress("steps", lambda: share) as progress:

        def tell(now: TrainingProgress) -> None:
            nonlocal share
            share = now.share
            progress(now.step)
            if now.validation is not None:
                quality = f"{measure} {now.validation:.4f}"
                say(f"step {now.step}: loss {now.loss:.2f}, {quality}")

        counts = fit(work, out, pairs, training, device, validate, name, tell)
    if validate is None and not counts["held out"]:
        few = f"pairs are held out from {FEWEST_TO_HOLD_OUT} texts on"
        say(f"fit: no validation ({few}): the weights of the last step are kept")
    return counts


def validator(rated: Sequence[RatedText]) -> Validate:
    """Kendall's tau-b of a model's scores, against the best of several references, with those of people."""
    hypotheses = [row.hypothesis for row in rated for _ in row.references]
    references = [text for row in rated for text in row.references]
    starts = np.cumsum([0, *(len(row.references) for row in rated)])[:-1]
    human = [row.score for row in rated]

    def validate(predict: Predict) -> float:
        best = np.maximum.reduceat(predict(hypotheses, references), starts)
        tau = correlation("tau_b", best, human)
        return 0.0 if np.isnan(tau) else tau

    return validate


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
    """

    metric: tuple[str, ...] = ()
    prefer: str | None = None
    rankings: str | None = None
    teacher: str | None = None
    output: str | None = None


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
    input: InputOptions,
    options: TrainCombinationOptions,
    printing: FormatOptions,
    tuning: Tuning,
    loading: MetricOptions,
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
    printing.print(model, [combination_table(model)])
    tried = [trial["penalty"] for trial in model["penalties_tried"]]
    if tried and model["penalty"] == max(tried):
        center = {"mean": "their mean", "zero": "zero"}[model["toward"]]
        say(f"This penalty is the largest tried: it holds the weights at {center}")


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


def combination_table(model: Mapping[str, Any]) -> Table:
    """The weights, under the figures of documents that are held out."""
    held_out = model["held_out"]
    accuracy, single_accuracy = held_out["accuracy"], held_out["best_single_accuracy"]
    title = (
        f"{model['pairs']} pairs of {model['documents']} documents, penalty {model['penalty']:g}; "
        f"held out: {100 * accuracy:.1f} % right "
        f"(the single metric that is best on the other folds {100 * single_accuracy:.1f} %), "
        f"loss {held_out['loss']:.4f}"
    )
    return Table(title, WEIGHT_COLUMNS, model["features"])


@settings
class TrainPriorOptions:
    """How errors are counted, and where the prior goes.

    Args:
        input: the systems file, a document per line, or human evaluations as WMT releases them; "mqm": null where
            nobody judged one.
        root: whether an error is the square root of a score; auto, where lower is better and no score is negative.
        output: the file of the prior, .json.
    """

    input: str | None = None
    root: Root = "auto"
    output: str | None = None


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
def prior(
    options: TrainPriorOptions, printing: FormatOptions, judgements: JudgementOptions
) -> None:
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
    printing.print(row, [prior_table(made)])
    say(f"{out}: use it as discorank decode --prior {out}")


def prior_table(prior: Prior) -> Table:
    """Every system's prior, the best first, and what it makes of a weight."""
    names = [name for name, _ in prior.systems]
    rows = [
        {"system": name, **asdict(system), "weight": weight}
        for (name, system), weight in zip(
            prior.systems, prior.weights(names, STRENGTH).tolist(), strict=True
        )
    ]
    columns = [
        words("system", "system"),
        whole("segments", "segments"),
        whole("documents", "documents"),
        Column("judged", ("effect",), lambda effect: "-" if effect is None else f"{effect:+.3f}"),
        Column("prior", ("mean",), "{:+.3f}".format),
        decimals("+-", "error", 3),
        decimals(f"weight at strength {STRENGTH:g}", "weight"),
    ]
    error = prior.human if prior.lower else f"minus {prior.human}"
    error = f"the square root of {prior.human}" if prior.rooted else error
    title = (
        f"An error is {error}; below 0 is better than the mean system. "
        f"{prior.segments} segments of {prior.documents} documents, sigma {prior.sigma:.3f}, "
        f"between systems {prior.between:.3f}, design effect {prior.design_effect:.2f}"
    )
    return Table(title, columns, sorted(rows, key=lambda row: row["mean"]))
