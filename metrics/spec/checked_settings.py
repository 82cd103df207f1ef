"""How a component's settings are declared: a frozen dataclass that checks its values, with errors in three parts.

Command line, YAML and Python all end in the constructor of such a class, so a setting is checked in one place.
``help()`` shows the types as they are declared, without their checks.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from dataclasses import Field as DataclassField
from functools import cache
from inspect import Parameter, Signature
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from ..errors import InputError, unknown
from .checked_values import Checked, Converted, Field, Mark, ValueRefusal, checks_of

__all__ = [
    "Checked",
    "Composed",
    "Converted",
    "Field",
    "Internal",
    "Mark",
    "Rare",
    "build",
    "changed",
    "marks_of",
    "parts_of",
    "setting_names",
    "settings",
]

T = TypeVar("T")


@dataclass(frozen=True)
class Composed(Mark):
    """A setting that is a value with settings of its own, which the constructor takes by their names as well.

    decoder: Decoder(choice=Choice(nbest=5)) or Decoder(nbest=5)
    """


@dataclass(frozen=True)
class Rare(Mark):
    """A setting that few need: the help of a command shows it only when asked for all."""


@dataclass(frozen=True)
class Internal(Mark):
    """A setting that commands make themselves, and no option."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def settings(cls: type[T]) -> type[T]:
    """Makes a class of annotated fields a frozen, hashable, checked dataclass.

    Raises (from the constructor):
        InputError: a value of the wrong type or out of range, or an unknown key (with its nearest match).
    """
    made: Any = dataclass(frozen=True, repr=False)(cls)
    if made.__repr__ is object.__repr__:
        made.__repr__ = _short_repr
    plain_init = made.__init__

    def __init__(self: object, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        """Checks the settings."""
        values = _checked(made, args, kwargs)
        try:
            plain_init(self, **values)
        except InputError:
            raise
        except (ValueError, AssertionError) as error:  # of a __post_init__
            raise InputError(str(error), where=_label(made), fix=_all_settings(made)) from error

    # what help() shows of it
    __init__.__qualname__, __init__.__annotations__ = plain_init.__qualname__, {}
    made.__init__, made.__signature__ = __init__, _ReadableSignature()
    return made  # type: ignore[no-any-return]


@cache
def _taken(cls: Any) -> dict[str, DataclassField[Any]]:
    """The fields that the constructor takes, by name."""
    return {setting.name: setting for setting in fields(cls) if setting.init}


def _checked(cls: type, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the arguments of a constructor give, as they are kept.

    Raises:
        InputError: one is unknown, missing, of the wrong type or out of range.
    """
    known = _taken(cls)
    given = _with_parts(cls, _named(cls, args, kwargs))
    for name in given:
        if name not in known:
            names = [*setting_names(cls), *parts_of(cls)]
            raise unknown("setting", name, names, where=_label(cls))
    missing = [name for name in known if name not in given and _is_needed(known[name])]
    if missing:
        problem = f"{', '.join(missing)} missing"
        raise InputError(problem, where=_label(cls), fix=_all_settings(cls))
    checks = checks_of(cls)
    values, problems = {}, []
    for name, value in given.items():
        try:
            values[name] = checks[name](value)
        except ValueRefusal as refusal:
            setting = ".".join((name, *refusal.path))
            problems.append(f"{setting} = {refusal.value!r:.80}: {refusal.problem}")
    if problems:
        raise InputError("; ".join(problems), where=_label(cls), fix=_all_settings(cls))
    return values


def _named(cls: type, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor by name; raises InputError for too many, or for one that is given twice."""
    names = [name for name, setting in _taken(cls).items() if not setting.kw_only]
    if len(args) > len(names):
        problem = f"{len(args)} values without a name, at most {len(names)} are taken"
        raise InputError(problem, where=_label(cls), fix=_all_settings(cls))
    given = dict(zip(names, args, strict=False))
    for name in given:
        if name in kwargs:
            raise InputError(f"{name} is given twice", where=_label(cls), fix="Give it once")
    return {**given, **kwargs}


def _with_parts(cls: type, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a class; those of its parts, given by their own names, are changed in the parts."""
    changes: dict[str, dict[str, Any]] = {}
    for part, kind in parts_of(cls).items():
        own = {name: given[name] for name in _taken(kind) if name in given}
        if own:
            changes[part] = own
    if not changes:
        return given
    names = {name for own in changes.values() for name in own}
    whole = {name: value for name, value in given.items() if name not in names}
    for part, own in changes.items():
        whole[part] = replace(whole.get(part, _taken(cls)[part].default), **own)
    return whole


@cache
def marks_of(cls: type) -> dict[str, tuple[Mark, ...]]:
    """The marks of every setting of a class, beside its type and its checks."""
    hints = get_type_hints(cls, include_extras=True)
    marks = {}
    for name in _taken(cls):
        demands = getattr(hints[name], "__metadata__", ())
        marks[name] = tuple(demand for demand in demands if isinstance(demand, Mark))
    return marks


@cache
def parts_of(cls: type) -> dict[str, type]:
    """The classes of those settings of a class that are values with settings of their own, by name."""
    hints = get_type_hints(cls)
    of_class = marks_of(cls)
    return {name: hints[name] for name in of_class if Composed() in of_class[name]}


def setting_names(cls: type) -> list[str]:
    """The names of the settings of a class, those of its parts by their own names."""
    names: list[str] = []
    for name in _taken(cls):
        kind = parts_of(cls).get(name)
        names += [name] if kind is None else setting_names(kind)
    return names


def _is_needed(setting: DataclassField[Any]) -> bool:
    return setting.default is MISSING and setting.default_factory is MISSING


def _label(cls: Any) -> str:
    return str(getattr(cls, "name", None) or cls.__name__)


def _all_settings(cls: type) -> str:
    return f"Settings: {', '.join(setting_names(cls)) or 'none'}"


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


def _own_first(settings_of_class: Sequence[DataclassField[Any]]) -> list[DataclassField[Any]]:
    """Settings in the order of declaration, those that every class has behind a class's own."""
    return sorted(settings_of_class, key=lambda setting: bool(setting.kw_only))


def _short_repr(instance: object) -> str:
    """The settings that differ from their defaults."""
    values = ", ".join(f"{name}={value!r}" for name, value in changed(instance).items())
    return f"{type(instance).__name__}({values})"


class _ReadableSignature:
    """The attribute ``__signature__`` of a class of settings, made when it is asked for."""

    def __get__(self, instance: object, owner: type) -> Signature:
        parameters = [_parameter(setting) for setting in _taken(owner).values()]
        return Signature(sorted(parameters, key=lambda parameter: parameter.kind))


class _Code(str):
    """A piece of code that prints as itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _parameter(setting: DataclassField[Any]) -> Parameter:
    """A setting as a parameter."""
    default = Parameter.empty if setting.default is MISSING else setting.default
    if setting.default_factory is not MISSING:
        default = _Code("...")
    kind = Parameter.KEYWORD_ONLY if setting.kw_only else Parameter.POSITIONAL_OR_KEYWORD
    return Parameter(setting.name, kind, default=default, annotation=without_checks(setting.type))


def without_checks(annotation: Any) -> Any:
    """The type in an annotation, without what is checked of its values.

    >>> without_checks("Annotated[int, Field(ge=1)] | None")
    int | None
    """
    if isinstance(annotation, str):
        return _Code(ast.unparse(_WithoutChecks().visit(ast.parse(annotation, mode="eval"))))
    return annotation.__origin__ if hasattr(annotation, "__metadata__") else annotation


class _WithoutChecks(ast.NodeTransformer):
    """Replaces ``Annotated[T, ...]`` by ``T``."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """A type with parameters."""
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated":
            first: ast.AST = next(ast.iter_child_nodes(node.slice))
            return self.visit(first)  # type: ignore[no-any-return]
        return self.generic_visit(node)
