"""Discourse roles as ordered lists of names; the number of a role is its place in the list.

Three lists come with discorank: ``news`` (Choubey et al. 2020, names as in the PDD paper, and NA for what is no part of
the article), ``lfqa`` (Xu et al. 2022) and ``recipes`` (Liu et al. 2022). Which number a role has changes no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from ...errors import InputError, excerpt, unknown
from ...representations import IntArray

SCHEMAS: Mapping[str, tuple[str, ...]] = {
    "news": (
        "Main Event",
        "Consequence",
        "Previous Event",
        "Current Context",
        "Historical Event",
        "Anecdotal Event",
        "Journalist Evaluation",
        "Future Consequences",
        "NA",
    ),
    "lfqa": (
        "Organizational sentence",
        "Answer (Summary)",
        "Answer",
        "Answer - Example",
        "Auxiliary Information",
        "Miscellaneous",
    ),
    "recipes": (
        "general",
        "pre-processing",
        "mixing",
        "transferring",
        "cooking",
        "post-processing",
        "final",
    ),
}
NO_ROLE = "NA"  # left out by default where a list has it
MAX_ROLES = 64  # without a schema
SchemaSpec = str | int | tuple[str, ...]


class Schema(NamedTuple):
    """The names of roles, and the numbers of those whose sentences are left out."""

    names: tuple[str, ...]
    dropped: frozenset[int] = frozenset()
    open: bool = False  # numbers are roles of their own, whatever they are

    @classmethod
    def of(cls, spec: SchemaSpec, drop: Sequence[str] | None = None) -> Self:
        """The schema of a known name, of a list of names, or of a number of roles without names.

        Args:
            spec: ``"news"``, ``("claim", "evidence")`` or 7.
            drop: roles whose sentences are left out; NA, where there is such a role, if not given.

        Raises:
            InputError: an unknown name, names that repeat, or none.
        """
        names = named(spec)
        if drop is None:
            drop = [NO_ROLE] if NO_ROLE in names else []
        for name in drop:
            if name not in names:
                raise unknown("role", name, names, where="drop")
        return cls(names, frozenset(map(names.index, drop)))

    @property
    def size(self) -> int:
        """The number of role numbers there may be."""
        return MAX_ROLES if self.open else len(self.names)

    def name(self, number: int) -> str:
        """The name of a role, or its number where it has none."""
        return self.names[number] if number < len(self.names) else str(number)

    @property
    def kept(self) -> int:
        """The number of roles that are not left out."""
        return len(self.names) - len(self.dropped)

    def numbers(self, roles: Sequence[int | str]) -> IntArray:
        """The numbers of roles given as numbers or names, without those left out.

        Raises:
            InputError: a role that the schema does not have.
        """
        numbers = []
        for i, role in enumerate(roles):
            number = self._number(role, i)
            own_number = self.open and isinstance(role, int)
            if own_number or number not in self.dropped:
                numbers.append(number)
        return np.array(numbers, np.int64)

    def _number(self, role: int | str, place: int) -> int:
        """The number of a role given as a number or name; `place` is that of its sentence, for errors."""
        if isinstance(role, str):
            if role not in self.names:
                raise unknown("role", role, self.names, where=f"roles[{place}]")
            return self.names.index(role)
        if not 0 <= role < self.size:
            fix = f"Roles are numbers 0 to {self.size - 1} or names; set schema=... to other roles"
            raise InputError(f"found {role}", where=f"roles[{place}]", fix=fix)
        return int(role)


def named(spec: SchemaSpec) -> tuple[str, ...]:
    """The names of a schema.

    >>> named(2)
    ('0', '1')

    Raises:
        InputError: an unknown name, names that repeat, or none.
    """
    if isinstance(spec, str):
        if spec not in SCHEMAS:
            raise unknown("schema", spec, SCHEMAS, where="schema")
        return SCHEMAS[spec]
    names = tuple(map(str, range(spec))) if isinstance(spec, int) else tuple(spec)
    if not names or len(set(names)) < len(names):
        fix = "Give one or more names, each once"
        raise InputError(f"found {excerpt(spec)}", where="schema", fix=fix)
    return names
