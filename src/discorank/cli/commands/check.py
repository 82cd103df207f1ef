"""``discorank check INPUT``: counts, lengths, duplicates and the cost of deciding, without scoring anything.

The forward passes of models are counted from their configurations and tokenizers: no weights are held, and the tokens
of context are not counted, as they are chosen by the run.
The calls of judges are counted by filling their prompts: equal ones once, a token for every four bytes, nothing for
what is asked again; nothing is sent. Metrics that need code of the user's own or of a plug-in are not loaded: their
cost is not shown.

Costs of deciding or scoring lists: texts, pairs, forward passes of models and calls of servers.

How many forward passes, and calls of servers, deciding some lists takes, before any model is loaded or asked.

Texts are tokenised and prompts filled, nothing else. Equal requests count once, over all lists.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np

from ...integrations.judges.injection import audited
from ...integrations.judges.judge import JudgeMetric
from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, InputError
from ...metrics.execution.by_sentence import compared, is_by_units, lift
from ...metrics.execution.meter import Meter
from ...metrics.execution.store import Fresh, Store
from ...metrics.mixture import Utility
from ...metrics.registry import load_without_code
from ...metrics.representations import Block, Reps
from ...metrics.scorer import Scorer
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.spec.user_code import CodeRefusedError
from ...metrics.text.texts import NO_CONTEXT, Comparison, Document, Text
from ...rerank.budget.budgeted import check_features
from ...rerank.budget.plan import num_pairs
from ...rerank.budget.settings import CHEAP, Budget, two_texts_are_one_pair
from ...rerank.capabilities import FIRST_STAGE, MATRIX, PSEUDO_REFERENCES, SINGLE_LISTS
from ...rerank.choice import Choice
from ...rerank.estimator import Estimator
from ...rerank.lists import CandidateList, Distinct
from ...rerank.mbr import MBRDecoder
from ...rerank.order import Order
from ...rerank.pool import Pool
from ...rerank.runs.run import RunSettings
from ...tables import aligned
from ..options import Options
from ..options.budget import BudgetOptions, budget_in
from ..options.inputs import InputOptions, adapted, open_input
from ..options.output_formats import DecisionOptions, OutputFormatOptions
from ..running import OutputOptions
from ..terminal.console import Progress, say


class UtilityCosts:
    """Needs of a utility in the input, and how much work it would be; forward passes are counted list by list.

    Raises:
        DiscorankError: the utility is none, or its files are missing.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.named = values["utility"]
        self.utility: Utility | None = None
        self.counts: list[PassCounts] = []
        self.budget: Budget | None = None
        self.budget_counts: list[PassCounts] = []
        self.budget_pairs = 0  # or candidates, where these are read by themselves
        self.by_candidates = False
        self.one_pair = False  # two texts of a list's own candidates
        self.scores = values["against"] == "references"
        self.problems: list[str] = []
        self.texts = self.pairs = 0  # with references
        try:
            self.utility = adapted(load_without_code(self.named), values)
        except CodeRefusedError as error:
            self.problems.append(
                f"its cost and needs are not shown: check imports no code, and this {error.problem}"
            )
            return
        for _, part in self.utility.parts:
            try:
                scorer = part.unloaded()
            except DiscorankError as error:
                self.problems.append(f"forward passes of {part.name} are not counted: {error}")
                continue
            if scorer is not None:
                self.counts.append(PassCounts(part, scorer))
        # a cheap utility may be code of the user's own, and its cost is not counted
        budget = budget_in({**values, "cheap_utility": CHEAP})
        if budget is not None:
            self._set_budget(budget, self.utility)

    def _set_budget(self, budget: Budget, utility: Utility) -> None:
        """Counts what a budget allows as well; a utility that it is not for is a problem."""
        parts = [part for weight, part in utility.parts if weight]
        self.by_candidates = not any(part.info.needs_references for part in parts)
        try:
            if self.by_candidates:
                check_features(budget, (utility,))
            else:
                budget.check(utility)
        except InputError as error:
            self.problems.append(f"no budget: {error.problem}")
            return
        remark = budget.remark(utility)
        self.problems += [] if remark is None else [remark]
        self.budget = budget
        self.one_pair = two_texts_are_one_pair(utility, budget.force)
        self.budget_counts = [PassCounts(counts.metric, counts.scorer) for counts in self.counts]

    def add(self, record: CandidateList | None) -> None:
        """Counts the forward passes of one list; None for a line that could not be read."""
        if record is None or record.context_only:
            return
        texts = Distinct(record.candidates).texts
        references = self._references(record, texts)
        num_references = 0 if references is texts else len(references)
        self.texts += len(texts) + num_references
        self.pairs += len(texts) * len(references)
        for counts in self.counts:
            counts.add(texts, references, record.source)
        if self.budget is not None:
            self._add_budgeted(self.budget, texts, references, record.source)

    def _references(self, record: CandidateList, texts: tuple[Text, ...]) -> tuple[Text, ...]:
        """The distinct texts that those of a list are compared with."""
        if self.scores:
            return tuple(dict.fromkeys(record.references))
        return Distinct(record.pseudo_references).texts if record.pseudo_references else texts

    def _add_budgeted(
        self, budget: Budget, texts: Sequence[Text], references: Sequence[Text], source: Text | None
    ) -> None:
        """Counts what the budget of one list allows, as if all texts were compared with some references."""
        if self.by_candidates:
            allowed = budget.pairs(len(texts))
            self.budget_pairs += allowed
            for counts in self.budget_counts:
                counts.add(texts[:allowed], references, source)
            return
        size = num_pairs(len(texts), len(references), self.one_pair and references is texts)
        allowed = min(size, budget.pairs(size))
        self.budget_pairs += allowed
        num_references = -(-allowed // len(texts))
        step = len(references) / num_references
        some = [references[int(i * step)] for i in range(num_references)]
        for counts in self.budget_counts:
            counts.add(texts, some, source)

    def report(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Everything as JSON data; report: that of the input."""
        if self.utility is None:
            return {"signature": self.named, "problems": self.problems}
        num_pairs = report.get("pairs", 0)
        num_distinct = report.get("distinct", 0) + report.get("pseudo_references", 0)
        if self.scores:
            num_pairs, num_distinct = self.pairs, self.texts
        num_texts, num_compared, problems = 0, 0, list(self.problems)
        for _, part in self.utility.parts:
            num_texts += self._num_texts(part, report, num_pairs, num_distinct)
            # without references every text is compared with its source alone
            num_compared += num_pairs if part.info.needs_references else report.get("distinct", 0)
            problems += _problems(part, report)
            if self.scores and part.info.needs_references:
                problems += _missing_references(part, report)
        name = "candidates_to_read" if self.by_candidates else "pairs_to_compare"
        within = {name: self.budget_pairs, **_passes(self.budget_counts)}
        return {
            "signature": self.utility.signature(),
            "texts_to_represent": num_texts,
            "pairs_to_compare": num_compared,
            **_passes(self.counts),
            **({} if self.budget is None else {"within_budget": within}),
            "problems": problems,
        }

    def _num_texts(
        self, part: Metric, report: Mapping[str, Any], num_pairs: int, num_distinct: int
    ) -> int:
        """How many texts a metric represents; references only where it compares with them."""
        if not part.info.needs_references:
            return int(report.get("distinct", 0))
        in_every_context = part.reads.everywhere and report.get("whole_documents", 0)
        return num_pairs if in_every_context else num_distinct


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


def _missing_references(part: Metric, report: Mapping[str, Any]) -> list[str]:
    """Says that some lists have no references."""
    missing = report.get("lists", 0) - report.get("with_references", 0)
    return [f"{part.name} needs references, and {missing} lists have none"] if missing else []


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


class JudgeAudit:
    """The first lists of an input, in which copies with words to the judge are planted.

    Args:
        costs: those of the utility.
        num_lists: how many lists; 0: none, and no judge is asked.

    Raises:
        InputError: the utility has no judge.
    """

    def __init__(self, costs: UtilityCosts | None, num_lists: int) -> None:
        self._num_lists = num_lists
        self._lists: list[CandidateList] = []
        self._utility = None if costs is None else costs.utility
        parts = () if self._utility is None else self._utility.parts
        if num_lists and not any(isinstance(part, JudgeMetric) for _, part in parts):
            fix = "Name one as utility: -u 'judge-qe(model=...)'"
            raise InputError("there is no judge", where="--judge-audit", fix=fix)

    def add(self, record: CandidateList) -> None:
        """Keeps a list that there is a choice in, as long as there are not enough."""
        is_choice = not record.context_only and len(record.candidates) > 1
        if is_choice and len(self._lists) < self._num_lists:
            self._lists.append(record)

    def report(self) -> dict[str, Any]:
        """How often planted copies are chosen, as JSON data; errors as `audited`."""
        if not self._lists or self._utility is None:
            return {}
        return {"judge_audit": audited(MBRDecoder(utility=self._utility, nbest=None), self._lists)}


SHOWN_ERRORS = 10


@settings
class CheckOptions:
    """The settings of a check.

    Args:
        utility: a metric whose needs and cost are checked too; those of your own code or of a plug-in are not.
        against: what candidates are compared with: candidates, to choose among them; or references, those of their
            lists, as score and compare do.
        judge_audit: plant copies of candidates with words to the judge in so many lists, and count how often they are
            chosen. This asks the judge of the utility, for every list some times as much as a decision does.
        format: text or json.
    """

    utility: str | None = None
    against: Literal["candidates", "references"] = "candidates"
    judge_audit: Annotated[int, Field(ge=1)] | None = None
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
    first=["input", "utility", "input_format", "num_candidates", "budget", "format"],
    examples=[
        "check examples:demo.jsonl",
        "check examples:demo.jsonl -u chrf",
        "check examples:nbest.moses --from moses --format json",
    ],
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
    audit = JudgeAudit(utility, values["judge_audit"] or 0)
    with (
        open_input(values) as lists,
        Progress("lists", lists.fraction, values["quiet"]) as progress,
    ):
        for entry in lists:
            if utility is not None:
                utility.add(entry.record)
            if entry.record is not None:
                audit.add(entry.record)
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
    report |= audit.report()
    if utility is not None:
        report["utility"] = utility.report(report)
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
