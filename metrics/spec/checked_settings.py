"""How a component's settings are declared: a frozen dataclass that checks its values, with errors in three parts.

Command line, YAML and Python all end in the constructor of such a class, so a setting is checked in one place.
``help()`` shows the types as they are declared, without their checks.

Values are held against the types that annotations name, and against what is demanded of them beyond their types:

    share: Annotated[float, Field(gt=0, le=1)] = 0.5

A value of Python has exactly its type: a whole number stands for a float, and nothing else for anything else. A value
of JSON is held against dataclasses too, and its arrays stand for tuples.
"""

from __future__ import annotations

import ast
import operator
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from dataclasses import Field as DataclassField
from functools import cache, partial
from inspect import Signature, signature
from itertools import repeat
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform, get_type_hints

from ..errors import InputError, excerpt, unknown

T = TypeVar("T")
Check = Callable[[Any], Any]  # gives a value as it is kept, or raises a ValueRefusal
_BOUNDS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "ge": (operator.ge, "should be greater than or equal to {}"),
    "gt": (operator.gt, "should be greater than {}"),
    "le": (operator.le, "should be less than or equal to {}"),
    "lt": (operator.lt, "should be less than {}"),
    "min_length": (lambda value, least: len(value) >= least, "should have a length of {} or more"),
    "max_length": (lambda value, most: len(value) <= most, "should have a length of {} or less"),
    "pattern": (lambda text, pattern: re.search(pattern, text), "should match the pattern '{}'"),
    "allow_inf_nan": (lambda number, yes: yes or isfinite(number), "should be a finite number"),
}
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string"}


