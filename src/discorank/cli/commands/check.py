"""``discorank check INPUT``: counts, lengths, duplicates and the cost of deciding, without scoring anything.

The forward passes of models are counted from their configurations and tokenizers: no weights are held, and the tokens
of context are not counted, as they are chosen by the run; a search reads texts in as many contexts as it may at most.
The calls of judges are counted by filling their prompts: equal ones once, a token for every four bytes, nothing for
what is asked again; nothing is sent. Metrics that need code of the user's own or of a plug-in are not loaded: their
cost is not shown.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, InputError
from ...metrics.mixture import Utility
from ...metrics.registry import load_without_code
from ...metrics.spec.allowed_code import CodeRefusedError
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.text.texts import Document, Text
from ...rerank.budget.plan import num_pairs
from ...rerank.budget.settings import CHEAP, Budget, two_texts_are_one_pair
from ...rerank.budgeted_features import check_features
from ...rerank.distinct import Distinct
from ...rerank.documents.search_counts import SearchCounts
from ...rerank.lists import CandidateList
from ...rerank.pass_counts import PassCounts
from ...rerank.strategies import BEAM, MAX_BEAM, SEARCHES, StrategySetting
from ...tables import aligned
from ..options import Options
from ..options.budget import BudgetOptions, budget_in
from ..options.inputs import InputOptions, adapted, open_input
from ..terminal.console import Progress, say

SHOWN_ERRORS = 10


@settings
class CheckOptions:
    """What to look at.

    Args:
        utility: a metric whose needs and cost are checked too; those of your own code or of a plug-in are not.
        strategy: as for decode; of a search (beam, joint) the contexts in which it decides lists are counted.
        beam: how many histories beam keeps.
        format: text or json.
    """

    utility: str | None = None
    strategy: StrategySetting = "auto"
    beam: Annotated[int, Field(ge=1, le=MAX_BEAM)] = BEAM
    format: Literal["text", "json"] = "text"


OPTIONS = Options(
    "check",
    "Read an input to its end and report what it holds, every error, and what deciding it would cost. Names such as "
    "with_source count lists; whole_documents those whose candidates are documents of several sentences. With a budget "
    "what it allows is counted too: at most that, as lists may stop before.",
    [InputOptions, CheckOptions, BudgetOptions],
    positional={"input": "?"},
    short={"utility": "u", "num_candidates": "n"},
)


class InputCounts:
    """Counts of an input read so far; they do not grow with the file."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
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
        return {
            **{name: int(n) for name, n in self.totals.items()},
            "candidates_per_list": _spread(self.sizes or Counter([0])),
            "characters_per_candidate": _spread(self.lengths or Counter([0])),
            "duplicate_share": 1 - self.totals["distinct"] / max(1, self.totals["candidates"]),
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
        report["utility"] = utility.report(report)
    if values["format"] == "json":
        sys.stdout.write(json.dumps(report, ensure_ascii=False) + "\n")
    else:
        rows = [[name, _shown(value)] for name, value in report.items()]
        sys.stdout.write(aligned(rows) + "\n")
    return 3 if counts.totals["errors"] else 0


def _costs_in(values: Mapping[str, Any]) -> UtilityCosts | None:
    """The costs of the utility that the options name; raises InputError for a budget of none."""
    if values["utility"]:
        return UtilityCosts(values)
    if values["budget"] is not None:
        raise InputError("is of a utility's pairs", where="--budget", fix="Add --utility")
    if values["strategy"] in SEARCHES:
        problem = "depends on what the utility reads"
        raise InputError(problem, where="--strategy", fix="Add --utility")
    return None


class UtilityCosts:
    """What a utility needs of the input, and how much work it would be; forward passes are counted list by list.

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
        self.problems: list[str] = []
        self.search = SearchCounts("auto", BEAM, 0)
        self.texts = self.pairs = 0  # in the contexts of a search
        try:
            self.utility = adapted(load_without_code(self.named), values)
        except CodeRefusedError as error:
            self.problems.append(
                f"its cost and needs are not shown: check imports no code, and this {error.problem}"
            )
            return
        width = self.utility.reads.context
        self.search = SearchCounts(values["strategy"], values["beam"], width)
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
                check_features(budget, (utility,), "none")
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
        if record is None:
            self.search.skip()
            return
        num_contexts = self.search.add(record)
        if record.context_only:
            return
        texts = Distinct(record.candidates).texts
        references = texts
        if record.pseudo_references:
            references = Distinct(record.pseudo_references).texts
        num_references = 0 if references is texts else len(references)
        self.texts += num_contexts * (len(texts) + num_references)
        self.pairs += num_contexts * len(texts) * len(references)
        for counts in self.counts:
            counts.add(texts, references, record.source, num_contexts)
        if self.budget is not None:
            self._add_budgeted(self.budget, texts, references, record.source)

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
        num_texts, num_compared, problems = 0, 0, list(self.problems)
        for _, part in self.utility.parts:
            if self.search.is_search and part.reads.context:
                num_texts += self.texts
                num_compared += self.pairs
                problems += _problems(part, report)
                continue
            in_every_context = part.reads.everywhere and report.get("whole_documents", 0)
            num_texts += num_pairs if in_every_context else num_distinct
            # without references every text is compared with its source alone
            num_compared += num_pairs if part.info.needs_references else report.get("distinct", 0)
            problems += _problems(part, report)
        problems += self.search.problems()
        name = "candidates_to_read" if self.by_candidates else "pairs_to_compare"
        within = {name: self.budget_pairs, **_passes(self.budget_counts)}
        return {
            "signature": self.utility.signature(),
            "texts_to_represent": num_texts,
            "pairs_to_compare": num_compared,
            **_passes(self.counts),
            **({} if self.budget is None else {"within_budget": within}),
            **self.search.report(),
            "problems": problems,
        }


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
    """What an input lacks for a metric, or what will cost more than it seems."""
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


def _spread(counts: Counter[int]) -> dict[str, int]:
    """Least, (lower) median and largest of counted numbers."""
    middle, num_passed = (counts.total() + 1) // 2, 0
    for value in sorted(counts):
        num_passed += counts[value]
        if num_passed >= middle:
            break
    return {"min": min(counts), "median": value, "max": max(counts)}


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        entries = [f"{name} {_shown(inner)}" for name, inner in value.items() if inner != []]
        return ", ".join(entries)
    return f"{value:.3g}" if isinstance(value, float) and value < 1000 else str(value)
