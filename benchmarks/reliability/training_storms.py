"""Storms for ``train sescore2``: all its stages, and within the last, which trains the model."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reliability.storms import ROOT, Target, undisturbed
from benchmarks.same_outputs.inputs import write_training

ENCODER = str(ROOT / "tests" / "golden" / "sescore2" / "tiny_encoder")
SMALL = (
    *("--encoder", ENCODER, "--backbone", ENCODER, "--neighbours", "8", "--margin", "0.9"),
    *("--batch-size", "4", "--device", "cpu", "--quiet"),
)
EPOCHS = 4
STAGES_BEFORE_FIT = ("texts", "embed", "search", "perturb", "label")
WHOLE = "a model stands there whole or not at all"
ABOUT = "sescore2.json"  # is in every model


def texts(folder: Path) -> Path:
    """Some eighty sentences."""
    folder.mkdir(parents=True, exist_ok=True)
    write_training(folder)
    return folder / "texts.txt"


def half_a_model(own: Path) -> list[str]:
    """What is wrong with a model that stands there without being whole."""
    model = own / "model"
    needed = {ABOUT, "config.json", "model.safetensors", "estimator.safetensors"}
    if not model.exists():
        return []
    missing = needed - {path.name for path in model.iterdir()}
    return [f"{model}: stands there without {', '.join(sorted(missing))}"] if missing else []


def words(own: Path, source: Path, stage: Sequence[str] = ()) -> list[str]:
    """The command; its states are saved after every step where it is `fit` alone."""
    often = ("--save-every-seconds", "0" if stage else "0.3")
    model = ("-o", str(own / "model"), "--epochs", str(EPOCHS))
    return ["train", "sescore2", *stage, str(source), *model, *SMALL, *often]


def all_stages(folder: Path) -> Target:
    """From texts to a model."""
    source = texts(folder)
    return Target(
        "train-sescore2",
        "train sescore2",
        lambda own: words(own, source),
        promise_after=WHOLE,
        wrong_after=half_a_model,
    )


def within_fit(folder: Path) -> Target:
    """The training alone, where the stages before it are finished.

    Raises:
        RuntimeError: a stage before fails.
    """
    source = texts(folder)
    before = folder / "before"
    before.mkdir()
    for stage in STAGES_BEFORE_FIT:
        ended, _ = undisturbed(words(before, source, (stage,)), before)
        if ended.code:
            raise RuntimeError(f"train sescore2 {stage}: {ended.said}")
    return Target(
        "train-sescore2-fit",
        "train sescore2 fit",
        lambda own: words(own, source, ("fit",)),
        prepare=lambda own: shutil.copytree(before, own, dirs_exist_ok=True),
        promise_after=WHOLE,
        wrong_after=half_a_model,
    )
