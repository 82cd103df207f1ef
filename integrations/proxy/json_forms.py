"""Which texts have the JSON form that a request asks for, judged in bounded steps: schemas are anybody's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import regex

from ...metrics.errors import InputError
from ...metrics.storage.json_and_yaml import parse_json

MAX_STEPS = 20_000  # in all texts of a request
COMPARED_PER_STEP = 20  # pairs of items that are compared in the time of a step
PATTERN_SECONDS = 0.05  # for one search


class _UnusableSchemaError(Exception):
    """A schema that is not used."""


def with_form(texts: Sequence[str], response_format: Mapping[str, Any]) -> list[int] | None:
    """Numbers of the texts that have the form; None where that cannot be told, as with grammars."""
    kind = response_format.get("type")
    values = [value_of(text) for text in texts]
    if kind == "json_object":
        return [i for i, value in enumerate(values) if isinstance(value, dict)]
    wrapper = response_format.get("json_schema")
    schema = wrapper.get("schema") if isinstance(wrapper, Mapping) else None
    if kind != "json_schema" or not isinstance(schema, Mapping):
        return None
    try:
        fits = checker(schema)
        return [i for i, value in enumerate(values) if value is not NOTHING and fits(value)]
    except Exception:  # whatever a schema that nobody checked makes a library do
        return None


NOTHING = object()


def value_of(text: str) -> Any:
    """The JSON value of a text; `NOTHING` if it is not JSON, or has NaN, Infinity or a number beyond all bounds."""
    try:
        value = parse_json(text.encode())
        json.dumps(value, allow_nan=False)
    except (InputError, ValueError):
        return NOTHING
    return value


def _plain(schema: Any) -> Any:
    """A schema without the names of dialects, which have rules of their own.

    Raises:
        _UnusableSchemaError: it has patterns for keys.
    """
    if isinstance(schema, list):
        return [_plain(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    if "patternProperties" in schema:
        raise _UnusableSchemaError
    is_dialect = isinstance(schema.get("$schema"), str)
    return {
        key: _plain(inner) for key, inner in schema.items() if not (is_dialect and key == "$schema")
    }


class _Steps:
    """The budget that a judgement still has.

    A keyword costs a step and one for each of its values, a pattern one for each character when it is first read, items
    that have to differ what it takes to compare all pairs.
    """

    def __init__(self) -> None:
        self._left = MAX_STEPS
        self._patterns: set[str] = set()

    def take(self, name: str, value: Any, instance: Any) -> None:
        """Takes the steps of a keyword; raises _UnusableSchemaError where there are none left."""
        self._left -= 1
        if isinstance(value, list | dict):
            self._left -= len(value)
        if name == "uniqueItems" and isinstance(instance, list):
            self._left -= len(instance) ** 2 // COMPARED_PER_STEP
        if name == "pattern" and value not in self._patterns:
            self._left -= len(value)
            self._patterns.add(value)
        if self._left < 0:
            raise _UnusableSchemaError


def checker(schema: Any) -> Callable[[Any], bool]:
    """Tells whether a value fits a schema, in a bounded number of steps.

    Raises (also from what is returned):
        Exception: the schema cannot be used.
    """
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    steps = _Steps()

    def counted(name: str, keyword: Callable[..., Any]) -> Callable[..., Any]:
        def check(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
            steps.take(name, value, instance)
            return keyword(validator, value, instance, schema)

        return check

    keywords = {**Draft202012Validator.VALIDATORS, "pattern": _pattern}
    bounded = {name: counted(name, keyword) for name, keyword in keywords.items()}
    judge = validators.extend(Draft202012Validator, bounded)(_plain(schema), registry=Registry())

    def fits(value: Any) -> bool:
        return bool(judge.is_valid(value))

    return fits


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
    """The keyword `pattern`, in bounded time."""
    from jsonschema import ValidationError

    if isinstance(value, str) and not regex.search(pattern, value, timeout=PATTERN_SECONDS):
        yield ValidationError("does not match")
