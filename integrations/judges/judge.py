"""Scores that a language model on a server gives in words: judges (Kocmi and Federmann 2023).

    judge     reads hypothesis and reference, and the source where it is given
    judge-qe  reads hypothesis and source; reference-free

The `prompt` decides the value: da and sqm 0 to 100, stars 1 to 5, mqm -25 to 0 (1, 5 and 25 off for a minor, major and
critical error), or a prompt file (`judge_prompts`). With ``prompt="pairwise"``, of ``judge`` alone, two texts are
compared in both orders (Zheng et al. 2023):

    u(h, r) = (p(first better | h, r) + 1 - p(first better | r, h)) / 2,    u(h, h) = 1/2,

so that the expected utility of a candidate is its share of wins over the others. Higher is better, none is symmetric.
With `judgements` = k the value is the mean of k answers with the seeds seed to seed + k - 1, of those that have one;
where none has, it is NaN. An empty text is judged like any other. Answers are the server's: the same question is asked
once, and its answer kept (`judge_answers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self
from warnings import warn

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import Block, FloatArray, IntArray, Reps
from ...metrics.scorer import Info, Reading, Requested, Scorer
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.text.texts import Comparison, Document, Item
from ..files.reply_choices import sendable
from ..server.score_server import ServerMetric
from .calls import CallBounds, JudgeCalls, KeptAnswers, Spending
from .judge_answers import errors_in, estimated_tokens
from .judge_prompts import (
    BUILT_IN,
    CONTEXTS,
    FLAG,
    JudgePrompt,
    JudgeQuestion,
    Requests,
    read_prompt,
    speaks_to_judge,
    untagged,
)

PROMPT_LENGTH = 1000  # characters of a prompt beside its texts, about
SAME = 0.5  # a text against itself
REASONS = (
    "judgement: what the answers below are worth, on the scale of the prompt; "
    "errors: where the errors stand that an answer lists"
)
Cell = tuple[int, int, int]  # rows of hypothesis, reference (-1: none) and source (-1: none)


@dataclass(eq=False)
class JudgeScorer(Scorer):
    """Keeps the texts as the prompt shows them; a value is made of the answers to a pair.

    Args:
        info: of the metric.
        prompt: its wording.
        languages: what source_lang and target_lang say; None: nothing.
        judgements: answers that are averaged.
        asking: how the server is asked.
        kept: answers that were paid for.
        calls: what asks the server; None where nothing is asked.
    """

    info: Info
    prompt: JudgePrompt
    languages: Mapping[str, str | None]
    judgements: int
    asking: Requests
    kept: KeptAnswers
    calls: JudgeCalls | None

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
        if self.prompt.worth.answer == "errors" and "answers" in described:
            text = str(reps["text"][int(block.hypotheses[hypothesis])])
            described["errors"] = errors_in(described["answers"][0], text)
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
    return untagged(sendable(text))


Count = Annotated[int, Field(ge=1)]


@settings
class JudgeMetric(ServerMetric):
    """The settings of both judges.

    Args:
        prompt: da, sqm, stars, mqm, pairwise (judge alone), or a prompt file.
        context: how many preceding sentences of either side the prompt shows.
        unit: segment, or document: whole documents are judged at once, instead of sentence by sentence.
        source_lang: the language of the source, as the prompt calls it, such as German; not said if not given.
        target_lang: the language of the texts that are judged.
        judgements: how many answers are averaged; more than one needs a temperature above 0.
        temperature: divides logits; none is sent if it is None.
        seed: sent with the first judgement, the others have the numbers behind it; none is sent if it is None.
        answer_tokens: the longest answer; none is sent if it is None.
        repeats: how often a question is asked again whose answer has no value.
        chat: whether prompts go to /chat/completions, instead of to /completions.
        request: more keys of a request, as a JSON object.
        base_url: the address up to the version, such as http://localhost:8000/v1; that in the environment variable
            DISCORANK_JUDGE_SERVER if not given. No part of the signature.
        key_variable: the environment variable that holds the key; no key is sent if it is not named, but that in
            DISCORANK_JUDGE_KEY, if any, to the address in the environment. No part of the signature.
        answers: a folder that keeps answers, so that none is paid for twice. No part of the signature.
        max_calls: how many calls a run may make; it ends at the next. No part of the signature.
        max_tokens: how many tokens of prompts and answers a run may spend. No part of the signature.
    """

    prompt: str = "da"
    context: Annotated[int, Field(ge=0)] = 0
    unit: Literal["segment", "document"] = "segment"
    source_lang: str | None = None
    target_lang: str | None = None
    judgements: Annotated[int, Field(ge=1, le=1000)] = 1
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = 0.0
    seed: int | None = 0
    answer_tokens: Count | None = 512
    repeats: Annotated[int, Field(ge=0, le=10)] = 2
    chat: bool = True
    request: str | None = None
    answers: str | None = field(default=None, compare=False)
    max_calls: Count | None = field(default=None, compare=False)
    max_tokens: Count | None = field(default=None, compare=False)
    users_own: ClassVar[tuple[str, ...]] = ("base_url", "key_variable", "answers")

    own_keys: ClassVar[frozenset[str]] = frozenset(
        {"model", "prompt", "messages", "n", "stream", "temperature", "seed", "max_tokens"}
    )
    address_variable: ClassVar[str] = "DISCORANK_JUDGE_SERVER"
    variable_of_key: ClassVar[str] = "DISCORANK_JUDGE_KEY"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.judgements > 1 and self.temperature == 0:
            fix = "Set a temperature above 0, or ask once"
            raise InputError("the same answer every time", where=f"{self.name}.judgements", fix=fix)
        try:
            prompt = read_prompt(self.prompt)
        except InputError as error:
            raise error.inside(self.name) from None
        self._check_prompt(prompt)
        self._keep(prompt)

    def _check_prompt(self, prompt: JudgePrompt) -> None:
        """Raises InputError for a prompt that is not for this metric."""
        if self.context and prompt.fields.isdisjoint(CONTEXTS):
            fix = "Set context=0, or write {source_context} or {target_context} into the prompt"
            raise InputError("the prompt reads none", where=f"{self.name}.context", fix=fix)

    def _keep(self, prompt: JudgePrompt) -> None:
        """Keeps the prompt, and what it says of the metric, with the settings."""
        put = object.__setattr__
        put(self, "prompt", prompt.name)
        put(self, "wording", prompt)
        reads_source = "source" in prompt.fields
        info = replace(
            type(self).info,
            unit=self.unit,
            bounds=prompt.worth.bounds,
            needs_source=reads_source and type(self).info.needs_source,
            takes_source=reads_source,
        )
        put(self, "info", info)

    @property
    def reads(self) -> Reading:
        """Context sentences; those of a hypothesis are its own."""
        return Reading(self.context, "hypothesis")

    def remarks(self, comparison: Comparison) -> tuple[str, ...]:
        """A flag where a hypothesis or a reference speaks to the judge."""
        items = (*comparison.hypotheses, *comparison.references)
        return (FLAG,) if any(speaks_to_judge(_plain(item)) for item in items) else ()

    def for_language(self, lang: str) -> Self:
        """The judge of texts in a language."""
        return self.with_defaults(target_lang=lang)

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The papers of the judge with these settings."""
        of_prompts = {"mqm": ("kocmi2023gemba",), "pairwise": ("zheng2023judging",)}
        of_prompt = of_prompts.get(str(settings.get("prompt")), ())
        return (*super().cited(settings), *of_prompt)

    def unloaded(self) -> JudgeScorer:
        """A scorer that fills prompts, and asks nobody."""
        return self._scorer(None)

    def load(self) -> JudgeScorer:
        """A scorer that asks the server, which is not asked yet.

        Raises:
            InputError: no address is given, or no key where one is named.

        Warns:
            RuntimeWarning: no folder keeps the answers.
        """
        connection = self.connection()
        connection.key()
        if self.answers is None:
            message = (
                "answers are not kept, and a run that is stopped pays for them again: name a folder"
            )
            warn(f"{self.name}: {message} (answers=..., --cache)", RuntimeWarning, stacklevel=2)
        spending = Spending(CallBounds(self.max_calls, self.max_tokens))
        kept = KeptAnswers(self.answers)
        worth = self._wording.worth
        calls = JudgeCalls(connection, self.requests, worth, self.repeats, kept, spending)
        return self._scorer(calls)

    def _scorer(self, calls: JudgeCalls | None) -> JudgeScorer:
        languages = {"source_lang": self.source_lang, "target_lang": self.target_lang}
        kept = calls.kept if calls else KeptAnswers(self.answers)
        return JudgeScorer(
            self.info, self._wording, languages, self.judgements, self.requests, kept, calls
        )

    @property
    def _wording(self) -> JudgePrompt:
        """The prompt, as it was read."""
        prompt: JudgePrompt = self.__dict__["wording"]
        return prompt

    @property
    def requests(self) -> Requests:
        """How the server is asked."""
        return Requests(
            self.model,
            self.chat,
            self.temperature,
            self.seed,
            self.answer_tokens,
            self.further,
        )


