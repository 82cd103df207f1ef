"""``discorank score --lists LISTS -m vote(...) --at 1 4 16``: pass@k and maj@k of candidate lists with references."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from ....integrations.formats.open_lists import Lists, open_lists
from ....metrics.errors import DiscorankError, InputError
from ....metrics.lexical.vote import Vote
from ....metrics.representations import FloatArray
from ....rerank.lists import CandidateList
from ....rerank.runs.rows import as_line
from ....rerank.selection.answer_accuracy import Answers, answers_of, majority_at, pass_at
from ....tables import Column, Table, count, decimals, printed_rows, words
from ...options import needed
from ...options.inputs import metric_in
from ...row_files import complete_rows
from ...running import check_not_input
from ...terminal.console import Progress, say

ANSWER_COLUMNS = (
    words("metric", "metric"),
    count("k", "k"),
    decimals("pass@k", "pass"),
    Column("95 % interval", ("pass_interval",), lambda ends: "{:.4f} to {:.4f}".format(*ends)),
    decimals("maj@k", "majority"),
    Column("95 % interval", ("majority_interval",), lambda ends: "{:.4f} to {:.4f}".format(*ends)),
    count("lists", "lists"),
)
Z = 1.96  # of a normal interval of 95 %


class _Chances(NamedTuple):
    """Of one list under one metric."""

    passes: float
    majority: float


def run_answers(values: Mapping[str, Any]) -> int:
    """Counts the answers of every list; returns the exit code."""
    for name in ("input", "hypotheses", "references", "sources", "documents", "contrastive"):
        if values[name]:
            raise InputError("stands beside --lists", where=f"--{name}", fix="Give one of them")
    path, out = values["lists"], values["output"]
    metrics = [_vote_in(values, spec) for spec in needed(values, "metric", "--metric")]
    check_not_input(out, [path])
    chances: list[list[list[_Chances]]] = []  # [list][metric][k]
    num_without = 0
    with (
        complete_rows(out) if out else nullcontext() as file,
        open_lists(path) as lists,
        Progress("lists", lists.fraction, values["quiet"]) as progress,
    ):
        for record in _records(lists):
            answers, of_list = _counted(record, metrics, values["at"])
            chances.append(of_list)
            num_without += max(each.without for each in answers)
            if file:
                file.write(as_line(_answers_row(record, metrics, answers, of_list, values["at"])))
            progress(len(chances))
    if not chances:
        raise InputError("no lists", where=path, fix="Give at least one line")
    said = f"{path}: {len(chances)} lists, {num_without} candidates without an answer"
    say(said, values["quiet"])
    rows = _answer_means(metrics, values["at"], np.array(chances))
    sys.stdout.write(printed_answer_means([Table("", ANSWER_COLUMNS, rows)], values["format"]))
    return 0


def _records(lists: Lists) -> Iterator[CandidateList]:
    """The lists that are decided; raises the first error record."""
    for entry in lists:
        if entry.error is not None:
            raise entry.error
        if entry.record is not None and not entry.record.context_only:
            yield entry.record


def _vote_in(values: Mapping[str, Any], spec: str) -> Vote:
    """The metric of an option; InputError for one that is no `vote`."""
    metric = metric_in(values, spec)
    if not isinstance(metric, Vote):
        fix = 'Name vote, such as vote(answer="boxed",agree="number")'
        raise InputError(f"{metric.signature()} has no answers", where="--metric", fix=fix)
    return metric


def _counted(
    record: CandidateList, metrics: Sequence[Vote], at: Sequence[int]
) -> tuple[list[Answers], list[list[_Chances]]]:
    """The answers of a list under every metric, and the chances [metric][k]; errors name the list."""
    try:
        answers = [answers_of(record, metric) for metric in metrics]
        chances = [[_Chances(pass_at(own, k), majority_at(own, k)) for k in at] for own in answers]
    except DiscorankError as error:
        raise error.inside(f"list {record.id!r}") from None
    return answers, chances


def _answers_row(
    record: CandidateList,
    metrics: Sequence[Vote],
    answers: Sequence[Answers],
    chances: Sequence[Sequence[_Chances]],
    at: Sequence[int],
) -> dict[str, Any]:
    """The list's line of the output; counts are those of the first metric."""
    first = answers[0]
    scores = {}
    for metric, of_metric in zip(metrics, chances, strict=True):
        scores[metric.signature()] = {
            str(k): {"pass": own.passes, "majority": own.majority}
            for k, own in zip(at, of_metric, strict=True)
        }
    return {
        "id": record.id,
        "candidates": first.candidates,
        "right": sum(first.right),
        "without_answer": first.without,
        "answers": len(first.right) + len(first.wrong),
        "scores": scores,
    }


def _answer_means(
    metrics: Sequence[Vote],
    at: Sequence[int],
    chances: FloatArray,  # [lists, metrics, k, 2]
) -> list[dict[str, Any]]:
    """A row per metric and k: means over lists, and their intervals."""
    rows = []
    for m, metric in enumerate(metrics):
        for i, k in enumerate(at):
            passes, majority = chances[:, m, i].T
            rows.append(
                {
                    "metric": metric.signature(),
                    "k": k,
                    "pass": float(passes.mean()),
                    "pass_interval": _interval(passes),
                    "majority": float(majority.mean()),
                    "majority_interval": _interval(majority),
                    "lists": len(chances),
                }
            )
    return rows


def _interval(values: FloatArray) -> list[float]:
    """The 95 % interval of a mean over lists, by their standard deviation."""
    half = Z * float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else 1.0
    mean = float(values.mean())
    return [max(0.0, mean - half), min(1.0, mean + half)]
