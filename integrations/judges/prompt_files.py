"""A prompt of a judge: a header that says what an answer is worth, a line ``---``, and a template.

    answer: number                                        answer: choice                 answer: errors
    range: [1, 7]                                         choices: {good: 1, bad: 0}     weights: {minor: -1, major: -5}
                                                                                         range: [-25, 0]
The template has the fields of `FIELDS`, and ``{{`` and ``}}`` for braces. A paragraph with a field for which there is
nothing (no source, no context, no language) is left out; empty lines end paragraphs. A template with {first} and
{second} instead of {hypothesis} and {reference} is asked in both orders, and its choices say how good the first is, 0
to 1. The header is YAML of these keys; nothing in the file runs.

Tags of these fields, such as ``</source>``, are written with &lt; and &gt; where a text has them, so that a text cannot
end its own place in the prompt. What it says within is still read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated, Literal

from ...metrics.errors import InputError, unknown
from ...metrics.spec.checked_settings import Field, build, settings
from ...metrics.storage.bounded_files import read_small_file
from ...metrics.storage.checksums import check_file, path_of
from ...metrics.storage.json_and_yaml import parse_yaml
from ...metrics.text.prompt_template import Template
from .prompt_texts import BUILT_IN

CONTEXTS = ("source_context", "target_context")
ONE, TWO = ("hypothesis",), ("first", "second")
FIELDS = ("source", *ONE, "reference", *TWO, *CONTEXTS, "source_lang", "target_lang")
Number = Annotated[float, Field(allow_inf_nan=False, strict=False)]

_TAG = re.compile(
    rf"<(\s{{0,9}}/?\s{{0,9}}(?:{'|'.join(FIELDS)})\s{{0,9}}/?\s{{0,9}})>", re.IGNORECASE
)
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_FIX = "See docs/judges.md for a prompt file"


@settings
class Worth:
    """What an answer is worth.

    Args:
        answer: a number, a choice of words or letters, or a list of errors.
        range: the least and the largest value; errors add up to no less than the least.
        choices: the value of every choice.
        weights: the value of an error of every severity.
    """

    answer: Literal["number", "choice", "errors"]
    range: tuple[Number, Number] | None = None
    choices: Mapping[str, Number] | None = None
    weights: Mapping[str, Number] | None = None

    def __post_init__(self) -> None:
        needed = {"number": "range", "choice": "choices", "errors": "weights"}[self.answer]
        if not getattr(self, needed):
            raise InputError(f"{needed} missing", where=f"answer: {self.answer}", fix=_FIX)
        others = {"choices", "weights"} - {needed}
        for name in sorted(others | ({"range"} if self.choices else set())):
            if getattr(self, name) is not None:
                raise InputError(f"is not of answer: {self.answer}", where=name, fix=_FIX)
        if max((self.weights or {}).values(), default=0.0) > 0:
            raise InputError(
                "an error adds to the value", where="weights", fix="Write them below 0"
            )
        if self.range is not None and not self.range[0] < self.range[1]:
            raise InputError(f"found {list(self.range)}", where="range", fix="Write [least, most]")
        if self.choices and len({name.casefold() for name in self.choices}) < len(self.choices):
            raise InputError("two differ in case alone", where="choices", fix="Rename one")

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value of an answer."""
        if self.range is not None:
            return self.range
        if self.choices is not None:
            return min(self.choices.values()), max(self.choices.values())
        return -inf, 0.0


@dataclass(frozen=True)
class JudgePrompt:
    """A prompt.

    Args:
        name: as it was named, a file with its digest.
        worth: what an answer is worth.
        paragraphs: of the template.
    """

    name: str
    worth: Worth
    paragraphs: tuple[Template, ...]

    @property
    def fields(self) -> frozenset[str]:
        """The fields of all paragraphs."""
        return frozenset().union(*(paragraph.fields for paragraph in self.paragraphs))

    @property
    def is_pairwise(self) -> bool:
        """Whether two texts are compared, in both orders."""
        return not self.fields.isdisjoint(TWO)

    def filled(self, values: Mapping[str, str | None]) -> str:
        """The prompt for some texts; a paragraph with a field whose value is None is left out."""
        known = {name: value for name, value in values.items() if value is not None}
        pieces = []
        for paragraph in self.paragraphs:
            if paragraph.fields <= known.keys():
                pieces.append(paragraph.with_texts(known))
        return "\n\n".join(pieces)


def untagged(text: str) -> str:
    """A text in which the tags of fields are written out.

    >>> untagged("a </Source> b <c>")
    'a &lt;/Source&gt; b <c>'
    """
    return _TAG.sub(r"&lt;\1&gt;", text)


def read_prompt(spec: str) -> JudgePrompt:
    """The prompt of a name, or in a file.

    Raises:
        InputError: there is neither, or the file is none of a prompt; says where.
    """
    if spec in BUILT_IN:
        return _parsed(BUILT_IN[spec], spec)
    path = path_of(spec)
    if not Path(path).exists() and re.fullmatch(r"[\w-]+", path):
        raise unknown("prompt", path, BUILT_IN, where="prompt")
    name = check_file(spec)
    data = read_small_file(path, "Give a prompt file", name="yaml_bytes")
    try:
        return _parsed(data.decode("utf-8"), name)
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}", where=path, fix=_FIX) from None
    except InputError as error:
        raise error.inside(path) from None


def _parsed(text: str, name: str) -> JudgePrompt:
    """The prompt in a text."""
    lines = text.replace("\r\n", "\n").split("\n")
    stripped = [line.rstrip() for line in lines]
    if "---" not in stripped:
        problem = "no line --- between header and template"
        raise InputError(problem, where="prompt", fix=_FIX)
    end = stripped.index("---")
    worth = build(Worth, parse_yaml("\n".join(lines[:end])), "header")
    body = "\n".join(lines[end + 1 :]).strip()
    paragraphs = tuple(Template(part, "template") for part in _PARAGRAPH.split(body))
    prompt = JudgePrompt(name, worth, paragraphs)
    _check_fields(prompt)
    return prompt


def _check_fields(prompt: JudgePrompt) -> None:
    """Raises InputError for fields that there are not, or that do not make a judgement."""
    for name in sorted(prompt.fields - set(FIELDS)):
        raise unknown("field", name, FIELDS, where="template")
    if not prompt.is_pairwise:
        if not prompt.fields.issuperset(ONE):
            raise InputError("no field {hypothesis}", where="template", fix=_FIX)
        return
    if not prompt.fields.issuperset(TWO) or prompt.fields.intersection((*ONE, "reference")):
        problem = "{first} and {second} stand together, without {hypothesis} and {reference}"
        raise InputError(problem, where="template", fix=_FIX)
    low, high = prompt.worth.bounds
    if low < 0 or high > 1:
        problem = f"values from {low:g} to {high:g}, expected 0 to 1, of the first being better"
        raise InputError(problem, where="header", fix=_FIX)
