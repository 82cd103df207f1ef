"""What an annotation demands of a setting beyond its type; said without pydantic, which is loaded where it must decide.

share: Annotated[float, Field(gt=0, le=1)] = 0.5
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

_BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
    "min_length": lambda value, least: len(value) >= least,
    "max_length": lambda value, most: len(value) <= most,
    "allow_inf_nan": lambda value, allowed: allowed or isfinite(value),
    "strict": lambda value, is_strict: True,  # what has the type needs no conversion
}


@dataclass(frozen=True)
class Field:
    """Bounds on a value, by the names that ``pydantic.Field`` has for them."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    allow_inf_nan: bool | None = None
    strict: bool | None = None

    __is_annotated_types_grouped_metadata__ = True  # pydantic reads it as the constraints it yields

    def __iter__(self) -> Iterator[object]:
        """The same constraints as pydantic's own."""
        from pydantic import Field as PydanticField

        yield from PydanticField(**self._given).metadata

    @property
    def _given(self) -> dict[str, Any]:
        """What is constrained."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def holds(self, value: Any) -> bool:
        """Whether a value of the right type is surely within the bounds; False where it needs a closer look."""
        if self.pattern is not None:
            return False
        return all(_BOUNDS[name](value, bound) for name, bound in self._given.items())


@dataclass(frozen=True)
class Converted:
    """A setting is what a function makes of any value; the function raises an InputError for one that will not do."""

    function: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """The same as pydantic sees it."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.function)


@dataclass(frozen=True)
class Checked:
    """A setting of the right type is what a function makes of it; the function raises an InputError."""

    function: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """The same as pydantic sees it."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.function, handler(source))
