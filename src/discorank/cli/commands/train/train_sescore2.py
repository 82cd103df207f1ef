"""``discorank train sescore2 [STAGE] TEXTS ... -o MODEL``: trains the metric sescore2 on texts without ratings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from ....integrations.formats.corpora import RatedText, read_rated, read_texts
from ....metrics.errors import InputError
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
from ....rerank.selection.statistics import tau_b
from ...options import Options, build, needed
from ...options.inputs import CodeOptions
from ...terminal.console import Progress, say

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


OPTIONS = Options(
    "train sescore2",
    "Train the metric sescore2 on texts. An interrupted run goes on with the same command. A first argument names one "
    f"stage to run alone, each needs those before it: {', '.join(STAGES)}; or convert, which makes a folder of a "
    "released checkpoint, with bounds for rescaling if texts follow it.",
    [TrainSEScore2Options, Synthesis, Severity, Training, CodeOptions],
    positional={"input": "*"},
    short={"output": "o"},
)


def run(arguments: Sequence[str]) -> int:
    """Trains; returns the exit code."""
    stage = arguments[0] if arguments and arguments[0] in (*STAGES, "convert") else None
    values = OPTIONS.parse(arguments[1:] if stage else arguments)
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
    """What says how good a model is, and the digest of its rated texts; neither where there are none."""
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
        return tau_b(best.tolist(), human) or 0.0

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
