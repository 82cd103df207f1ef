"""``discorank accuracy FILE -m METRIC ...``: how often each metric ranks the correct translation first.

A line of the file has a correct translation and contrastive ones that are wrong (JSONL of contrastive items).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Literal

from ...integrations.formats.selection_files import read_contrastive
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import settings
from ...metrics.storage.line_source import LineSource
from ...rerank.engines.local import LocalEngine
from ...rerank.runs.row_forms import as_line
from ...rerank.selection.contrastive import (
    Accuracy,
    ContrastiveAccuracy,
    ContrastiveItem,
    Tally,
    Verdict,
    verdicts,
)
from ...tables import Column, Table, decimals, printed_rows, whole
from ..options import command, needed
from ..options.metric_options import MetricOptions
from ..options.output_formats import OutputOptions
from ..running import check_not_input, complete_rows
from ..terminal.console import Progress, say
from ..terminal.watching import judged_line


@settings
class AccuracyOptions:
    """What is ranked, and by what.

    Args:
        input: JSONL of contrastive items: source, reference, contrastive texts, and what the metrics need.
        metric: metrics by name or signature.
        format: what is printed for each metric, text or json.
    """

    input: str | None = None
    metric: tuple[str, ...] = ()
    format: Literal["text", "json"] = "text"


@command(
    "Count how often metrics rank the correct translation before contrastive ones. Tables go to stdout, a row per item "
    "to -o.",
    positional={"input": "?"},
    short={"metric": "m", "output": "o"},
    first=["input", "metric", "output", "format"],
    examples=[
        "accuracy examples:contrastive.jsonl -m chrf",
        "accuracy examples:contrastive.jsonl -m chrf bleu -o ranks.jsonl",
        "accuracy examples:contrastive.jsonl -m ter --format json",
    ],
)
def accuracy(options: AccuracyOptions, to: OutputOptions, loading: MetricOptions) -> None:
    """Ranks every item of the file."""
    path = needed(options.input, "input", "INPUT")
    metrics = loading.beside(to.output).load_all(needed(options.metric, "metric"))
    check_not_input(to.output, [path])
    source, engine = LineSource(path), LocalEngine(loading.cache())
    signatures = [metric.signature() for metric in metrics]
    tallies, notes = [Tally() for _ in metrics], Counter[str]()
    with (
        complete_rows(to.output) if to.output else nullcontext() as file,
        Progress("items", source.fraction) as progress,
    ):
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
    say(f"{source.name}: {counts}")
    if judged := judged_line(engine.status().work):
        say(judged)
    tables = [
        Table(signature, ITEM_COLUMNS, list(_group_rows(signature, tally.accuracy())))
        for signature, tally in zip(signatures, tallies, strict=True)
    ]
    sys.stdout.write(printed_rows(tables, options.format))


def _notes(item: ContrastiveItem, by_metric: Sequence[Verdict]) -> dict[str, int]:
    """Notes on the accuracies of an item."""
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
    whole("n", "n"),
    whole("correct", "correct"),
    decimals("accuracy %", "accuracy_percent", 1),
    whole("ties", "ties"),
    Column("95 % interval", ("interval_percent",), lambda ends: "{:.1f} to {:.1f}".format(*ends)),
)
