"""Rows of Hugging Face datasets as candidate lists; what is no dataset passes through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..metrics.errors import InputError

_NAMES = ("id", "document")  # keys that are texts, and often numbers in tables


def list_rows(lists: Iterable[Any]) -> Iterable[Any]:
    """The lists in an iterable: of a `datasets.Dataset` or `IterableDataset`, its rows without what is null.

    Rows without an id have their number, from 0; ids that are whole numbers become their digits.

    Raises:
        InputError: it is a dictionary of splits.
    """
    kind = type(lists)
    if kind.__module__.partition(".")[0] != "datasets":
        return lists
    if isinstance(lists, dict):
        problem = f"found a {kind.__name__} of the splits {', '.join(map(str, lists))!s:.80}"
        raise InputError(problem, where="lists", fix="Give one: dataset['train']")
    return _rows(lists)


def without_nulls(value: Any) -> Any:
    """The value without what is null in objects; null in a list stays."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


def with_text_names(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a table whose ids of list and document are texts: of whole numbers, their digits."""
    return row | {key: str(row[key]) for key in _NAMES if type(row.get(key)) is int}


def _rows(dataset: Any) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(dataset.with_format(None)):
        yield with_text_names({"id": number, **without_nulls(dict(row))})
