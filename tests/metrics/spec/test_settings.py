"""Checked settings and values of JSON: what is kept, and what is refused with what it should be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from discorank.metrics.errors import InputError
from discorank.metrics.spec.checked_settings import Checked, Converted, Field, from_json, settings


def test_every_instance_is_checked_alike() -> None:
    @settings
    class Sized:
        size: Annotated[int, Field(ge=1)] = 1

    for _ in range(3):
        with pytest.raises(InputError, match="size = 0: should be greater"):
            Sized(size=0)
        with pytest.raises(InputError, match="siez"):
            Sized(siez=2)  # type: ignore[call-arg]
        assert Sized(size=2).size == 2


def test_a_class_is_checked_like_the_one_it_extends() -> None:
    @settings
    class Base:
        size: Annotated[int, Field(ge=1)] = 1

    @settings
    class Extended(Base):
        name: str = ""

    assert Base().size == 1
    for _ in range(2):
        for kind in (Base, Extended):
            with pytest.raises(InputError, match="size = 0"):
                kind(size=0)
        with pytest.raises(InputError, match="name = 3"):
            Extended(name=3)  # type: ignore[arg-type]


def even(value: int) -> int:
    if value % 2:
        raise InputError("is odd", where="even")
    return value


def text_length(value: object) -> int:
    if not isinstance(value, str):
        raise InputError("is no text", where="length")
    return len(value)


@settings
class Many:
    number: Annotated[float, Field(gt=-1, le=9, allow_inf_nan=False)] = 1.0
    size: Annotated[int, Field(ge=1, lt=5)] | None = None
    name: str = ""
    short: Annotated[str, Field(min_length=1, max_length=3)] = "a"
    lines: Annotated[str, Field(pattern="^(a|b)+$")] | None = None
    kind: Literal["a", "b"] | bool = "a"
    names: tuple[str, ...] | None = ()
    half: Annotated[int, Checked(even)] = 0
    length: Annotated[int, Converted(text_length)] = 0
    any: Any = None
    free: Annotated[float, Field(allow_inf_nan=False)] = field(default=0.0, kw_only=True)
    table: Mapping[str, tuple[float, float]] | None = field(default=None, kw_only=True)
    path: Path | None = field(default=None, kw_only=True)
    function: Callable[[int], int] | None = None
    more: bool = False

    def __post_init__(self) -> None:
        if self.name == "refused":
            raise ValueError("is refused")


GOOD: dict[str, dict[str, Any]] = {
    "plain": {"number": 2.5, "size": 4, "name": "é", "short": "abc", "lines": "abab"},
    "a literal": {"kind": "b"},
    "a truth value": {"kind": True},
    "a tuple": {"names": ("a", "b")},
    "none": {"size": None, "names": None, "any": [1]},
    "the least": {"number": 9, "size": 1},
}


@pytest.mark.parametrize("values", GOOD.values(), ids=list(GOOD))
def test_what_is_right_is_kept_as_it_is(values: dict[str, Any]) -> None:
    made = Many(**values)
    assert {name: getattr(made, name) for name in values} == values
    assert isinstance(made.number, float)


def test_functions_make_values() -> None:
    made = Many(2.0, half=2, length="abc")  # type: ignore[arg-type]
    assert (made.half, made.length) == (2, 3)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a bound": ({"number": -1.0}, "number = -1.0: should be greater than -1"),
    "an upper bound": ({"size": 5}, "size = 5"),
    "a least value": ({"size": 0}, "size = 0: should be greater than or equal to 1"),
    "a largest value": ({"number": 10}, "number = 10.0"),
    "no number": ({"number": nan}, "number = nan"),
    "no finite one": ({"free": inf}, "free = inf"),
    "a text for a number": ({"number": "1"}, "number = '1'"),
    "a truth value for a number": ({"number": True}, "number = True"),
    "a truth value for an integer": ({"size": True}, "size = True"),
    "a float for an integer": ({"size": 2.0}, "size = 2.0"),
    "a number for a text": ({"name": 3}, "name = 3"),
    "half a character": ({"name": "\ud800"}, "surrogate"),
    "too short": ({"short": ""}, "short = ''"),
    "too long": ({"short": "abcd"}, "length of 3"),
    "a pattern": ({"lines": "abc"}, "'^(a|b)+$'"),
    "no such literal": ({"kind": "c"}, "kind = 'c': should be 'a' or 'b'"),
    "a list": ({"names": ["a"]}, "names = ['a']"),
    "an item": ({"names": ("a", 3)}, "names.1 = 3"),
    "a value": ({"table": {"a": (1.0, "x")}}, "table.a.1 = 'x'"),
    "too few": ({"table": {"a": (1.0,)}}, "table.a = (1.0,)"),
    "no mapping": ({"table": 3}, "table = 3"),
    "no instance": ({"path": "a"}, "path = 'a'"),
    "no function": ({"function": 3}, "function = 3"),
    "its own refusal": ({"half": 3}, "even: is odd"),
    "its own conversion": ({"length": 3}, "length: is no text"),
    "two": ({"size": 0, "name": 3}, "; name = 3"),
    "an unknown one": ({"nmae": "a"}, "Did you mean 'name'"),
    "its own check": ({"name": "refused"}, "is refused"),
}


@pytest.mark.parametrize(("values", "problem"), BAD.values(), ids=list(BAD))
def test_what_is_wrong_is_refused_with_what_it_should_be(
    values: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        Many(**values)


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="13 values"):
        Many(*range(13))
    with pytest.raises(InputError, match="number"):
        Many(1.0, number=2.0)  # type: ignore[misc]

    @settings
    class Needed:
        first: int
        second: int

    with pytest.raises(InputError, match="Needed: first, second missing"):
        Needed()  # type: ignore[call-arg]


@dataclass(frozen=True)
class Inner:
    sizes: tuple[int, ...]
    share: Annotated[float, Field(le=1)] | None = None


@dataclass(frozen=True)
class Outer:
    inner: Mapping[str, Inner]
    names: list[str] = field(default_factory=list)


def test_values_of_json_are_held_against_dataclasses() -> None:
    value = {"inner": {"a": {"sizes": [1, 2], "share": 1, "more": 3}}, "names": ["x"]}
    assert from_json(Outer, value, "f", "") == Outer({"a": Inner((1, 2), 1.0)}, ["x"])


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ([], "f: "),
        ({}, "f: inner: "),
        ({"inner": {"a": {}}}, "f: inner.a.sizes: "),
        ({"inner": {"a": {"sizes": 3}}}, "f: inner.a.sizes: "),
        ({"inner": {"a": {"sizes": [1, 1.5]}}}, "f: inner.a.sizes.1: "),
        ({"inner": {"a": {"sizes": [], "share": 2}}}, "f: inner.a.share: "),
        ({"inner": {}, "names": "ab"}, "f: names: "),
    ],
)
def test_what_json_does_not_give(value: Any, place: str) -> None:
    with pytest.raises(InputError, match=re.escape(place)):
        from_json(Outer, value, "f", "Fix it")
