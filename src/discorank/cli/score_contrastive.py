"""``discorank score --contrastive FILE -m METRIC ...``: how often each metric ranks the correct translation first."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..integrations.formats.contrastive_items import read_contrastive
from ..metrics.errors import InputError
from ..metrics.text.line_source import LineSource
from ..rerank.engines.local import LocalEngine
from ..rerank.runs.rows import as_line
from ..rerank.selection.contrastive import (
    Accuracy,
    ContrastiveAccuracy,
    ContrastiveItem,
    Tally,
    Verdict,
    verdicts,
)
from ..tables import aligned
from .console import Progress, say
from .inputs import cache_in, check_model, metric_in
from .options import needed
from .running import check_not_input, complete_or_absent


def run_contrastive(values: Mapping[str, Any]) -> int:
    """Ranks every item of the file; returns the exit code."""
    for name in ("input", "hypotheses", "references", "sources", "documents"):
        if values[name]:
            raise InputError(
                "stands beside --contrastive", where=f"--{name}", fix="Give one of them"
            )
    path, out = values["contrastive"], values["output"]
    metrics = [metric_in(values, spec) for spec in needed(values, "metric", "--metric")]
    check_model(values, metrics)
    check_not_input(out, [path])
    source = LineSource(path)
    signatures = [metric.signature() for metric in metrics]
    tallies, notes = [Tally() for _ in metrics], Counter[str]()
    with (
        complete_or_absent(out) if out else nullcontext() as file,
        Progress("items", source.fraction, values["quiet"]) as progress,
    ):
        for item, found in verdicts(
            metrics, read_contrastive(source), LocalEngine(cache_in(values))
        ):
            for tally, verdict in zip(tallies, found, strict=True):
                tally.add(item, verdict)
            notes.update(_notes(item, found))
            if file:
                file.write(as_line(_row(item, signatures, found)))
            progress(notes["items"])
        if not notes:
            raise InputError("no items", where=source.name, fix="Give at least one line")
    accuracies = {
        signature: tally.accuracy() for signature, tally in zip(signatures, tallies, strict=True)
    }
    say(
        f"{source.name}: " + ", ".join(f"{n} {name}" for name, n in notes.items() if n),
        values["quiet"],
    )
    sys.stdout.write(_json(accuracies) if values["format"] == "json" else _text(accuracies))
    return 0


def _notes(item: ContrastiveItem, found: Sequence[Verdict]) -> dict[str, int]:
    """What the reader of the accuracies should know of an item."""
    return {
        "items": 1,
        **{
            f"with {flag}": 1
            for flag in sorted({flag for verdict in found for flag in verdict.flags})
        },
        "with the correct text among the contrastive": int(item.correct in item.contrastive),
        "with a utility that is not a number": int(
            any(np.isnan(verdict.utilities).any() for verdict in found)
        ),
    }


def _row(
    item: ContrastiveItem, signatures: Sequence[str], found: Sequence[Verdict]
) -> dict[str, Any]:
    """The item's line of the output."""
    ranks = {
        signature: {
            "rank": verdict.rank,
            "ties": verdict.ties,
            "utilities": verdict.utilities.tolist(),
        }
        | ({"flags": list(verdict.flags)} if verdict.flags else {})
        for signature, verdict in zip(signatures, found, strict=True)
    }
    return {"id": item.id, "phenomenon": item.phenomenon, "distance": item.distance, "ranks": ranks}


def _groups(found: ContrastiveAccuracy) -> Iterator[tuple[str, Any, Accuracy]]:
    """(by, value, accuracy) of the whole and of every group."""
    yield "all", None, found.overall
    for by in ("phenomenon", "distance"):
        for value, accuracy in getattr(found, by).items():
            yield by, value, accuracy


def _json(accuracies: Mapping[str, ContrastiveAccuracy]) -> str:
    rows = [
        {
            "metric": signature,
            "by": by,
            "value": value,
            "n": accuracy.n,
            "correct": accuracy.correct,
            "accuracy_percent": accuracy.percent,
            "ties": accuracy.ties,
            "interval_percent": list(accuracy.interval_percent()),
        }
        for signature, found in accuracies.items()
        for by, value, accuracy in _groups(found)
    ]
    return "".join(as_line(row).decode() for row in rows)


def _text(accuracies: Mapping[str, ContrastiveAccuracy]) -> str:
    """A table per metric, under its signature."""
    head = ["items", "n", "correct", "accuracy %", "ties", "95 % interval"]
    parts = []
    for signature, found in accuracies.items():
        rows = []
        for by, value, one in _groups(found):
            low, high = one.interval_percent()
            counts = [str(one.n), str(one.correct), f"{one.percent:.1f}", str(one.ties)]
            rows.append([_label(by, value), *counts, f"{low:.1f} to {high:.1f}"])
        parts.append(f"{signature}\n{aligned([head, *rows])}\n")
    return "\n".join(parts)


def _label(by: str, value: Any) -> str:
    if by == "all":
        return by
    shown = "unknown" if value is None else str(value)
    return f"{by} {shown if shown.isprintable() else repr(shown)}"
