"""The prompts of lists: a template, another one where nothing stands before, and few-shot examples before either."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...metrics.errors import InputError
from ...metrics.text.few_shot import SEPARATOR, TARGET, FewShotExamples, warn_of_two_blanks
from ...metrics.text.prompt_template import SOURCE, TARGET_CONTEXT, Template
from ...metrics.text.texts import Context

CANDIDATE = "candidate"


class FewShotTemplates:
    """What stands before a text that is scored.

    Args:
        template: the template.
        first: the template for a list without preceding sentences; `template` if not given.
        examples: few-shot examples, which stand before it; in reverse their `target` is the candidate.
        separator: what stands behind each example.
        reverse: whether the source is scored given the candidate.

    Raises:
        InputError: a template holds what is scored, or reads context where there is none; an example lacks a field.
    """

    def __init__(
        self,
        template: Template,
        first: Template | None = None,
        examples: FewShotExamples | None = None,
        separator: str = SEPARATOR,
        reverse: bool = False,
    ) -> None:
        self.template, self.first = template, first or template
        self.reverse = reverse
        self._check()
        self.examples, self.separator = examples, separator
        self.read_by(str)
        shown = None if examples is None else self._turned(examples)
        for one in dict.fromkeys((self.template, self.first)):
            warn_of_two_blanks(shown, one)

    def read_by(self, plain: Callable[[str], str]) -> None:
        """Fills fields with `plain` of their texts from now on: the words of what reads the prompts."""
        shown = FewShotExamples(()) if self.examples is None else self._turned(self.examples)
        shown = shown.plain(plain)
        self._examples_text = shown.text(self.template, self.separator)
        self._first_examples_text = shown.text(self.first, self.separator)
        self._plain = plain

    def _check(self) -> None:
        scored = SOURCE if self.reverse else CANDIDATE
        for template in (self.template, self.first):
            if scored in template.fields:
                fix = "Take it out, or score the source: reverse"
                raise InputError(
                    f"holds {{{scored}}}, which is what is scored",
                    where=template.where,
                    fix="Take it out" if self.reverse else fix,
                )
        if self.first.reads_context and self.first is not self.template:
            fix = "Take its context out"
            raise InputError("reads context, where there is none", where="first_prompt", fix=fix)

    def _turned(self, examples: FewShotExamples) -> FewShotExamples:
        """The examples as the templates read them: in reverse the source is what comes of the target."""
        if not self.reverse:
            return examples
        rows = [{**row, CANDIDATE: row[TARGET], TARGET: row[SOURCE]} for row in examples.rows]
        return replace(examples, rows=tuple(rows))

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that prompts depend on."""
        shown = None if self.examples is None else [self.examples.digest, self.separator]
        return {
            "prompt": self.template.text,
            "first_prompt": self.first.text,
            "examples": shown,
            "reverse": self.reverse,
        }

    @property
    def reads_context(self) -> bool:
        """Whether preceding sentences are read."""
        return self.template.reads_context

    @property
    def reads_choices(self) -> bool:
        """Whether what was chosen for preceding sentences is read."""
        return TARGET_CONTEXT in self.template.fields

    def reads_source(self, context: Context) -> bool:
        """Whether the source of a list with this context is read."""
        return SOURCE in self._of(context).fields

    def filled(self, source: str, context: Context, extra: Mapping[str, Any]) -> str:
        """The prompt of a text; errors as `Template.filled`."""
        template = self._of(context)
        examples_text = (
            self._examples_text if template is self.template else self._first_examples_text
        )
        return examples_text + template.filled(source, context, extra, plain=self._plain)

    def _of(self, context: Context) -> Template:
        return self.template if context.source else self.first
