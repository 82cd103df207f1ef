"""A prompt template: a text with the fields ``{source}``, ``{source_context}`` and ``{target_context}``.

The contexts are the preceding sentences of the document, joined: its sources, and what was chosen for them. Any other
field is a key of the input that holds a text. ``{{`` and ``}}`` are braces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any

from ..errors import InputError, excerpt
from .texts import Context

SOURCE = "source"
SOURCE_CONTEXT = "source_context"
TARGET_CONTEXT = "target_context"


class Template:
    """A template.

    Args:
        text: its text.
        where: what it is called in errors.

    Raises:
        InputError: braces that do not match, or more than a name between them.
    """

    def __init__(self, text: str, where: str = "prompt") -> None:
        self.text, self.where = text, where
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise InputError(
                f"{error}",
                where=where,
                fix="Write {{ and }} for braces",
            ) from error
        # pairs of literal text and the field behind it; no field at the end
        self.parts: list[tuple[str, str | None]] = []
        for literal, name, form, conversion in parts:
            if name is not None and (not name.isidentifier() or form or conversion):
                written = (
                    name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
                )
                raise InputError(
                    f"found {{{written}}}, expected a plain name",
                    where=where,
                    fix="Such as {source}, {target_context}, {key_of_the_input}",
                )
            self.parts.append((literal, name))
        self.fields = frozenset(name for _, name in self.parts if name is not None)

    @property
    def reads_context(self) -> bool:
        """Whether it has a field for preceding sentences."""
        return not self.fields.isdisjoint((SOURCE_CONTEXT, TARGET_CONTEXT))

    def filled(
        self,
        source: str,
        context: Context,
        extra: Mapping[str, Any],
        separator: str = " ",
        plain: Callable[[str], str] = str,
    ) -> str:
        """The prompt of an input.

        Args:
            source, context, extra: what the fields are filled with.
            separator: what joins the sentences of a context.
            plain: makes the text of a field one without tokens that control the model; those of the template stay.

        Raises:
            InputError: a field that the input does not have, or that holds no text.
        """
        known = {
            SOURCE: source,
            SOURCE_CONTEXT: separator.join(context.source),
            TARGET_CONTEXT: separator.join(context.target),
        }
        names = [name for _, name in self.parts if name is not None]
        return self.with_texts({name: plain(self._value(name, known, extra)) for name in names})

    def with_texts(self, texts: Mapping[str, str]) -> str:
        """The template with a text in place of every field, of which each has one."""
        pieces = []
        for literal, name in self.parts:
            pieces += [literal, "" if name is None else texts[name]]
        return "".join(pieces)

    def _value(
        self,
        name: str,
        known: Mapping[str, str],
        extra: Mapping[str, Any],
    ) -> str:
        """The text of a field, one of the three known ones or a key of the input."""
        value = known.get(name, extra.get(name))
        if isinstance(value, str):
            return value
        shown = "nothing" if value is None else excerpt(value)
        raise InputError(
            f"found {shown}, expected a text for {{{name}}}",
            where=self.where,
            fix=f"Give every input the key {name}, or take {{{name}}} out",
        )
