"""Role match: the share of the reference's sentences whose role the hypothesis has at the same place.

    match(h, r) = #{i < min(|h|, |r|): h_i = r_i} / |r|

The baseline "exact match" of the PDD paper (Liu et al. 2024), as its code computes it: further sentences of the
hypothesis cost nothing. 0 to 1, higher is better, not symmetric; 0 if either text has no sentence with a role. Of
several references the best counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...papers import LIU_2024
from ...representations import Block, FloatArray, IntArray, Ragged, Reps, by_block, cell_rows
from ...scorer import Info
from ...spec.checked_settings import settings
from .densities import TERMS, in_parts
from .role_sources import RoleMetric, RoleScorer


@settings
class RoleMatch(RoleMetric):
    """Roles that agree place by place."""

    name: ClassVar[str] = "role-match"
    info: ClassVar[Info] = Info(
        summary="discourse roles that agree sentence by sentence",
        papers=(LIU_2024,),
        unit="document",
        bounds=(0, 1),
        linear=True,
        bucketed=True,
    )

    def load(self) -> RoleMatchScorer:
        """The scorer, with the classifier if there is one."""
        self.check_files()
        return RoleMatchScorer(self)


class RoleMatchScorer(RoleScorer):
    """Represents a text by the roles of its sentences."""

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Matches [H, R] of every block."""
        roles: Ragged = reps["roles"]
        h, r = cell_rows(blocks)
        both = np.minimum(roles.lengths[h], roles.lengths[r])
        found = np.empty(len(h), np.int64)
        for part in in_parts(both, TERMS):
            pair, place = _places(both[part])
            own, other = (roles.values[roles.offsets[rows[part]][pair] + place] for rows in (h, r))
            same = own == other
            found[part] = np.bincount(pair[same], minlength=len(both[part]))
        return by_block(found / np.maximum(roles.lengths[r], 1), blocks)

    def expected(
        self, reps: Reps, blocks: Sequence[Block], weights: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """Mean matches [H] of every block, from the weight of every role at every place: exact, in linear time."""
        return [self._expected(reps["roles"], b, w) for b, w in zip(blocks, weights, strict=True)]

    def _expected(self, roles: Ragged, block: Block, weights: FloatArray) -> FloatArray:
        own, others, size = roles[block.hypotheses], roles[block.references], self.schema.size
        depth = int(max(own.lengths.max(), others.lengths.max()))
        whose, place = _places(others.lengths)
        share = weights / np.maximum(others.lengths, 1)
        table = np.bincount(place * size + others.values, share[whose], depth * size)
        whose, place = _places(own.lengths)
        return np.asarray(
            np.bincount(whose, table[place * size + own.values], len(own)), np.float64
        )

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The places whose roles differ, counted from 1, as far as the reference goes."""
        h, r = (
            [self.schema.name(int(k)) for k in reps["roles"][rows].values]
            for rows in (block.hypotheses[[hypothesis]], block.references[[reference]])
        )
        return {
            "places that differ": [
                {"sentence": i + 1, "hypothesis": h[i] if i < len(h) else None, "reference": role}
                for i, role in enumerate(r)
                if i >= len(h) or h[i] != role
            ]
        }


def _places(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """The row and the place in it of every entry of rows of these lengths, [total] each."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - np.repeat(lengths.cumsum() - lengths, lengths)
