"""``discorank score --lists LISTS -m vote(...) --at 1 4 16``: pass@k and maj@k of candidate lists with references.

``discorank score --contrastive FILE -m METRIC ...``: how often each metric ranks the correct translation first.

``discorank score`` of a test set: every output by metrics, written in the form of mt-metrics-eval.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....integrations.formats.mtme.eval_set_folder import (
    is_eval_set_folder,
    pairs_of,
    write_metric_scores,
)
from ....integrations.formats.open_lists import Lists, open_lists
from ....integrations.formats.selection_files import read_contrastive
from ....metrics.errors import DiscorankError, InputError
from ....metrics.lexical.vote import Vote
from ....metrics.mixture import Utility
from ....metrics.representations import FloatArray
from ....metrics.storage.line_source import LineSource
from ....rerank.engines.local import LocalEngine
from ....rerank.lists import CandidateList
from ....rerank.runs.row_forms import as_line
from ....rerank.selection.answer_accuracy import Answers, answers_of, majority_at, pass_at
from ....rerank.selection.contrastive import (
    Accuracy,
    ContrastiveAccuracy,
    ContrastiveItem,
    Tally,
    Verdict,
    verdicts,
)
from ....rerank.selection.meta_evaluation.eval_set import EvalSet, MetricName, base_name
from ....tables import Column, Table, decimals, metric_names, printed_rows, whole, words
from ...options import needed
from ...options.inputs import cache_in, check_model, metric_in
from ...options.system_outputs import eval_set_at, with_own_metrics
from ...running import check_not_input, complete_rows
from ...terminal.console import Progress, say
from ...terminal.watching import judged_line

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


class _Chances(NamedTuple):
    """Of one list under one metric."""

    passes: float
    majority: float


def run_answers(values: Mapping[str, Any]) -> int:
    """Counts the answers of every list; returns the exit code."""
    path, out = values["lists"], values["output"]
    metrics = [_vote_in(values, spec) for spec in needed(values, "metric", "--metric")]
    check_model(values, metrics)
    check_not_input(out, [path])
    form = "jsonl" if values["input_format"] == "segments" else values["input_format"]
    chances: list[list[list[_Chances]]] = []  # [list][metric][k]
    num_without = 0
    with (
        complete_rows(out) if out else nullcontext() as file,
        open_lists(path, form, columns=values["columns"]) as lists,
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
    sys.stdout.write(printed_rows([Table("", ANSWER_COLUMNS, rows)], values["format"]))
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
        fix = 'Name vote, such as vote(answer="boxed",agree="value")'
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


def run_contrastive(values: Mapping[str, Any]) -> int:
    """Ranks every item of the file; returns the exit code."""
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


SYSTEM_COLUMNS = (
    words("language pair", "language_pair"),
    words("system", "system"),
    metric_names("metric", "metric"),
    decimals("corpus", "corpus"),
    decimals("mean", "mean"),
    whole("segments", "segments"),
)


def is_test_set(values: Mapping[str, Any]) -> bool:
    """Whether the input of ``score`` is a test set rather than segments."""
    path = values["input"]
    return values["input_format"] != "segments" or bool(path and is_eval_set_folder(path))


def run_eval_set(values: Mapping[str, Any]) -> int:
    """Scores a test set; returns the exit code."""
    path = needed(values, "input", "INPUT")
    metrics = [metric_in(values, spec) for spec in needed(values, "metric", "--metric")]
    check_model(values, metrics)
    if values["output"]:
        raise InputError("is of segments", where="--output", fix="Name a folder: --metric-scores")
    is_folder = is_eval_set_folder(path)
    pairs: Sequence[str | None] = pairs_of(path, values["language_pair"]) if is_folder else [None]
    if not is_folder and values["metric_scores"] and len(values["language_pair"]) != 1:
        raise InputError(
            "is missing", where="--language-pair", fix="Scores are written under one, such as en-de"
        )
    rows: list[dict[str, Any]] = []
    for pair in pairs:
        rows += _scored(path, pair, metrics, values)
    sys.stdout.write(printed_rows([Table("", SYSTEM_COLUMNS, rows)], values["format"]))
    return 0


def _scored(
    path: str, pair: str | None, metrics: Sequence[Utility], values: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """One language pair: writes its scores, and returns those of its systems."""
    # scores of others are not written: those with holes stop nothing
    reading = {**values, "missing": "leave-out"}
    if pair is None:
        reading["input_format"] = _form(values)
    eval_set = eval_set_at(path, Path(path).name, pair, reading)
    if pair is None and values["language_pair"]:
        eval_set = replace(eval_set, language_pair=values["language_pair"][0])
    there = set(eval_set.metrics)
    scored = with_own_metrics(eval_set, metrics, values)
    own = [name for name in scored.metrics if name not in there or _is_own(name, metrics)]
    if values["metric_scores"]:
        written = write_metric_scores(scored, values["metric_scores"], own)
        say(f"{len(written)} files in {values['metric_scores']}", values["quiet"])
    return _system_rows(scored, own)


def _form(values: Mapping[str, Any]) -> str:
    form = values["input_format"]
    return "systems" if form == "segments" else form


def _is_own(name: MetricName, metrics: Sequence[Utility]) -> bool:
    """Whether scores were there before under the name of a metric of ours, and have been replaced."""
    return name.base in {base_name(metric) for metric in metrics}


def _system_rows(eval_set: EvalSet, own: Sequence[MetricName]) -> list[dict[str, Any]]:
    """The scores of every system by every metric, the metric's own direction turned so that higher is better."""
    rows: list[dict[str, Any]] = []
    for name in own:
        by_system = eval_set.metric_scores[name, "sys"]
        by_segment = eval_set.metric_scores.get((name, "seg"), {})
        for system, score in by_system.items():
            segments = by_segment.get(system)
            rows.append(
                {
                    "language_pair": eval_set.language_pair,
                    "system": system,
                    "metric": str(name),
                    "corpus": float(score[0]),
                    "mean": None if segments is None else float(np.mean(segments)),
                    "segments": len(eval_set.sources),
                }
            )
    return rows
