"""``discorank check INPUT``: counts, lengths, duplicates and the cost of deciding, without scoring anything."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..metrics.settings import settings
from ..metrics.texts import Document
from ..rerank.lists import CandidateList
from .console import Progress, say, table
from .inputs import InputOptions, metric_in, open_input
from .options import Options

SHOWN_ERRORS = 10


@settings
class CheckOptions:
    """What to look at.

    Args:
        utility: a metric whose needs and cost are checked too.
        format: text or json.
    """

    utility: str | None = None
    format: str = "text"


OPTIONS = Options(
    "check",
    "Read an input to its end and report what it holds, every error, and what deciding it would cost.",
    [InputOptions, CheckOptions],
    positional={"input": "?"},
    short={"utility": "u", "num_candidates": "n"},
)


class Tally:
    """What has been seen; grows by a few bytes per candidate list."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.sizes: list[int] = []  # candidates per list
        self.lengths: Counter[int] = Counter()  # code points per candidate
        self.document: str | None = None

    def add(self, record: CandidateList) -> None:
        """Counts one list."""
        texts = [candidate.text for candidate in record.candidates]
        distinct = len(set(texts))
        references = len({candidate.text for candidate in record.pseudo_references}) or distinct
        self.sizes.append(len(texts))
        self.lengths.update(len(str(text)) for text in texts)
        self.counts.update(
            lists=1,
            candidates=len(texts),
            distinct=distinct,
            pairs=distinct * references,
            characters=sum(len(str(text)) for text in texts),
            empty=sum(not str(text).strip() for text in texts),
            with_documents=any(isinstance(text, Document) for text in texts),
            with_source=record.source is not None,
            with_logprob=all(candidate.logprob is not None for candidate in record.candidates),
            with_references=bool(record.references),
            with_pseudo_references=bool(record.pseudo_references),
            context_only=record.context_only,
            in_documents=record.document is not None,
            documents=record.document is not None and record.document != self.document,
        )
        self.document = record.document

    def report(self) -> dict[str, Any]:
        """Everything as JSON data."""
        sizes = np.array(self.sizes or [0])
        lengths = np.repeat(*np.array(sorted(self.lengths.items()) or [(0, 1)]).T)
        return {
            **{name: int(n) for name, n in self.counts.items()},
            "candidates_per_list": _spread(sizes),
            "characters_per_candidate": _spread(lengths),
            "duplicate_share": 1 - self.counts["distinct"] / max(1, self.counts["candidates"]),
        }


def run(arguments: Sequence[str]) -> int:
    """Checks; returns the exit code."""
    values = OPTIONS.parse(arguments)
    tally, shown = Tally(), 0
    with open_input(values) as lists, Progress("lists", lists.fraction, values["quiet"]) as progress:
        for entry in lists:
            if entry.record is not None:
                tally.add(entry.record)
                progress(tally.counts["lists"])
                continue
            tally.counts["errors"] += 1
            if shown < SHOWN_ERRORS:
                say(f"{entry.error}")
                shown += 1
    if (rest := tally.counts["errors"] - shown) > 0:
        say(f"and {rest} more errors")
    report = {"input": lists.name, **tally.report()}
    if values["utility"]:
        report["utility"] = _needs(values, report)
    if values["format"] == "json":
        sys.stdout.write(json.dumps(report, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(table([[name, _shown(value)] for name, value in report.items()]) + "\n")
    return 3 if tally.counts["errors"] else 0


def _needs(values: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    """What a utility asks of the input, and how much work it would be."""
    metric = metric_in(values, values["utility"])
    lists, problems = report.get("lists", 0), []
    for _, part in metric.parts:
        if part.info.needs_source and report.get("with_source", 0) < lists:
            problems.append(f"{part.name} needs a source in every list")
        if part.reads.context and report.get("in_documents", 0) < lists:
            problems.append(f"{part.name} reads context: every list needs its document")
    return {
        "signature": metric.signature(),
        "texts_to_represent": report.get("distinct", 0) * len(metric.parts),
        "pairs_to_compare": report.get("pairs", 0) * len(metric.parts),
        "problems": problems,
    }


def _spread(values: Any) -> dict[str, float]:
    return {"min": int(values.min()), "median": float(np.median(values)), "max": int(values.max())}


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(inner)}" for name, inner in value.items() if inner != [])
    return f"{value:.3g}" if isinstance(value, float) and value < 1000 else str(value)
