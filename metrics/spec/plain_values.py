"""Settings that are plainly right: of exactly the types that their annotations name, and within their bounds.

Most settings are, and a command has many: pydantic, which takes longer to load than they all take to check, is asked
about the others. Whatever is not accepted here it decides, so that nothing is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from .constraints import Checked, Converted
from .constraints import Field as Bounds

_PLAIN = frozenset({bool, int, float, str, NoneType})


class UndecidedError(Exception):
    """Whether a value is right is for pydantic to say."""


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """The annotations of a class with what they demand, evaluated once."""
    return get_type_hints(cls, include_extras=True)


@cache
def _settings_of(cls: Any) -> dict[str, Field[Any]]:
    """The fields that its constructor takes, by name."""
    return {setting.name: setting for setting in fields(cls) if setting.init}


def plain_settings(cls: type, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the arguments of a constructor give, as they are kept.

    Raises:
        UndecidedError: one may be wrong, unknown or missing.
    """
    known = _settings_of(cls)
    by_place = [name for name, setting in known.items() if not setting.kw_only]
    given = dict(zip(by_place, args, strict=False))
    if len(args) > len(by_place) or given.keys() & kwargs.keys() or kwargs.keys() - known.keys():
        raise UndecidedError
    given.update(kwargs)
    try:
        hints = hints_of(cls)
        values = {name: _plain(hints[name], value) for name, value in given.items()}
    except (NameError, TypeError, ValueError) as error:  # a name of a function, a refusal
        raise UndecidedError from error
    if any(name not in given and _is_needed(setting) for name, setting in known.items()):
        raise UndecidedError
    return values


def _is_needed(setting: Field[Any]) -> bool:
    return setting.default is MISSING and setting.default_factory is MISSING


def _plain(hint: Any, value: Any) -> Any:
    """A value as it is kept under its annotation.

    Raises:
        UndecidedError: it may be wrong.
    """
    origin = get_origin(hint)
    if origin is Annotated:
        return _within(get_args(hint), value)
    if origin in (Union, UnionType):
        return _of_union(get_args(hint), value)
    if _is_of(origin or hint, hint, value):
        return value
    raise UndecidedError


def _is_of(kind: Any, hint: Any, value: Any) -> bool:
    """Whether a value plainly is of a kind that is neither annotated nor a union."""
    if kind is Any:
        return True
    if kind is Literal:
        return type(value) is str and value in get_args(hint)
    if kind is tuple:
        inner, *rest = get_args(hint) or (None,)
        if type(value) is not tuple or rest != [...]:
            return False
        return all(_plain(inner, part) is part for part in value)
    if kind is str:
        return type(value) is str and value.isascii()  # pydantic knows which texts are none
    return type(value) is kind and kind in _PLAIN


def _of_union(kinds: Sequence[Any], value: Any) -> Any:
    """A value as the first kind takes it that plainly does."""
    for kind in kinds:
        try:
            return _plain(kind, value)
        except UndecidedError:
            continue
    raise UndecidedError


def _within(annotated: Sequence[Any], value: Any) -> Any:
    """A value under a type and what is demanded of it."""
    kind, *demands = annotated
    if not isinstance(demands[0], Converted):
        value = _plain(kind, value)
    for demand in demands:
        if isinstance(demand, Converted | Checked):
            value = demand.function(value)
        elif not isinstance(demand, Bounds) or not demand.holds(value):
            raise UndecidedError
    return value
