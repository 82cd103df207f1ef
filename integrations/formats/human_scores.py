"""Human scores of one document in a systems file.

A key given as ``mqm`` is a top-level key of the document, or else a dimension in ``human``. Under a key stand
``{system: scores}``, ``{dimension: {system: scores}}`` or ``{system: {dimension: scores}}``: whichever keys are the
names of systems decides. Scores are a number for the text, or one number or null per segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...metrics.errors import InputError, excerpt, unknown
from ...rerank.lists import finite

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
    document: Mapping[str, Any], key: str, names: frozenset[str]
) -> dict[str, Mapping[str, Any]]:
    """Dimension -> system -> scores for one key."""
    if key in document:
        return _by_dimension(document[key], key, names)
    human = document.get("human")
    dimensions = _by_dimension(human, "human", names) if isinstance(human, Mapping) else {}
    if key not in dimensions:
        holding = [name for name, value in document.items() if isinstance(value, Mapping)]
        known = [name for name in holding if name not in _NO_SCORES]
        raise unknown("key of human scores", key, [*known, *dimensions])
    return {key: dimensions[key]}


def _has(document: Mapping[str, Any], key: str) -> bool:
    """Whether a document has a key, or somewhere a dimension of that name."""
    human = document.get("human")
    if key in document or not isinstance(human, Mapping):
        return key in document
    return key in human or any(key in own for own in human.values() if isinstance(own, Mapping))


def _by_dimension(value: Any, key: str, names: frozenset[str]) -> dict[str, Mapping[str, Any]]:
    """Dimension -> system -> scores, from any of the three nestings; the dimension of a flat one is its key."""
    if value is None or value == {}:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"found {type(value).__name__}, expected scores by system", where=key)
    if not all(isinstance(inner, Mapping) for inner in value.values()):
        return {key: value}
    outer, inner = set(value), {name for scores in value.values() for name in scores}
    known_outer, known_inner = len(outer & names), len(inner & names)
    if not known_outer and not known_inner:
        problem = f"neither {sorted(outer)[:3]} nor {sorted(inner)[:3]} are systems or references"
        raise InputError(problem, where=key, fix=f"All: {', '.join(sorted(names))}")
    # the shares of known names, multiplied out: known / all outer keys < known / all inner keys
    if known_outer * max(1, len(inner)) < known_inner * len(outer):
        return dict(value)
    by_dimension: dict[str, Mapping[str, Any]] = {}
    for system, scores in value.items():
        for dimension, score in scores.items():
            by_dimension[dimension] = {**by_dimension.get(dimension, {}), system: score}
    return by_dimension


def _checked(
    scores: Mapping[str, Any], where: str, names: frozenset[str], segments: int | None
) -> dict[str, Scores]:
    """The scores of one dimension; raises InputError for an unknown name or the wrong shape."""
    for name, value in scores.items():
        if name not in names:
            raise unknown("system or reference", name, names, where=where)
        place = f"{where}.{name}"
        if isinstance(value, list) and len(value) != segments:
            expected = "one number for a whole text"
            if segments is not None:
                expected = f"one per segment, {segments}"
            raise InputError(f"{len(value)} scores, expected {expected}", where=place)
        for i, score in enumerate(value if isinstance(value, list) else [value]):
            if score is not None and finite(score) is None:
                at = f"{place}[{i}]" if isinstance(value, list) else place
                raise InputError(f"found {excerpt(score)}, expected a number or null", where=at)
    return dict(scores)
