"""What the model reads of each input: a template filled with it and the sentences before it, behind examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...metrics.errors import DiscorankError, InputError
from ...metrics.text.few_shot import FewShotExamples, warn_of_two_blanks
from ...metrics.text.prompt_template import TARGET_CONTEXT, Template
from ...metrics.text.texts import Context
from .generator import Prompt


class TurnPrompts:
    """The prompts of inputs.

    Args:
        template: what the model reads of each input.
        first: the template for an input without preceding sentences.
        context: how many preceding sentences the contexts of a template hold.
        examples: few-shot examples that stand before the prompt of every input.
        plain: what makes a text free of control tokens (see `Template.filled`).

    Raises:
        InputError: an example lacks a field of a template; templates and context do not fit together.
    """

    def __init__(
        self,
        template: Template,
        first: Template,
        context: int,
        examples: FewShotExamples | None,
        plain: Callable[[str], str] = str,
    ) -> None:
        self.template, self.first, self.context = template, first, context
        self._plain = plain
        # what stands before the prompt, by template
        self._examples: dict[Template, str] = {}
        if examples:
            shown = examples.plain(plain)
            self._examples = {one: shown.text(one) for one in (template, first)}
            for one in self._examples:
                warn_of_two_blanks(examples, one)
        self._check()

    def _check(self) -> None:
        reads = self.template.reads_context
        if self.first.reads_context and self.first is not self.template:
            raise InputError(
                "reads context, where there is none",
                where="first_prompt",
                fix="Take its context out",
            )
        if reads and not self.context:
            raise InputError(
                "the prompt reads context, but none is kept",
                where="context",
                fix="Say how many sentences",
            )
        if self.context and not reads:
            fix = "Put {source_context} or {target_context} into it, or leave context out"
            raise InputError("the prompt reads no context", where="prompt", fix=fix)

    @property
    def read_choices(self) -> bool:
        """Whether a prompt holds what was chosen for the sentences before."""
        return TARGET_CONTEXT in self.template.fields

    def filled(self, prompt: Prompt, context: Context) -> Prompt | DiscorankError:
        """The input with all that the model reads of it, or what is lacking."""
        template = self.template if context.source else self.first
        try:
            before = context.last(self.context)
            text = template.filled(prompt.text, before, prompt.extra, plain=self._plain)
        except DiscorankError as error:
            return error
        return replace(prompt, text=f"{self._examples.get(template, '')}{text}")
