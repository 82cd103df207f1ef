"""What finds an alignment in place of the metric itself: chrF, or lengths, which need no common language."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ..text.texts import Comparison
from .document_units import DocumentUnits
from .store import Store
from .unit_values import LengthValues, MatrixValues, UnitValues

ROWS = 256  # units compared with all others at once


def stand_in_values(name: str, rows: DocumentUnits, columns: DocumentUnits) -> UnitValues:
    """The utilities by which units are aligned: "chrf" or "length"."""
    if name == "length":
        return LengthValues(rows, columns)
    scorer = _chrf()
    store = Store(scorer)
    matrices = []
    for start in range(0, len(rows.items), ROWS):
        blocks = store.add([Comparison(rows.items[start : start + ROWS], columns.items)])
        matrices += scorer.compare(store.reps, blocks)
    return MatrixValues(np.concatenate(matrices), rows, columns)


@cache
def _chrf() -> Any:
    """The scorer of chrF, which stands above this package and is loaded when it is asked for."""
    return import_module("discorank.metrics.lexical.chrf").ChrF().load()
