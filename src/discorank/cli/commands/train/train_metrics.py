"""``discorank train rst TREEBANK -o WEIGHTS``: trains the discourse parser and prints how good it is.

``discorank train roles DOCUMENTS -o FOLDER``: trains a classifier of discourse roles and prints how good it is.

``discorank train sescore2 [STAGE] TEXTS ... -o MODEL``: trains the metric sescore2 on texts without ratings.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ....integrations.formats.corpora import RatedText, read_rated, read_texts
from ....metrics.discourse.roles.training.role_training import RoleTraining
from ....metrics.discourse.roles.training.role_training import train as train_classifier
from ....metrics.errors import InputError
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
from ....metrics.spec.checked_settings import settings
from ....metrics.spec.user_code import AllowedCode, is_function_name
from ....rerank.selection.statistics import correlation
from ....tables import aligned
from ...options import Options, build, needed
from ...options.inputs import CodeOptions
from ...running import check_not_input, check_writable, complete_or_absent
from ...terminal.console import Progress, say


@settings
class TrainRSTOptions:
    """What is trained on and where the weights go.

    Args:
        input: the treebank, JSONL (.gz too): per document id, edus, sent and tree; see the documentation of
            discorank.metrics.rst.parser.training.treebank.
        output: the file of weights, .npz.
        format: how the figures are printed, text or json.
    """

    input: str | None = None
    output: str | None = None
    format: Literal["text", "json"] = "text"


RST_OPTIONS = Options(
    "train rst",
    "Train the discourse parser on a treebank. Figures on its test documents go to stdout.",
    [TrainRSTOptions, ParserTraining],
    positional={"input": "?"},
    short={"output": "o"},
    first=["input", "output", "format", "device"],
    examples=[
        "train rst gum/rst -o parser",
        "train rst gum/rst -o parser --format json",
        "decode examples:summaries.jsonl -u dr",
    ],
)


def run_rst(arguments: Sequence[str]) -> int:
    """Trains; returns the exit code."""
    values = RST_OPTIONS.parse(arguments)
    data = Path(needed(values, "input", "TREEBANK"))
    out = Path(needed(values, "output", "--output"))
    check_not_input(out, [str(data)])
    check_writable(str(out))
    training = build(ParserTraining, values)
    parser = train_parser(training, data, lambda text: say(text, values["quiet"]))
    with complete_or_absent(str(out)) as file:
        save_parser(file, parser.arrays, parser.about)
    figures = parser.about["figures"]
    text = json.dumps(figures) if values["format"] == "json" else figures_table(figures["test"])
    sys.stdout.write(text + "\n")
    say(f"{out}: {out.stat().st_size / 1e6:.2f} MB", values["quiet"])
    return 0


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
        format: how the figures are printed, text or json.
    """

    input: str | None = None
    output: str | None = None
    format: Literal["text", "json"] = "text"


ROLES_OPTIONS = Options(
    "train roles",
    "Train a classifier of discourse roles for pdd and role-match. Figures on its test documents go to stdout.",
    [TrainRolesOptions, RoleTraining],
    positional={"input": "?"},
    short={"output": "o"},
    first=["input", "output", "format", "device"],
    examples=[
        "train roles labelled.jsonl -o roles",
        "train roles labelled.jsonl -o roles --format json",
        "metrics pdd",
    ],
)


def run_roles(arguments: Sequence[str]) -> int:
    """Trains; returns the exit code."""
    values = ROLES_OPTIONS.parse(arguments)
    data = Path(needed(values, "input", "DOCUMENTS"))
    out = Path(needed(values, "output", "--output"))
    check_not_input(out, [str(data)])
    training = build(RoleTraining, values)
    figures = train_classifier(
        training, data, out, values["device"], lambda text: say(text, values["quiet"])
    )
    text = json.dumps(figures) if values["format"] == "json" else roles_figures(figures)
    sys.stdout.write(text + "\n")
    return 0


def roles_figures(figures: Mapping[str, Any]) -> str:
    """The figures as text."""
    interval = f"[{figures['low']:.1f}, {figures['high']:.1f}]"
    rows = [["test documents", "%", "95 %"]]
    rows.append(["accuracy", f"{figures['accuracy']:.1f}", interval])
    rows.append(["most frequent role", f"{figures['majority']:.1f}", ""])
    rows.append(["macro F1", f"{figures['macro_f1']:.1f}", ""])
    rows += [[f"F1 {name}", f"{value:.1f}", ""] for name, value in figures["f1"].items()]
    return f"{aligned(rows)}\n{figures['documents']} documents, {figures['sentences']} sentences"


STAGES = ("texts", "embed", "search", "mine", "perturb", "label", "fit")
TEXTS_FOR_BOUNDS = 2000  # of a converted checkpoint
Tell = Callable[[int], None]
Validate = Callable[[Predict], float]


