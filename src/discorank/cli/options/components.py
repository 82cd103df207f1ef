"""Components, frozen settings classes whose fields are options: made from the values of options, and their help."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from ...metrics.errors import InputError

T = TypeVar("T")


def build(component: type[T], values: Mapping[str, Any], **replaced: Any) -> T:
    """A component from the options that are its fields.

    Raises:
        InputError: as its constructor.
    """
    names = {field.name for field in fields(component)}  # type: ignore[arg-type]
    own = {name: value for name, value in values.items() if name in names}
    return component(**{**own, **replaced})


def build_group(component: type[T], group: str, values: Mapping[str, Any]) -> T:
    """A component from the options with its group's prefix; errors as its constructor."""
    prefix = f"{group}."
    own = {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }
    return component(**own)


def needed(values: Mapping[str, Any], name: str, flag: str) -> Any:
    """The value of an option without a default; InputError if it is missing."""
    if values.get(name) in (None, (), ""):
        raise InputError(
            "is missing", where=flag, fix=f"Give {flag} on the command line or {name}: in --config"
        )
    return values[name]


def field_helps(component: type) -> dict[str, str]:
    """Help of every field, from the ``Args:`` part of the class's docstring."""
    doc = component.__doc__ or ""
    part = doc.partition("Args:")[2].partition("Raises:")[0]
    entries = re.findall(r"^ {8}(\w+): (.+?)(?=^ {8}\w+: |\Z)", part, re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()) for name, text in entries}
