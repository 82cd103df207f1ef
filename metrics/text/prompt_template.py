"""A prompt template: a text with the fields ``{source}``, ``{source_context}`` and ``{target_context}``.

The contexts are the preceding sentences of the document, joined: its sources, and what was chosen for them. Any other
field is a key of the input that holds a text. ``{{`` and ``}}`` are braces.

Few-shot examples before the input of a prompt, from a file of JSON lines.

    {"source": "How are you?", "target": "Wie geht es dir?"}        and any other field of the template, texts all
An example is the template filled with its fields, then its target, then a separator, an empty line if not given:
    text = concat_i(template(example_i) + target_i + separator)
What counts of the file is the examples, in their order: its digest is the same wherever it lies.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from string import Formatter
from typing import Any

from ..errors import InputError, excerpt
from ..spec.checked_settings import from_json
from ..storage.checksums import DIGITS
from ..storage.json_and_yaml import parse_small_json, unique_members
from ..storage.limits import limits
from .sentence_splitting import numbered_lines
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
                    fix="Such as {source}, {target_context}, {key_of_the_input}; write {{}} for braces",
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


TARGET = "target"
SEPARATOR = "\n\n"
FIX = 'Write {"source": "...", "target": "..."} on every line'


@dataclass(frozen=True, slots=True)
class FewShotExamples:
    """Few-shot examples, each with the texts of its fields.

    Args:
        rows: fields and their texts; `source` and `target` are among them.
        name: what they are called in errors, such as their file.
    """

    rows: tuple[Mapping[str, str], ...]
    name: str = "examples"

    @property
    def digest(self) -> str:
        """A digest of the examples in their order: 16 hexadecimal digits."""
        whole = sha256()
        for row in self.rows:
            for key in sorted(row):
                for text in (key, row[key]):
                    data = text.encode()
                    whole.update(len(data).to_bytes(8, "little") + data)
            whole.update(b"\xff" * 8)
        return whole.hexdigest()[:DIGITS]

    def plain(self, plain: Callable[[str], str]) -> FewShotExamples:
        """The examples with `plain` of all their texts: without tokens that control a model."""
        rows = [{key: plain(text) for key, text in row.items()} for row in self.rows]
        return replace(self, rows=tuple(rows))

    def text(self, template: Template, separator: str = SEPARATOR) -> str:
        """The examples before the prompt of an input; empty without examples.

        The template's contexts are fields of an example too, empty where it has none.

        Raises:
            InputError: an example lacks a field of the template.
        """
        pieces = []
        for number, row in enumerate(self.rows, 1):
            context = Context(_sentences(row, SOURCE_CONTEXT), _sentences(row, TARGET_CONTEXT))
            try:
                filled = template.filled(row[SOURCE], context, row)
            except InputError as error:
                where = f"{self.name}: example {number}"
                fix = f"Give it the fields of {template.where}"
                raise InputError(error.problem, where=where, fix=fix) from None
            pieces.append(f"{filled}{row[TARGET]}{separator}")
        return "".join(pieces)


def warn_of_two_blanks(examples: FewShotExamples | None, template: Template) -> None:
    """Warns where a template ends with white space and the target of an example begins with it.

    Then more stands before targets of examples than before what the model is to write, which is another text to it.
    """
    if examples is None or not template.text[-1:].isspace():
        return
    for number, row in enumerate(examples.rows, 1):
        if row[TARGET][:1].isspace():
            message = (
                f"{examples.name}: example {number}: its target begins with white space, and the {template.where} "
                "ends with it: both stand in the example. Take one of them out"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=3)
            return


def _sentences(row: Mapping[str, str], key: str) -> tuple[str, ...]:
    return (row[key],) if key in row else ()


def read_examples(path: str | Path) -> FewShotExamples:
    """The examples of a file, at least one; blank lines are passed over.

    Raises:
        InputError: it cannot be read, has no example, more than the limit `candidates`, or more bytes than
            `file_bytes`; a line is no object of texts with `source` and `target`, or has a key twice; with the line.
    """
    rows: list[Mapping[str, str]] = []
    num_bytes = 0
    for number, line in numbered_lines(path, "Name a file of examples"):
        where = f"{path}:{number}"
        num_bytes += len(line)
        limits().check("file_bytes", num_bytes, where)
        limits().check("candidates", len(rows) + 1, where)
        rows.append(_read_row(line, where))
    if not rows:
        raise InputError("there is no example in it", where=str(path), fix=FIX)
    return FewShotExamples(tuple(rows), str(path))


def _read_row(line: str, where: str) -> Mapping[str, str]:
    """The fields of one example; raises InputError."""
    value = parse_small_json(line.encode(), where, FIX, unique_members)
    row = from_json(dict[str, str], value, where, FIX)
    for key in (SOURCE, TARGET):
        if key not in row:
            raise InputError(f"no {key}", where=where, fix=FIX)
    return row
