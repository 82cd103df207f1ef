"""Human scores of one document in a systems file: finds out how they are nested and gives scores by dimension.

A key given as ``mqm`` is a top-level key of the document, or else a dimension in ``human``. Under a key stand
``{system: scores}``, ``{dimension: {system: scores}}`` or ``{system: {dimension: scores}}``: whichever keys are the
names of systems decides. Scores are a number for the text, or one number or null per segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ...metrics.errors import InputError, unknown

Scores = float | None | list[float | None]
ByDimension = dict[str, dict[str, Scores]]


@dataclass(frozen=True, slots=True)
class HumanKey:
    """Where human scores stand, and whether lower ones are better there."""

    name: str
    lower: bool = False

    @classmethod
    def read(cls, given: str) -> HumanKey:
        """A key from ``name``, ``name:lower`` or ``name:higher``.

        Raises:
            InputError: the name is empty or the direction another word.
        """
        name, _, direction = given.partition(":")
        if not name or direction not in ("", "lower", "higher"):
            raise InputError(
                f"found {given!r:.80}, expected NAME or NAME:lower",
                where="human",
                fix="Directions: lower, higher",
            )
        return cls(name, direction == "lower")


def human_scores(
    document: Mapping[str, Any],
    keys: Sequence[HumanKey],
    names: Iterable[str],
    segments: int | None,
) -> ByDimension:
    """The scores under the keys (under ``human`` if there are none), dimension -> system or reference -> scores.

    Args:
        document: a line of the systems file.
        keys: where to look.
        names: of all systems and references.
        segments: how many there are; None for a whole text.

    Raises:
        InputError: a key is missing, a name is neither system nor reference, or scores have the wrong shape.
    """
    known = frozenset(names)
    found: ByDimension = {}
    for key in keys or (HumanKey("human"),) * ("human" in document):
        for dimension, scores in _under(document, key.name, known).items():
            if dimension in found:
                raise InputError(
                    "a dimension given twice", where=dimension, fix="Name one of its keys"
                )
            where = key.name if dimension == key.name else f"{key.name}.{dimension}"
            found[dimension] = _checked(scores, where, known, segments)
    return found


def _under(
    document: Mapping[str, Any], key: str, names: frozenset[str]
) -> dict[str, Mapping[str, Any]]:
    """Dimension -> system -> scores for one key."""
    human = document.get("human")
    if key in document:
        return _by_dimension(document[key], key, names)
    dimensions = _by_dimension(human, "human", names) if isinstance(human, Mapping) else {}
    if key not in dimensions:
        raise unknown("key of human scores", key, [*_mappings(document), *dimensions])
    return {key: dimensions[key]}


def _mappings(document: Mapping[str, Any]) -> list[str]:
    taken = ("source", "references", "systems")
    return [
        key for key, value in document.items() if isinstance(value, Mapping) and key not in taken
    ]


def _by_dimension(value: Any, key: str, names: frozenset[str]) -> dict[str, Mapping[str, Any]]:
    if value is None or value == {}:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"found {type(value).__name__}, expected scores by system", where=key)
    if not all(isinstance(inner, Mapping) for inner in value.values()):
        return {key: value}
    outer, inner = set(value), {name for scores in value.values() for name in scores}
    if not (outer | inner) & names:
        raise InputError(
            f"neither {sorted(outer)[:3]} nor {sorted(inner)[:3]} are systems or references",
            where=key,
            fix=f"All: {', '.join(sorted(names))}",
        )
    if len(outer & names) * max(1, len(inner)) < len(inner & names) * len(outer):
        return dict(value)
    turned: dict[str, dict[str, Any]] = {}
    for system, scores in value.items():
        _check_name(system, key, names)
        for dimension, score in scores.items():
            turned.setdefault(dimension, {})[system] = score
    return dict(turned)


def _check_name(name: str, where: str, names: frozenset[str]) -> None:
    if name not in names:
        raise unknown("system or reference", name, names, where=where)


def _checked(
    scores: Mapping[str, Any], where: str, names: frozenset[str], segments: int | None
) -> dict[str, Scores]:
    for name, value in scores.items():
        _check_name(name, where, names)
        place = f"{where}.{name}"
        if not isinstance(value, list):
            _check_score(value, place)
            continue
        if segments is None or len(value) != segments:
            expected = (
                "one number for a whole text"
                if segments is None
                else f"one per segment, {segments}"
            )
            raise InputError(f"{len(value)} scores, expected {expected}", where=place)
        for i, score in enumerate(value):
            _check_score(score, f"{place}[{i}]")
    return dict(scores)


def _check_score(value: Any, where: str) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"found {type(value).__name__}, expected a number or null", where=where)
    if isinstance(value, float) and not isfinite(value):
        raise InputError(f"found {value}, expected a finite number", where=where)
