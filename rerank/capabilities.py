"""Needs of the settings of choosing: combinations that do not go together are declared here, and checked in one place.

A setting that is given may cost a capability, and another one may need it:

    budget: Annotated[Budget | None, Costs(ALL_PAIRS)] = None
    diverse: Annotated[float | None, Needs(ALL_PAIRS)] = None

A decider, a command or a server that needs one says so in the same words, so a new setting is refused wherever it does
not fit, without a list of names anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..metrics.errors import InputError
from ..metrics.spec.checked_settings import Mark, marks_of, parts_of

ALL_PAIRS = "the utilities of all pairs"
MATRIX = "a matrix of utilities"
PSEUDO_REFERENCES = "pseudo-references, not human references"
EVERY_VALUE = "a value of every candidate"
PLAIN_SUMS = "the utilities of a sum as they are"
OWN_CONTEXT = "each document in its own context"
FIRST_STAGE = "a first stage that leaves texts out"
SEVERAL_PLACES = "a ranking of several places"
SYSTEMS = "candidates that name their systems"
SINGLE_LISTS = "lists that are decided one by one"


@dataclass(frozen=True, init=False)
class _Named(Mark):
    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


class Needs(_Named):
    """Capabilities that a setting needs, if it is given."""


class Costs(_Named):
    """Capabilities that are not there beside a setting, if it is given."""


class Beside(_Named):
    """The settings beside one of which, where it is given, a setting has an effect."""


def check_together(
    value: object, who: str = "", needs: Sequence[str] = (), lacks: Sequence[str] = ()
) -> None:
    """Checks that the settings of a value, and of its parts, go together.

    Args:
        value: of a class of settings.
        who: what else has a say, for the message.
        needs: capabilities that it needs.
        lacks: capabilities that it does not have.

    Raises:
        InputError: a setting is given that costs what another one, or `who`, needs; or that needs what `who` lacks.
    """
    refuse_conflicts(dict(_given(value)), who, needs, lacks)


def refuse_conflicts(
    given: Mapping[str, Sequence[Mark]],
    who: str = "",
    needs: Sequence[str] = (),
    lacks: Sequence[str] = (),
) -> None:
    """The same of the settings that are given, by name, with what is said of them."""
    costs: dict[str, str] = {}  # the setting that costs a capability
    for name, marks in given.items():
        costs |= dict.fromkeys(_capabilities(marks, Costs), name)
    for capability in needs:
        if capability in costs:
            problem = f"does not go with {who}, which needs {capability}"
            raise InputError(problem, where=costs[capability], fix="Leave it out")
    for name, marks in given.items():
        for capability in _capabilities(marks, Needs):
            other = costs.get(capability)
            if capability in lacks:
                problem = f"needs {capability}, which {who} does not have"
                raise InputError(problem, where=name, fix="Leave it out")
            if other is not None:
                problem = f"needs {capability}, which {other} leaves out"
                raise InputError(problem, where=name, fix="Leave one of them out")


def _capabilities(marks: Sequence[Mark], kind: type[Needs | Costs]) -> list[str]:
    """The capabilities that marks of a kind name."""
    return [name for mark in marks if isinstance(mark, kind) for name in mark.names]


def _given(value: object) -> Iterator[tuple[str, tuple[Mark, ...]]]:
    """The settings of a value that are not at their defaults, and what is said of them; those of its parts too."""
    kind: Any = type(value)
    parts, marks = parts_of(kind), marks_of(kind)
    for setting in fields(value):  # type: ignore[arg-type]
        own = getattr(value, setting.name)
        if setting.name in parts:
            yield from _given(own)
        elif own != setting.default:
            yield setting.name, marks[setting.name]
