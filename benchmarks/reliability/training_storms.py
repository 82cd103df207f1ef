"""Storms for ``train sescore2``, from texts to a model."""

from __future__ import annotations

from pathlib import Path

from benchmarks.reliability.storms import ROOT, Target
from benchmarks.same_outputs.inputs import write_training

ENCODER = str(ROOT / "tests" / "golden" / "sescore2" / "tiny_encoder")
SMALL = (
    *("--encoder", ENCODER, "--backbone", ENCODER, "--neighbours", "8", "--margin", "0.9"),
    *("--batch-size", "4", "--device", "cpu", "--quiet"),
)
EPOCHS = 40
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


def words(own: Path, source: Path) -> list[str]:
    """The command."""
    model = ("-o", str(own / "model"), "--epochs", str(EPOCHS))
    return ["train", "sescore2", str(source), *model, *SMALL]


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
