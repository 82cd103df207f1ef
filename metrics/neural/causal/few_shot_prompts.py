"""Prompts with few-shot examples: what stands before a text whose likelihood is asked for.

    few-shot example, few-shot example, ..., input

A few-shot example is the template filled with an input, then its target and the separator; the input is the template
filled. Preceding sentences are a field of the template, or pairs of source and target that stand as further
examples behind those of the file. A prompt that is too long loses its oldest part first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from ...text.few_shot import TARGET, FewShotExamples
from ...text.prompt_template import SOURCE, Template
from ...text.texts import Context, Item

Given = Literal["nothing", "source", "context", "source+context"]
REFERENCE = "reference"


class FewShotPrompt(NamedTuple):
    """What stands before a text, the whole of it and what it may be shortened to."""

    num_forms: int  # how many there are, the shortest the last
    shortened: Callable[[int], str]  # without so many of its oldest parts


NO_PROMPT = FewShotPrompt(1, lambda _: "")


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
