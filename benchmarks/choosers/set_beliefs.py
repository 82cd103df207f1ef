"""What is believed of a set before anything of it is judged: what the others teach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.support.measured_sets import MeasuredSet
from discorank.rerank.chooser.chooser_fit import Defaults
from discorank.rerank.chooser.defaults import defaults_of
from discorank.rerank.chooser.gains import measured_gain

from .chooser_defaults import between_sets


def without_features(defaults: Defaults, num_features: int) -> Defaults:
    """Defaults under which features count nothing, for so many of them."""
    weights = np.zeros((len(defaults.weights), 1 + num_features))
    weights[:, 0] = defaults.weights[:, 0]
    return defaults._replace(weights=weights)


class Others:
    """What is believed of a set from the other ones."""

    def __init__(self, data: MeasuredSet, sets: Sequence[MeasuredSet]) -> None:
        others = [
            own.data._replace(columns=own.data.columns[:, :, :0]) for own in sets if own is not data
        ]
        self.defaults = defaults_of(others)
        found = []
        for i, own in enumerate(others):
            found.append(measured_gain(own, defaults_of(others[:i] + others[i + 1 :])))
        self.gain = between_sets(found)
