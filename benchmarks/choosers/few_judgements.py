"""What rules choose on segments that nobody judged, after some others were: picks, which any opinion can score.

A rule learns from the judged segments of a draw and picks a system's text on all others. Any scores of the texts, of
one person, several dimensions or several judges, then say what the picks are worth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from benchmarks.support.kept_arrays import KeptArrays
from benchmarks.support.measured_sets import MeasuredSet
from benchmarks.support.resampling import Resampling, shown
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.chooser import chooser_fit, gains, training
from discorank.rerank.chooser.chooser_fit import Defaults, Fit, fit
from discorank.rerank.chooser.gains import UNKNOWN, ErrorRatio, ScoreGain, shipping
from discorank.rerank.chooser.measured import MeasuredTexts
from discorank.rerank.chooser.training import learn, learn_by_scores

from .chooser_tables import PLAIN_STRENGTH
from .judged_draws import splits
from .set_beliefs import without_features

RULES = {
    "random": "random system",
    "single": "best single system by the judged",
    "hindsight": "best single system in hindsight",
    "mbr": "MBR (`--chooser default`)",
    "prior": "prior, strength 6",
    "plain": "chooser, no features",
    "chooser": "chooser",
    "careful": "chooser, or the single system where it says `ship`",
    "oracle": "oracle",
}


class Beliefs(NamedTuple):
    """What is believed before anything is judged.

    Args:
        defaults: weights and losses.
        gain: over the single system; unknown where scores have no ratio, and then it is a difference of scores.
    """

    defaults: Defaults
    gain: ErrorRatio = UNKNOWN


def picks(
    data: MeasuredTexts, train: IntArray, test: IntArray, beliefs: Beliefs
) -> dict[str, IntArray]:
    """The number of the system that every rule takes, [test]."""
    known, others = data.rows(train), data.rows(test)
    num_features = data.columns.shape[2]
    consensus = np.eye(1 + num_features)[0]
    everywhere = np.ones(len(test), int)
    defaults = without_features(beliefs.defaults, num_features)
    learned: Fit
    gain: ErrorRatio | ScoreGain
    if np.isfinite(beliefs.gain.deviation):
        learned, gain = learn(known, defaults, beliefs.gain)
    else:
        learned, gain = learn_by_scores(known, defaults)
    by_consensus = learned._replace(strength=0.0, weights=consensus)
    chosen = {
        "hindsight": everywhere * int(data.errors.mean(axis=0).argmin()),
        "mbr": by_consensus.choices(others),
        "oracle": others.errors.argmin(axis=1),
    }
    if not len(train):
        return chosen
    plain = fit(known._replace(columns=known.columns * 0), defaults)
    by_prior = learned._replace(strength=PLAIN_STRENGTH, weights=consensus)
    careful = shipping(learned) if gain.as_good else learned
    return chosen | {
        "single": everywhere * int(known.errors.mean(axis=0).argmin()),
        "prior": by_prior.choices(others),
        "plain": plain.choices(others),
        "chooser": learned.choices(others),
        "careful": careful.choices(others),
    }


def tallied(
    data: MeasuredSet, opinions: FloatArray, judged: str, beliefs: Beliefs, draws: int
) -> dict[str, FloatArray]:
    """The mean score of what every rule takes, over the draws in which a segment was not judged.

    Args:
        data: errors are what the rules learn from.
        opinions: scores of all texts, [n, S, D].
        judged: one of `judged_draws.JUDGED`.
        beliefs: what is believed beforehand.
        draws: of judged segments.

    Returns:
        [n, D] by rule, nan where a segment was always judged.
    """
    size, _, num_opinions = opinions.shape
    totals: dict[str, FloatArray] = {}
    times = np.zeros(size)
    for train, test in splits(data, judged, draws):
        times[test] += 1
        scores = opinions[test]
        found = {"random": scores.mean(axis=1)}
        for name, own in picks(data.data, train, test, beliefs).items():
            found[name] = scores[np.arange(len(test)), own]
        for name, values in found.items():
            totals.setdefault(name, np.zeros((size, num_opinions)))[test] += values
    tested = times > 0
    times = np.where(tested, times, 1.0)[:, None]
    return {
        name: np.where(tested[:, None], total / times, np.nan) for name, total in totals.items()
    }


class KeptTallies:
    """Tallies in a folder, so that a stopped command goes on; made anew where what decides has changed."""

    def __init__(self, folder: Path) -> None:
        self.arrays = KeptArrays(folder)
        modules = (chooser_fit, gains, training)
        code = [*(Path(str(module.__file__)) for module in modules), Path(__file__)]
        self.code = sha256(b"".join(path.read_bytes() for path in code)).hexdigest()

    def tallied(
        self,
        data: MeasuredSet,
        opinions: FloatArray,
        judged: str,
        beliefs: Beliefs,
        draws: int,
    ) -> dict[str, FloatArray]:
        """As `tallied`, [n, D] by rule."""
        content = [data.data.utilities, data.data.columns, data.data.errors, opinions]
        content += [*beliefs.defaults, np.array(beliefs.gain)]
        digest = sha256(b"".join(array.tobytes() for array in content)).hexdigest()
        names = list(RULES) if judged != "0" else ["random", "hindsight", "mbr", "oracle"]

        def compute() -> FloatArray:
            found = tallied(data, opinions, judged, beliefs, draws)
            return np.stack([found[name] for name in names])

        key = f"{self.code} {digest} {data.name} {judged} {draws}"
        stacked = self.arrays.array(f"tally.{data.name}.{judged}", key, compute)
        assert stacked is not None
        return dict(zip(names, stacked, strict=True))


def deviations(opinions: FloatArray) -> FloatArray:
    """The standard deviation of scores [n, S, D] within a segment, over all segments, [D]."""
    centred = opinions - opinions.mean(axis=1, keepdims=True)
    return np.asarray(np.sqrt((centred**2).mean(axis=(0, 1))))


def scaled(opinions: FloatArray) -> FloatArray:
    """Scores [n, S, D] less the mean of their segment, in standard deviations within a segment."""
    return np.asarray((opinions - opinions.mean(axis=1, keepdims=True)) / deviations(opinions))


def compared(
    columns: Mapping[str, FloatArray], groups: Sequence[str], base: str, seed: str
) -> dict[str, tuple[str, str]]:
    """The mean of every rule's gains [n] and its difference from those of `base`, each with its interval.

    Args:
        columns: by rule, nan where nothing was chosen.
        groups: what is drawn together, of every row.
        base: a rule.
        seed: of the draws of the bootstrap.
    """
    stacked = np.stack(list(columns.values()), axis=1)
    tested = np.flatnonzero(~np.isnan(stacked).any(axis=1))
    own_groups = [groups[i] for i in tested.tolist()]
    draws = Resampling(own_groups, seed=crc32(seed.encode())).means(stacked[tested])
    means = stacked[tested].mean(axis=0)
    at = list(columns).index(base)
    cells = {}
    for i, name in enumerate(columns):
        less = shown(float(means[i] - means[at]), draws[:, i] - draws[:, at], 2, "+")
        cells[name] = (shown(float(means[i]), draws[:, i], 2, "+"), "" if i == at else less)
    return cells
