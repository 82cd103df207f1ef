"""``discorank train roles DOCUMENTS -o FOLDER``: trains a classifier of discourse roles and prints how good it is."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ....metrics.discourse.roles.training.role_training import RoleTraining
from ....metrics.discourse.roles.training.role_training import train as train_classifier
from ....metrics.spec.checked_settings import settings
from ....tables import aligned
from ...options import Options, build, needed
from ...running import check_not_input
from ...terminal.console import say


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
)


def run_roles(arguments: Sequence[str]) -> int:
    """Trains; returns the exit code."""
    values = ROLES_OPTIONS.parse(arguments)
    data = Path(needed(values, "input", "DOCUMENTS"))
    out = Path(needed(values, "output", "--output"))
    check_not_input(out, [str(data)])
    training = build(RoleTraining, values)
    figures = train_classifier(training, data, out, values["device"], lambda text: say(text, values["quiet"]))
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
