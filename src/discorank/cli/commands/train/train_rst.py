"""``discorank train rst TREEBANK -o WEIGHTS``: trains the discourse parser and prints how good it is."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ....metrics.rst.parser.training.parser_training import train as train_parser
from ....metrics.rst.parser.training.settings import ParserTraining
from ....metrics.rst.parser.weights import save as save_parser
from ....metrics.spec.checked_settings import settings
from ....tables import aligned
from ...options import Options, build, needed
from ...running import check_not_input, check_writable, complete_or_absent
from ...terminal.console import say


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
