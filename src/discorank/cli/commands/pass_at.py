"""``discorank pass-at LISTS -m vote(...) --at 1 4 16``: pass@k and maj@k of candidate lists with references."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from math import sqrt
from typing import Any, Literal

import numpy as np

from ...integrations.formats.open_lists import open_lists
from ...metrics.errors import DiscorankError, InputError
from ...metrics.lexical.vote import Vote
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
from ...metrics.spec.checked_settings import settings
from ...rerank.lists import CandidateList
from ...rerank.runs.row_forms import as_line
from ...rerank.selection.answer_accuracy import answers_of, majority_at
from ...rerank.selection.answer_accuracy import pass_at as chance_at
from ...tables import Column, Table, decimals, metric_names, printed_rows, whole
from ..options import command, needed
from ..options.metric_options import MetricOptions
from ..options.output_formats import OutputOptions
from ..running import check_not_input, complete_rows
from ..terminal.console import Progress, say

ANSWER_COLUMNS = (
    metric_names("metric", "metric"),
    whole("k", "k"),
    decimals("pass@k", "pass"),
    Column("95 % interval", ("pass_interval",), lambda ends: "{:.4f} to {:.4f}".format(*ends)),
    decimals("maj@k", "majority"),
    Column("95 % interval", ("majority_interval",), lambda ends: "{:.4f} to {:.4f}".format(*ends)),
    whole("lists", "lists"),
)
Z = 1.96  # of a normal interval of 95 %
Scores = dict[str, dict[str, dict[str, float]]]  # of a list, by signature, k and kind


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
    scores: list[Scores] = []
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
        scores: Scores = {}
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


def _means(signature: str, k: int, scores: Sequence[Scores]) -> dict[str, Any]:
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
