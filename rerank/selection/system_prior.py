"""Estimates the prior of every system from documents that people judged; see `shrinkage` for the equations.

An error is the square root of a score where lower is better and no score is negative (sums of penalties such as MQM
are skewed, and a few large ones would decide), else the score itself, turned so that lower is better.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray, IntArray
from ..prior import Prior, SystemPrior
from .document_outputs import DocumentOutputs, all_systems
from .shrinkage import Shrunk, groups, shrunk
from .system_scores import human_scored

Root = Literal["auto", "yes", "no"]
MAX_ERROR = 1e100  # sums of products of errors up to here are finite


def estimate_prior(
    documents: Sequence[DocumentOutputs],
    dimension: str,
    lower: bool,
    root: Root = "auto",
) -> Prior:
    """The prior of every system of some documents.

    Segments where fewer than two systems are judged say nothing of systems and do not count. A system that nobody
    judged gets the mean of all with the standard deviation between systems.

    Args:
        documents: judgements may be missing, and systems.
        dimension: of the human scores.
        lower: whether lower scores are better.
        root: whether an error is the square root of a score; "auto": where lower is better and none is negative.

    Raises:
        InputError: a root that does not exist, too few judgements, or systems that are never judged beside each other.
    """
    names = all_systems(documents)
    where = f"human.{dimension}"
    judged, scores, owner = _scores(documents, dimension, lower)
    rooted = _rooted(scores, lower, root, where)
    # a segment says something of systems where two are judged
    together = (~np.isnan(scores)).sum(axis=1) > 1
    y = scores[together]
    document = owner[together]
    y = np.sqrt(y) if rooted else y if lower else -y
    _check(y, judged, where)
    estimates = shrunk(y, document)
    systems = []
    for name in names:
        if name in judged:
            prior = _system_prior(estimates, judged.index(name), y, document)
        else:
            prior = SystemPrior(
                mean=0.0,
                error=estimates.between,
                effect=None,
                segments=0,
                documents=0,
            )
        systems.append((name, prior))
    return Prior(
        systems=tuple(systems),
        sigma=estimates.sigma,
        between=estimates.between,
        design_effect=estimates.design_effect,
        human=dimension,
        lower=lower,
        rooted=rooted,
        segments=len(y),
        documents=_count_distinct(document),
        inputs=_digest(documents, dimension),
    )


def _system_prior(estimates: Shrunk, s: int, y: FloatArray, document: IntArray) -> SystemPrior:
    """The prior of system s, from the errors [n, S] and the document of every row [n]."""
    rows = ~np.isnan(y[:, s])
    return SystemPrior(
        mean=float(estimates.means[s]),
        error=float(estimates.errors[s]),
        effect=float(estimates.effects[s]),
        segments=int(rows.sum()),
        documents=_count_distinct(document[rows]),
    )


def _count_distinct(numbers: IntArray) -> int:
    return len(set(numbers.tolist()))


def _scores(
    documents: Sequence[DocumentOutputs],
    dimension: str,
    lower: bool,
) -> tuple[tuple[str, ...], FloatArray, IntArray]:
    """The judged systems, their scores [n, S] with nan where there is none, and the document of every row [n]."""
    people = human_scored(dimension, lower, documents, all_systems(documents))
    part = people.parts[0]
    is_rated = part.rows[:, :, 1] > 0
    scores = np.where(is_rated, part.rows[:, :, 0], np.nan).T
    return people.systems, scores, part.owner


def _rooted(scores: FloatArray, lower: bool, root: Root, where: str) -> bool:
    """Whether errors are the square roots of scores."""
    negative = bool((scores < 0).any())
    if root == "yes" and (negative or not lower):
        cause = "a negative score" if lower else "scores of which higher is better"
        raise InputError(f"{cause}, which has no root", where=where, fix="Leave --root out")
    return root == "yes" or (root == "auto" and lower and not negative)


def _check(y: FloatArray, systems: Sequence[str], where: str) -> None:
    """Raises InputError unless the judgements suffice for effects and their noise."""
    known = ~np.isnan(y)
    if not len(y):
        fix = "Have two or more systems judged on the same segments"
        raise InputError("no segment with two judged systems", where=where, fix=fix)
    group = groups(known.astype(float))
    apart = np.flatnonzero(group != group[0]).tolist()
    if apart:
        raise InputError(
            f"{systems[apart[0]]!r:.80} is never judged beside {systems[0]!r:.80}, nor through others",
            where=where,
            fix="Have them judged on the same segments, or leave one out",
        )
    largest = float(np.abs(y[known]).max())
    if largest > MAX_ERROR:
        problem = f"an error of {largest:g}, which is too large to compute with"
        raise InputError(problem, where=where, fix="Scale the scores down")
    num_judgements = known.sum()
    if num_judgements - len(y) - len(systems) + 1 < 1:
        raise InputError(
            f"{int(num_judgements)} judgements of {len(y)} segments and {len(systems)} systems",
            where=where,
            fix="Have more segments judged",
        )


def _digest(documents: Sequence[DocumentOutputs], dimension: str) -> str:
    """A digest of who was judged how on what."""
    digest = blake2b(digest_size=16)
    for document in documents:
        scores = document.human.get(dimension, {})
        by_system = {name: scores.get(name) for name in document.systems}
        digest.update(json.dumps([document.id, by_system]).encode() + b"\n")
    return digest.hexdigest()
