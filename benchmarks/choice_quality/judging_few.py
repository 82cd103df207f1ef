"""What `discorank sample` proposes is worth, and which choices are worth a second look, on sets with MQM.

    python -m benchmarks.choice_quality.judging_few FOLDER [--draws 40]

FOLDER holds systems files ``mt_mqm_<set>.<pair>.jsonl.gz``. Documents (sets of fewer than 25: blocks of ten segments)
are halved at random: of one half segments are judged, as `sample` proposes them or drawn at random, and the prior that
they make chooses among the texts of the other half. Figures are macro means over sets.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from benchmarks.support.lists import SETS, rated
from benchmarks.support.measuring import table
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.choice import TIE
from discorank.rerank.prior import STRENGTH
from discorank.rerank.training.prior_estimation import shrunk
from discorank.rerank.training.segments_to_judge import disagreement_of, judging_order

UTILITY = "chrf + 100*rouge-l"
FEW, BLOCK, RANDOM = 25, 10, 5
JUDGED = (20, 50, 100)
SHARES = (0.1, 0.2, 0.3)
# how segments are put in order, the first to be looked at first
ORDERS = ("at random", "smallest gap", "lowest utility", "longest", "doubt")


class JudgedSet(NamedTuple):
    """n segments of S systems, all rated.

    Args:
        utilities: [n, S, S].
        mqm: [n, S].
        units: what is drawn together, [n].
        document: its number, [n].
        disagreement: d of `segments_to_judge`, [n].
        characters: mean of the texts, [n].
    """

    utilities: FloatArray
    mqm: FloatArray
    units: IntArray
    document: IntArray
    disagreement: FloatArray
    characters: FloatArray

    @classmethod
    def of(cls, path: Path, language: str) -> JudgedSet:
        """The set of a file."""
        lists = rated(str(path))
        utilities, characters = [], []
        for record in lists:
            texts = [str(candidate.text) for candidate in record.candidates]
            parts = load_metric(UTILITY).for_language(language).parts
            utilities.append(sum(weight * part.pairwise(texts, texts) for weight, part in parts))
            characters.append(np.mean([len(text) for text in texts]))
        names = [str(record.document) for record in lists]
        document = np.unique(names, return_inverse=True)[1]
        blocks = [f"{name} {i // BLOCK}" for i, name in enumerate(names)]
        units = document if document.max() + 1 >= FEW else np.unique(blocks, return_inverse=True)[1]
        mqm = np.array([[float(c.fields["mqm"]) for c in record.candidates] for record in lists])
        stacked = np.array(utilities)
        disagreement = np.array([disagreement_of(own) for own in stacked])
        return cls(stacked, mqm, units, document, disagreement, np.array(characters))

    def halves(self, draws: int) -> Iterator[tuple[IntArray, IntArray, np.random.Generator]]:
        """(segments to judge, segments to choose) of every draw, both ways round."""
        for draw in range(draws):
            random = np.random.default_rng([draw, len(self.mqm), crc32(self.mqm.tobytes())])
            side = (random.permutation(int(self.units.max()) + 1) % 2)[self.units]
            for own in (0, 1):
                yield np.flatnonzero(side == own), np.flatnonzero(side != own), random

    def proposed(self, pool: IntArray, count: int) -> IntArray:
        """Segments of a pool as `discorank sample` takes them."""
        doubt = self.disagreement * self.characters
        nobody = np.zeros(len(pool), bool)
        columns = (doubt[pool], self.disagreement[pool], self.units[pool])
        return pool[judging_order(*columns, nobody, count)]

    def expected(self, judged: IntArray, others: IntArray) -> tuple[FloatArray, int]:
        """Expected utilities [m, S] under the prior of some judged segments, and the best system by it."""
        estimates = shrunk(np.sqrt(self.mqm[judged]), self.document[judged])
        gaps = estimates.means - estimates.means.min()
        weights = np.exp(-STRENGTH * gaps / estimates.sigma)
        return self.utilities[others] @ (weights / weights.sum()), int(estimates.means.argmin())


def of_sample(data: JudgedSet, count: int, draws: int) -> FloatArray:
    """Errors of (single system, prior) over a random system's and characters judged over the mean, [2 ways, 3]."""
    rows: tuple[list[list[float]], list[list[float]]] = ([], [])
    for pool, others, random in data.halves(draws):
        size = min(count, len(pool))
        drawn = [random.choice(pool, size, replace=False) for _ in range(RANDOM)]
        for own, judgements in zip(rows, ([data.proposed(pool, size)], drawn), strict=True):
            for judged in judgements:
                values, best = data.expected(judged, others)
                mqm = data.mqm[others]
                picked = mqm[np.arange(len(others)), values.argmax(axis=1)].mean()
                length = data.characters[judged].mean() / data.characters.mean()
                own.append([mqm[:, best].mean() / mqm.mean(), picked / mqm.mean(), length])
    return np.array([np.mean(own, axis=0) for own in rows])


def left_by(data: JudgedSet, count: int, draws: int) -> FloatArray:
    """Errors left when a share of the choices goes to people, in each order, [orders, shares + 1].

    The last column is that of a fifth of the characters.
    """
    rows = []
    for pool, others, random in data.halves(draws):
        judged = random.choice(pool, min(count, len(pool)), replace=False)
        values, _ = data.expected(judged, others)
        picks = values.argmax(axis=1)
        found = data.mqm[others, picks]
        best = values.max(axis=1)
        below = np.where(values < (best - TIE * np.abs(best))[:, None], values, -np.inf)
        characters = data.characters[others]
        doubt = data.disagreement[others] * characters
        gaps = best - below.max(axis=1)  # to the next text that is not the same
        keys = (random.random(len(others)), -gaps, -best, characters, doubt)
        rows.append([_left(key, found, characters) for key in keys])
    return np.asarray(np.mean(rows, axis=0))


def _left(key: FloatArray, found: FloatArray, characters: FloatArray) -> list[float]:
    """The errors left without the segments of the largest keys, over all."""
    order = np.argsort(-key, kind="stable")
    cells = [found[order[round(share * len(order)) :]].sum() / found.sum() for share in SHARES]
    read = np.cumsum(characters[order]) / characters.sum()
    return [*cells, found[order[read > 0.2]].sum() / found.sum()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=40)
    options = parser.parse_args()
    sets = []
    for name in SETS:
        sets.append(JudgedSet.of(options.folder / f"mt_mqm_{name}.jsonl.gz", name[-2:]))
    rows = []
    for count in JUDGED:
        means = np.mean([of_sample(data, count, options.draws) for data in sets], axis=0)
        for way, figures in zip(("proposed", "at random"), means, strict=True):
            rows.append([str(count), way, *(f"{figure:.3f}" for figure in figures)])
    head = ["judged", "how", "best single system by the judged", "prior", "characters judged"]
    print(f"{table(head, rows)}\n")
    rows = []
    for count in JUDGED:
        means = np.mean([left_by(data, count, options.draws) for data in sets], axis=0)
        for order, figures in zip(ORDERS, means, strict=True):
            rows.append([str(count), order, *(f"{figure:.3f}" for figure in figures)])
    shares = [f"{share:.0%} of the segments" for share in SHARES]
    print(table(["judged", "looked at first", *shares, "20% of the characters"], rows))


if __name__ == "__main__":
    main()
