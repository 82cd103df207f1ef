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

from ...representations import Block, FloatArray, IntArray, Ragged, Reps, by_block, cell_rows
from ...scorer import Info
from ...spec.checked_settings import settings
from .pdd import TERMS, in_parts
from .role_sources import RoleMetric, RoleScorer


@settings
class RoleMatch(RoleMetric):
    """Roles that agree place by place."""

    name: ClassVar[str] = "role-match"
    info: ClassVar[Info] = Info(
        summary="discourse roles that agree sentence by sentence",
        reasons=("places that differ: sentences, counted from 1, whose roles are not the same"),
        papers=("liu2024unlocking",),
        unit="document",
        bounds=(0, 1),
        linear=True,
        bucketed=True,
        version=2,
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
        shorter = np.minimum(roles.lengths[h], roles.lengths[r])  # [pairs], places to look at
        matches = np.empty(len(h), np.int64)
        for part in in_parts(shorter, TERMS):
            pair, place = _places(shorter[part])
            h_start = roles.offsets[h[part]]
            r_start = roles.offsets[r[part]]
            h_roles = roles.values[h_start[pair] + place]
            r_roles = roles.values[r_start[pair] + place]
            matching_pair = pair[h_roles == r_roles]
            matches[part] = np.bincount(matching_pair, minlength=len(h_start))
        lengths = np.maximum(roles.lengths[r], 1)
        return by_block(matches / lengths, blocks)

    def _expected(self, roles: Ragged, block: Block, weights: FloatArray) -> FloatArray:
        """From the weight of every role at every place."""
        own = roles[block.hypotheses]
        references = roles[block.references]
        size = self.schema.size
        depth = int(max(own.lengths.max(), references.lengths.max()))
        # the weight of every role at every place, over all references: [depth * size]
        reference, place = _places(references.lengths)
        share = weights / np.maximum(references.lengths, 1)
        cell = place * size + references.values
        table = np.bincount(cell, share[reference], depth * size)
        # each hypothesis collects the weights of its roles
        hypothesis, place = _places(own.lengths)
        collected = table[place * size + own.values]
        return np.asarray(np.bincount(hypothesis, collected, len(own)), np.float64)

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The places whose roles differ, counted from 1, as far as the reference goes."""
        h = self._names(reps, block.hypotheses[[hypothesis]])
        r = self._names(reps, block.references[[reference]])
        differing = []
        for i, role in enumerate(r):
            own = h[i] if i < len(h) else None
            if own != role:
                differing.append({"sentence": i + 1, "hypothesis": own, "reference": role})
        return {"places that differ": differing}

    def _names(self, reps: Reps, row: IntArray) -> list[str]:
        """The names of the roles of one text, given as an array [1] of its row."""
        return [self.schema.name(int(number)) for number in reps["roles"][row].values]


def _places(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """The row and the place in it of every entry of rows of these lengths, [total] each."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    first = np.repeat(lengths.cumsum() - lengths, lengths)
    return row, np.arange(len(row)) - first
