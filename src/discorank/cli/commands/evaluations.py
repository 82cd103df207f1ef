"""Accuracies of metrics on contrastive items, and of votes on answers.

``discorank accuracy FILE -m METRIC ...``: how often each metric ranks the correct translation first. A line of the file
has a correct translation and contrastive ones that are wrong.

``discorank pass-at LISTS -m vote(...) --at 1 4 16``: pass@k and maj@k of candidate lists with references.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from math import sqrt
from typing import Any, Literal

import numpy as np

from ...integrations.formats.open_lists import open_lists
from ...integrations.formats.selection_files import read_contrastive
from ...metrics.errors import DiscorankError, InputError
from ...metrics.lexical.vote import Vote
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
from ...metrics.spec.checked_settings import settings
from ...metrics.storage.line_source import LineSource
from ...rerank.engines.local import LocalEngine
from ...rerank.lists import CandidateList
from ...rerank.runs.resumable import as_line
from ...rerank.selection.answer_accuracy import answers_of, majority_at
from ...rerank.selection.answer_accuracy import pass_at as chance_at
from ...rerank.selection.contrastive import (
    Accuracy,
    ContrastiveAccuracy,
    ContrastiveItem,
    Tally,
    Verdict,
    verdicts,
)
from ...tables import Column, Table, decimals, metric_names, printed_rows, whole
from ..options import command, needed
from ..options.decoders import MetricOptions
from ..options.output_formats import OutputOptions
from ..running import check_not_input, complete_rows
from ..terminal.console import Progress, say
from ..terminal.watching import judged_line

Z = 1.96  # of a normal interval of 95 %
ListScores = dict[str, dict[str, dict[str, float]]]  # of a list, by signature, k and kind


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


ANSWER_COLUMNS = (
    metric_names("metric", "metric"),
    whole("k", "k"),
    decimals("pass@k", "pass"),
    Column("95 % interval", ("pass_interval",), lambda ends: "{:.4f} to {:.4f}".format(*ends)),
    decimals("maj@k", "majority"),
    Column("95 % interval", ("majority_interval",), lambda ends: "{:.4f} to {:.4f}".format(*ends)),
    whole("lists", "lists"),
)


@settings
class PassAtOptions:
    """Which lists, and which numbers of candidates.

    Args:
        input: candidate lists with references.
        input_format: their format, if it is not JSONL, such as lm-eval.
        columns: which column of a table, or key of JSON lines, is which key, such as candidates=samples.
        metric: vote, with its settings; several to compare.
        at: k of pass@k and maj@k.
        format: what is printed, text or json.
    """

    input: str | None = None
    input_format: str = "jsonl"
    columns: tuple[str, ...] = ()
    metric: tuple[str, ...] = ()
    at: tuple[int, ...] = (1,)
    format: Literal["text", "json"] = "text"


@command(
    "Count how often k candidates hold a right answer (pass@k), and how often their vote is right (maj@k). The table "
    "goes to stdout, a row per list to -o.",
    name="pass-at",
    positional={"input": "?"},
    short={"metric": "m", "output": "o"},
    first=["input", "metric", "at", "input_format", "output", "format"],
    examples=[
        "pass-at examples:answers.jsonl -m 'vote(answer=\"boxed\")'",
        "pass-at examples:answers.jsonl -m 'vote(answer=\"boxed\")' --at 1 4 -o counted.jsonl",
        'pass-at examples:answers.jsonl -m \'vote(answer="boxed",agree="value")\' --format json',
    ],
)
def pass_at(options: PassAtOptions, to: OutputOptions, loading: MetricOptions) -> None:
    """Counts the answers of every list."""
    path, at = needed(options.input, "input", "LISTS"), options.at
    utilities = loading.load_all(needed(options.metric, "metric"))
    metrics = [_vote(utility) for utility in utilities]
    check_not_input(to.output, [path])
    scores: list[ListScores] = []
    num_without = 0
    with (
        complete_rows(to.output) if to.output else nullcontext() as file,
        open_lists(path, options.input_format, columns=options.columns) as lists,
        Progress("lists", lists.fraction) as progress,
    ):
        for record in lists.records():
            if record.context_only:
                continue
            row, without = _counted(record, metrics, at)
            scores.append(row["scores"])
            num_without += without
            if file:
                file.write(as_line(row))
            progress(len(scores))
    if not scores:
        raise InputError("no lists", where=path, fix="Give at least one line")
    say(f"{path}: {len(scores)} lists, {num_without} candidates without an answer")
    rows = [_means(metric.signature(), k, scores) for metric in metrics for k in at]
    sys.stdout.write(printed_rows([Table("", ANSWER_COLUMNS, rows)], options.format))


def _vote(metric: Utility) -> Vote:
    """The metric; raises InputError for one that is not `vote`."""
    if not isinstance(metric, Vote):
        fix = 'Name vote, such as vote(answer="boxed",agree="value")'
        raise InputError(f"{metric.signature()} has no answers", where="metric", fix=fix)
    return metric


def _counted(
    record: CandidateList, metrics: Sequence[Vote], at: Sequence[int]
) -> tuple[dict[str, Any], int]:
    """The list's line of the output, and how many candidates have no answer under some metric; errors name the list.

    Counts in the line are those of the first metric.
    """
    try:
        answers = [answers_of(record, metric) for metric in metrics]
        scores: ListScores = {}
        for metric, own in zip(metrics, answers, strict=True):
            scores[metric.signature()] = {
                str(k): {"pass": chance_at(own, k), "majority": majority_at(own, k)} for k in at
            }
    except DiscorankError as error:
        raise error.inside(f"list {record.id!r}") from None
    first = answers[0]
    row = {
        "id": record.id,
        "candidates": first.candidates,
        "right": sum(first.right),
        "without_answer": first.without,
        "answers": len(first.right) + len(first.wrong),
        "scores": scores,
    }
    return row, max(own.without for own in answers)


def _means(signature: str, k: int, scores: Sequence[ListScores]) -> dict[str, Any]:
    """A row of the table: means over lists, and their intervals."""
    row: dict[str, Any] = {"metric": signature, "k": k}
    for name in ("pass", "majority"):
        values = np.array([of_list[signature][str(k)][name] for of_list in scores])
        row[name], row[f"{name}_interval"] = float(values.mean()), _interval(values)
    return {**row, "lists": len(scores)}


def _interval(values: FloatArray) -> list[float]:
    """The 95 % interval of a mean over lists, by their standard deviation."""
    half = Z * float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else 1.0
    mean = float(values.mean())
    return [max(0.0, mean - half), min(1.0, mean + half)]
