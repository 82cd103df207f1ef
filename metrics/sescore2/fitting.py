"""The stage that trains the model on labelled pairs (see `regression_training`) and writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..neural.models.files import model_files as files
from .job_stages import Stage, finished, opened
from .regression_training import Predict, Run, TrainingProgress
from .saved_models import check_free, stage_of
from .training_settings import Training, lasting


def fit(
    work: Path,
    out: Path,
    settings: Training,
    device: str | None = None,
    validate: Callable[[Predict], float] | None = None,
    validation: str | None = None,
    on_progress: Callable[[TrainingProgress], None] = lambda progress: None,
    before: str = "label",
    folder: str = "fit",
) -> Stage:
    """Trains on the pairs of a work folder and writes the model to `out`.

    Args:
        work: the work folder.
        out: the folder of the model.
        settings: the settings.
        device: where it is trained, unless the settings name several devices.
        validate: says how good a model is, higher is better; the correlation on pairs held out if not given.
        validation: the digest of the data of `validate`; a training is not resumed on other data.
        on_progress: called after every step.
        before: the stage with the pairs.
        folder: the stage of the training.

    Raises:
        ResumeError: the pairs are not there, or a training with other settings is.
        InputError: the training diverged.
        ModelLoadError: something else than a model of this kind stands at `out`.
    """
    check_free(out)
    pairs = finished(work / before)
    encoder = files.digest(files.locate(settings.backbone))
    identity = {
        "before": pairs.digest,
        "encoder": encoder,
        "validation": validation,
        **lasting(settings),
    }
    with opened(work / folder, identity) as stage:
        if not stage.complete or stage_of(out) != stage.digest:
            run = Run(stage, pairs, settings, device, validate, on_progress)
            counts = run.train()
            run.write(out)
            stage.finish(counts)
        return stage
