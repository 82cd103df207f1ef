"""Prompts with few-shot examples, and the sequences of tokens in which texts stand behind them.

    few-shot example, few-shot example, ..., input

A few-shot example is the template filled with an input, then its target and the separator; the input is the template
filled. Preceding sentences are a field of the template, or pairs of source and target that stand as further
examples behind those of the file. A prompt that is too long loses its oldest part first.

Of a prompt and a text one sequence is made:

    FIRST ids(prompt + text + end)

FIRST is the tokenizer's beginning-of-text token, if it has one. Prompt, text and end are
tokenised as one string; the text begins at the first id that differs from the prompt tokenised alone. So a token that
the last character of the prompt and the first of the text share is the text's, as is one that its last character and a
separator share.

A sequence longer than the model's limit takes the first of the shortened prompts that fits; then the left of the prompt
is cut, and only then the right of the text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ...errors import ModelLoadError
from ...representations import IntArray, Ragged
from ...text.prompt_template import SOURCE, TARGET, FewShotExamples, Template
from ...text.texts import Context, Item, Truncation
from ..models.prompt_pass import Prompted, num_common

Given = Literal["nothing", "source", "context", "source+context"]
REFERENCE = "reference"


class FewShotPrompt(NamedTuple):
    """The prompt before a text, whole and in its shorter forms."""

    num_forms: int  # how many there are, the shortest the last
    shortened: Callable[[int], str]  # without so many of its oldest parts


class Prompts:
    """Fills the template of a metric.

    Args:
        template: the template.
        examples: few-shot examples; of their fields `source` is that of the template, whatever it calls it.
        separator: what stands behind the target of each.
        given: what the prompt tells.
        plain: a text as the model's tokenizer may read it.

    Raises:
        InputError: an example lacks a field of the template.
    """

    def __init__(
        self,
        template: Template,
        examples: FewShotExamples,
        separator: str,
        given: Given | Literal["reference"],
        plain: Callable[[str], str],
    ) -> None:
        self.template = template
        self.separator = separator
        self.given = given
        self.plain = plain
        self.examples = tuple(
            self._example({REFERENCE: row[SOURCE], **row}, examples.name) for row in examples.rows
        )

    def of(self, given: Item | None, target_context: Sequence[str]) -> FewShotPrompt:
        """The prompt of an input.

        Args:
            given: the source, or what else the text is given; with its own context.
            target_context: sentences before the text.
        """
        text = "" if given is None else str(given.text)
        if self.given == "context":

            def behind_context(start: int) -> str:
                return self._filled(text, target_context[start:])

            return FewShotPrompt(1 + len(target_context), behind_context)
        examples = list(self.examples)
        if self.given == "source+context" and given is not None:
            # Of contexts of unequal lengths, the newest sentences are pairs.
            num_pairs = min(len(given.context), len(target_context))
            sources = given.context[len(given.context) - num_pairs :]
            targets = target_context[len(target_context) - num_pairs :]
            for source, target in zip(sources, targets, strict=True):
                pair = {SOURCE: self.plain(source), TARGET: self.plain(target)}
                examples.append(self._example(pair, "context"))
        own = self._filled(text, ())

        def behind_examples(start: int) -> str:
            return "".join((*examples[start:], own))

        return FewShotPrompt(1 + len(examples), behind_examples)

    def _example(self, row: Mapping[str, str], name: str) -> str:
        """A few-shot example, its separator behind it."""
        return FewShotExamples((row,), name).text(self.template, self.separator)

    def _filled(self, text: str, target_context: Sequence[str]) -> str:
        """The template filled; nothing if only blanks come of it."""
        plain = self.plain(text)
        before = Context(target=[self.plain(sentence) for sentence in target_context])
        prompt = self.template.filled(plain, before, {REFERENCE: plain})
        return prompt if prompt.strip() else ""


End = Literal["separator", "token", "none"]


class Sequences(NamedTuple):
    """Tokens of n texts behind their prompts."""

    prompted: Prompted
    truncation: IntArray  # [n], a `Truncation` each


class SequenceReader:
    """Makes sequences.

    Args:
        tokenizer: a transformers tokenizer.
        max_tokens: the longest sequence, the first token counted.
        end: what ends a text and is scored with it: a separator, the model's end token, or nothing.
        separator: the separator.

    Raises:
        ModelLoadError: the end token is to be scored, and there is none.
    """

    def __init__(self, tokenizer: Any, max_tokens: int, end: End, separator: str) -> None:
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.end_text = separator if end == "separator" else ""
        self.first_ids = first_ids(tokenizer)
        self.end_ids: list[int] = []
        if end == "token":
            if tokenizer.eos_token_id is None:
                fix = 'Score a separator, or nothing: end="separator", end="none"'
                where = str(tokenizer.name_or_path)
                raise ModelLoadError("the tokenizer has no end token", where=where, fix=fix)
            self.end_ids = [int(tokenizer.eos_token_id)]

    @property
    def has_end(self) -> bool:
        """Whether an end is scored."""
        return bool(self.end_text or self.end_ids)

    def read(self, prompts: Sequence[FewShotPrompt], texts: Sequence[str]) -> Sequences:
        """The sequences of texts behind their prompts, [n] each."""
        strings: dict[int, str] = {}
        for prompt in prompts:
            strings.setdefault(id(prompt), prompt.shortened(0))
        whole = [strings[id(prompt)] for prompt in prompts]
        ids, first = self._read(whole, texts)
        truncation = [Truncation.NONE] * len(ids)
        for i, tokens in enumerate(ids):
            if len(tokens) > self.max_tokens:
                ids[i], first[i], truncation[i] = self._shortened(prompts[i], texts[i])
        prompted = Prompted(Ragged.of_rows(ids), np.array(first, np.int64))
        return Sequences(prompted, np.array(truncation, np.int64))

    def num_tokens(self, texts: Sequence[str]) -> IntArray:
        """About the tokens of texts alone, their ends counted, [n]."""
        own = self._ids([text + self.end_text for text in texts])
        return np.array([len(ids) + len(self.end_ids) for ids in own], np.int64)

    def _read(
        self, prompts: Sequence[str], texts: Sequence[str]
    ) -> tuple[list[IntArray], list[int]]:
        """Sequences of any length, and the place of the first scored token of each."""
        distinct = list(dict.fromkeys(prompts))
        alone = dict(zip(distinct, self._ids(distinct), strict=True))
        strings = [
            f"{prompt}{text}{self.end_text}" for prompt, text in zip(prompts, texts, strict=True)
        ]
        ids, first = [], []
        for prompt, body in zip(prompts, self._ids(strings), strict=True):
            tokens = [*self.first_ids, *body, *self.end_ids]
            ids.append(np.array(tokens, np.int64))
            start = len(self.first_ids) + num_common(alone[prompt], body)
            # What nothing stands before has no probability.
            first.append(max(1, start))
        return ids, first

    def _shortened(self, prompt: FewShotPrompt, text: str) -> tuple[IntArray, int, Truncation]:
        """The sequence of one text behind the longest prompt that it fits with, or cut."""

        def fits(start: int) -> bool:
            ids, _ = self._read([prompt.shortened(start)], [text])
            return len(ids[0]) <= self.max_tokens

        start = bisect_left(range(prompt.num_forms), True, key=fits)
        if start < prompt.num_forms:
            ids, first = self._read([prompt.shortened(start)], [text])
            return ids[0], first[0], Truncation.CONTEXT
        ids, first = self._read([prompt.shortened(prompt.num_forms - 1)], [text])
        tokens, start = ids[0], first[0]
        num_first = len(self.first_ids)
        # The left of the prompt goes, but for the first token and, without one, for one that the text stands behind.
        spare = len(tokens) - self.max_tokens
        kept = max(1, start - spare) - num_first
        prompt_end = tokens[start - kept : start] if kept > 0 else tokens[:0]
        cut = np.concatenate((tokens[:num_first], prompt_end, tokens[start:]))
        return cut[: self.max_tokens], num_first + len(prompt_end), Truncation.TEXT

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts, without special tokens around them."""
        if not texts:
            return []
        encoded = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        ids: list[list[int]] = encoded.input_ids
        return ids


def first_ids(tokenizer: Any) -> list[int]:
    """The id of the beginning-of-text token, if there is one.

    Here it is before every sequence. `logprobs` reads prompts as `generate` does, with what the tokenizer itself puts
    before them, and takes this one where nothing is before a text.
    """
    return [] if tokenizer.bos_token is None else [int(tokenizer.bos_token_id)]
