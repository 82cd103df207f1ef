"""The warning that tests drew from too few units to show anything."""

from __future__ import annotations

from collections.abc import Sequence

from ....rerank.selection.significance import Verdicts, least_p


def too_few(verdicts: Sequence[Verdicts], level: float) -> list[str]:
    """Warnings of draws of so few units that exchanging them cannot give a p below the level."""
    counts = dict.fromkeys((v.units, v.unit) for v in verdicts if least_p(v.units) >= level)
    return [
        f"warning: with {units} units (by {unit}) no p is below {least_p(units):g}, and none is significant; "
        + (
            "give more segments"
            if unit == "segment"
            else "give more documents, or smaller units: --unit"
        )
        for units, unit in counts
    ]