class ValueRefusal(Exception):  # noqa: N818  no error a user meets: it is put into words where the setting is known
    """A value that its annotation does not allow.

    Attributes:
        problem: what it should be: "should be a valid integer".
        value: the value.
        path: the keys and indices that lead to it.
    """

    def __init__(self, problem: str, value: Any, path: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.problem, self.value, self.path = problem, value, path

    def inside(self, place: str) -> ValueRefusal:
        """The same refusal seen from a larger value: what is refused is at this key or index."""
        return ValueRefusal(self.problem, self.value, (place, *self.path))


@dataclass(frozen=True)
class Field:
    """Bounds on a value."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    allow_inf_nan: bool | None = None

    def check(self, value: Any) -> Any:
        """The value, if it is within the bounds; raises ValueRefusal if it is not."""
        for name, (holds, problem) in _BOUNDS.items():
            bound = getattr(self, name)
            if bound is not None and not holds(value, bound):
                raise ValueRefusal(problem.format(bound), value)
        return value


@dataclass(frozen=True)
class Converted:
    """A setting is what a function makes of any value; what will not do is an InputError or a ValueRefusal of it."""

    function: Callable[[Any], Any]


@dataclass(frozen=True)
class Checked:
    """A setting of the right type is what a function makes of it, which may raise InputError or ValueRefusal."""

    function: Callable[[Any], Any]


@dataclass(frozen=True)
class Mark:
    """Something said of a setting that checks no value."""


@cache
def checks_of(cls: type, of_json: bool = False) -> dict[str, Check]:
    """The check of every annotated field of a class, by name.

    Args:
        cls: the class.
        of_json: whether the values are of JSON.
    """
    hints = get_type_hints(cls, include_extras=True)
    return {name: checked(hint, of_json) for name, hint in hints.items()}


def from_json(kind: type[T], value: Any, where: str, fix: str) -> T:
    """A value of a type, of which parts may be dataclasses, as a value of JSON gives it; unknown keys are passed over.

    Raises:
        InputError: it gives none; with `where` and `fix`.
    """
    try:
        made: T = checked(kind, of_json=True)(value)
    except ValueRefusal as refusal:
        place = f"{'.'.join(refusal.path)}: " if refusal.path else ""
        problem = f"{place}{refusal.problem}, found {excerpt(refusal.value)}"
        raise InputError(problem, where=where, fix=fix) from None
    return made


def checked(hint: Any, of_json: bool = False) -> Check:
    """The check that an annotation stands for.

    Raises:
        TypeError: something is demanded in it that is unknown here.
    """
    if hint in (Any, object):
        return lambda value: value
    if isinstance(hint, type) and hint in _NAMES:
        return _scalar(hint)
    origin = typing.get_origin(hint)
    if origin in _BY_ORIGIN:
        return _BY_ORIGIN[origin](typing.get_args(hint), of_json)
    kind = origin or hint
    if of_json and is_dataclass(kind):
        return lambda value: _made(kind, value)
    return _instance(kind)


def _scalar(kind: type) -> Check:
    """The check of a truth value, a number or a text."""

    def check(value: Any) -> Any:
        if type(value) is not kind:
            is_bool = isinstance(value, bool)
            if is_bool or not isinstance(value, (int, float) if kind is float else kind):
                raise ValueRefusal(f"should be a valid {_NAMES[kind]}", value)
            try:
                value = str.__str__(value) if kind is str else kind(value)
            except OverflowError:  # an integer that no float holds
                raise ValueRefusal(_BOUNDS["allow_inf_nan"][1], value) from None
        if kind is str and not value.isascii() and _HALF.search(value):
            raise ValueRefusal("should be a valid string, without halves of surrogate pairs", value)
        return value

    return check


def _instance(kind: Any) -> Check:
    """The check of an object of a class; values of anything else, as of a type variable, are not checked."""

    def check(value: Any) -> Any:
        if isinstance(kind, type) and not isinstance(value, kind):
            raise ValueRefusal(f"should be an instance of {kind.__name__}", value)
        return value

    return check


def _annotated(arguments: Sequence[Any], of_json: bool) -> Check:
    """The check of a type and, in turn, of what is demanded of its values."""
    hint, *demands = arguments
    is_converted = any(isinstance(demand, Converted) for demand in demands)
    steps: list[Check] = [] if is_converted else [checked(hint, of_json)]
    for demand in demands:
        if isinstance(demand, Field):
            steps.append(demand.check)
        elif isinstance(demand, Checked | Converted):
            steps.append(demand.function)
        elif not isinstance(demand, str | Mark):
            raise TypeError(f"{excerpt(demand)} is none of Field, Checked, Converted and Mark")

    def check(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return check


def _union(arguments: Sequence[Any], of_json: bool) -> Check:
    """The check of a value of several types: the first counts that leaves it as it is, then the first that takes it."""
    kinds = [checked(argument, of_json) for argument in arguments if argument is not NoneType]
    is_optional = len(kinds) < len(arguments)

    def check(value: Any) -> Any:
        if value is None and is_optional:
            return None
        taken, refusals = [], []
        for kind in kinds:
            try:
                made = kind(value)
            except ValueRefusal as refusal:
                refusals.append(refusal)
                continue
            if made is value:
                return value
            taken.append(made)
        if taken:
            return taken[0]
        raise _any_of(refusals, value)

    return check


def _any_of(refusals: Sequence[ValueRefusal], value: Any) -> ValueRefusal:
    """The refusal of a value that no type of a union takes: of a part of it, if one got that far."""
    deepest = max(refusals, key=lambda refusal: len(refusal.path))
    if deepest.path:
        return deepest
    problems = [refusal.problem.removeprefix("should ") for refusal in refusals]
    return ValueRefusal(f"should {' or '.join(problems)}", value)


def _literal(values: Sequence[Any], of_json: bool) -> Check:
    """The check of one of some values."""
    *others, last = map(repr, values)
    expected = f"{', '.join(others)} or {last}" if others else last

    def check(value: Any) -> Any:
        if not any(type(one) is type(value) and one == value for one in values):
            raise ValueRefusal(f"should be {expected}", value)
        return value

    return check


def _items(kind: type, arguments: Sequence[Any], of_json: bool) -> Check:
    """The check of items of one type, or, of a tuple, of a type for each."""
    checks = [checked(argument, of_json) for argument in arguments if argument is not ...]
    has_fixed_length = kind is tuple and ... not in arguments
    takes: Any = list if of_json else kind
    name = "array" if of_json else kind.__name__.lower()

    def check(value: Any) -> Any:
        if isinstance(value, str | bytes) or not isinstance(value, takes):
            raise ValueRefusal(f"should be a valid {name}", value)
        if has_fixed_length and len(value) != len(checks):
            raise ValueRefusal(f"should have {len(checks)} items", value)
        each = checks if has_fixed_length else repeat(checks[0])
        items: list[Any] = []
        try:
            for one, item in zip(each, value, strict=False):
                items.append(one(item))
        except ValueRefusal as refusal:
            raise refusal.inside(str(len(items))) from None
        if not of_json and all(map(operator.is_, items, value)):
            return value
        return tuple(items) if kind is tuple else items

    return check


def _mapping(arguments: Sequence[Any], of_json: bool) -> Check:
    """The check of keys with values."""
    keys, values = (checked(argument, of_json) for argument in arguments)

    def check(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueRefusal(f"should be {'an object' if of_json else 'a mapping'}", value)
        made = {}
        for key, inner in value.items():
            made[_inside(str(key), keys, key)] = _inside(str(key), values, inner)
        return made

    return check


def _inside(place: str, check: Check, value: Any) -> Any:
    """The checked part of a value at a key or index."""
    try:
        return check(value)
    except ValueRefusal as refusal:
        raise refusal.inside(place) from None


def _made(kind: Any, value: Any) -> Any:
    """A dataclass of the object of JSON that has its fields; further ones are passed over."""
    if not isinstance(value, Mapping):
        raise ValueRefusal("should be an object", value)
    checks = checks_of(kind, of_json=True)
    values = {}
    for one in fields(kind):
        if one.name in value:
            values[one.name] = _inside(one.name, checks[one.name], value[one.name])
        elif _is_needed(one):
            raise ValueRefusal("is missing", value, (one.name,))
    return kind(**values)


_BY_ORIGIN: dict[Any, Callable[[Sequence[Any], bool], Check]] = {
    Annotated: _annotated,
    typing.Union: _union,
    UnionType: _union,
    Literal: _literal,
    tuple: partial(_items, tuple),
    list: partial(_items, list),
    Sequence: partial(_items, Sequence),
    dict: _mapping,
    Mapping: _mapping,
}


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
    made.__init__, made.__signature__ = __init__, _ReadableSignature(plain_init)
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
    given = dict(zip(names, args, strict=False))
    if len(args) > len(names) or given.keys() & kwargs.keys():
        problem = f"{len(args)} values without a name besides {', '.join(kwargs) or 'no others'}"
        raise InputError(problem, where=_label(cls), fix=_all_settings(cls))
    return {**given, **kwargs}


def _with_parts(cls: type, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a class; those of its parts, given by their own names, are changed in the parts."""
    whole = dict(given)
    for part, kind in parts_of(cls).items():
        own = {name: given[name] for name in _taken(kind) if name in given}
        if own:
            whole = {name: value for name, value in whole.items() if name not in own}
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
    """The attribute ``__signature__`` of a class of settings: types as they are declared, without their checks.

    Args:
        init: the constructor of the dataclass.
    """

    def __init__(self, init: Callable[..., None]) -> None:
        self._init = init

    def __get__(self, instance: object, owner: type) -> Signature:
        _, *parameters = signature(self._init).parameters.values()
        shown = [one.replace(annotation=without_checks(one.annotation)) for one in parameters]
        return Signature(shown)


class _Code(str):
    """A piece of code that prints as itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def without_checks(annotation: Any) -> Any:
    """The type in an annotation, without what is checked of its values.

    >>> without_checks("Annotated[int, Field(ge=1)] | None")
    int | None
    """
    if not isinstance(annotation, str):
        return annotation
    return _Code(ast.unparse(_WithoutChecks().visit(ast.parse(annotation, mode="eval"))))


class _WithoutChecks(ast.NodeTransformer):
    """Replaces ``Annotated[T, ...]`` by ``T``."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """A type with parameters."""
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated":
            first: ast.AST = next(ast.iter_child_nodes(node.slice))
            return self.visit(first)  # type: ignore[no-any-return]
        return self.generic_visit(node)
