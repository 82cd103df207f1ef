"""What judged segments are worth that `discorank sample` proposes, against as many at random, on sets with MQM.

    python -m benchmarks.choosers.sampled_segments FOLDER --work WORK [--draws 20]

FOLDER holds systems files ``mt_mqm_<set>.<pair>.jsonl.gz``; what was measured is kept in WORK, so that the same
command goes on. Documents (sets of fewer than 25: blocks of ten segments) are halved at random: of one half segments
are judged, the texts of the other are chosen. What is believed beforehand, difficulty too, is of the six other sets. A
figure is the mean MQM of what is chosen over that of a random system; differences are between what is proposed and the
mean of five draws at random, their intervals by document and by halves. "20 + 30" are 30 more after 20 at random.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet, measured_sets
from benchmarks.support.resampling import ends
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.chooser import judging_order as judging_order_module
from discorank.rerank.chooser.chooser_fit import Defaults, fit
from discorank.rerank.chooser.difficulty import Difficulty, learned_difficulty
from discorank.rerank.chooser.judging_order import (
    disagreement_of,
    document_means,
    judging_order,
)
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY
from .chooser_uncertainty import believed
from .score_sums import KeptSums, Sums, chosen
from .set_ratios import ratios

RANDOM, MORE, FIRST = 5, 30, 20
DOCUMENTS = 5
STAGES = ("20", "50", "100", "20 + 30", "5 documents")
WAYS = ("at random", "proposed")
MEASURES = ("single", "chooser")
LABELS = {
    "single": "best single system by the judged",
    "chooser": "chooser",
}
# rank correlation of systems, length and errors of the judged segments over those of all, and expected errors of what
# is chosen over those found
FIGURES = ("tau", "length", "errors", "expected")


class Half(NamedTuple):
    """One half of a set, of which segments are judged, and the other, of which texts are chosen."""

    pool: IntArray
    others: IntArray
    random: np.random.Generator


def halves(data: MeasuredSet, draws: int) -> Iterator[Half]:
    """Both halves of every draw."""
    for draw in range(draws):
        random = np.random.default_rng([draw, crc32(data.name.encode())])
        side = (random.permutation(int(data.units.max()) + 1) % 2)[data.units]
        for own in (0, 1):
            yield Half(np.flatnonzero(side == own), np.flatnonzero(side != own), random)


class Texts(NamedTuple):
    """What can be told of segments before they are judged, [n] each."""

    difficulty: FloatArray
    disagreement: FloatArray
    document: IntArray

    def proposed(self, pool: IntArray, judged: IntArray, count: int) -> IntArray:
        """Segments of the pool, as `discorank sample` takes them."""
        is_judged = np.isin(pool, judged)
        order = judging_order(
            self.difficulty[pool],
            self.disagreement[pool],
            self.document[pool],
            is_judged,
            count,
        )
        return pool[order]

    def proposed_documents(self, pool: IntArray, count: int) -> IntArray:
        """The segments of documents of the pool."""
        names, number = np.unique(self.document[pool], return_inverse=True)
        values = [document_means(own[pool], number) for own in (self.difficulty, self.disagreement)]
        nobody = np.zeros(len(names), bool)
        taken = judging_order(values[0], values[1], np.arange(len(names)), nobody, count)
        return pool[np.isin(number, taken)]


def judged_of(stage: str, texts: Texts, half: Half) -> Iterator[tuple[str, IntArray]]:
    """(way, judged segments) of one half."""
    pool, random = half.pool, half.random
    nothing = pool[:0]
    if stage == "5 documents":
        names = np.unique(texts.document[pool])
        yield "proposed", texts.proposed_documents(pool, DOCUMENTS)
        for _ in range(RANDOM):
            taken = random.choice(names, min(DOCUMENTS, len(names)), replace=False)
            yield "at random", pool[np.isin(texts.document[pool], taken)]
        return
    if stage == "20 + 30":
        for _ in range(RANDOM):
            first = random.choice(pool, FIRST, replace=False)
            rest = random.choice(np.setdiff1d(pool, first), MORE, replace=False)
            yield "at random", np.concatenate([first, rest])
            yield "proposed", np.concatenate([first, texts.proposed(pool, first, MORE)])
        return
    count = min(int(stage), len(pool))
    yield "proposed", texts.proposed(pool, nothing, count)
    for _ in range(RANDOM):
        yield "at random", random.choice(pool, count, replace=False)


def concordance(means: FloatArray, truth: FloatArray) -> float:
    """Kendall's tau-a of systems' means [S] against those on other segments."""
    signs = np.sign(means[:, None] - means) * np.sign(truth[:, None] - truth)
    return float(signs.sum() / (len(means) * (len(means) - 1)))


class Found(NamedTuple):
    """Sums of scores by way, and what was found in each half: {way: [halves, columns]}."""

    sums: dict[str, Sums]
    halves: dict[str, FloatArray]


def measured(
    data: MeasuredSet, stage: str, defaults: Defaults, default: Difficulty, draws: int
) -> Found:
    """Everything of one set and stage."""
    texts = Texts(
        default.errors(data.traits, np.zeros(len(data.ids))),
        disagreement_of(data.data.utilities),
        data.units,
    )
    sums = {way: Sums(len(data.ids)) for way in WAYS}
    rows: dict[str, list[FloatArray]] = {way: [] for way in WAYS}
    for half in halves(data, draws):
        own: dict[str, list[list[float]]] = {way: [] for way in WAYS}
        for way, judged in judged_of(stage, texts, half):
            own[way].append(_one(data, np.sort(judged), half.others, defaults, default, sums[way]))
        for way in WAYS:
            rows[way].append(np.mean(own[way], axis=0))
    return Found(sums, {way: np.array(found) for way, found in rows.items()})


def _one(
    data: MeasuredSet,
    judged: IntArray,
    others: IntArray,
    defaults: Defaults,
    default: Difficulty,
    sums: Sums,
) -> list[float]:
    """One chooser: ratios of `MEASURES`, then `FIGURES`; its scores are added up."""
    known, scores = data.data.rows(judged), data.data.scores
    learned = fit(known, defaults)
    picks = {
        "single": scores[others, int(known.errors.mean(axis=0).argmin())],
        "chooser": chosen(data, others, learned),
    }
    base = scores[others].mean(axis=1)
    sums.times[others] += 1
    for name, values in {**picks, "random": base}.items():
        sums.add(name, others, values)
    difficulty = learned_difficulty(
        data.traits[judged], known.errors, learned.held_out, learned.sigma, True, default
    )
    values = learned.values(data.data.rows(others))
    leads = values.max(axis=1) - values.mean(axis=1)
    errors = difficulty.errors(data.traits[others], leads)
    expected = difficulty.scores(errors, learned.sigma, True)
    length = np.expm1(data.traits[:, 0])
    return [
        *(float(picks[name].mean() / base.mean()) for name in MEASURES),
        concordance(learned.means, scores[others].mean(axis=0)),
        float(length[judged].mean() / length.mean()),
        float(scores[judged].mean() / scores.mean()),
        float(expected.sum() / picks["chooser"].sum()),
    ]


def read_or_made(
    data: MeasuredSet, stage: str, sets: Sequence[MeasuredSet], kept: KeptSums, draws: int
) -> Found:
    """What was measured of one set and stage, from the folder or now."""
    code = Path(__file__).read_bytes() + Path(str(judging_order_module.__file__)).read_bytes()
    path = kept.path("sampled", data.name, stage, draws, sha256(code).hexdigest()[:12])
    if not path.exists():
        found = measured(data, stage, *believed(data, sets), draws)
        arrays = {}
        for way in WAYS:
            own = found.sums[way]
            arrays[f"{way}.times"], arrays[f"{way}.halves"] = own.times, found.halves[way]
            arrays |= {f"{way}.sum.{name}": total for name, total in own.totals.items()}
        np.savez(path, **arrays)  # type: ignore[arg-type]
    with np.load(path) as file:
        sums = {}
        for way in WAYS:
            sums[way] = Sums(len(data.ids))
            sums[way].times = file[f"{way}.times"]
            for name in (*MEASURES, "random"):
                sums[way].totals[name] = file[f"{way}.sum.{name}"]
        return Found(sums, {way: file[f"{way}.halves"] for way in WAYS})


def compared(sets: Sequence[MeasuredSet], found: Sequence[Found], measure: str) -> list[str]:
    """Both macro means, and their difference with its interval; then the difference by set."""
    values: dict[str, list[float]] = {way: [] for way in WAYS}
    differences = []
    for data, own in zip(sets, found, strict=True):
        draws = {}
        for way in WAYS:
            means = own.sums[way].means()
            value, draws[way] = ratios(data, means[measure], means["random"])
            values[way].append(value)
        column = MEASURES.index(measure)
        by_half = own.halves["proposed"][:, column] - own.halves["at random"][:, column]
        # how much the mean over halves varies, beside how much documents do
        error = by_half.std(ddof=1) / len(by_half) ** 0.5
        random = np.random.default_rng(crc32(data.name.encode()))
        noise = random.normal(0, error, len(draws["proposed"]))
        differences.append(draws["proposed"] - draws["at random"] + noise)
    macro = {way: float(np.mean(own)) for way, own in values.items()}
    low, high = ends(np.mean(differences, axis=0))
    by_set = [f"{b - a:+.3f}" for a, b in zip(values["at random"], values["proposed"], strict=True)]
    difference = f"{macro['proposed'] - macro['at random']:+.3f} [{low:+.3f}, {high:+.3f}]"
    return [f"{macro['at random']:.3f}", f"{macro['proposed']:.3f}", difference, *by_set]


def show(sets: Sequence[MeasuredSet], kept: KeptSums, draws: int) -> None:
    head = ["judged", "errors of", *WAYS, "difference", *(data.name for data in sets)]
    rows, others = [head], [["judged", "how", *FIGURES]]
    for stage in STAGES:
        # of talks there are three
        own = [data for data in sets if stage != "5 documents" or data.name[:3] != "ted"]
        found = [read_or_made(data, stage, sets, kept, draws) for data in own]
        for measure in MEASURES:
            first, by_set = np.split(np.array(compared(own, found, measure)), [3])
            cells = dict(zip([data.name for data in own], by_set.tolist(), strict=True))
            cells_of_all = [cells.get(data.name, "") for data in sets]
            rows.append([stage, LABELS[measure], *first.tolist(), *cells_of_all])
        for way in WAYS:
            means = np.mean([f.halves[way].mean(axis=0)[len(MEASURES) :] for f in found], axis=0)
            others.append([stage, way, *(f"{value:.2f}" for value in means)])
    print(f"{table(rows[0], rows[1:])}\n\n{table(others[0], others[1:])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    sets = measured_sets(options.folder, UTILITY, SURFACE, options.work)
    show(sets, KeptSums(options.work, __file__), options.draws)


if __name__ == "__main__":
    main()
