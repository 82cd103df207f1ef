"""The value of an option: what its text means, by the type of its field, and how the type is shown in help."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ...metrics.errors import InputError
from ...metrics.storage.json_and_yaml import parse_yaml_value


def typed(kind: Any, value: Any) -> Any:
    """A flag's text as the type of its field: text stays text, everything else is read as YAML."""
    if isinstance(value, list) and _holds_numbers(kind):
        return [parse_yaml_value(text) if isinstance(text, str) else text for text in value]
    kinds = _alternatives(kind)
    if not isinstance(value, str) or str in kinds:
        return value
    words = {word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)}
    if words and (value in words or not kinds & {int, float}):
        return value
    if value == "all" or (value == "None" and NoneType in kinds):
        return None
    parsed = parse_yaml_value(value)
    return _number(parsed) if float in kinds and isinstance(parsed, str) else parsed


def _holds_numbers(kind: Any) -> bool:
    """Whether an option takes several values that are no texts."""
    plain = plain_type(kind)
    return get_origin(plain) is tuple and str not in _alternatives(get_args(plain)[0])


def _number(text: str) -> float | str:
    """A number that YAML does not take for one, such as 1e-1."""
    try:
        return float(text)
    except ValueError:
        return text


def check_characters(value: Any, where: str) -> None:
    """Raises InputError for what no file can hold as text: a NUL, bytes that are not UTF-8."""
    texts = value if isinstance(value, tuple) else (value,)
    text = "".join(text for text in texts if isinstance(text, str))
    if "\0" in text:
        raise InputError("holds a NUL character", where=where, fix="Leave it out")
    try:
        text.encode()
    except UnicodeEncodeError:
        fix = "Rename the file, or write it in UTF-8"
        raise InputError("holds bytes that are not UTF-8", where=where, fix=fix) from None


def plain_type(kind: Any) -> Any:
    """The type without Annotated and without None."""
    if get_origin(kind) is Annotated:
        return plain_type(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        rest = [plain_type(inner) for inner in get_args(kind) if inner is not NoneType]
        return rest[0] if len(rest) == 1 else kind
    return kind


def _alternatives(kind: Any) -> set[Any]:
    """The types that a union is of; a type that is none stands alone."""
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return set().union(*map(_alternatives, get_args(kind)))
    return {kind}


def metavar(kind: Any, name: str) -> str:
    """What stands for the value in help: its choices where it has some, else the name of the option."""
    plain = plain_type(kind)
    if get_origin(plain) is not Literal:
        return name.upper()
    return "{" + ",".join(map(str, get_args(plain))) + "}"
