"""What choosers learn from preferences, from raters of unlike strictness and from another domain, on sets with MQM.

    python -m benchmarks.choosers.partial_judgements FOLDER --work WORK [--draws 10]

Documents are halved as in `sampled_segments`: of one half segments are judged at random, the texts of the other are
chosen; what is believed beforehand is of the six other sets. A figure is the mean MQM of what is chosen over that of a
random system, the mean over draws and sets; +- is the standard error of the difference from the first row of its kind,
over halves. What was measured of texts is kept in WORK.

Preferences are those that MQM makes of 50 segments: of one pair of texts at random, of five, or of all. Raters are
those of `mqm` and of `mqm_sxs3`, side by side, on WMT 2023 into German and from Chinese; each of the texts of 50
segments that both judged is given to one of them at random, and ten segments to both. Another domain is news for TED
talks and talks for news, with the systems that both have.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet, measured_set
from benchmarks.support.mqm_lists import SETS
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser.chooser_fit import Defaults, fit
from discorank.rerank.chooser.measured import MeasuredTexts
from discorank.rerank.chooser.other_domains import learned_weight
from discorank.rerank.chooser.raters_and_preferences import preference_scores, without_factors
from discorank.rerank.chooser.segment_values import standard
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY
from .sampled_segments import Half, halves
from .set_beliefs import Others, without_features

SEGMENTS, BOTH = 50, 10
DOMAINS = (
    ("ted.en-de", "newstest2021.en-de"),
    ("newstest2021.en-de", "ted.en-de"),
    ("ted.zh-en", "newstest2021.zh-en"),
    ("newstest2021.zh-en", "ted.zh-en"),
)
SIDE_BY_SIDE = ("wmt23.en-de", "wmt23.zh-en")
# (kind, judgements) of a half, by the name of the row
Rows = Iterator[tuple[str, MeasuredTexts]]


def relative(data: MeasuredSet, known: MeasuredTexts, half: Half, defaults: Defaults) -> float:
    """Errors of what a chooser of some judgements chooses, over those of a random system."""
    others = data.data.rows(half.others)
    picks = fit(known, defaults).choices(others)
    return float(others.scores[np.arange(len(picks)), picks].mean() / others.scores.mean())


def of_preferences(data: MeasuredSet, half: Half) -> Rows:
    """Scores of 50 segments, then preferences."""
    taken = np.sort(half.random.choice(half.pool, SEGMENTS, replace=False))
    known = data.data.rows(taken)
    yield "scores", known
    num_systems = known.scores.shape[1]
    pairs = num_systems * (num_systems - 1) // 2
    for name, number in (("1 pair a segment", 1), ("5 pairs", 5), ("all pairs", pairs)):
        errors = np.array([compared(row, number, half.random) for row in known.scores])
        yield name, known._replace(errors=errors, scores=errors)


def compared(scores: FloatArray, number: int, random: np.random.Generator) -> FloatArray:
    """What some pairs of a segment's texts say, [S]."""
    first, second = np.triu_indices(len(scores), 1)
    drawn = random.choice(len(first), number, replace=False)
    systems = [str(s) for s in range(len(scores))]
    rankings = []
    for s, t in zip(first[drawn].tolist(), second[drawn].tolist(), strict=True):
        rankings.append({systems[s]: float(scores[s]), systems[t]: float(scores[t])})
    return preference_scores(systems, rankings, "a segment")


def side_by_side(path: Path, data: MeasuredSet) -> FloatArray:
    """The second raters' MQM, [n, S], nan where there is none."""
    by_id = {}
    with open_lists(str(path), "systems", human=["mqm:lower", "mqm_sxs3:lower"]) as lists:
        for entry in lists:
            if entry.record is not None:
                candidates = entry.record.candidates
                by_id[entry.record.id] = [c.fields.get("mqm_sxs3", np.nan) for c in candidates]
    return np.array([by_id[name] for name in data.ids], float)


def of_raters(second: FloatArray, strictness: list[float]) -> Callable[[MeasuredSet, Half], Rows]:
    """Both raters' means, then each text by one of them: as they stand, and their strictness taken off.

    The second one's strictness over the first one's is added to a list.
    """

    def rows(data: MeasuredSet, half: Half) -> Rows:
        there = half.pool[(~np.isnan(second[half.pool])).sum(axis=1) > 1]
        taken = half.random.permutation(there)[:SEGMENTS]
        known = data.data.rows(taken)
        y = np.stack([known.scores, second[taken]])
        y[0, np.isnan(y[1])] = np.nan  # texts that both judged
        yield "both raters, their mean", _scored(known, y.mean(axis=0))
        by_first = half.random.random(y.shape[1:]) < 0.5
        judges = np.stack([by_first, ~by_first])
        judges[:, :BOTH] = True
        y = np.where(judges, y, np.nan)
        values, factors = without_factors(y.reshape(2, -1))
        strictness.append(float(factors[1] / factors[0]))
        yield "one rater a text, as they are", _scored(known, _means(y))
        yield "one rater a text, strictness taken off", _scored(known, values.reshape(y.shape[1:]))

    return rows


