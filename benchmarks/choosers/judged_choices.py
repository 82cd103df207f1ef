"""What rules of choice are worth to language-model judges, and whether judges order the rules as people's MQM does.

    python -m benchmarks.choosers.judged_choices FOLDER --work WORK [--teacher GPT4-DA-refA] [--draws 20]

FOLDER holds ``judged_wmt22.<pair>`` (15 candidates of a segment, en-de and en-ru) and the seven sets with MQM. On the
former the teacher's scores stand for the judgements that a chooser learns from (20, 50, 100 segments drawn by
documents), and every judge scores what is chosen of the others; judges of one model are averaged. On the latter people
judge and score. A figure is the gain over a random system in standard deviations of the scores within a segment, the
mean over pairs or sets, with 95 % intervals by document (TED: by blocks of ten segments; the two pairs share documents,
which are drawn together). Beliefs are the shipped ones for the judged pairs, and those of the other sets for MQM. No
set has both judges and MQM: the last table compares orders of the same rules on different texts. What was chosen is
kept in WORK.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from benchmarks.support.judged_lists import read_judged
from benchmarks.support.kept_arrays import KeptArrays
from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet, measured_sets
from benchmarks.support.resampling import Resampling, shown
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser.chooser_fit import Defaults
from discorank.rerank.chooser.defaults import defaults_of
from discorank.rerank.chooser.difficulty import TRAITS
from discorank.rerank.chooser.measured import MeasuredTexts, columns_of, utilities_of
from discorank.rerank.chooser.shipped import shipped
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY
from .few_judgements import RULES, Beliefs, KeptTallies, scaled

PAIRS, TEACHER = ("en-de", "en-ru"), "GPT4-DA-refA"
JUDGED = ("20", "50", "100")
FAMILIES = ("GPT4", "Dav3", "Turbo", "Chat")  # beginnings of the names
SHORT = {"mbr": "MBR", "single": "the single system", "prior": "prior", "chooser": "chooser"}
DIFFERENCES = (("mbr", "single"), ("prior", "single"), ("chooser", "single"), ("chooser", "prior"))
ORDERED = (
    "random",
    "mbr",
    "single",
    "prior",
    "chooser",
)  # rules that learn from the same judgements


class Opinions(NamedTuple):
    """A set of texts with the scores of several judges.

    Args:
        measured: what rules learn from.
        scores: higher is better, [n, S, D].
        judges: names, D.
        groups: what a bootstrap draws together, of every segment.
        defaults: what is believed beforehand.
    """

    measured: MeasuredSet
    scores: FloatArray
    judges: list[str]
    groups: list[str]
    defaults: Defaults


def judged_pair(path: Path, teacher: str, arrays: KeptArrays) -> Opinions:
    """A pair with its judges, utilities and features measured or read."""
    pair = read_judged(path)
    texts = repr([[str(c.text) for c in record.candidates] for record in pair.records])
    metric = load_metric(UTILITY)
    key = f"{metric.signature()} {[part.info.version for _, part in metric.parts]} {texts}"
    name = f"judged.{pair.name}"
    u = arrays.array(f"{name}.utilities", key, lambda: utilities_of(metric, pair.records))
    columns = arrays.array(
        f"{name}.features", f"{SURFACE} {texts}", lambda: columns_of(SURFACE, pair.records)
    )
    errors = -pair.scores[:, :, pair.judges.index(teacher)]
    documents = np.unique(pair.documents, return_inverse=True)[1]
    data = MeasuredTexts(np.asarray(u), np.asarray(columns), errors, documents, errors)
    ids = [record.id for record in pair.records]
    measured = MeasuredSet(name, data, documents, pair.systems, ids, np.zeros((len(ids), TRAITS)))
    defaults = shipped().defaults(len(SURFACE))
    return Opinions(measured, pair.scores, pair.judges, pair.documents, defaults)


def mqm_sets(folder: Path, work: Path) -> list[Opinions]:
    """The seven sets: people are the one judge."""
    sets = measured_sets(folder, UTILITY, SURFACE, work)
    found = []
    for data in sets:
        others = [
            other.data._replace(columns=other.data.columns[:, :, :0])
            for other in sets
            if other is not data
        ]
        groups = [f"{data.name} {number}" for number in data.groups]
        scores = -data.data.scores[:, :, None]
        found.append(Opinions(data, scores, ["MQM"], groups, defaults_of(others)))
    return found


class Gains:
    """Gains of every rule, by judge, over several sets: means, and their draws.

    Args:
        sets: of texts.
        kept: tallies.
        judged: how many segments.
        draws: of judged segments.
        together: whether sets share documents.
    """

    def __init__(
        self,
        sets: Sequence[Opinions],
        kept: KeptTallies,
        judged: str,
        draws: int,
        together: bool,
    ) -> None:
        groups = [own.groups for own in sets]
        resamplings = [
            Resampling(own, seed=crc32(data.measured.name.encode()))
            for own, data in zip(groups, sets, strict=True)
        ]
        if together:
            resamplings = Resampling.together(groups)
        means: dict[str, list[FloatArray]] = {}
        drawn: dict[str, list[FloatArray]] = {}
        for own, resampling in zip(sets, resamplings, strict=True):
            found = kept.tallied(
                own.measured, scaled(own.scores), judged, Beliefs(own.defaults), draws
            )
            for rule, gains in found.items():
                tested = np.isfinite(gains[:, 0])
                rows = np.where(tested[:, None], gains, 0.0)
                share = resampling.sums(tested.astype(float))[:, None]
                means.setdefault(rule, []).append(gains[tested].mean(axis=0))
                drawn.setdefault(rule, []).append(resampling.sums(rows) / share)
        self.means = {rule: np.mean(own, axis=0) for rule, own in means.items()}  # [D]
        self.draws = {rule: np.mean(own, axis=0) for rule, own in drawn.items()}  # [draws, D]

    def cell(self, rule: str, judges: Sequence[int], base: str = "random") -> str:
        """The mean gain over some judges less that of another rule, with its interval."""
        index = list(judges)
        mean = (self.means[rule] - self.means[base])[index].mean()
        draws = (self.draws[rule] - self.draws[base])[:, index].mean(axis=1)
        return shown(float(mean), draws, 2, "+")

    def order(self, judges: Sequence[int]) -> dict[str, float]:
        """The gain of every rule that is ordered."""
        index = list(judges)
        return {rule: float(self.means[rule][index].mean()) for rule in ORDERED}


def families(judges: Sequence[str], teacher: str) -> dict[str, list[int]]:
    """Judges by model; what reads the reference, as the teacher does, by itself."""
    found = {teacher: [judges.index(teacher)]}
    for family in FAMILIES:
        members = [i for i, name in enumerate(judges) if name.startswith(family)]
        found[f"{family}, no reference"] = [i for i in members if judges[i].endswith("-src")]
    return found


def agreeing(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """The share of pairs of rules that two opinions order alike."""
    same = [(a[x] - a[y]) * (b[x] - b[y]) > 0 for x, y in combinations(ORDERED, 2)]
    return float(np.mean(same))


def rows_of(gains: Gains, columns: Sequence[tuple[Gains, Sequence[int]]]) -> list[list[str]]:
    """Gains of rules in every column, and differences between rules."""
    rows = []
    for rule, label in RULES.items():
        if rule in gains.means and rule not in ("random", "plain"):
            rows.append([label, *(own.cell(rule, judges) for own, judges in columns)])
    for rule, base in DIFFERENCES:
        if base in gains.means:
            label = f"{SHORT[rule]} less {SHORT[base]}"
            rows.append([label, *(own.cell(rule, judges, base) for own, judges in columns)])
    return rows


def show(
    pairs: Sequence[Opinions], mqm: Sequence[Opinions], kept: KeptTallies, teacher: str, draws: int
) -> None:
    """All tables."""
    judges = pairs[0].judges
    models = families(judges, teacher)
    orders = []
    from_english = [own for own in mqm if own.measured.name.endswith("en-de")]
    for judged in ("0", *JUDGED):
        of_judges = Gains(pairs, kept, judged, draws, together=True)
        of_people = Gains(mqm, kept, judged, draws, together=False)
        of_german = Gains(from_english, kept, judged, draws, together=False)
        columns: list[tuple[Gains, Sequence[int]]] = [(of_judges, own) for own in models.values()]
        columns += [(of_people, [0]), (of_german, [0])]
        heads = [f"{judged} judged", *models, "MQM, seven sets", "MQM, en-de"]
        print(f"\n{table(heads, rows_of(of_judges, columns))}", flush=True)
        if judged != "0":
            orders.append([judged, *ordered(of_judges, of_people.order([0]), judges)])
    heads = ["judged", "pairs of rules ordered alike", "by GPT4's judges", "least, by"]
    print(f"\n{table(heads, orders)}")


def ordered(gains: Gains, people: Mapping[str, float], judges: Sequence[str]) -> list[str]:
    """How judges order the rules beside MQM: all on the mean, those of GPT4, and the worst."""
    shares = np.array([agreeing(gains.order([i]), people) for i in range(len(judges))])
    of_best = [name.startswith(FAMILIES[0]) for name in judges]
    worst = judges[int(shares.argmin())]
    return [f"{shares.mean():.2f}", f"{shares[of_best].mean():.2f}", f"{shares.min():.2f}, {worst}"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--teacher", default=TEACHER)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    arrays = KeptArrays(options.work)
    pairs = [
        judged_pair(options.folder / f"judged_wmt22.{pair}.jsonl.gz", options.teacher, arrays)
        for pair in PAIRS
    ]
    mqm = mqm_sets(options.folder, options.work)
    show(pairs, mqm, KeptTallies(options.work), options.teacher, options.draws)


if __name__ == "__main__":
    main()