@settings
class TrainSEScore2Options:
    """What is trained on and where the model goes.

    Args:
        input: texts of the language, one per line, or JSON lines with --text-field (.gz too).
        output: the folder of the model.
        work: the folder that stages are kept in; beside the model if not given.
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


SESCORE2_OPTIONS = Options(
    "train sescore2",
    "Train the metric sescore2 on texts. An interrupted run resumes with the same command. A first argument names one "
    f"stage to run alone, each needs those before it: {', '.join(STAGES)}; or convert, which makes a folder of a "
    "released checkpoint, with bounds for rescaling if texts follow it.",
    [TrainSEScore2Options, Synthesis, Severity, Training, CodeOptions],
    positional={"input": "*"},
    short={"output": "o"},
    first=["input", "output", "validation", "device"],
    examples=[
        "train sescore2 texts.txt -o sescore2",
        "train sescore2 convert sescore2_en.ckpt -o sescore2",
        "metrics sescore2",
    ],
)


def run_sescore2(arguments: Sequence[str]) -> int:
    """Trains; returns the exit code."""
    stage = arguments[0] if arguments and arguments[0] in (*STAGES, "convert") else None
    values = SESCORE2_OPTIONS.parse(arguments[1:] if stage else arguments)
    out = Path(needed(values, "output", "--output"))
    if stage == "convert":
        return _convert(values, out)
    work = Path(values["work"] or f"{out}.work")
    validate, validation = None, None
    # what would fail at the end is checked at the start
    if stage in (None, "fit"):
        check_free(out)
        validate, validation = _validation(values)
    for name in STAGES if stage is None else (stage,):
        if name == "fit":
            finished_stage = _fit(values, work, out, validate, validation)
        else:
            finished_stage = _run_stage(name, values, work)
        counts = [f"{n} {noun}" for noun, n in (finished_stage.counts or {}).items()]
        say(f"{name}: {', '.join(counts)}", values["quiet"])
    if stage in (None, "fit"):
        say(f'{out}: use it as sescore2(model="{out}")', values["quiet"])
    return 0


def _run_stage(name: str, values: Mapping[str, Any], work: Path) -> Stage:
    """Runs a stage before the last, while progress is shown."""
    synthesis, device = build(Synthesis, values), values["device"]
    if name == "texts":
        paths = needed(values, "input", "TEXTS")
        pairs = read_texts(paths, values["text_field"], values["source_field"])
        with Progress("texts", lambda: None, values["quiet"]) as progress:
            return write_texts(work, pairs, synthesis, progress)
    total = finished(work / "texts").counts or {}
    with _bar("texts", total.get("kept", 0), values["quiet"]) as tell:
        if name == "embed":
            return embed(work, synthesis, device, tell)
        if name == "search":
            return search(work, synthesis, device, tell)
        if name == "mine":
            return mine(work, synthesis, tell)
        if name == "perturb":
            return perturb(work, synthesis, tell)
        return label(work, build(Severity, values), device, tell, allowed=_allowed(values))


def _allowed(values: Mapping[str, Any]) -> AllowedCode:
    """Whose code a stage may name: the module of --words, which the user names, and --allow-code."""
    own = values["words"].partition(":")[0] if is_function_name(values["words"]) else ""
    return AllowedCode.of([*values["allow_code"], *filter(None, [own])])


def _validation(values: Mapping[str, Any]) -> tuple[Validate | None, str | None]:
    """The measure of a model's quality, and the digest of its rated texts; neither where there are none."""
    if not values["validation"]:
        return None, None
    field, _, direction = values["validation_score"].partition(":")
    if direction not in ("", "lower", "higher"):
        fix = "Expected NAME or NAME:lower"
        raise InputError(
            f"found {values['validation_score']!r}", where="--validation-score", fix=fix
        )
    rated = read_rated(values["validation"], field, direction == "lower")
    digest = blake2b(repr(rated).encode("utf-8", "surrogatepass"), digest_size=16)
    return validator(rated), digest.hexdigest()


def _fit(
    values: Mapping[str, Any],
    work: Path,
    out: Path,
    validate: Validate | None,
    validation: str | None,
) -> Stage:
    """Trains the model and says how good it is at every validation."""
    quiet = values["quiet"]
    measure = "Kendall" if validate else "correlation held out"
    share = 0.0
    with Progress("steps", lambda: share, quiet) as progress:

        def tell(now: TrainingProgress) -> None:
            nonlocal share
            share = now.step / now.steps
            progress(now.step)
            if now.validation is not None:
                quality = f"{measure} {now.validation:.4f}"
                say(f"step {now.step}: loss {now.loss:.2f}, {quality}", quiet)

        training = build(Training, values)
        stage = fit(work, out, training, values["device"], validate, validation, tell)
    if validate is None and not (stage.counts or {}).get("held out"):
        few = f"pairs are held out from {FEWEST_TO_HOLD_OUT} texts on"
        say(f"fit: no validation ({few}): the weights of the last step are kept", quiet)
    return stage


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


def _convert(values: Mapping[str, Any], out: Path) -> int:
    """Makes a folder of a released checkpoint; returns the exit code."""
    checkpoint, *paths = needed(values, "input", "CHECKPOINT")
    texts = [text for text, _ in read_texts(paths, values["text_field"])] if paths else []
    few_texts = texts[:TEXTS_FOR_BOUNDS]
    convert(Path(checkpoint), out, values["encoder_path"], few_texts, values["device"])
    say(f'{out}: use it as sescore2(model="{out}")', values["quiet"])
    return 0


@contextmanager
def _bar(unit: str, total: int, quiet: bool) -> Iterator[Tell]:
    """Shows how many of a known number are done."""
    done = 0
    with Progress(unit, lambda: done / total if total else None, quiet) as progress:

        def tell(now: int) -> None:
            nonlocal done
            done = min(now, total)
            progress(done)

        yield tell
