"""The prompts of `generate` and `logprobs`: few-shot examples and a filled template, so that both read the same tokens.

In reverse the source is predicted from the candidate: templates have the field ``{candidate}``, and the target of an
example is its candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...metrics.errors import InputError
from ...metrics.text.prompt_template import (
    SEPARATOR,
    SOURCE,
    TARGET,
    TARGET_CONTEXT,
    FewShotExamples,
    Template,
    warn_of_two_blanks,
)
from ...metrics.text.texts import Context

CANDIDATE = "candidate"


class FewShotTemplates:
    """The text before the one that is generated or scored.

    Args:
        template: the template.
        first: the template for a list without preceding sentences; `template` if not given.
        examples: few-shot examples, which precede it.
        separator: what follows each example.
        reverse: whether the source is predicted from the candidate.

    Raises:
        InputError: the template of first sentences reads context; an example lacks a field of a template.
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
        self.examples, self.separator, self.reverse = examples, separator, reverse
        if self.first.reads_context and self.first is not template:
            fix = "Take its context out"
            raise InputError("reads context, where there is none", where="first_prompt", fix=fix)
        self._shown = FewShotExamples(()) if examples is None else examples
        if reverse:
            rows = [
                {**row, CANDIDATE: row[TARGET], TARGET: row[SOURCE]} for row in self._shown.rows
            ]
            self._shown = replace(self._shown, rows=tuple(rows))
        self.read_by(str)
        for one in self._examples:
            warn_of_two_blanks(self._shown, one)

    def read_by(self, plain: Callable[[str], str]) -> None:
        """Fill fields with `plain` of their texts from now on, in which the reader's control tokens are words."""
        self._plain = plain
        shown = self._shown.plain(plain)
        # by template
        self._examples = {
            one: shown.text(one, self.separator) for one in (self.template, self.first)
        }

    def check_width(self, width: int) -> None:
        """Raises InputError where templates read preceding sentences and none are kept, or the other way round."""
        if self.reads_context and not width:
            fix = "Say how many sentences"
            raise InputError("the prompt reads context, but none is kept", where="context", fix=fix)
        if width and not self.reads_context:
            fix = "Put {source_context} or {target_context} into it, or leave context out"
            raise InputError("the prompt reads no context", where="prompt", fix=fix)

    @property
    def reads_context(self) -> bool:
        """Whether preceding sentences are read."""
        return self.template.reads_context

    @property
    def reads_choices(self) -> bool:
        """Whether the choices for preceding sentences are read."""
        return TARGET_CONTEXT in self.template.fields

    def reads_source(self, context: Context) -> bool:
        """Whether the source of a list with this context is read."""
        return SOURCE in self._of(context).fields

    def filled(self, source: str, context: Context, extra: Mapping[str, Any]) -> str:
        """The prompt of a text; errors as `Template.filled`."""
        template = self._of(context)
        return self._examples[template] + template.filled(source, context, extra, plain=self._plain)

    def _of(self, context: Context) -> Template:
        return self.template if context.source else self.first
