"""Checked settings: errors in our own words, from the first instance of a class on."""

from __future__ import annotations

import sys
from math import inf, nan
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank.metrics.errors import InputError
from discorank.metrics.spec import checked_settings
from discorank.metrics.spec.checked_settings import Checked, Converted, Field, settings
from discorank.metrics.spec.plain_values import UndecidedError


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


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.sampled_from([nan, inf, -inf, -1.0, 9.0, 2.5, "\ud800", "é", ()]),
    st.text("ab", max_size=4),
    st.tuples(st.text("ab", max_size=2)),
    st.lists(st.text("ab", max_size=1), max_size=1),
)


def outcome(values: dict[str, Any]) -> str:
    try:
        return repr({name: (type(v), v) for name, v in vars(Many(**values)).items()})
    except InputError as error:
        return str(error)


@bounded(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from([*Many.__annotations__, "other"]), VALUES, max_size=2))
def test_what_is_plainly_right_is_what_pydantic_makes_of_it(values: dict[str, Any]) -> None:
    def undecided(*_: object) -> dict[str, Any]:
        raise UndecidedError

    plainly = outcome(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checked_settings, "plain_settings", undecided)
        assert outcome(values) == plainly


def test_plain_values_do_without_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    made = Many(2.0, 3, "x", kind=True, names=("a",), half=2, length="abc")  # type: ignore[arg-type]
    assert (made.number, made.size, made.half, made.length) == (2.0, 3, 2, 3)
