"""What a chooser is trained on: utilities, features and errors of the systems' texts of every segment, as arrays.

The lists are those that ``discorank decode --from systems`` makes of a systems file. Features are standardised within
their list as a `Reranker` does it, so that what is learned here means the same there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...metrics.errors import InputError
from ...metrics.execution.cache import Cache
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray, IntArray
from ..distinct import Distinct
from ..engines.local import LocalEngine
from ..features import Feature, check_finite, plain_feature
from ..lists import CandidateList
from ..mbr_decoder import MBRDecoder
from ..normalization import normalized
from ..strategies import StrategySetting
from ..tuning.candidate_features import features as metric_values


class MeasuredTexts(NamedTuple):
    """n segments of S systems.

    Args:
        utilities: u(h, r) between all texts of a segment, [n, S, S]; nan of texts that a system lacks.
        columns: standardised features of every text, [n, S, F]; nan as above.
        errors: of every text, lower is better, nan where nobody judged it, [n, S].
        document: its number, of every segment, [n].
        scores: what people gave, turned so that lower is better, [n, S].
        weight: how much every segment counts, above 0, [n]; below 1 it is of another domain. 1 if not given.
    """

    utilities: FloatArray
    columns: FloatArray
    errors: FloatArray
    document: IntArray
    scores: FloatArray
    weight: FloatArray | None = None

    def rows(self, index: IntArray) -> MeasuredTexts:
        """Some of the segments."""
        return MeasuredTexts(
            self.utilities[index],
            self.columns[index],
            self.errors[index],
            self.document[index],
            self.scores[index],
            None if self.weight is None else self.weight[index],
        )

    @property
    def own(self) -> IntArray:
        """The segments of the domain itself; all, where every one is of another."""
        everything = np.arange(len(self.errors))
        if self.weight is None or not (self.weight >= 1).any():
            return everything
        return everything[self.weight >= 1]

    @property
    def judged(self) -> IntArray:
        """The segments of which two or more texts were judged."""
        return np.flatnonzero((~np.isnan(self.errors)).sum(axis=1) > 1)


class Places(NamedTuple):
    """Which systems' texts the lists have: their numbers, by list, and how many systems there are."""

    of_lists: Sequence[IntArray]
    num_systems: int

    def spread(self, values: Sequence[FloatArray], axes: int) -> FloatArray:
        """Values of every list's texts along the first axes, [n, S, ...]; nan of texts that are missing."""
        spread = []
        for own, place in zip(values, self.of_lists, strict=True):
            shape = (self.num_systems,) * axes + own.shape[axes:]
            whole = np.full(shape, np.nan)
            whole[np.ix_(*[place] * axes)] = own
            spread.append(whole)
        return np.stack(spread)


def places_of(lists: Sequence[CandidateList], systems: Sequence[str]) -> Places:
    """Where the texts of lists stand among those of all systems."""
    number = {name: s for s, name in enumerate(systems)}
    of_lists = []
    for record in lists:
        names = [str(candidate.fields["system"]) for candidate in record.candidates]
        of_lists.append(np.array([number[name] for name in names], int))
    return Places(of_lists, len(systems))


def utilities_of(
    utility: Utility,
    lists: Sequence[CandidateList],
    cache: Cache | None = None,
    places: Places | None = None,
) -> FloatArray:
    """u(h, r) between the texts of every list, [n, S, S], distances negated; nan of missing texts.

    Args:
        utility: u.
        lists: each with a text of every system, unless `places` says otherwise.
        cache: what models made of texts.
        places: whose texts the lists have.

    Raises:
        InputError: a utility is not finite; and as `MBRDecoder.decode`.
    """
    matrices = []
    for record, matrix in zip(lists, matrices_of(utility, lists, cache), strict=True):
        if not np.isfinite(matrix).all():
            num_bad = int((~np.isfinite(matrix)).sum())
            raise InputError(
                f"a utility that is not finite, of {num_bad} of {matrix.size} pairs",
                where=f"list {record.id!r:.80}",
                fix="Take another utility, or leave this segment out: in training, null in place of its judgements",
            )
        matrices.append(matrix)
    return np.stack(matrices) if places is None else places.spread(matrices, 2)


def matrices_of(
    utility: Utility,
    lists: Sequence[CandidateList],
    cache: Cache | None = None,
) -> Iterator[FloatArray]:
    """u(h, r) between all candidates of each list, [N, N]; see `utilities_of`."""
    # one-best context, where there is any: nobody has chosen yet
    strategy: StrategySetting = "one-best" if utility.reads.context else "auto"
    decoder = MBRDecoder(utility=utility, keep_matrix=True, strategy=strategy)
    for record, ranking in zip(lists, decoder.decode(lists, LocalEngine(cache)), strict=True):
        of = Distinct(record.candidates).of
        if ranking.matrix is not None:
            yield ranking.matrix[np.ix_(of, of)]


def columns_of(
    features: Sequence[Feature],
    lists: Sequence[CandidateList],
    cache: Cache | None = None,
    places: Places | None = None,
) -> FloatArray:
    """Standardised features of the texts of every list, [n, S, F]; the arguments are those of `utilities_of`.

    Raises:
        InputError, MetricError: a list does not have a feature.
    """
    columns = []
    for feature in features:
        if isinstance(feature, str):
            values = [plain_feature(feature, record) for record in lists]
        else:
            values = metric_values(feature, lists, "candidates", cache)
        for own in values:
            check_finite(feature, own)
        standardised = [normalized(own, "zscore") for own in values]
        columns.append(np.stack(standardised) if places is None else places.spread(standardised, 1))
    if not columns:
        num_systems = places.num_systems if places else len(lists[0].candidates)
        return np.zeros((len(lists), num_systems, 0))
    return np.stack(columns, axis=2)
