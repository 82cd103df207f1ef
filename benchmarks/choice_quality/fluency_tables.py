"""Tables of `fluency`: MQM of what is chosen relative to a random candidate, and the weight that other sets choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.support.resampling import Resampling, shown
from discorank.metrics.representations import FloatArray


class Chosen(NamedTuple):
    """What is chosen in a set when the language model reads in one way.

    Args:
        name: of the set.
        reading: what the model reads before a candidate.
        mqm: of what is chosen, [segments, weights]; the first weight is 0, consensus alone.
        random: mean MQM of the candidates, [segments].
        groups: what is resampled together.
        documents: how many there are.
    """

    name: str
    reading: str
    mqm: FloatArray
    random: FloatArray
    groups: Sequence[str]
    documents: int


class Relative(NamedTuple):
    """MQM relative to a random candidate at every weight: [weights], and in every draw [resamples, weights]."""

    values: FloatArray
    draws: FloatArray


def relative(chosen: Chosen) -> Relative:
    """Of one set."""
    resampling = Resampling(chosen.groups)
    draws = resampling.means(chosen.mqm) / resampling.means(chosen.random)[:, None]
    return Relative(chosen.mqm.mean(axis=0) / chosen.random.mean(), draws)


def macro(parts: Sequence[Relative]) -> Relative:
    """The mean over sets, which are resampled apart."""
    values = np.mean([part.values for part in parts], axis=0)
    # draws of different sets are independent, so each is put in another order
    random = np.random.default_rng(0)
    draws = [part.draws[random.permutation(len(part.draws))] for part in parts]
    return Relative(values, np.mean(draws, axis=0))


def cell(part: Relative, weight: int) -> str:
    """A value with its interval, and the paired difference from consensus with its own."""
    own = shown(part.values[weight], part.draws[:, weight])
    if weight == 0:
        return own
    less = part.draws[:, weight] - part.draws[:, 0]
    return f"{own}; {shown(part.values[weight] - part.values[0], less, sign='+')}"


def left_out(parts: Sequence[Relative]) -> tuple[list[int], Relative]:
    """For every set the weight that is best on the mean of the others, and the macro mean of what this chooses."""
    best = []
    for i in range(len(parts)):
        others = [part.values for k, part in enumerate(parts) if k != i]
        best.append(int(np.mean(others, axis=0).argmin()))
    # columns: consensus, and the weight of the other sets
    own = [
        Relative(part.values[[0, k]], part.draws[:, [0, k]])
        for part, k in zip(parts, best, strict=True)
    ]
    return best, macro(own)


def markdown(chosen: Sequence[Chosen], weights: Sequence[float]) -> str:
    """A table for each reading, and the sets."""
    parts = []
    for reading in dict.fromkeys(own.reading for own in chosen):
        parts.append(_reading(reading, [own for own in chosen if own.reading == reading], weights))
    sets = {own.name: own for own in chosen}.values()
    facts = [_facts(own) for own in sets]
    head = ["set", "segments", "documents", "groups", "MQM, random", "MQM, consensus"]
    return "\n\n".join([*parts, _table(head, facts)]) + "\n"


def _facts(own: Chosen) -> list[str]:
    counts = len(own.random), own.documents, len(set(own.groups))
    means = own.random.mean(), own.mqm[:, 0].mean()
    return [own.name, *map(str, counts), *(f"{mean:.3f}" for mean in means)]


def _reading(reading: str, chosen: Sequence[Chosen], weights: Sequence[float]) -> str:
    parts = [relative(own) for own in chosen]
    head = [reading, "consensus", *(f"w = {weight:g}" for weight in weights[1:])]
    rows = [
        [own.name, *(cell(part, k) for k in range(len(weights)))]
        for own, part in zip(chosen, parts, strict=True)
    ]
    if len(parts) > 1:
        of_all = macro(parts)
        rows.append([f"macro ({len(parts)})", *(cell(of_all, k) for k in range(len(weights)))])
        best, outside = left_out(parts)
        chosen_weights = ", ".join(f"{weights[k]:g}" for k in best)
        note = (
            f"With the weight that is best on the other sets ({chosen_weights}): {cell(outside, 1)}"
        )
        return f"{_table(head, rows)}\n\n{note}"
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
