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
from .document_outputs import DocumentOutputs, check_systems
from .shrinkage import groups, shrunk
from .system_scores import human_scored

Root = Literal["auto", "yes", "no"]


def estimate_prior(
    documents: Sequence[DocumentOutputs], dimension: str, lower: bool, root: Root = "auto"
) -> Prior:
    """The prior of every system of some documents.

    Segments where fewer than two systems are judged say nothing of systems and do not count. A system that nobody
    judged gets the mean of all with the standard deviation between systems.

    Args:
        documents: all with the same systems; judgements may be missing.
        dimension: of the human scores.
        lower: whether lower scores are better.
        root: whether an error is the square root of a score; "auto": where lower is better and none is negative.

    Raises:
        InputError: a root that does not exist, too few judgements, or systems that are never judged beside each other.
    """
    names = check_systems(documents)
    where = f"human.{dimension}"
    judged, scores, owner = _scores(documents, dimension, lower)
    rooted = _rooted(scores, lower, root, where)
    together = (~np.isnan(scores)).sum(axis=1) > 1
    y, document = scores[together], owner[together]
    y = np.sqrt(y) if rooted else y if lower else -y
    _check(y, judged, where)
    found = shrunk(y, document)
    systems = []
    for name in names:
        if name not in judged:
            systems.append((name, SystemPrior(0.0, found.between, None, 0, 0)))
            continue
        s = judged.index(name)
        rows = ~np.isnan(y[:, s])
        numbers = float(found.means[s]), float(found.errors[s]), float(found.effects[s])
        systems.append(
            (name, SystemPrior(*numbers, int(rows.sum()), len(set(document[rows].tolist()))))
        )
    return Prior(
        tuple(systems),
        found.sigma,
        found.between,
        found.design_effect,
        dimension,
        lower,
        rooted,
        len(y),
        len(set(document.tolist())),
        _digest(documents, dimension),
    )


def _scores(
    documents: Sequence[DocumentOutputs], dimension: str, lower: bool
) -> tuple[tuple[str, ...], FloatArray, IntArray]:
    """The judged systems, their scores [n, S] with nan where there is none, and the document of every row [n]."""
    found = human_scored(dimension, lower, documents)
    part = found.parts[0]
    scores = np.where(part.rows[:, :, 1] > 0, part.rows[:, :, 0], np.nan).T
    return found.systems, scores, part.owner


def _rooted(scores: FloatArray, lower: bool, root: Root, where: str) -> bool:
    negative = bool((scores < 0).any())
    if root == "yes" and (negative or not lower):
        found = "a negative score" if lower else "scores of which higher is better"
        raise InputError(f"{found}, which has no root", where=where, fix="Leave --root out")
    return root == "yes" or (root == "auto" and lower and not negative)


def _check(y: FloatArray, systems: Sequence[str], where: str) -> None:
    """Raises InputError unless the judgements suffice for effects and their noise."""
    known = ~np.isnan(y)
    if not len(y):
        fix = "Have two or more systems judged on the same segments"
        raise InputError("no segment with two judged systems", where=where, fix=fix)
    group = groups(known.astype(float))
    if apart := np.flatnonzero(group != group[0]).tolist():
        found = f"{systems[apart[0]]!r:.80} is never judged beside {systems[0]!r:.80}, nor through others"
        raise InputError(
            found, where=where, fix="Have them judged on the same segments, or leave one out"
        )
    if known.sum() - len(y) - len(systems) + 1 < 1:
        found = f"{int(known.sum())} judgements of {len(y)} segments and {len(systems)} systems"
        raise InputError(found, where=where, fix="Have more segments judged")


def _digest(documents: Sequence[DocumentOutputs], dimension: str) -> str:
    """A digest of who was judged how on what."""
    digest = blake2b(digest_size=16)
    for document in documents:
        given = {name: document.human.get(dimension, {}).get(name) for name in document.systems}
        digest.update(json.dumps([document.id, given]).encode() + b"\n")
    return digest.hexdigest()
