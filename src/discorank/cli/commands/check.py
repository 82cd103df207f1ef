"""``discorank check INPUT``: counts, lengths, duplicates and the cost of deciding, without scoring anything.

The forward passes of models are counted from their configurations and tokenizers: no weights are held, and the tokens
of context are not counted, as they are chosen by the run. The calls of judges are counted by filling their prompts:
equal ones once over all lists, a token for every four bytes, nothing for what is asked again; nothing is sent. Metrics
that need code of the user's own or of a plug-in are not loaded: their cost is not shown.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError
from ...metrics.execution.evaluate import compared, is_by_units, lift
from ...metrics.execution.meter import Meter
from ...metrics.execution.store import Fresh, Store
from ...metrics.mixture import Utility
from ...metrics.registry import load_without_code
from ...metrics.representations import Block, Reps
from ...metrics.scorer import Scorer
from ...metrics.spec.checked_settings import settings
from ...metrics.spec.user_code import CodeRefusedError
from ...metrics.text.texts import NO_CONTEXT, Comparison, Document, Text
from ...rerank.capabilities import FIRST_STAGE, MATRIX, PSEUDO_REFERENCES, SINGLE_LISTS
from ...rerank.choice import Choice
from ...rerank.estimator import Estimator
from ...rerank.lists import CandidateList, Distinct
from ...rerank.order import Order
from ...rerank.pool import Pool
from ...rerank.runs.run import RunSettings
from ...tables import aligned
from ..options import command
from ..options.decoders import BudgetOptions, MetricOptions
from ..options.inputs import InputOptions
from ..options.output_formats import (
    DecisionOptions,
    OutputFormatOptions,
    OutputOptions,
)
from ..terminal.console import Progress, complain

SHOWN_ERRORS = 10


@settings
class CheckOptions:
    """The settings of a check.

    Args:
        utility: a metric whose needs and cost are checked too; those of your own code or of a plug-in are not.
        format: text or json.
    """

    utility: str | None = None
    format: Literal["text", "json"] = "text"


@command(
    "Read an input to its end and report what it holds, every error, and what deciding it would cost. Names such as "
    "with_source count lists; whole_documents those whose candidates are documents of several sentences.",
    positional={"input": "?"},
    short={"utility": "u", "num_candidates": "n"},
    hidden=["allow_code", "max_calls", "max_tokens"],
    # config files of decode are taken as they are, but for what changes the cost
    passed_over=[
        *(Pool, Estimator, Choice, Order, BudgetOptions),
        *(OutputOptions, RunSettings, OutputFormatOptions, DecisionOptions),
    ],
    needs=(PSEUDO_REFERENCES, SINGLE_LISTS),
    lacks=(MATRIX, FIRST_STAGE),
    first=["input", "utility", "input_format", "num_candidates", "format"],
    examples=[
        "check examples:demo.jsonl",
        "check examples:demo.jsonl -u chrf",
        "check examples:nbest.moses --from moses --format json",
    ],
)
def check(input: InputOptions, options: CheckOptions, metrics: MetricOptions) -> int:
    """Checks; returns the exit code."""
    counts, costs = InputCounts(), UtilityCosts(options, metrics)
    with input.opened() as lists, Progress("lists", lists.fraction) as progress:
        for entry in lists:
            if entry.record is None:
                counts.totals["errors"] += 1
                if counts.totals["errors"] <= SHOWN_ERRORS:
                    complain(str(entry.error))
                continue
            counts.add(entry.record)
            costs.add(entry.record)
            progress(counts.totals["lists"])
    num_errors = counts.totals["errors"]
    if num_errors > SHOWN_ERRORS:
        complain(f"and {num_errors - SHOWN_ERRORS} more errors")
    report = {"input": lists.name, **counts.report()}
    report |= costs.report(report)
    text = json.dumps(report, ensure_ascii=False) if options.format == "json" else _table(report)
    sys.stdout.write(text + "\n")
    return 3 if num_errors else 0


class UtilityCosts:
    """Needs of a utility in the input, and how much work it would be; nothing without a utility.

    Raises:
        DiscorankError: the utility is none, or its files are missing.
    """

    def __init__(self, options: CheckOptions, metrics: MetricOptions) -> None:
        self.signature = options.utility
        self.utility: Utility | None = None
        self.counts: list[PassCounts] = []
        self.problems: list[str] = []
        if self.signature is not None:
            try:
                self.utility = metrics.adapted(load_without_code(self.signature))
            except CodeRefusedError as error:
                problem = "its cost and needs are not shown: check imports no code, and this"
                self.problems.append(f"{problem} {error.problem}")
        self.parts = [] if self.utility is None else [part for _, part in self.utility.parts]
        for part in self.parts:
            try:
                scorer = part.unloaded()
            except DiscorankError as error:
                self.problems.append(f"forward passes of {part.name} are not counted: {error}")
                continue
            if scorer is not None:
                self.counts.append(PassCounts(part, scorer))

    def add(self, record: CandidateList) -> None:
        """Count the forward passes of one list."""
        if record.context_only:
            return
        texts = references = Distinct(record.candidates).texts
        if record.pseudo_references:
            references = Distinct(record.pseudo_references).texts
        for counts in self.counts:
            counts.add(texts, references, record.source)

    def report(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Everything as JSON data; report: that of the input."""
        if self.signature is None:
            return {}
        if self.utility is None:
            return {"utility": {"signature": self.signature, "problems": self.problems}}
        pairs, texts = report.get("pairs", 0), report.get("distinct", 0)
        num_texts, num_compared, problems = 0, 0, list(self.problems)
        for part in self.parts:
            if part.info.needs_references:
                in_every_context = part.reads.everywhere and report.get("whole_documents", 0)
                compared = texts + report.get("pseudo_references", 0)
                num_texts += pairs if in_every_context else compared
                num_compared += pairs
            else:  # every text is compared with its source alone
                num_texts += texts
                num_compared += texts
            problems += _problems(part, report)
        costs = {
            "signature": self.utility.signature(),
            "texts_to_represent": num_texts,
            "pairs_to_compare": num_compared,
            **_passes(self.counts),
            "problems": problems,
        }
        return {"utility": costs}


