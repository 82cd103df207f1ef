"""What is shipped: the defaults that were learned on public sets of translations with MQM, and the chooser they make.

``defaults.json`` has numbers alone, no text and no judgement; its ``provenance`` names the sets. It is made by
``python -m benchmarks.choosers.chooser_defaults``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray
from ..surface import SURFACE
from .chooser_fit import STRENGTHS, Defaults
from .difficulty import Difficulty
from .gains import ErrorRatio
from .model import TrainedChooser, checked_json, read_difficulty, shipped_file

FILE = "defaults.json"
KIND, FORMAT = "discorank-chooser-defaults", 1
_FIX = "Install discorank again"


class Shipped(NamedTuple):
    """The defaults of all choosers.

    Args:
        utility: signature of the utility they were learned with.
        consensus: weight of consensus for every strength, [K].
        losses, spreads: as in `Defaults`, [K].
        difficulty: slopes and calibration, and the rest in sigma of the sets.
        gain: against the best single system, between sets.
        provenance: from what they were learned.
    """

    utility: str
    consensus: FloatArray
    losses: FloatArray
    spreads: FloatArray
    difficulty: Difficulty
    gain: ErrorRatio
    provenance: str

    def defaults(self, num_features: int) -> Defaults:
        """Where features count nothing beside consensus."""
        weights = np.zeros((len(STRENGTHS), 1 + num_features))
        weights[:, 0] = self.consensus
        return Defaults(weights, self.losses, self.spreads)

    def as_json(self) -> dict[str, Any]:
        """The file's content."""
        return {
            "kind": KIND,
            "format": FORMAT,
            "provenance": self.provenance,
            "utility": self.utility,
            "strengths": list(STRENGTHS),
            "consensus": self.consensus.tolist(),
            "losses": self.losses.tolist(),
            "spreads": self.spreads.tolist(),
            "difficulty": self.difficulty._asdict(),
            "gain": list(self.gain),
        }


@cache
def shipped() -> Shipped:
    """The defaults; raises InputError where the file is damaged."""
    data = checked_json(shipped_file(FILE), FILE)
    if data.get("kind") != KIND or data.get("format") != FORMAT:
        raise InputError("holds no defaults of this format", where=FILE, fix=_FIX)
    if data["strengths"] != list(STRENGTHS):
        raise InputError("is of other strengths", where=FILE, fix=_FIX)
    difficulty = read_difficulty(data["difficulty"], f"{FILE}: difficulty")
    if difficulty is None:
        raise InputError("has no difficulty", where=FILE, fix=_FIX)
    return Shipped(
        difficulty=difficulty,
        utility=data["utility"],
        consensus=np.array(data["consensus"], float),
        losses=np.array(data["losses"], float),
        spreads=np.array(data["spreads"], float),
        gain=ErrorRatio(*data["gain"]),
        provenance=data["provenance"],
    )


def default_chooser() -> TrainedChooser:
    """The chooser before anything is judged."""
    known = shipped()
    return TrainedChooser(
        utility=known.utility,
        weights=tuple((name, 0.0) for name in SURFACE),
        consensus=float(known.consensus[0]),
        strength=0.0,
        prior=None,
        difficulty=known.difficulty,
        expectation=None,
        provenance=known.provenance,
    )
