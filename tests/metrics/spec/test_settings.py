"""Checked settings: errors in our own words, from the first instance of a class on."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field

from discorank.metrics.errors import InputError
from discorank.metrics.spec.checked_settings import settings


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
