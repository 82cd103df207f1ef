"""``discorank train rst|roles|sescore2``: trains a discourse parser, a classifier of discourse roles, or sescore2.

Each prints how good the model is, on data that it was not trained on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from ....integrations.formats.corpora import RatedText, read_rated, read_texts
from ....metrics.discourse.roles.training.role_training import RoleTraining
from ....metrics.discourse.roles.training.role_training import train as train_classifier
from ....metrics.rst.parser.training.parser_training import train as train_parser
from ....metrics.rst.parser.training.settings import ParserTraining
from ....metrics.rst.parser.weights import save as save_parser
from ....metrics.sescore2.training.job_stages import Stage, finished
from ....metrics.sescore2.training.regression_network import check_free, convert
from ....metrics.sescore2.training.regression_training import (
    FEWEST_TO_HOLD_OUT,
    Predict,
    Training,
    TrainingProgress,
    fit,
)
from ....metrics.sescore2.training.severity import Severity, label
from ....metrics.sescore2.training.synthesis import (
    Synthesis,
    embed,
    mine,
    perturb,
    search,
    write_texts,
)
from ....metrics.spec.checked_settings import Rare, settings
from ....metrics.spec.user_code import AllowedCode, is_function_name
from ....rerank.selection.statistics import tau_b
from ....tables import aligned
from ...options import command, needed
from ...options.command_options import ModelOptions
from ...options.metric_options import CodeOptions
from ...running import check_not_input, check_writable, complete_or_absent
from ...terminal.console import Progress, say
from .train_weights import directed

# settings of models that are of no use in training
NOT_TRAINED_WITH = ("dtype", "batch_tokens", "cache", "cache_bytes")
STAGES = ("texts", "embed", "search", "mine", "perturb", "label", "fit")
TEXTS_FOR_BOUNDS = 2000  # of a converted checkpoint
Tell = Callable[[int], None]
Validate = Callable[[Predict], float]


@settings
class FormatOptions:
    """How figures are printed.

    Args:
        format: how the figures are printed, text or json.
    """

    format: Literal["text", "json"] = "text"


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
    _print(parser.about["figures"], printing, lambda figures: figures_table(figures["test"]))
    say(f"{out}: {Path(out).stat().st_size / 1e6:.2f} MB")


def _print(figures: Any, printing: FormatOptions, table: Callable[[Any], str]) -> None:
    """Prints figures as JSON, or as a table."""
    text = json.dumps(figures) if printing.format == "json" else table(figures)
    sys.stdout.write(text + "\n")


def figures_table(figures: Mapping[str, Any]) -> str:
    """F1 with 95 % intervals by document."""
    rows = [["test documents", "F1", "95 %"]]
    for name, value in figures.items():
        for part, entry in _entries(name, value):
            interval = f"[{entry['low']:.1f}, {entry['high']:.1f}]"
            rows.append([part, f"{entry['f1']:.1f}", interval])
    return aligned(rows) + f"\n{figures['documents']} documents, {figures['sentences']} sentences"


def _entries(name: str, value: Any) -> list[tuple[str, Mapping[str, float]]]:
    if not isinstance(value, Mapping):
        return []
    if "f1" in value:
        return [(name, value)]
    return [(f"{name}: {part}", entry) for part, entry in value.items()]


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
    _print(figures, printing, roles_figures)


def roles_figures(figures: Mapping[str, Any]) -> str:
    """The figures as text."""
    interval = f"[{figures['low']:.1f}, {figures['high']:.1f}]"
    rows = [["test documents", "%", "95 %"]]
    rows.append(["accuracy", f"{figures['accuracy']:.1f}", interval])
    rows.append(["most frequent role", f"{figures['majority']:.1f}", ""])
    rows.append(["macro F1", f"{figures['macro_f1']:.1f}", ""])
    rows += [[f"F1 {name}", f"{value:.1f}", ""] for name, value in figures["f1"].items()]
    return f"{aligned(rows)}\n{figures['documents']} documents, {figures['sentences']} sentences"


@settings
class TrainSEScore2Options:
    """What is trained on and where the model goes.

    Args:
        input: texts of the language, one per line, or JSON lines with --text-field (.gz too).
        output: the folder of the model.
        work: the folder that stages are kept in; beside the model if not given.
        encoder_path: the encoder of checkpoints that come without configuration and tokenizer.
        text_field: the field of JSON lines with a text or a list of texts.
        source_field: the field with their sources, for severity under a cross-lingual model.
        validation: rated texts that pick the best weights: JSON lines with hypothesis, reference or references, score.
            Never the data that the metric is tested on. Held-out synthetic pairs if not given.
        validation_score: the field of the rating, NAME, or NAME:lower where lower is better.
    """

    input: tuple[str, ...] = ()
    output: str | None = None
    work: str | None = None
    encoder_path: Annotated[str | None, Rare()] = None
    text_field: str | None = None
    source_field: str | None = None
    validation: str | None = None
    validation_score: str = "score"


@command(
    "Train the metric sescore2 on texts. An interrupted run resumes with the same command. A first argument names one "
    f"stage to run alone, each needs those before it: {', '.join(STAGES)}; or convert, which makes a folder of a "
    "released checkpoint, with bounds for rescaling if texts follow it.",
    name="train sescore2",
    positional={"input": "*"},
    short={"output": "o"},
    hidden=NOT_TRAINED_WITH,
    first=["input", "output", "validation", "device"],
    examples=[
        "train sescore2 texts.txt -o sescore2",
        "train sescore2 convert sescore2_en.ckpt -o sescore2",
        "metrics sescore2",
    ],
)
def sescore2(
    options: TrainSEScore2Options,
    synthesis: Synthesis,
    severity: Severity,
    training: Training,
    code: CodeOptions,
    models: ModelOptions,
) -> None:
    """Trains."""
    out, device = Path(needed(options.output, "output")), models.device
    first, stage = options.input[:1], ""
    if first and first[0] in (*STAGES, "convert"):
        stage = first[0]
        options = replace(options, input=options.input[1:])
    use = f'{out}: use it as sescore2(model="{out}")'
    if stage == "convert":
        checkpoint, *paths = needed(options.input, "input", "CHECKPOINT")
        texts = [text for text, _ in read_texts(paths, options.text_field)] if paths else []
        convert(Path(checkpoint), out, options.encoder_path, texts[:TEXTS_FOR_BOUNDS], device)
        say(use)
        return
    work = Path(options.work or f"{out}.work")
    rated = None
    # what would fail at the end is checked at the start
    if stage in ("", "fit"):
        check_free(out)
        rated = _rated(options)
    for name in (stage,) if stage else STAGES:
        if name == "fit":
            done = _fit(training, rated, work, out, device)
        elif name == "texts":
            paths = list(needed(options.input, "input", "TEXTS"))
            pairs = read_texts(paths, options.text_field, options.source_field)
            with Progress("texts", lambda: None) as progress:
                done = write_texts(work, pairs, synthesis, progress)
        else:
            done = _made(name, work, synthesis, severity, code, device)
        counts = [f"{n} {noun}" for noun, n in (done.counts or {}).items()]
        say(f"{name}: {', '.join(counts)}")
    if stage in ("", "fit"):
        say(use)


def _made(
    name: str,
    work: Path,
    synthesis: Synthesis,
    severity: Severity,
    code: CodeOptions,
    device: str | None,
) -> Stage:
    """A stage between the texts and the model, made while progress is shown."""
    total = finished(work / "texts").counts or {}
    with _bar("texts", total.get("kept", 0)) as tell:
        if name == "embed":
            return embed(work, synthesis, device, tell)
        if name == "search":
            return search(work, synthesis, device, tell)
        if name == "mine":
            return mine(work, synthesis, tell)
        if name == "perturb":
            return perturb(work, synthesis, tell)
        # a stage may name the module of --words, which the user names, and those of --allow-code
        words = synthesis.words
        own = [words.partition(":")[0]] if is_function_name(words) else []
        allowed = AllowedCode.of([*code.allow_code, *filter(None, own)])
        return label(work, severity, device, tell, allowed=allowed)


def _rated(options: TrainSEScore2Options) -> list[RatedText] | None:
    """The rated texts that pick the best weights; None where there are none."""
    if not options.validation:
        return None
    field, lower = directed(options.validation_score, "validation_score")
    return read_rated(options.validation, field, lower)


def _fit(
    training: Training, rated: list[RatedText] | None, work: Path, out: Path, device: str | None
) -> Stage:
    """Trains the model and says how good it is at every validation."""
    measure, validate, validation = "correlation held out", None, None
    if rated is not None:
        measure, validate = "Kendall", validator(rated)
        digest = blake2b(repr(rated).encode("utf-8", "surrogatepass"), digest_size=16)
        validation = digest.hexdigest()
    share = 0.0
    with Progress("steps", lambda: share) as progress:

        def tell(now: TrainingProgress) -> None:
            nonlocal share
            share = now.step / now.steps
            progress(now.step)
            if now.validation is not None:
                quality = f"{measure} {now.validation:.4f}"
                say(f"step {now.step}: loss {now.loss:.2f}, {quality}")

        stage = fit(work, out, training, device, validate, validation, tell)
    if validate is None and not (stage.counts or {}).get("held out"):
        few = f"pairs are held out from {FEWEST_TO_HOLD_OUT} texts on"
        say(f"fit: no validation ({few}): the weights of the last step are kept")
    return stage


def validator(rated: Sequence[RatedText]) -> Validate:
    """Kendall's tau-b of a model's scores, against the best of several references, with those of people."""
    hypotheses = [row.hypothesis for row in rated for _ in row.references]
    references = [text for row in rated for text in row.references]
    starts = np.cumsum([0, *(len(row.references) for row in rated)])[:-1]
    human = [row.score for row in rated]

    def validate(predict: Predict) -> float:
        best = np.maximum.reduceat(predict(hypotheses, references), starts)
        return tau_b(best.tolist(), human) or 0.0

    return validate


@contextmanager
def _bar(unit: str, total: int) -> Iterator[Tell]:
    """Shows how many of a known number are done."""
    done = 0
    with Progress(unit, lambda: done / total if total else None) as progress:

        def tell(now: int) -> None:
            nonlocal done
            done = min(now, total)
            progress(done)

        yield tell
