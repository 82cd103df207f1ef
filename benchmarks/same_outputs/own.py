"""Metrics of a user's own: copied beside the inputs, for ``-u own:overlap``."""

from __future__ import annotations

import os
import time

PAUSE_SECONDS = float(os.environ.get("PAUSE", "0"))


def overlap(hypothesis: object, reference: object) -> float:
    """Share of words in common; slow where the run is to be killed."""
    time.sleep(PAUSE_SECONDS)
    one = set(str(hypothesis).split())
    other = set(str(reference).split())
    return len(one & other) / max(1, len(one | other))


class Overlap:
    """The same as an object to call."""

    def __call__(self, hypothesis: object, reference: object) -> float:
        """The share."""
        return overlap(hypothesis, reference)
