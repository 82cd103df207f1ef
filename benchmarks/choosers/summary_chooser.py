"""Choosing among the summaries of several systems, with no judged articles, with 20, 50 and all but a fold.

    python -m benchmarks.choosers.summary_chooser FOLDER --work WORK [--sets SET ...] [--weights DIMENSION=W ...]

FOLDER holds summ_summeval, summ_realsumm and summ_newsroom_ner18 (.jsonl.gz). What people scored (higher is better) is
one number per summary: the mean of the dimensions, by weights where these are given (dimensions that are not named
count 0). Articles are drawn to be judged, all others are chosen (20 draws; "all": five folds, ten draws); systems,
strength and weights are of the judged articles, what is believed beforehand is shipped, or made of the two other sets.
A figure is the gain over a random system in standard deviations of the scores within an article, with 95 % intervals by
article; behind it stands the difference from the best single system by the same judged articles (with none: in
hindsight).

"By the other dimensions" takes the summary that the same raters give most in the other dimensions: the figure of a
dimension is what such a second opinion finds in it. "Weights in hindsight" are weights of consensus and features that
are the best on the very articles. What was measured is kept in WORK, so that the same command goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.choice_quality.summary_choice import SETS, read
from benchmarks.support.kept_arrays import KeptArrays
from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet
from benchmarks.support.text_values import consensus
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser.defaults import defaults_of
from discorank.rerank.chooser.difficulty import TRAITS
from discorank.rerank.chooser.measured import MeasuredTexts, columns_of, utilities_of
from discorank.rerank.chooser.segment_values import first_best
from discorank.rerank.chooser.shipped import shipped
from discorank.rerank.lists import CandidateList
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY
from .few_judgements import RULES, Beliefs, KeptTallies, compared, scaled
from .hindsight_weights import ScoredFeatures, hindsight_weights

FOCI = "ds-focus"
CONSENSUS = (UTILITY, "chrf", "rouge-l", FOCI)
JUDGED = ("20", "50", "all")
FEWEST = 10  # articles that must be left to be chosen
HINDSIGHT = "best single system in hindsight"
OTHER_DIMENSIONS = "by the other dimensions"


class Summaries(NamedTuple):
    """One set of articles whose every system is judged.

    Args:
        measured: what rules learn from: errors are the mean score, its sign turned.
        utilities: by utility, [n, S, S].
        opinions: the mean score, then every dimension, [n, S, 1 + D].
        dimensions: names.
        records: a list per article.
    """

    measured: MeasuredSet
    utilities: dict[str, FloatArray]
    opinions: FloatArray
    dimensions: list[str]
    records: list[CandidateList]

    @property
    def articles(self) -> list[str]:
        """The unit of intervals."""
        return [str(i) for i in range(len(self.records))]


def summaries(folder: Path, name: str, weights: Mapping[str, float], kept: KeptArrays) -> Summaries:
    """A set, its utilities and features measured or read."""
    records, dimensions, scores = read(str(folder), name)
    texts = repr([[str(c.text) for c in record.candidates] for record in records])
    utilities = {}
    for spec in CONSENSUS:
        metric = load_metric(spec)
        key = f"{metric.signature()} {[part.info.version for _, part in metric.parts]} {texts}"
        made = partial(utilities_of, metric, records)
        u = kept.array(f"{name}.utilities", key, made)
        utilities[spec] = np.asarray(u)
    columns = kept.array(
        f"{name}.features", f"{SURFACE} {texts}", lambda: columns_of(SURFACE, records)
    )
    own = [weights.get(d, 0.0) for d in dimensions]
    mean = np.average(scores, axis=2, weights=own if any(own) else None)
    numbers = np.arange(len(records))
    data = MeasuredTexts(utilities[UTILITY], np.asarray(columns), -mean, numbers, -mean)
    systems = [str(c.fields["system"]) for c in records[0].candidates]
    ids = [record.id for record in records]
    measured = MeasuredSet(name, data, numbers, systems, ids, np.zeros((len(ids), TRAITS)))
    opinions = np.concatenate([mean[:, :, None], scores], axis=2)
    return Summaries(measured, utilities, opinions, dimensions, records)


def without_judgements(own: Summaries) -> dict[str, FloatArray]:
    """The gains of every rule that no judged article teaches, [n, 1 + D], and of those that know all."""
    gains = scaled(own.opinions)
    rows = np.arange(len(gains))
    found = {"random system": gains.mean(axis=1)}
    for spec, u in own.utilities.items():
        found[f"MBR `{spec}`"] = gains[rows, first_best(consensus(u))]
    found["by `chrf` against the human references"] = gains[rows, by_references(own.records)]
    found[HINDSIGHT] = gains[:, int(own.opinions[:, :, 0].mean(0).argmax())]
    data = own.measured.data
    columns = [consensus(data.utilities)[:, :, None], data.columns]
    features = ScoredFeatures(np.concatenate(columns, axis=2), data.scores)
    in_hindsight = features.choices(hindsight_weights([features]))
    found["consensus and features, weights in hindsight"] = gains[rows, in_hindsight]
    if len(own.dimensions) > 1:
        found[OTHER_DIMENSIONS] = by_other_dimensions(gains)
    found["oracle"] = gains[rows, own.opinions[:, :, 0].argmax(axis=1)]
    return found


def by_references(records: Sequence[CandidateList]) -> FloatArray:
    """The summary nearest to the human references, of every article."""
    metric = load_metric("chrf")
    picks = []
    for record in records:
        texts = [str(candidate.text) for candidate in record.candidates]
        picks.append(int(metric.score(texts, [list(record.references)] * len(texts)).argmax()))
    return np.array(picks)


def by_other_dimensions(gains: FloatArray) -> FloatArray:
    """In every dimension the gain of what the mean of the others takes, [n, 1 + D]; the first is their mean."""
    rows = np.arange(len(gains))
    found = []
    for d in range(1, gains.shape[2]):
        others = np.delete(gains, [0, d], axis=2).mean(axis=2)
        found.append(gains[rows, others.argmax(axis=1), d])
    return np.stack([np.mean(found, axis=0), *found], axis=1)


def compared_in(
    own: Summaries, found: Mapping[str, FloatArray], base: str
) -> list[dict[str, tuple[str, str]]]:
    """Gains and differences from a rule: of the mean score, then of every dimension where there are several."""
    count = 1 + len(own.dimensions) if len(own.dimensions) > 1 else 1
    return [
        compared({rule: gain[:, d] for rule, gain in found.items()}, own.articles, base, str(d))
        for d in range(count)
    ]


def show_without(own: Summaries) -> None:
    """The table of no judged article."""
    found = without_judgements(own)
    cells = compared_in(own, found, HINDSIGHT)
    rows = []
    for rule in found:
        of_dimensions = [of_rules[rule][0] for of_rules in cells[1:]]
        # scales differ: what dimensions find in each other has no place beside the mean
        mean = ("", "") if rule == OTHER_DIMENSIONS else cells[0][rule]
        rows.append([rule, *mean, *of_dimensions])
    name = f"{own.measured.name}, {len(own.records)} articles, none judged"
    print(f"\n{table([name, *heads(own, HINDSIGHT)], rows)}", flush=True)


def heads(own: Summaries, base: str) -> list[str]:
    """Of the columns."""
    if len(own.dimensions) == 1:
        return [own.dimensions[0], f"less {base}"]
    return ["mean score", f"less {base}", *own.dimensions]


def show_judged(
    own: Summaries, others: Sequence[MeasuredTexts], kept: KeptTallies, draws: int
) -> None:
    """The table by number of judged articles, and that of the dimensions with the most."""
    names = {name: label for name, label in RULES.items() if name != "random"}
    names["foci"] = f"chooser, `-u {FOCI}`"
    names["others"] = "chooser, beliefs of the other sets"
    columns: dict[str, list[str]] = {}
    judged_numbers = [n for n in JUDGED if n == "all" or int(n) < len(own.records) - FEWEST]
    for judged in judged_numbers:
        gains = scaled(own.opinions)
        found = kept.tallied(
            own.measured, gains, judged, Beliefs(shipped().defaults(len(SURFACE))), draws
        )
        by_foci = own.measured._replace(
            name=f"{own.measured.name}.foci",
            data=own.measured.data._replace(utilities=own.utilities[FOCI]),
        )
        by_foci_found = kept.tallied(
            by_foci, gains, judged, Beliefs(shipped().defaults(len(SURFACE))), draws
        )
        found["foci"] = by_foci_found["chooser"]
        if len(others) > 1:
            plain = [data._replace(columns=data.columns[:, :, :0]) for data in others]
            by_others = kept.tallied(
                own.measured, gains, judged, Beliefs(defaults_of(plain)), draws
            )
            found["others"] = by_others["chooser"]
        cells = compared_in(own, found, "single")
        for rule, label in names.items():
            if rule in found:
                mean, less = cells[0][rule]
                columns.setdefault(label, []).append(f"{mean}; {less}" if less else mean)
    name = own.measured.name
    print(f"\n{table([f'{name}, judged', *judged_numbers], [[k, *v] for k, v in columns.items()])}")
    if len(own.dimensions) > 1:
        rows = [
            [label, *(of_rules[rule][0] for of_rules in cells[1:])]
            for rule, label in names.items()
            if rule in found
        ]
        print(f"\n{table([f'{name}, all judged', *own.dimensions], rows)}", flush=True)


def show(sets: Sequence[Summaries], kept: KeptTallies, draws: int) -> None:
    """All tables."""
    for i, own in enumerate(sets):
        show_without(own)
        others = [other.measured.data for k, other in enumerate(sets) if k != i]
        show_judged(own, others, kept, draws)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--weights", nargs="+", default=[], metavar="DIMENSION=W")
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    pairs = [given.partition("=") for given in options.weights]
    weights = {name: float(value) for name, _, value in pairs}
    arrays = KeptArrays(options.work)
    sets = [summaries(options.folder, name, weights, arrays) for name in options.sets]
    show(sets, KeptTallies(options.work), options.draws)


if __name__ == "__main__":
    main()