def _passes(counted: Sequence[PassCounts]) -> dict[str, Any]:
    """The forward passes of the models of a utility, and the calls of its servers; nothing where none are counted."""
    passes = {
        "forward_passes": sum(counts.passes for counts in counted),
        "tokens": sum(counts.tokens for counts in counted),
        "tera_flop": sum(counts.flops for counts in counted) / 1e12,
    }
    calls = Counter[str]()
    for counts in counted:
        calls.update(counts.calls() if counts.requests else {})
    has_passes = any(not counts.requests for counts in counted)
    return {**(passes if has_passes else {}), **calls}


def _problems(part: Metric, report: Mapping[str, Any]) -> list[str]:
    """Problems of an input with a metric: what is lacking, or will cost more than it seems."""
    num_lists, num_sources = report.get("lists", 0), report.get("with_source", 0)
    problems = []
    if part.reads.everywhere and report.get("whole_documents", 0):
        problems.append(
            f"{part.name} reads every hypothesis in the context of every reference of its document"
        )
    if part.needs_source and num_sources < num_lists:
        problems.append(f"{part.name} needs a source in every list")
    elif part.reads_source and 0 < num_sources < num_lists:
        problems.append(
            f"{part.name} reads the source where it is given, in {num_sources} of {num_lists} lists: "
            "utilities with and without it do not compare"
        )
    if part.reads.context and report.get("with_document_id", 0) < num_lists:
        problems.append(f"{part.name} reads context: every list needs its document")
    return problems


class PassCounts:
    """Counts of the lists so far.

    Args:
        metric: the metric.
        scorer: its `unloaded` scorer.
    """

    def __init__(self, metric: Metric, scorer: Scorer) -> None:
        self.metric, self.scorer = metric.with_scorer(scorer), scorer
        self.passes = 0
        self.tokens = 0
        self.flops = 0.0
        self.requests: dict[bytes, int] = {}  # about how many tokens each has, by its key
        self.num_answered: Callable[[Sequence[bytes]], int] = lambda keys: 0

    def add(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text],
        source: Text | None,
    ) -> None:
        """Counts one list, all pairs of it, without context; one that lacks a source it needs costs nothing."""
        if self.metric.needs_source and source is None:
            return
        self.add_comparison(self.metric.comparison(hypotheses, references, source, NO_CONTEXT))

    def add_comparison(self, comparison: Comparison) -> None:
        """Counts one list with the context of its items."""
        in_units = is_by_units(self.metric, comparison)
        parts = (compared if in_units else lift)(self.metric, comparison)
        for part in parts:
            prepared, block = self._prepared(part)
            requested = self.scorer.requested(prepared, block)
            if requested is not None:
                self.requests |= requested.tokens
                self.num_answered = requested.num_answered
            passes = self.scorer.passes(prepared, block)
            self.passes += len(passes.lengths)
            self.tokens += int(passes.lengths.sum())
            self.flops += passes.flops

    def calls(self) -> dict[str, int]:
        """The calls of servers that lists need, those already answered, and about how many tokens prompts have."""
        keys = list(self.requests)
        return {
            "calls": len(keys),
            "kept_answers": self.num_answered(keys),
            "prompt_tokens": sum(self.requests.values()),
        }

    def _prepared(self, comparison: Comparison) -> tuple[Reps, Block]:
        """The texts of a comparison as the scorer prepares them, and its block."""
        texts = [*comparison.hypotheses, *comparison.references]
        if comparison.source is not None:
            texts.append(comparison.source)
        rows = {item: row for row, item in enumerate(dict.fromkeys(texts))}
        prepared, lengths = self.scorer.prepare(list(rows))
        fresh = Fresh(prepared, lengths, np.zeros(len(rows), np.int64))
        (block,) = Store.holding(self.scorer, rows, fresh, Meter()).add([comparison])
        return prepared, block


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


def _spread(counts: Counter[int]) -> dict[str, int]:
    """Least, (lower) median and largest of counted numbers."""
    middle, num_passed = (counts.total() + 1) // 2, 0
    for value in sorted(counts):
        num_passed += counts[value]
        if num_passed >= middle:
            break
    return {"min": min(counts), "median": value, "max": max(counts)}


def _table(report: Mapping[str, Any]) -> str:
    """A row for every number of an input, and for every one of what a utility costs; one for each problem."""
    plain = {name: value for name, value in report.items() if name != "utility"}
    costs = report.get("utility", {})
    named = {"utility": costs["signature"], **costs} if costs else {}
    rows = [[name, _shown(value)] for name, value in {**plain, **named}.items()]
    rows = [row for row in rows if row[0] not in ("signature", "problems")]
    return aligned(rows + [["problem", problem] for problem in costs.get("problems", [])])


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        entries = [f"{name} {_shown(inner)}" for name, inner in value.items() if inner != []]
        return ", ".join(entries)
    return f"{value:.3g}" if isinstance(value, float) and value < 1000 else str(value)