@settings
class JudgeWithReference(JudgeMetric):
    """A judge that reads a reference, or compares two texts."""

    name: ClassVar[str] = "judge"
    info: ClassVar[Info] = Info(
        summary="a language model on a server judges a hypothesis beside a reference",
        version=2,
        reasons=REASONS,
        papers=("kocmi2023large",),
        may_lack=True,
        costly_pairs=True,
        takes_source=True,
    )

    def _check_prompt(self, prompt: JudgePrompt) -> None:
        if not (prompt.is_pairwise or "reference" in prompt.fields):
            fix = "Use judge-qe, or write {reference} into the prompt"
            raise InputError("reads no reference", where=f"{self.name}.prompt", fix=fix)
        super()._check_prompt(prompt)


@settings
class JudgeWithoutReference(JudgeMetric):
    """A judge that reads no reference."""

    name: ClassVar[str] = "judge-qe"
    info: ClassVar[Info] = Info(
        summary="a language model on a server judges a hypothesis beside its source",
        version=2,
        reasons=REASONS,
        papers=("kocmi2023large",),
        may_lack=True,
        costly_pairs=True,
        needs_source=True,
        needs_references=False,
    )

    def _check_prompt(self, prompt: JudgePrompt) -> None:
        if prompt.is_pairwise:
            fix = (
                'Use decode -u judge(prompt="pairwise"), or rerank -m expected -u judge(prompt="pairwise"): '
                "the share of wins over the other candidates"
            )
            raise InputError("compares two texts", where=f"{self.name}.prompt", fix=fix)
        if "reference" in prompt.fields and self.prompt not in BUILT_IN:
            fix = "Use judge, or take {reference} out of the prompt"
            raise InputError("reads a reference", where=f"{self.name}.prompt", fix=fix)
        super()._check_prompt(prompt)
