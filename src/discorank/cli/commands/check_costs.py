"""Costs of deciding or scoring lists: texts, pairs, forward passes of models and calls of servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, InputError
from ...metrics.mixture import Utility
from ...metrics.registry import load_without_code
from ...metrics.spec.user_code import CodeRefusedError
from ...metrics.text.texts import Text
from ...rerank.budget.budgeted import check_features
from ...rerank.budget.plan import num_pairs
from ...rerank.budget.settings import CHEAP, Budget, two_texts_are_one_pair
from ...rerank.engines.sharing import loads_at_once
from ...rerank.lists import CandidateList, Distinct
from ...rerank.pass_counts import PassCounts
from ..options.budget import budget_in
from ..options.inputs import adapted


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

    def report(self, report: Mapping[str, Any], is_plain: bool) -> dict[str, Any]:
        """Everything as JSON data; report: that of the input; is_plain: it is a plain file of JSON lines."""
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
            **(
                {}
                if self.scores
                else {"auto_processes": is_plain and self._is_shared(self.utility)}
            ),
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

    def _is_shared(self, utility: Utility) -> bool:
        """Whether --jobs auto takes several processes once the first lists show that they pay."""
        return not utility.reads.context and loads_at_once(utility)


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
