"""Checks of the texts that a metric is called with: lists of texts, one entry per hypothesis where that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError, excerpt
from .texts import Document, Text


def check_texts(texts: Sequence[Any], where: str) -> None:
    """Raises InputError unless `texts` is a list of strings and Documents."""
    if isinstance(texts, str | Document):
        raise InputError(
            "found one text, expected a list of texts",
            where=where,
            fix="Put it in a list",
        )
    if not isinstance(texts, Sequence):
        raise InputError(f"found {excerpt(texts)}, expected a list of texts", where=where)
    if {type(text) for text in texts} <= {str}:  # as most are
        return
    for i, text in enumerate(texts):
        if not isinstance(text, str | Document):
            is_list = isinstance(text, list | tuple)
            raise InputError(
                f"found {excerpt(text)}, expected a string",
                where=f"{where}[{i}]",
                fix="A document is written discorank.Document([...])" if is_list else "",
            )


def as_long_as(
    hypotheses: Sequence[Any],
    values: Sequence[Any] | None,
    name: str,
    metric: str,
) -> Sequence[Any]:
    """The argument `name` of a metric.

    Raises:
        InputError: it is missing, no list, or has not one entry per hypothesis.
    """
    if values is None:
        raise InputError(
            f"{metric} needs {name}",
            where=name,
            fix=f"Give {name}, one entry per hypothesis",
        )
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InputError(
            f"found {excerpt(values)}, expected a list",
            where=name,
            fix=f"Give {name} as a list",
        )
    if len(values) != len(hypotheses):
        raise InputError(
            f"{len(values)} {name} for {len(hypotheses)} hypotheses",
            where=name,
            fix="Give one entry per hypothesis",
        )
    return values


def reference_lists(references: Sequence[Text | Sequence[Text]]) -> list[list[Text]]:
    """The references of every segment as a list, from one text or a list of texts each.

    Raises:
        InputError: an entry is neither, or an empty list.
    """
    entries = [[entry] if isinstance(entry, str | Document) else entry for entry in references]
    for i, texts in enumerate(entries):
        check_texts(texts, f"references[{i}]")
    for i, texts in enumerate(entries):
        if not texts:
            raise InputError("no reference", where=f"references[{i}]", fix="Give at least one text")
    return [list(texts) for texts in entries]


def check_equally_many(references: Sequence[Sequence[Text]]) -> None:
    """Raises InputError unless every segment has the same number of references, as context needs."""
    if len({len(texts) for texts in references}) > 1:
        raise InputError(
            "context needs the same number of references in every segment",
            where="references",
            fix="Leave out the references that only some segments have",
        )
