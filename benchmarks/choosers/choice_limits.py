"""What limits the choice among systems on the seven sets with MQM: knowledge that no rule has, and a second rating.

    python -m benchmarks.choosers.choice_limits FOLDER --work WORK

FOLDER holds systems files ``mt_mqm_<set>.<pair>.jsonl.gz``. First table: mean MQM of what is chosen over a random
system's (lower is better) when more is known than a rule can know. Texts alone: the weights of consensus (by five
utilities) and of features that are the best on the very segments, one vector for all sets, as nothing tells sets apart
before some segment is judged, or another for every set. Systems: their means from all segments, at the usual strength,
at the best one for each set, and with weights of features in hindsight.

Second table: WMT23 en-de and zh-en have a second rating of some segments (side by side, three raters each, fewer
systems). The choice that a perfect reader of the first rating would make is scored by the second, and the reverse; the
last rows are of rules that know neither. Intervals are by document (TED: by blocks of ten segments).
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from benchmarks.support.kept_arrays import KeptArrays
from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet, measured_set, measured_sets
from benchmarks.support.resampling import Resampling, shown
from benchmarks.support.text_values import consensus
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.chooser.chooser_fit import STRENGTHS, effects
from discorank.rerank.chooser.segment_values import first_best, pseudo_weights
from discorank.rerank.surface import SURFACE

from . import hindsight_weights as hindsight_module
from .chooser_defaults import UTILITY
from .chooser_tables import PLAIN_STRENGTH
from .hindsight_weights import ScoredFeatures, hindsight_weights
from .set_ratios import line

TWICE = ("wmt23.en-de", "wmt23.zh-en")
SECOND = "mqm_sxs3"
UTILITIES = (UTILITY, "chrf", "rouge-l", "bleu", "ter")
ONE = "texts alone: weights in hindsight, one vector for all sets"
ONE_ENGLISH = "the same for the sets into English"
EACH = "texts alone: weights in hindsight, a vector for every set"
SYSTEMS = "systems known, strength 6, weights in hindsight for every set"
KNOWN = (
    "best single system in hindsight",
    "systems known, strength 6",
    "systems known, the set's best strength",
    SYSTEMS,
    "oracle",
)


def known_more(data: MeasuredSet) -> dict[str, FloatArray]:
    """MQM [n] of what is chosen where systems are known."""
    scores = data.data.scores
    rows = np.arange(len(scores))
    by_strength = {k: scores[rows, first_best(by_systems(data, k))] for k in STRENGTHS}
    best = min(by_strength, key=lambda k: float(by_strength[k].mean()))
    return {
        "random": scores.mean(axis=1),
        "MBR": by_strength[0.0],
        "best single system in hindsight": scores[:, int(scores.mean(axis=0).argmin())],
        "systems known, strength 6": by_strength[PLAIN_STRENGTH],
        "systems known, the set's best strength": by_strength[best],
        "oracle": scores.min(axis=1),
    }


def by_systems(data: MeasuredSet, strength: float) -> FloatArray:
    """Standardised expected utilities [n, S], systems' means from all segments."""
    means, sigma = effects(data.data.errors, data.data.document)
    return consensus(data.data.utilities, pseudo_weights(means, sigma, strength))


def featured(data: MeasuredSet, first: Sequence[FloatArray]) -> ScoredFeatures:
    """Columns [n, S], and the features of texts."""
    columns = np.concatenate([np.stack(first, axis=2), data.data.columns], axis=2)
    return ScoredFeatures(columns, data.data.scores)


def in_hindsight(sets: Sequence[ScoredFeatures], what: str, kept: KeptArrays) -> list[FloatArray]:
    """MQM [n] of what is chosen in every set, by the weights that are the best on all of them."""
    digest = sha256(Path(str(hindsight_module.__file__)).read_bytes())
    for own in sets:
        digest.update(own.columns.tobytes() + own.scores.tobytes())
    weights = kept.array(what, digest.hexdigest(), lambda: hindsight_weights(sets))
    found = []
    for own in sets:
        picks = own.choices(np.asarray(weights))
        found.append(own.scores[np.arange(len(picks)), picks])
    return found


def show_known_more(folder: Path, work: Path, sets: Sequence[MeasuredSet]) -> None:
    """The first table; the last column is of the sets into English."""
    kept = KeptArrays(work)
    means = [known_more(data) for data in sets]
    texts = [featured(data, expectations(folder, work, data)) for data in sets]
    english = [i for i, data in enumerate(sets) if data.name.endswith("-en")]
    by_one = in_hindsight(texts, "hindsight.one", kept)
    into = in_hindsight([texts[i] for i in english], "hindsight.english", kept)
    for i, own in enumerate(means):
        name = sets[i].name
        own[ONE] = by_one[i]
        own[EACH] = in_hindsight([texts[i]], f"hindsight.{name}.texts", kept)[0]
        with_systems = featured(sets[i], [by_systems(sets[i], PLAIN_STRENGTH)])
        own[SYSTEMS] = in_hindsight([with_systems], f"hindsight.{name}.systems", kept)[0]
    for i, found in zip(english, into, strict=True):
        means[i][ONE_ENGLISH] = found
    rows = []
    for rule in ("MBR", ONE, ONE_ENGLISH, EACH, *KNOWN):
        cells = [""] * (1 + len(sets))
        if rule != ONE_ENGLISH:
            cells = line(sets, means, rule, "random")
        own_means = [means[i] for i in english]
        rows.append([rule, *cells, line([sets[i] for i in english], own_means, rule, "random")[-1]])
    heads = ["known", *(data.name for data in sets), "macro", "into English"]
    print(f"\n{table(heads, rows)}", flush=True)


