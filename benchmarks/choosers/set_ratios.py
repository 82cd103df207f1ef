"""Ratios of what was chosen to a base, by set, and their macro means with intervals by document."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from benchmarks.support.measured_sets import MeasuredSet
from benchmarks.support.resampling import Resampling, shown
from discorank.metrics.representations import FloatArray


def ratios(data: MeasuredSet, values: FloatArray, base: FloatArray) -> tuple[float, FloatArray]:
    """The ratio of means, and its draws by document."""
    tested = ~np.isnan(values)
    groups = [str(number) for number in data.groups[tested]]
    means = Resampling(groups, seed=crc32(data.name.encode())).means(
        np.stack([values, base], axis=1)[tested]
    )
    return float(values[tested].mean() / base[tested].mean()), means[:, 0] / means[:, 1]


def line(
    sets: Sequence[MeasuredSet], means: Sequence[dict[str, FloatArray]], name: str, base: str
) -> list[str]:
    """A row of a table: every set, and the macro mean with its interval."""
    pairs = [ratios(data, own[name], own[base]) for data, own in zip(sets, means, strict=True)]
    macro = float(np.mean([value for value, _ in pairs]))
    draws = np.mean([draw for _, draw in pairs], axis=0)
    return [*(f"{value:.3f}" for value, _ in pairs), shown(macro, draws)]
