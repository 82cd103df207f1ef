"""Golden values of the learned metrics, and changed copies of their tiny models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden"
# Texts that have broken tokenizers and networks before.
ODD = [
    "",
    " ",
    "\n\t",
    "word " * 2000,
    "</s><s> [SEP] [CLS] [PAD] <pad> <unk> <mask> <extra_id_10>",
    "\u200b\u00ad\ufeff",
    "ＦＵＬＬ　ｗｉｄｔｈ…",
    "e\u0301\u0301\u0301",
    "🎉👩\u200d👩\u200d👧",
    "\ud800 half a pair",
    "ا العربية",
    "。，！",
]


def cases_of(family: str) -> list[dict[str, Any]]:
    """The cases of a family whose values are required."""
    cases = json.loads((GOLDEN / family / "cases.json").read_text(encoding="utf-8"))["cases"]
    return [case for case in cases if case["required"]]


def grouped(
    cases: Sequence[Mapping[str, Any]], *keys: str
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Cases that have the same values of these keys together."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for case in cases:
        values = tuple(
            json.dumps(case[key]) if isinstance(case[key], dict) else case[key] for key in keys
        )
        groups.setdefault(values, []).append(case)
    return groups


def column(cases: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    """One value of every case."""
    return [case[key] for case in cases]


def copy_of(model: Path, to: Path) -> Path:
    """A copy of a model's folder that may be changed."""
    shutil.copytree(model, to)
    for path in to.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return to


def with_json(folder: Path, name: str, **changes: Any) -> Path:
    """The folder with some values of a JSON file changed; None takes one away."""
    path = folder / name
    values = json.loads(path.read_text(encoding="utf-8"))
    for key, value in changes.items():
        values[key] = value
        if value is None:
            del values[key]
    path.write_text(json.dumps(values), encoding="utf-8")
    return folder


def with_tensors(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The folder with the tensors of its model.safetensors or pytorch_model.bin changed in place."""
    import torch
    from safetensors.torch import load_file, save_file

    safetensors, pickled = folder / "model.safetensors", folder / "pytorch_model.bin"
    if safetensors.exists():
        state = load_file(safetensors)
        change(state)
        save_file(state, safetensors)
        return folder
    state = torch.load(pickled, weights_only=True)
    change(state)
    torch.save(state, pickled)
    return folder