def expectations(folder: Path, work: Path, data: MeasuredSet) -> list[FloatArray]:
    """Standardised expected utilities [n, S] by several utilities."""
    found = []
    for utility in UTILITIES:
        own = measured_set(folder / f"mt_mqm_{data.name}.jsonl.gz", utility, (), work)
        found.append(consensus(own.data.utilities))
    return found


def second_rating(path: Path, data: MeasuredSet) -> FloatArray:
    """The second rating of every text [n, S], nan where there is none."""
    ratings = np.full(data.data.scores.shape, np.nan)
    place = {name: i for i, name in enumerate(data.ids)}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        documents = [json.loads(row) for row in file]
    for document in documents:
        for i in range(len(document["source"])):
            row = place.get(f"{document['id']}:{i}")
            if row is None:
                continue
            for s, system in enumerate(data.systems):
                value = document.get(SECOND, {}).get(system, [None] * (i + 1))[i]
                if value is not None:
                    ratings[row, s] = value
    return ratings


def both_ratings(data: MeasuredSet, second: FloatArray) -> tuple[IntArray, IntArray]:
    """The segments, and the systems, that were rated twice."""
    systems = np.flatnonzero(~np.isnan(second).all(axis=0))
    rows = np.flatnonzero(~np.isnan(second[:, systems]).any(axis=1))
    return rows, systems


def scored_twice(data: MeasuredSet, second: FloatArray) -> dict[str, FloatArray]:
    """What rules choose among the texts rated twice, by both ratings less a random system's, [n, 2]."""
    rows, systems = both_ratings(data, second)
    ratings = [data.data.scores[np.ix_(rows, systems)], second[np.ix_(rows, systems)]]
    utilities = data.data.utilities[np.ix_(rows, systems, systems)]
    place = np.arange(len(rows))
    means, sigma = effects(np.sqrt(ratings[0]), data.data.document[rows])
    by_prior = consensus(utilities, pseudo_weights(means, sigma, PLAIN_STRENGTH))
    picks = {
        "random": None,
        "best by the first rating, ties by consensus": _least(ratings[0], utilities),
        "best by the second rating, ties by consensus": _least(ratings[1], utilities),
        "best single system by the first rating": np.full(len(rows), ratings[0].mean(0).argmin()),
        "best single system by the second rating": np.full(len(rows), ratings[1].mean(0).argmin()),
        "MBR": first_best(consensus(utilities)),
        "systems known by the first rating, strength 6": first_best(by_prior),
    }
    found = {}
    for name, pick in picks.items():
        columns = [own.mean(axis=1) if pick is None else own[place, pick] for own in ratings]
        found[name] = np.stack(columns, axis=1)
    return found


def _least(ratings: FloatArray, utilities: FloatArray) -> IntArray:
    """The texts of the least rating; of several the one nearest to the others."""
    least = ratings <= ratings.min(axis=1, keepdims=True)
    return np.asarray(np.where(least, consensus(utilities), -np.inf).argmax(axis=1))


def show_twice(folder: Path, sets: Mapping[str, MeasuredSet]) -> None:
    """The second table."""
    columns: dict[str, list[str]] = {}
    heads = ["chosen by"]
    for name in TWICE:
        data = sets[name]
        second = second_rating(folder / f"mt_mqm_{name}.jsonl.gz", data)
        rows, systems = both_ratings(data, second)
        of_set = f"{name}, {len(rows)} segments, {len(systems)} systems"
        heads += [f"{of_set}: first rating", "second rating"]
        found = scored_twice(data, second)
        resampling = Resampling([str(number) for number in data.groups[rows]])
        base = resampling.means(found["random"])
        for rule, own in found.items():
            if rule == "random":
                continue
            ratios = own.mean(axis=0) / found["random"].mean(axis=0)
            draws = resampling.means(own) / base
            cells = [shown(float(ratios[i]), draws[:, i]) for i in range(2)]
            columns.setdefault(rule, []).extend(cells)
    print(f"\n{table(heads, [[rule, *cells] for rule, cells in columns.items()])}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    sets = measured_sets(options.folder, UTILITY, SURFACE, options.work)
    show_known_more(options.folder, options.work, sets)
    show_twice(options.folder, {data.name: data for data in sets})


if __name__ == "__main__":
    main()
