"""Trains a chooser on documents of which people judged some; see `chooser_fit` for what is learned."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...metrics.execution.cache import Cache
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray, IntArray
from ...metrics.text.texts import Document
from ..features import Feature, name_of
from ..lists import Candidate, CandidateList
from ..prior import Prior
from ..selection.document_outputs import DocumentOutputs, all_systems
from ..selection.system_prior import Root, estimate_prior
from ..selection.system_scores import human_scored
from .chooser_fit import Defaults, Fit, clustered_mean, fit
from .difficulty import learned_difficulty, traits_of
from .gains import (
    UNKNOWN,
    ErrorRatio,
    ScoreGain,
    measured_difference,
    measured_gain,
    tells_nothing,
)
from .measured import MeasuredTexts, columns_of, places_of, utilities_of
from .model import Expectation, ExpectedDifference, ExpectedRatio, TrainedChooser
from .other_domains import weights_of
from .segment_values import expected
from .shipped import shipped

BEYOND_CHANCE = 3.0  # deviations


class DirectionWarning(UserWarning):
    """Judgements that seem to be the wrong way round."""


def train_chooser(
    documents: Sequence[DocumentOutputs],
    dimension: str,
    lower: bool,
    utility: Utility,
    features: Sequence[Feature] = (),
    root: Root = "auto",
    cache: Cache | None = None,
    also: Sequence[DocumentOutputs] = (),
    also_weight: float | None = None,
) -> TrainedChooser:
    """The chooser that the judgements of some documents make.

    Args:
        documents: judgements may be missing, and systems.
        dimension: of the human scores.
        lower: whether lower scores are better.
        utility: of consensus.
        features: read off the lists, or metrics without references.
        root: as for `estimate_prior`.
        cache: what models made of texts.
        also: documents of another domain.
        also_weight: how much a segment of these counts, above 0; learned if not given (`other_domains`).

    Raises:
        InputError: as `estimate_prior`, or a list does not have a feature.
        MetricError: a text has no finite value.

    Warns:
        DirectionWarning: the scores seem to be the wrong way round.
    """
    everything = [*documents, *_renamed(also, documents)]
    is_other = [False] * len(documents) + [True] * len(also)
    prior = estimate_prior(everything, dimension, lower, root)
    lists, scores, document = judged_lists(everything, dimension, lower)
    errors = np.sqrt(scores) if prior.rooted else scores
    weight, w = weights_of(is_other, also_weight, errors, document)
    if also:
        weights = np.where(is_other, w, 1.0).tolist()
        prior = estimate_prior(everything, dimension, lower, root, weights)
    places = places_of(lists, [name for name, _ in prior.systems])
    data = MeasuredTexts(
        utilities_of(utility, lists, cache, places),
        columns_of(features, lists, cache, places),
        errors,
        document,
        scores,
        weight if also else None,
    )
    reason = "texts that the others are like have the worse ones" if is_against(data) else ""
    if (
        not lower and dimension.lower() == "mqm" and not bool((scores > 0).any())
    ):  # turned: all were 0 or above
        reason = reason or "MQM counts errors where no score is below 0"
    if reason:
        warnings.warn(DirectionWarning(_turned(dimension, lower, reason)), stacklevel=2)
    defaults = shipped().defaults(len(features))
    has_ratio = lower and not bool((scores < 0).any())  # of scores that count errors
    learned: Fit
    gain: ErrorRatio | ScoreGain
    if has_ratio:
        learned, gain = learn(data, defaults, shipped().gain)
    else:
        learned, gain = learn_by_scores(data, defaults)
    names = [name for name, _ in prior.systems]
    own = data.own
    difficulty = learned_difficulty(
        np.stack([traits_of(lists[i]) for i in own.tolist()]),
        data.errors[own],
        learned.held_out,
        learned.sigma,
        prior.rooted,
        shipped().difficulty,
    )
    weights = zip(map(name_of, features), learned.weights[1:].tolist(), strict=True)
    return TrainedChooser(
        utility=utility.signature(),
        weights=tuple(weights),
        consensus=float(learned.weights[0]),
        strength=learned.strength,
        prior=prior,
        difficulty=difficulty,
        expectation=_expectation(gain, names, learned),
        provenance=_provenance(prior, len(own), w),
    )


def is_against(data: MeasuredTexts) -> bool:
    """Whether people judged texts the worse, the more the others are like them: beyond any chance of that."""
    judged = data.rows(data.judged)
    likeness = expected(judged.utilities, np.zeros(judged.errors.shape[1]), 1.0, 0.0)
    centred = judged.errors - np.nanmean(judged.errors, axis=1, keepdims=True)
    mean, variance = clustered_mean(np.nanmean(-centred * likeness, axis=1), judged.document)
    return bool(mean < -BEYOND_CHANCE * variance**0.5)


def _turned(dimension: str, lower: bool, reason: str) -> str:
    """What to do where judgements seem to be the wrong way round."""
    is_now, other = ("lower", "higher") if lower else ("higher", "lower")
    fix = "leave :lower out" if lower else f"give {dimension}:lower"
    return f"{dimension} counts as a score of which {is_now} is better, but {reason}; if {other} is better, {fix}"


def _provenance(prior: Prior, num_own: int, weight: float) -> str:
    """From what a chooser was learned, in words."""
    others = prior.segments - num_own
    of_others = f", {others} of another domain, which count {weight:g}" if others else ""
    documents = f"{prior.documents} document{'s' * (prior.documents != 1)}"
    segments = f"{prior.segments} judged segments of {documents}{of_others}"
    return f"{segments}; defaults: {shipped().provenance}"


def _renamed(
    also: Sequence[DocumentOutputs], documents: Sequence[DocumentOutputs]
) -> list[DocumentOutputs]:
    """Documents of another domain under ids that no document of the domain has."""
    taken = {document.id for document in documents}
    renamed = []
    for document in also:
        name = document.id
        while name in taken:
            name = f"also {name}"
        taken.add(name)
        renamed.append(replace(document, id=name))
    return renamed


def learn(
    data: MeasuredTexts, defaults: Defaults, default_gain: ErrorRatio
) -> tuple[Fit, ErrorRatio]:
    """What judged segments teach, and how many fewer errors choosing makes on others; `UNKNOWN` where they do not tell.

    Where choosing is expected to make more errors than the best single system, the chooser takes that system's texts.
    """
    gain = measured_gain(data, defaults)
    if tells_nothing(gain, data):
        return fit(data, defaults), UNKNOWN
    gain = gain.mixed(default_gain)
    return fit(data, defaults, ship=gain.is_worse), gain


def learn_by_scores(data: MeasuredTexts, defaults: Defaults) -> tuple[Fit, ScoreGain]:
    """As `learn`, of scores that have no ratio; the gain's deviation is infinite where segments do not tell."""
    gain = measured_difference(data, defaults)
    if tells_nothing(gain, data) or np.isinf(gain.deviation):
        return fit(data, defaults), ScoreGain(0.0, np.inf)
    return fit(data, defaults, ship=gain.is_worse), gain


