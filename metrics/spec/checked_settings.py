"""How a component's settings are declared: a frozen dataclass, checked by pydantic, with errors in our own words.

Command line, YAML and Python all end in the constructor of such a class, so a setting is checked in one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field as DataclassField
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

from ..errors import InputError, unknown
from .constraints import Checked, Converted, Field
from .plain_values import UndecidedError, plain_settings
from .readable_signatures import ReadableSignature

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import SchemaValidator

__all__ = ["Checked", "Converted", "Field", "build", "changed", "settings"]

_CONFIG = {"strict": True, "extra": "forbid", "arbitrary_types_allowed": True}  # of pydantic
T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def settings(cls: type[T]) -> type[T]:
    """Makes a class of annotated fields a frozen, hashable, checked dataclass.

    Raises (from the constructor):
        InputError: a value of the wrong type or out of range, or an unknown key (with its nearest match).
    """
    made: Any = dataclass(frozen=True, repr=False)(cls)
    made.__pydantic_config__ = _CONFIG
    if made.__repr__ is object.__repr__:
        made.__repr__ = _short_repr
    plain_init = made.__init__

    def __init__(self: object, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        """Checks the settings."""
        try:
            plain_init(self, **plain_settings(made, args, kwargs))
        except InputError:
            raise
        except (UndecidedError, ValueError, AssertionError):
            _check(made, self, args, kwargs)

    # what help() shows of it
    __init__.__qualname__, __init__.__annotations__ = plain_init.__qualname__, {}
    made.__init__, made.__signature__ = __init__, ReadableSignature()
    return made  # type: ignore[no-any-return]


def _check(cls: type, instance: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Has pydantic check the arguments of a constructor and set the fields of its instance."""
    from pydantic import ValidationError
    from pydantic_core import ArgsKwargs

    arguments = ArgsKwargs(tuple(args), dict(kwargs))
    try:
        _validator(cls).validate_python(arguments, self_instance=instance)
    except ValidationError as error:
        raise _in_our_words(cls, error) from None


@cache
def _validator(cls: type) -> SchemaValidator:
    """What pydantic checks a class with."""
    from pydantic import TypeAdapter

    return TypeAdapter(cls).validator  # type: ignore[return-value]


def build(cls: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """An instance from a mapping as it comes out of YAML or JSON (lists stand for tuples).

    Raises:
        InputError: as the constructor, with `where` in front.
    """
    arguments = {
        str(key): tuple(value) if isinstance(value, list) else value
        for key, value in values.items()
    }
    try:
        return cls(**arguments)
    except InputError as error:
        raise (error.inside(where) if where else error) from None


def changed(instance: object) -> dict[str, Any]:
    """The settings of `instance` that differ from their defaults, in the order of declaration.

    Fields that do not take part in comparisons (a device, a batch size) change no value and are left out.
    """
    changes = {}
    for setting in _own_first(fields(instance)):  # type: ignore[arg-type]
        value = getattr(instance, setting.name)
        if setting.init and setting.compare and value != setting.default:
            changes[setting.name] = value
    return changes


def _short_repr(instance: object) -> str:
    """The settings that differ from their defaults."""
    values = ", ".join(f"{name}={value!r}" for name, value in changed(instance).items())
    return f"{type(instance).__name__}({values})"


def _own_first(settings_of_class: Sequence[DataclassField[Any]]) -> list[DataclassField[Any]]:
    """Settings in the order of declaration, those that every class has behind a class's own."""
    return sorted(settings_of_class, key=lambda setting: bool(setting.kw_only))


def _in_our_words(cls: Any, error: ValidationError) -> InputError:
    """The error that says the same: the first of our own in it, of unknown settings, of missing ones, of values."""
    problems = error.errors(include_url=False)
    names = [f.name for f in fields(cls) if f.init]
    for problem in problems:
        cause = problem.get("ctx", {}).get("error")
        if isinstance(cause, InputError):
            return cause
        if problem["type"] in ("unexpected_keyword_argument", "unexpected_positional_argument"):
            return unknown("setting", str(problem["loc"][-1]), names, where=_label(cls))
    fix = f"Settings: {', '.join(names) or 'none'}"
    missing = []
    for problem in problems:
        if problem["type"] == "missing" and problem["loc"]:
            missing.append(str(problem["loc"][-1]))
    if missing:
        return InputError(f"{', '.join(missing)} missing", where=_label(cls), fix=fix)
    return InputError("; ".join(map(_sentence, problems)), where=_label(cls), fix=fix)


def _sentence(problem: Any) -> str:
    """Setting, value and message of one of pydantic's errors."""
    setting = ".".join(map(str, problem["loc"]))
    message = str(problem["msg"]).removeprefix("Input ")
    return f"{setting} = {problem.get('input')!r:.80}: {message}"


def _label(cls: Any) -> str:
    return str(getattr(cls, "name", None) or cls.__name__)