def _means(y: FloatArray) -> FloatArray:
    """Means over raters, nan of nobody."""
    known = ~np.isnan(y)
    sums = np.where(known, y, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), sums / np.maximum(known.sum(axis=0), 1), np.nan)


def _scored(known: MeasuredTexts, scores: FloatArray) -> MeasuredTexts:
    return known._replace(errors=np.sqrt(scores), scores=scores)


def with_systems(data: MeasuredSet, systems: Sequence[str]) -> MeasuredSet:
    """The set with the texts of some systems alone."""
    of = [data.systems.index(name) for name in systems]
    own = data.data
    columns = [standard(own.columns[:, of, f]) for f in range(own.columns.shape[2])]
    return data._replace(
        systems=list(systems),
        data=own._replace(
            utilities=own.utilities[:, of][:, :, of],
            columns=np.stack(columns, axis=2),
            errors=own.errors[:, of],
            scores=own.scores[:, of],
        ),
    )


def of_domains(other: MeasuredTexts) -> Callable[[MeasuredSet, Half], Rows]:
    """Twenty segments alone, and with all judgements of another domain."""

    def rows(data: MeasuredSet, half: Half) -> Rows:
        known = data.data.rows(np.sort(half.random.choice(half.pool, 20, replace=False)))
        yield "20 of the domain", known
        joined = _joined(known, other, 1.0)
        is_other = np.repeat([0.0, 1.0], [len(known.errors), len(other.errors)])
        yield "20, another domain's counting 1", joined
        yield "20, another domain's counting 0.3", _joined(known, other, 0.3)
        learned = learned_weight(joined.errors, joined.document, is_other)
        yield "20, another domain's counting as learned", _joined(known, other, learned)
        yield "another domain's alone", other

    return rows


def _joined(known: MeasuredTexts, other: MeasuredTexts, weight: float) -> MeasuredTexts:
    """Judgements of a domain and of another one."""
    apart = int(known.document.max()) + 1
    return MeasuredTexts(
        np.concatenate([known.utilities, other.utilities]),
        np.concatenate([known.columns, other.columns]),
        np.concatenate([known.errors, other.errors]),
        np.concatenate([known.document, other.document + apart]),
        np.concatenate([known.scores, other.scores]),
        np.repeat([1.0, weight], [len(known.errors), len(other.errors)]),
    )


def measured(
    data: MeasuredSet,
    defaults: Defaults,
    rows: Callable[[MeasuredSet, Half], Rows],
    draws: int,
) -> dict[str, FloatArray]:
    """Errors of every half, by row."""
    found: dict[str, list[float]] = {}
    for half in halves(data, draws):
        for name, known in rows(data, half):
            found.setdefault(name, []).append(relative(data, known, half, defaults))
    return {name: np.array(values) for name, values in found.items()}


def shown(title: str, sets: Sequence[str], found: Sequence[dict[str, FloatArray]]) -> str:
    """A row by kind: every set, the mean, and its difference from the first row."""
    rows = [[title, *sets, "mean", "difference"]]
    first = next(iter(found[0]))
    for name in found[0]:
        means = [float(own[name].mean()) for own in found]
        differences = [own[name] - own[first] for own in found]
        error = np.sqrt(sum(d.var(ddof=1) / len(d) for d in differences)) / len(found)
        difference = f"{np.mean([d.mean() for d in differences]):+.3f} +- {error:.3f}"
        cells = [f"{value:.3f}" for value in means]
        rows.append([name, *cells, f"{np.mean(means):.3f}", "" if name == first else difference])
    return table(rows[0], rows[1:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    paths = {name: options.folder / f"mt_mqm_{name}.jsonl.gz" for name in SETS}
    sets = {n: measured_set(path, UTILITY, SURFACE, options.work) for n, path in paths.items()}
    defaults = {}
    for name, data in sets.items():
        others = Others(data, list(sets.values())).defaults
        defaults[name] = without_features(others, len(SURFACE))
    found = [measured(sets[n], defaults[n], of_preferences, options.draws) for n in SETS]
    print(shown("50 segments", SETS, found), flush=True)
    found, said = [], []
    for name in SIDE_BY_SIDE:
        strictness: list[float] = []
        rows = of_raters(side_by_side(paths[name], sets[name]), strictness)
        found.append(measured(sets[name], defaults[name], rows, options.draws))
        said.append(f"{name} {np.mean(strictness):.2f}")
    print(f"\n{shown('two raters', SIDE_BY_SIDE, found)}", flush=True)
    print(f"\nThe second raters' strictness over the first one's: {', '.join(said)}")
    found = []
    for own, other in DOMAINS:
        shared = [name for name in sets[own].systems if name in sets[other].systems]
        rows = of_domains(with_systems(sets[other], shared).data)
        found.append(measured(with_systems(sets[own], shared), defaults[own], rows, options.draws))
    titles = [f"{own}, and {other}" for own, other in DOMAINS]
    print(f"\n{shown('domains', titles, found)}", flush=True)


if __name__ == "__main__":
    main()
