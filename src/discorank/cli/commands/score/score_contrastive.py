"""``discorank score --contrastive FILE -m METRIC ...``: how often each metric ranks the correct translation first."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ....integrations.formats.selection_files import read_contrastive
from ....metrics.errors import InputError
from ....metrics.storage.line_source import LineSource
from ....rerank.engines.local import LocalEngine
from ....rerank.runs.rows import as_line
from ....rerank.selection.contrastive import (
    Accuracy,
    ContrastiveAccuracy,
    ContrastiveItem,
    Tally,
    Verdict,
    verdicts,
)
from ....tables import Column, Table, count, decimals, printed_rows, words
from ...options import needed
from ...options.inputs import cache_in, check_model, metric_in
from ...row_files import complete_rows
from ...running import check_not_input
from ...terminal.console import Progress, say
from ...terminal.watching import judged_line


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
        complete_rows(out) if out else nullcontext() as file,
        Progress("items", source.fraction, values["quiet"]) as progress,
    ):
        engine = LocalEngine(cache_in(values))
        for item, by_metric in verdicts(metrics, read_contrastive(source), engine):
            for tally, verdict in zip(tallies, by_metric, strict=True):
                tally.add(item, verdict)
            notes.update(_notes(item, by_metric))
            if file:
                file.write(as_line(_item_row(item, signatures, by_metric)))
            progress(notes["items"])
        if not notes:
            raise InputError("no items", where=source.name, fix="Give at least one line")
    counts = ", ".join(f"{n} {name}" for name, n in notes.items() if n)
    say(f"{source.name}: {counts}", values["quiet"])
    if judged := judged_line(engine.status().work):
        say(judged, values["quiet"])
    accuracies = [tally.accuracy() for tally in tallies]
    tables = [
        Table(signature, ITEM_COLUMNS, list(_group_rows(signature, accuracy)))
        for signature, accuracy in zip(signatures, accuracies, strict=True)
    ]
    sys.stdout.write(printed_rows(tables, values["format"]))
    return 0


def _notes(item: ContrastiveItem, by_metric: Sequence[Verdict]) -> dict[str, int]:
    """What the reader of the accuracies should know of an item."""
    flags = sorted({flag for verdict in by_metric for flag in verdict.flags})
    is_repeated = item.correct in item.contrastive
    return {
        "items": 1,
        **{f"with {flag}": 1 for flag in flags},
        "with the correct text among the contrastive": int(is_repeated),
    }


def _item_row(
    item: ContrastiveItem, signatures: Sequence[str], by_metric: Sequence[Verdict]
) -> dict[str, Any]:
    """The item's line of the output."""
    ranks: dict[str, dict[str, Any]] = {}
    for signature, verdict in zip(signatures, by_metric, strict=True):
        ranks[signature] = {
            "rank": verdict.rank,
            "ties": verdict.ties,
            "utilities": verdict.utilities.tolist(),
        }
        if verdict.flags:
            ranks[signature]["flags"] = list(verdict.flags)
    return {"id": item.id, "phenomenon": item.phenomenon, "distance": item.distance, "ranks": ranks}


def _group_rows(signature: str, accuracy: ContrastiveAccuracy) -> Iterator[dict[str, Any]]:
    """The accuracy on all items and on every group of them."""
    yield _group_row(signature, "all", None, accuracy.overall)
    for by in ("phenomenon", "distance"):
        for value, of_group in getattr(accuracy, by).items():
            yield _group_row(signature, by, value, of_group)


def _group_row(signature: str, by: str, value: Any, accuracy: Accuracy) -> dict[str, Any]:
    return {
        "metric": signature,
        "by": by,
        "value": value,
        "n": accuracy.n,
        "correct": accuracy.correct,
        "accuracy_percent": accuracy.percent,
        "ties": accuracy.ties,
        "interval_percent": list(accuracy.interval_percent()),
    }


def _label(by: str, value: Any) -> str:
    if by == "all":
        return by
    shown = "unknown" if value is None else str(value)
    return f"{by} {shown if shown.isprintable() else repr(shown)}"


ITEM_COLUMNS = (
    Column("items", ("by", "value"), _label, is_words=True),
    count("n", "n"),
    count("correct", "correct"),
    decimals("accuracy %", "accuracy_percent", 1),
    count("ties", "ties"),
    Column("95 % interval", ("interval_percent",), lambda ends: "{:.1f} to {:.1f}".format(*ends)),
)
