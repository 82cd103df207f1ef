"""``discorank check INPUT``: counts, lengths, duplicates and the cost of deciding, without scoring anything.

The forward passes of models are counted from their configurations and tokenizers: no weights are held, and the tokens
of context are not counted, as they are chosen by the run.
The calls of judges are counted by filling their prompts: equal ones once, a token for every four bytes, nothing for
what is asked again; nothing is sent. Metrics that need code of the user's own or of a plug-in are not loaded: their
cost is not shown.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import settings
from ...metrics.text.texts import Document
from ...rerank.capabilities import FIRST_STAGE, MATRIX, PSEUDO_REFERENCES, SINGLE_LISTS
from ...rerank.choice import Choice
from ...rerank.estimator import Estimator
from ...rerank.lists import CandidateList
from ...rerank.order import Order
from ...rerank.pool import Pool
from ...rerank.runs.run import RunSettings
from ...tables import aligned
from ..options import Options
from ..options.budget import BudgetOptions
from ..options.inputs import InputOptions, open_input
from ..options.output_formats import DecisionOptions, OutputFormatOptions
from ..running import OutputOptions
from ..terminal.console import Progress, say
from .check_costs import UtilityCosts

SHOWN_ERRORS = 10


@settings
class CheckOptions:
    """What to look at.

    Args:
        utility: a metric whose needs and cost are checked too; those of your own code or of a plug-in are not.
        against: what candidates are compared with: candidates, to choose among them; or references, those of their
            lists, as score and compare do.
        format: text or json.
    """

    utility: str | None = None
    against: Literal["candidates", "references"] = "candidates"
    format: Literal["text", "json"] = "text"


OPTIONS = Options(
    "check",
    "Read an input to its end and report what it holds, every error, and what deciding it would cost. Names such as "
    "with_source count lists; whole_documents those whose candidates are documents of several sentences. With a budget "
    "what it allows is counted too: at most that, as lists may stop before.",
    [InputOptions, CheckOptions, BudgetOptions],
    positional={"input": "?"},
    short={"utility": "u", "num_candidates": "n"},
    # config files of decode are taken as they are, but for what changes the cost
    passed_over=[
        *(Pool, Estimator, Choice, Order),
        *(OutputOptions, RunSettings, OutputFormatOptions, DecisionOptions),
    ],
    needs=(PSEUDO_REFERENCES, SINGLE_LISTS),
    lacks=(MATRIX, FIRST_STAGE),
)


class InputCounts:
    """Counts of an input read so far; they do not grow with the file."""

    def __init__(self) -> None:
        self.totals = Counter(lists=0, candidates=0, distinct=0)
        self.sizes: Counter[int] = Counter()  # candidates per list
        self.lengths: Counter[int] = Counter()  # code points per candidate
        self.document: str | None = None

    def add(self, record: CandidateList) -> None:
        """Counts one list."""
        texts = [candidate.text for candidate in record.candidates]
        distinct = len(set(texts))
        references = len({candidate.text for candidate in record.pseudo_references}) or distinct
        self.sizes[len(texts)] += 1
        self.lengths.update(len(str(text)) for text in texts)
        self.totals.update(
            lists=1,
            candidates=len(texts),
            distinct=distinct,
            pairs=distinct * references,
            pseudo_references=references if record.pseudo_references else 0,
            characters=sum(len(str(text)) for text in texts),
            empty=sum(not str(text).strip() for text in texts),
            whole_documents=any(isinstance(text, Document) for text in texts),
            with_source=record.source is not None,
            with_logprob=all(candidate.logprob is not None for candidate in record.candidates),
            with_references=bool(record.references),
            with_pseudo_references=bool(record.pseudo_references),
            context_only=record.context_only,
            with_document_id=record.document is not None,
            documents=record.document is not None and record.document != self.document,
        )
        self.document = record.document

    def report(self) -> dict[str, Any]:
        """Everything as JSON data."""
        num_repeated = self.totals["candidates"] - self.totals["distinct"]
        return {
            **{name: int(n) for name, n in self.totals.items()},
            "candidates_per_list": _spread(self.sizes or Counter([0])),
            "characters_per_candidate": _spread(self.lengths or Counter([0])),
            "duplicate_share": num_repeated / max(1, self.totals["candidates"]),
        }


def run(arguments: Sequence[str]) -> int:
    """Checks; returns the exit code."""
    values = OPTIONS.parse(arguments)
    counts, num_shown = InputCounts(), 0
    utility = _costs_in(values)
    with (
        open_input(values) as lists,
        Progress("lists", lists.fraction, values["quiet"]) as progress,
    ):
        for entry in lists:
            if utility is not None:
                utility.add(entry.record)
            if entry.record is not None:
                counts.add(entry.record)
                progress(counts.totals["lists"])
                continue
            counts.totals["errors"] += 1
            if num_shown < SHOWN_ERRORS:
                say(f"{entry.error}")
                num_shown += 1
    num_hidden = counts.totals["errors"] - num_shown
    if num_hidden > 0:
        say(f"and {num_hidden} more errors")
    report = {"input": lists.name, **counts.report()}
    if utility is not None:
        is_plain = lists.lines is not None and lists.lines.text_bytes() is not None
        report["utility"] = utility.report(report, is_plain)
    if values["format"] == "json":
        sys.stdout.write(json.dumps(report, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(aligned(_rows(report)) + "\n")
    return 3 if counts.totals["errors"] else 0


def _costs_in(values: Mapping[str, Any]) -> UtilityCosts | None:
    """The costs of the utility that the options name; raises InputError for a budget of none."""
    if values["utility"]:
        _check_against(values)
        return UtilityCosts(values)
    if values["against"] == "references":
        raise InputError("is what a utility compares with", where="--against", fix="Add --utility")
    if values["budget"] is not None:
        raise InputError("is of a utility's pairs", where="--budget", fix="Add --utility")
    return None


def _check_against(values: Mapping[str, Any]) -> None:
    """Raises InputError for references beside what is of a choice among candidates."""
    if values["against"] == "candidates":
        return
    if values["budget"] is not None:
        problem = "is of a choice, which compares with candidates, not with references"
        raise InputError(problem, where="--budget", fix="Leave one of them out")


def _spread(counts: Counter[int]) -> dict[str, int]:
    """Least, (lower) median and largest of counted numbers."""
    middle, num_passed = (counts.total() + 1) // 2, 0
    for value in sorted(counts):
        num_passed += counts[value]
        if num_passed >= middle:
            break
    return {"min": min(counts), "median": value, "max": max(counts)}


def _rows(report: Mapping[str, Any]) -> list[list[str]]:
    """A row for every number of an input, and for every one of what a utility costs; one for each problem."""
    plain = {name: value for name, value in report.items() if name != "utility"}
    costs = report.get("utility", {})
    named = {"utility": costs["signature"], **costs} if costs else {}
    rows = [[name, _shown(value)] for name, value in {**plain, **named}.items()]
    rows = [row for row in rows if row[0] not in ("signature", "problems")]
    return rows + [["problem", problem] for problem in costs.get("problems", [])]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        entries = [f"{name} {_shown(inner)}" for name, inner in value.items() if inner != []]
        return ", ".join(entries)
    return f"{value:.3g}" if isinstance(value, float) and value < 1000 else str(value)
