"""Fills the prompts of pairs of texts, has them answered, and makes values of the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...metrics.representations import Block, FloatArray, IntArray, Reps
from ...metrics.scorer import Info, Requested, Scorer
from ...metrics.text.texts import Document, Item
from .calls import JudgeCalls
from .judge_answers import estimated_tokens
from .judge_questions import JudgeQuestion, Requests
from .kept_answers import KeptAnswers
from .prompt_files import JudgePrompt, untagged

PROMPT_LENGTH = 1000  # characters of a prompt beside its texts, about
SAME = 0.5  # a text against itself
Cell = tuple[int, int, int]  # rows of hypothesis, reference (-1: none) and source (-1: none)


class JudgeScorer(Scorer):
    """Keeps the texts as the prompt shows them; a value is made of the answers to a pair.

    Args:
        info: of the metric.
        prompt: its wording.
        languages: what source_lang and target_lang say; None: nothing.
        judgements: answers that are averaged.
        requests: how the server is asked.
        kept: answers that were paid for.
        calls: what asks the server; None where nothing is asked.
    """

    def __init__(
        self,
        info: Info,
        prompt: JudgePrompt,
        languages: Mapping[str, str | None],
        judgements: int,
        requests: Requests,
        kept: KeptAnswers,
        calls: JudgeCalls | None,
    ) -> None:
        self.info, self.prompt, self.languages = info, prompt, dict(languages)
        self.judgements, self.asking, self.kept, self.calls = judgements, requests, kept, calls

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """The texts and their contexts as they stand in prompts, and the lengths of both together in characters."""
        texts, contexts = np.empty(len(items), object), np.empty(len(items), object)
        texts[:] = [_shown(_plain(item)) for item in items]
        contexts[:] = [_shown("\n".join(item.context)) for item in items]
        lengths = [len(a) + len(b) for a, b in zip(texts, contexts, strict=True)]
        return Reps({"text": texts, "context": contexts}), np.array(lengths, np.int64)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block, [H, 1] without references; errors as `JudgeCalls.values`."""
        grids = [list(_cells(block, self.info.needs_references)) for block in blocks]
        cells = dict.fromkeys(cell for grid in grids for row in grid for cell in row)
        questions = {cell: self._questions(reps, cell) for cell in cells}
        asked = (question for both in questions.values() for side in both for question in side)
        values = self._calls.values(asked)
        of_cell = {cell: self._value(questions[cell], values) for cell in cells}
        return [
            np.array([[of_cell[cell] for cell in row] for row in grid], np.float64).reshape(
                len(grid), -1
            )
            for grid in grids
        ]

    def statistics(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """The value of every block, 0 where it has none, and whether it has one, [n, 2]."""
        values = super().statistics(reps, blocks)[:, 0]
        has_value = np.isfinite(values)
        return np.stack((np.where(has_value, values, 0.0), has_value.astype(float)), axis=1)

    def aggregate(self, statistics: FloatArray) -> float:
        """The mean of the values there are, NaN where there is none."""
        sums = statistics.sum(axis=0, keepdims=True)
        return float(self.aggregate_sums(sums, np.ones(1))[0])

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray:
        """The means [b] of sums of statistics [b, 2]."""
        undefined = np.full(len(sums), np.nan)
        means = np.divide(sums[:, 0], sums[:, 1], out=undefined, where=sums[:, 1] > 0)
        return np.asarray(means)

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """Characters of all prompts of a block, about."""
        return block.cells * PROMPT_LENGTH * self.judgements

    def spent(self) -> Mapping[str, int]:
        """Calls, tokens and answers since this was last asked."""
        return self.calls.spending.take() if self.calls else {}

    def requested(self, reps: Reps, block: Block) -> Requested:
        """The distinct questions that a block asks, without what is asked again."""
        tokens: dict[bytes, int] = {}
        for row in _cells(block, self.info.needs_references):
            for cell in row:
                for question in (q for side in self._questions(reps, cell) for q in side):
                    key = self.asking.key(question)
                    tokens[key] = estimated_tokens(question.prompt)
        return Requested(tokens, self.kept.count)

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The answers that a value is made of."""
        column = int(block.references[reference]) if self.info.needs_references else -1
        sides = self._questions(reps, (int(block.hypotheses[hypothesis]), column, block.source))
        names = ("as first", "as second") if self.prompt.is_pairwise else ("answers",)
        described: dict[str, Any] = {}
        with self._calls.kept.in_use():
            values = self._calls.values(question for side in sides for question in side)
            for name, side in zip(names, sides, strict=False):
                described[name] = [self._calls.answers(question)[0] for question in side]
        value = self._value(sides, values)
        return {"judgement": value if np.isfinite(value) else None, **described}

    @property
    def _calls(self) -> JudgeCalls:
        if self.calls is None:
            raise TypeError("a scorer that is not loaded asks nothing")
        return self.calls

    def _questions(self, reps: Reps, cell: Cell) -> list[list[JudgeQuestion]]:
        """The questions of a pair: one list, or for a prompt that compares two texts one of either order, or none."""
        hypothesis, reference, source = cell
        texts, contexts = reps["text"], reps["context"]
        shared = {
            **self.languages,
            "source": texts[source] if source >= 0 else None,
            "source_context": contexts[source] or None if source >= 0 else None,
            "target_context": contexts[hypothesis] or None,
        }
        one, two = texts[hypothesis], texts[reference] if reference >= 0 else None
        if not self.prompt.is_pairwise:
            return [self._asked({**shared, "hypothesis": one, "reference": two})]
        if one == two:
            return []
        return [
            self._asked({**shared, "first": one, "second": two}),
            self._asked({**shared, "first": two, "second": one}),
        ]

    def _asked(self, values: Mapping[str, str | None]) -> list[JudgeQuestion]:
        """A prompt as often as there are judgements."""
        prompt = self.prompt.filled(values)
        return [JudgeQuestion(prompt, number) for number in range(self.judgements)]

    def _value(
        self, sides: Sequence[Sequence[JudgeQuestion]], values: Mapping[JudgeQuestion, float]
    ) -> float:
        """The value of a pair from those of its questions."""
        means = [_mean([values[question] for question in side]) for side in sides]
        if not means:
            return SAME
        if len(means) == 1:
            return means[0]
        as_first, as_second = means
        return (as_first + (1.0 - as_second)) / 2


def _cells(block: Block, has_references: bool) -> Iterator[list[Cell]]:
    """The cells of a block, a row per hypothesis."""
    columns = block.references.tolist() if has_references else [-1]
    for hypothesis in block.hypotheses.tolist():
        yield [(hypothesis, reference, block.source) for reference in columns]


def _mean(values: Sequence[float]) -> float:
    """The mean of those that are numbers; NaN where none is."""
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else float("nan")


def _plain(item: Item) -> str:
    """The text of an item, a sentence per line for a document."""
    if isinstance(item.text, Document):
        return "\n".join(item.text.sentences)
    return item.text


def _shown(text: str) -> str:
    """A text that UTF-8 can hold, without the tags of the prompt."""
    return untagged(text.encode("utf-8", "replace").decode())
