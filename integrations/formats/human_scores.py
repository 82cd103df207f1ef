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
_NO_SCORES = ("source", "references", "systems")  # keys of a document that hold no human scores


@dataclass(frozen=True, slots=True)
class HumanKey:
    """Where human scores stand, whether lower ones are better there, and whether a document may lack the key."""

    name: str
    lower: bool = False
    may_lack: bool = False

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
    known_names = frozenset(names)
    if not keys and "human" in document:
        keys = (HumanKey("human"),)
    by_dimension: ByDimension = {}
    for key in keys:
        if key.may_lack and not _has(document, key.name):
            continue
        for dimension, scores in _under(document, key.name, known_names).items():
            if dimension in by_dimension:
                raise InputError(
                    "a dimension given twice",
                    where=dimension,
                    fix="Name one of its keys",
                )
            where = key.name if dimension == key.name else f"{key.name}.{dimension}"
            by_dimension[dimension] = _checked(scores, where, known_names, segments)
    return by_dimension


def _under(
    document: Mapping[str, Any],
    key: str,
    names: frozenset[str],
) -> dict[str, Mapping[str, Any]]:
    """Dimension -> system -> scores for one key."""
    if key in document:
        return _by_dimension(document[key], key, names)
    human = document.get("human")
    dimensions = _by_dimension(human, "human", names) if isinstance(human, Mapping) else {}
    if key not in dimensions:
        raise unknown("key of human scores", key, [*_mapping_keys(document), *dimensions])
    return {key: dimensions[key]}


def _has(document: Mapping[str, Any], key: str) -> bool:
    """Whether a document has a key, or somewhere a dimension of that name."""
    human = document.get("human")
    if key in document or not isinstance(human, Mapping):
        return key in document
    return key in human or any(key in own for own in human.values() if isinstance(own, Mapping))


def _mapping_keys(document: Mapping[str, Any]) -> list[str]:
    """The keys of a document that may hold human scores."""
    keys = [key for key, value in document.items() if isinstance(value, Mapping)]
    return [key for key in keys if key not in _NO_SCORES]


def _by_dimension(
    value: Any,
    key: str,
    names: frozenset[str],
) -> dict[str, Mapping[str, Any]]:
    """Dimension -> system -> scores, from any of the three nestings; the dimension of a flat one is its key."""
    if value is None or value == {}:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"found {type(value).__name__}, expected scores by system", where=key)
    if not all(isinstance(inner, Mapping) for inner in value.values()):
        return {key: value}
    if _systems_are_inside(value, key, names):
        return dict(value)
    by_dimension: dict[str, dict[str, Any]] = {}
    for system, scores in value.items():
        _check_name(system, key, names)
        for dimension, score in scores.items():
            by_dimension.setdefault(dimension, {})[system] = score
    return dict(by_dimension)


def _systems_are_inside(
    value: Mapping[str, Mapping[str, Any]],
    key: str,
    names: frozenset[str],
) -> bool:
    """Whether rather the inner keys than the outer ones are names of systems; raises InputError if neither are."""
    outer = set(value)
    inner = {name for scores in value.values() for name in scores}
    if not (outer | inner) & names:
        raise InputError(
            f"neither {sorted(outer)[:3]} nor {sorted(inner)[:3]} are systems or references",
            where=key,
            fix=f"All: {', '.join(sorted(names))}",
        )
    # compares the shares of known names, multiplied out: known / all outer keys < known / all inner keys
    known_outer = len(outer & names)
    known_inner = len(inner & names)
    return known_outer * max(1, len(inner)) < known_inner * len(outer)


def _check_name(name: str, where: str, names: frozenset[str]) -> None:
    if name not in names:
        raise unknown("system or reference", name, names, where=where)


def _checked(
    scores: Mapping[str, Any],
    where: str,
    names: frozenset[str],
    segments: int | None,
) -> dict[str, Scores]:
    """The scores of one dimension; raises InputError for an unknown name or the wrong shape."""
    for name, value in scores.items():
        _check_name(name, where, names)
        place = f"{where}.{name}"
        if not isinstance(value, list):
            _check_score(value, place)
            continue
        if segments is None:
            problem = f"{len(value)} scores, expected one number for a whole text"
            raise InputError(problem, where=place)
        if len(value) != segments:
            problem = f"{len(value)} scores, expected one per segment, {segments}"
            raise InputError(problem, where=place)
        for i, score in enumerate(value):
            _check_score(score, f"{place}[{i}]")
    return dict(scores)


def _check_score(value: Any, where: str) -> None:
    """Raises InputError for what is neither a finite number nor null."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"found {type(value).__name__}, expected a number or null", where=where)
    if isinstance(value, float) and not isfinite(value):
        raise InputError(f"found {value}, expected a finite number", where=where)