def _expectation(
    gain: ErrorRatio | ScoreGain, names: Sequence[str], learned: Fit
) -> Expectation | None:
    """What is expected of a chooser, as its file has it."""
    if np.isinf(gain.deviation):
        return None
    low, high = gain.interval
    best = names[int(learned.means.argmin())]
    if isinstance(gain, ErrorRatio):
        return ExpectedRatio(best, gain.ratio, low, high, ships=gain.as_good)
    return ExpectedDifference(best, gain.difference, low, high, ships=gain.as_good)


def judged_lists(
    documents: Sequence[DocumentOutputs],
    dimension: str,
    lower: bool,
) -> tuple[list[CandidateList], FloatArray, IntArray]:
    """The lists of which two or more texts were judged, their scores [n, S] and the document of each, [n].

    Scores are turned so that lower is better. Where every score is of a whole document, so is every list.
    """
    names = all_systems(documents)
    people = human_scored(dimension, lower, documents, names)
    part = people.parts[0]
    scores = np.full((len(part.owner), len(names)), np.nan)
    for name, rows in zip(people.systems, part.rows, strict=True):
        judged = np.where(rows[:, 1] > 0, rows[:, 0], np.nan)
        scores[:, names.index(name)] = judged if lower else -judged
    kept = np.flatnonzero((~np.isnan(scores)).sum(axis=1) > 1)
    starts = np.searchsorted(part.owner, part.owner)  # the first row of the document of every row
    whole = people.segments is None
    lists = []
    for i in kept.tolist():
        number = int(part.owner[i])
        lists.append(texts_as_list(documents[number], names, i - int(starts[i]), whole))
    return lists, scores[kept], part.owner[kept]


def texts_as_list(
    document: DocumentOutputs,
    names: Sequence[str],
    segment: int,
    whole: bool,
) -> CandidateList:
    """The texts of one segment, or of the whole document, of the systems that it has."""
    candidates = []
    for name in names:
        if name not in document.systems:
            continue
        texts = document.systems[name]
        text = Document(texts) if whole else texts[segment]
        candidates.append(Candidate(text, fields={"system": name}))
    source = None
    if document.source is not None:
        source = Document(document.source) if whole else document.source[segment]
    if whole:
        return CandidateList(document.id, tuple(candidates), source)
    identity = f"{document.id}:{segment}"
    return CandidateList(identity, tuple(candidates), source, document.id, segment)
