"""Which chooser chooses best: the mean human score of what each chose from the outputs of several systems.

Beside every chooser stand three that nobody can ship: the best single system, known in hindsight; a random system,
which is also the average one; and the oracle, the best text of every segment. A text that several systems gave has one
score, the mean of theirs, whoever gave it. Intervals and paired tests are those of systems (see `testing`), with the
choosers in their place.

A segment counts where all candidate systems have a score and every chooser chose one of their texts, so all choosers
are judged on the same segments. Chosen whole documents count with these of their segments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...metrics.errors import InputError
from ...metrics.execution.cache import Cache
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray, IntArray
from ...metrics.text.texts import Text
from ..decider import Decider
from ..distinct import Distinct
from ..lists import CandidateList
from .resampling_units import blocks, segments_of_unit, unit_name
from .significance import Correction, Verdicts, corrected, judge
from .statistics import DRAWS
from .system_choices import Choices, Chosen, bases, chosen_by, chosen_outputs
from .system_scores import MeanOfRated, Part, Scored, human_scored, score_systems

BASELINES = ("best single system", "random system", "oracle")
CLOSE = 1e-9  # scores this close are equal


class Gain(NamedTuple):
    """How much better a chooser is than a baseline, above 0 whatever the direction of the scores."""

    gain: float
    low: float
    high: float
    p: float  # approximate randomisation, two-sided
    p_corrected: float  # over the choosers


class Judged(NamedTuple):
    """All choosers under one dimension of human scores.

    Args:
        dimension: its name.
        higher_is_better: its direction.
        names: C choosers.
        best: the best single system.
        verdicts: of the choosers and then the `BASELINES`, [C + 3].
        between: of the choosers alone, their p-values corrected for the number of pairs.
        reached: of the segments (or documents), the share where a choice is as good as the oracle's, [C].
        counted: how many segments (or documents) counted.
        total: how many there are.
        unscored: how often each chooser chose a text of no candidate system where the systems have scores, [C].
    """

    dimension: str
    higher_is_better: bool
    names: tuple[str, ...]
    best: str
    verdicts: Verdicts
    between: Verdicts
    reached: FloatArray
    counted: int
    total: int
    unscored: IntArray

    def gains(self, baseline: str, correction: Correction = "none") -> list[Gain]:
        """The gain of every chooser over one of the `BASELINES`."""
        at = len(self.names) + BASELINES.index(baseline)
        pairs = [pair for pair in self.verdicts.pairs if pair.b == at and pair.a < len(self.names)]
        raised = corrected(np.array([pair.p for pair in pairs]), correction).tolist()
        sign = 1.0 if self.higher_is_better else -1.0
        found = []
        for pair, p_corrected in zip(pairs, raised, strict=True):
            low, high = sorted((sign * pair.low, sign * pair.high))
            found.append(Gain(sign * pair.difference, low, high, pair.p, p_corrected))
        return found

    def regrets(self) -> list[Gain]:
        """How much better than every chooser the oracle is."""
        gains = self.gains("oracle")
        return [
            one._replace(gain=-one.gain + 0.0, low=-one.high + 0.0, high=-one.low + 0.0)
            for one in gains
        ]


class ChooserComparison(NamedTuple):
    """Choosers under people's scores, and under metrics where some were named.

    Args:
        choices: what there was to choose.
        judged: by dimension.
        scored: what was chosen as systems under each metric.
        optimised: whether chooser c chose by metric m (whatever its settings), [metrics][C]: then m says little of c.
    """

    choices: Choices
    judged: tuple[Judged, ...]
    scored: tuple[Scored, ...]
    optimised: tuple[tuple[bool, ...], ...]


def compare_choosers(
    deciders: Mapping[str, Decider],
    given: Choices,
    human: Sequence[tuple[str, bool]],
    metrics: Sequence[Utility] = (),
    *,
    decided: Sequence[Chosen] = (),
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.05,
    unit: str | int = "document",
    correction: Correction = "none",
    cache: Cache | None = None,
    deciding: Callable[[int], None] = lambda done: None,
    drawing: Callable[[int], None] = lambda done: None,
) -> ChooserComparison:
    """Lets every chooser choose and judges what it chose.

    Args:
        deciders: choosers by name.
        given: the lists, made by `choices` with the same `human`.
        human: dimensions of human scores, each with whether lower is better.
        metrics: that score what was chosen too.
        decided: further choosers, by what they chose.
        draws: of the randomisation and the bootstrap.
        seed: of all draws.
        level: of significance; intervals cover 1 - level.
        unit: what draws take, as in `compare_systems`; documents where these are chosen whole.
        correction: of p-values, over the pairs of choosers.
        cache: what models made of texts in earlier runs.
        deciding: told how many more lists were decided.
        drawing: told how many more draws were made.

    Raises:
        InputError: no choosers, two of one name, lists that cannot be decided, no segment that counts.
    """
    names = [*deciders, *(one.name for one in decided)]
    if not names:
        raise InputError("no choosers", where="choosers", fix="Give at least one")
    if twice := [name for i, name in enumerate(names) if name in (*names[:i], *BASELINES)]:
        raise InputError(
            f"there are two of the name {twice[0]!r:.80}", where="choosers", fix="Rename one"
        )
    for one in decided:
        if len(one.texts) != len(given.lists):
            found = (
                f"{one.name!r:.80} chose {len(one.texts)} texts, there are {len(given.lists)} lists"
            )
            raise InputError(found, where="choosers", fix="Choose one text from every list")
    size = segments_of_unit(unit)
    made = [chosen_by(name, decider, given, cache, deciding) for name, decider in deciders.items()]
    chosen = [*made, *decided]

    def tested(scored: Scored, correction: Correction) -> Verdicts:
        return judge(scored, draws, seed, level, drawing, correction)

    judged = []
    for dimension, lower in human:
        table = _Table(given, chosen, dimension, lower)
        scored = table.scored(None if given.whole else size)
        alone = replace(
            scored,
            systems=tuple(names),
            parts=tuple(_first(part, len(names)) for part in scored.parts),
        )
        judged.append(table.judged(tested(scored, "none"), tested(alone, correction)))
    outputs = chosen_outputs(given, chosen) if metrics else []
    by_metric = tuple(score_systems(metric, outputs, cache) for metric in metrics)
    optimised = [tuple(bool(one.by & bases(metric)) for one in chosen) for metric in metrics]
    return ChooserComparison(given, tuple(judged), by_metric, tuple(optimised))


def _first(part: Part, n: int) -> Part:
    """The part of the first n systems."""
    return Part(part.weight, part.scorer, part.rows[:n], part.owner)


class _Table:
    """The human scores of all candidates and of what was chosen, where they count."""

    def __init__(
        self, given: Choices, chosen: Sequence[Chosen], dimension: str, lower: bool
    ) -> None:
        self._given, self._dimension, self._lower = given, dimension, lower
        self._names = tuple(one.name for one in chosen)
        sums, rows = _of_candidates(given, dimension, lower)
        places = np.array(
            [list(map(_place, given.lists, one.texts)) for one in chosen]
        )  # [C, lists]
        self._unscored: IntArray = ((rows > 0) & (places < 0)).sum(axis=1)
        self._counted = (rows > 0) & (places >= 0).all(axis=0)
        if not self._counted.any():
            raise InputError(
                self._nothing(int((rows > 0).sum())),
                where=f"human.{dimension}",
                fix="Judge more of them",
            )
        self._sums, self._rows = sums[self._counted], rows[self._counted]  # [n, S], [n]
        self._chosen = self._sums[np.arange(len(self._sums)), places[:, self._counted]]  # [C, n]
        sign = -1.0 if lower else 1.0
        self._best = int(np.argmax(sign * self._sums.sum(axis=0)))
        self._oracle = sign * (sign * self._sums).max(axis=1)

    def _nothing(self, rated: int) -> str:
        """Why there is nothing to judge."""
        if not rated:
            return f"no {self._given.what} where all of the {len(self._given.systems)} candidate systems have a score"
        worst = int(np.argmax(self._unscored))
        name, n = self._names[worst], self._unscored[worst]
        return f"of {rated} judged {self._given.what}, {name!r:.80} chose a text that no system has in {n}"

    def scored(self, size: int | None) -> Scored:
        """Choosers and baselines as systems, drawn by blocks of `size` segments or by document."""
        values = np.stack(
            [*self._chosen, self._sums[:, self._best], self._sums.mean(axis=1), self._oracle]
        )
        rows = np.stack((values, np.broadcast_to(self._rows, values.shape)), axis=2)
        lists = [
            1 if self._given.whole else document.segments for document in self._given.documents
        ]
        owner = np.repeat(np.arange(len(lists)), lists) if size is None else blocks(lists, size)
        _, owner = np.unique(owner[self._counted], return_inverse=True)
        part = Part(1.0, MeanOfRated(), rows, owner)
        unit = "document" if size is None else unit_name(size)
        return Scored(
            self._dimension, not self._lower, (*self._names, *BASELINES), (part,), unit=unit
        )

    def judged(self, verdicts: Verdicts, between: Verdicts) -> Judged:
        """What came of it."""
        reached = np.isclose(self._chosen, self._oracle, rtol=CLOSE, atol=CLOSE).mean(axis=1)
        best = self._given.systems[self._best]
        counts = int(self._counted.sum()), len(self._counted)
        higher = not self._lower
        return Judged(
            self._dimension,
            higher,
            self._names,
            best,
            verdicts,
            between,
            reached,
            *counts,
            self._unscored,
        )


def _of_candidates(given: Choices, dimension: str, lower: bool) -> tuple[FloatArray, FloatArray]:
    """Summed scores of every candidate [lists, S], and how many segments they sum up [lists]; copies share theirs."""
    people = human_scored(dimension, lower, given.documents, given.systems)
    (part,) = people.parts
    known = part.rows[:, :, 1].all(axis=0)
    of = part.owner if given.whole else np.arange(len(part.owner))
    sums = np.zeros((len(given.lists), len(given.systems)))
    np.add.at(sums, of[known], part.rows[:, known, 0].T)
    for row, record in zip(sums, given.lists, strict=True):
        same = Distinct(record.candidates).of
        row[:] = (np.bincount(same, row) / np.bincount(same))[same]
    return sums, np.bincount(of[known], minlength=len(sums)).astype(float)


def _place(record: CandidateList, text: Text) -> int:
    """The first candidate with a text, -1 if there is none."""
    return next((i for i, candidate in enumerate(record.candidates) if candidate.text == text), -1)
