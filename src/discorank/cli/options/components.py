"""Components, frozen settings classes whose fields are options: made from the values of options, and their help."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from ...metrics.errors import InputError

T = TypeVar("T")
# fields whose option cannot have the field's name, or needs no unit as it is given with one
FLAG_NAMES = {"input_format": "from", "deadline_seconds": "deadline"}


def build(component: type[T], values: Mapping[str, Any], **replaced: Any) -> T:
    """A component from the options that are its fields.

    Raises:
        InputError: as its constructor.
    """
    names = {field.name for field in fields(component)}  # type: ignore[arg-type]
    own = {name: value for name, value in values.items() if name in names}
    try:
        return component(**{**own, **replaced})
    except InputError as error:
        raise _of_option(error, component) from None


def build_group(component: type[T], group: str, values: Mapping[str, Any]) -> T:
    """A component from the options with its group's prefix; errors as its constructor."""
    prefix = f"{group}."
    own = {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }
    try:
        return component(**own)
    except InputError as error:
        raise _of_option(error, component, prefix) from None


def _of_option(error: InputError, component: type, prefix: str = "") -> InputError:
    """The error about a setting by the name of its option, instead of the component's."""
    names = {field.name for field in fields(component)}
    name, mark, rest = error.problem.partition(" = ")
    if error.where != component.__name__ or not mark or name not in names:
        return error
    if prefix:
        return InputError(f"found {rest}", where=f"{prefix}{name}")
    return InputError(f"found {rest}", where=f"--{FLAG_NAMES.get(name, name).replace('_', '-')}")


EXAMPLES = {"--utility": "-u chrf", "--metric": "-m chrf"}


def needed(values: Mapping[str, Any], name: str, flag: str, example: str = "") -> Any:
    """The value of an option without a default; InputError, with an example for metrics, if it is missing."""
    if values.get(name) in (None, (), ""):
        example = example or EXAMPLES.get(flag, "")
        example = example and f", such as {example} (discorank metrics lists all),"
        fix = f"Give {flag} on the command line{example} or {name}: in --config"
        raise InputError("is missing", where=flag, fix=fix)
    return values[name]


def field_helps(component: type) -> dict[str, str]:
    """Help of every field, from the ``Args:`` part of the class's docstring."""
    doc = component.__doc__ or ""
    part = doc.partition("Args:")[2].partition("Raises:")[0]
    entries = re.findall(r"^ {8}(\w+): (.+?)(?=^ {8}\w+: |\Z)", part, re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()) for name, text in entries}
