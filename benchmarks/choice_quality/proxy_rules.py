"""What rules that proxies choose by leave of the errors of a random candidate, beside ours, on the same lists.

    python -m benchmarks.choice_quality.proxy_rules JUDGED CAPTIONS MODEL KEPT [--captions 500]

Rules: voting over whole texts as they are; the rule of OptiLLM's self-consistency, which puts a text into the first
cluster to whose first text `difflib.SequenceMatcher(None, text, first).ratio()` is .8 or more, and takes the first text
of the largest cluster; MBR with chrF, and with chrF and ROUGE-L. JUDGED is a folder of systems files with MQM: the
mean over seven sets of the MQM of what a rule chooses, relative to that of a random system, with the systems in random
order (five orders per segment), so that ties favour none. CAPTIONS and MODEL are those of `caption_model`: chrF and
BLEU, of segments, of what is chosen from the first 16 and from all 64 samples, with the choice of a random sample
beside. Intervals are by document (TED: blocks of ten segments), or by caption; KEPT keeps samples, matrices and
choices, so that a study that was stopped goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.recorded_lists import (
    RecordedSet,
    against_references,
    arguments,
    caption_samples,
    judged_sets,
    resampled,
    utilities,
)
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.choice import in_order

ORDERS, SIMILAR = 5, 0.8
UTILITIES = {"MBR, chrf": "chrf", "MBR, chrf + 100*rouge-l": "chrf + 100*rouge-l"}
SIZES = (16, 64)


def by_vote(texts: Sequence[str]) -> int:
    """The first text of those that stand there most often."""
    counts = [texts.count(text) for text in texts]
    return counts.index(max(counts))


def by_clusters(texts: Sequence[str]) -> int:
    """The first text of the largest cluster, of equal ones the first."""
    clusters: list[list[int]] = []
    for i, text in enumerate(texts):
        home = next((own for own in clusters if _similar(texts[own[0]], text)), None)
        if home is None:
            clusters.append([i])
        else:
            home.append(i)
    return max(clusters, key=len)[0]


@lru_cache(maxsize=1 << 14)
def _similar(first: str, text: str) -> bool:
    return SequenceMatcher(None, text, first).ratio() >= SIMILAR


RULES: dict[str, Callable[[Sequence[str]], int]] = {
    "voting, exact texts": by_vote,
    "OptiLLM's clusters": by_clusters,
}


class Orders(NamedTuple):
    """In which orders the candidates of each list come, [orders, candidates] for each."""

    of_lists: list[IntArray]


def chosen(data: RecordedSet, orders: Orders, kept: Path) -> dict[str, list[IntArray]]:
    """The candidates that every rule chooses, [orders] for each list."""
    texts = [[str(c.text) for c in record.candidates] for record in data.lists]
    picks: dict[str, list[IntArray]] = {}
    for name, rule in RULES.items():
        picks[name] = _kept_picks(rule, texts, orders, kept / data.name)
    for name, spec in UTILITIES.items():
        matrices = utilities(data, spec, kept)
        picks[name] = [_by_matrix(u, own) for u, own in zip(matrices, orders.of_lists, strict=True)]
    return picks


def _by_matrix(u: FloatArray, orders: IntArray) -> IntArray:
    """The candidate of the highest expected utility among those of each order."""
    picks = []
    for order in orders:
        values = u[np.ix_(order, order)].mean(axis=1)
        picks.append(order[next(in_order(values))])
    return np.array(picks)


def _kept_picks(
    rule: Callable[[Sequence[str]], int], texts: list[list[str]], orders: Orders, kept: Path
) -> list[IntArray]:
    """The choices of a rule that reads texts, kept in a file of its own."""
    state = repr((rule.__name__, texts, [own.tolist() for own in orders.of_lists]))
    path = kept.with_name(
        f"{kept.name}.{rule.__name__}.{sha256(state.encode()).hexdigest()[:16]}.npy"
    )
    if not path.exists():
        rows = []
        for own_texts, own_orders in zip(texts, orders.of_lists, strict=True):
            rows.append([order[rule([own_texts[i] for i in order])] for order in own_orders])
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as file:
            np.save(file, np.array(rows))
        os.replace(unfinished, path)
    return list(np.load(path))


def judged_table(data: RecordedSet, kept: Path) -> dict[str, FloatArray]:
    """By rule: the MQM of its choices relative to a random system's, of all segments and of every draw, [1 + draws]."""
    random = np.random.default_rng(1)
    orders = Orders(
        [np.array([random.permutation(len(own)) for _ in range(ORDERS)]) for own in data.errors]
    )
    base = np.array([own.mean() for own in data.errors])
    ratios = {}
    for name, picks in chosen(data, orders, kept).items():
        errors = np.array([own[pick].mean() for own, pick in zip(data.errors, picks, strict=True)])
        columns = np.stack((errors, base), axis=1)
        means = np.concatenate([columns.mean(axis=0)[None], resampled(data.groups, columns)])
        ratios[name] = means[:, 0] / means[:, 1]
    return ratios


def interval(draws: FloatArray, form: str) -> str:
    low, high = np.quantile(draws[1:], [0.025, 0.975])
    return f"{format(draws[0], form)} [{format(low, form)}, {format(high, form)}]"


def show_judged(sets: Sequence[RecordedSet], kept: Path) -> None:
    """A row per rule: the macro mean, and every set."""
    tables = [judged_table(data, kept) for data in sets]
    print("errors (MQM) relative to a random system's: mean of the sets, then each set")
    for name in tables[0]:
        macro = np.mean([own[name] for own in tables], axis=0)
        cells = "  ".join(
            f"{data.name} {own[name][0]:.2f}" for data, own in zip(sets, tables, strict=True)
        )
        print(f"{name:26} {interval(macro, '.2f')}   {cells}", flush=True)


def show_captions(data: RecordedSet, kept: Path) -> None:
    """A row per rule and number of samples: chrF and BLEU of what it chooses."""
    scores = [against_references(data, name) for name in ("chrf", "bleu")]
    for size in SIZES:
        print(f"\ncaptions, {size} samples: chrF, BLEU, and both less those of a random sample")
        orders = Orders([np.arange(size)[None] for _ in data.lists])
        base = np.stack([[own[:size].mean() for own in of_metric] for of_metric in scores], axis=1)
        for name, picks in {"random sample": None, **chosen(data, orders, kept)}.items():
            values = base if picks is None else _scores_of(picks, scores)
            columns = np.concatenate([values, values - base], axis=1)
            means = np.concatenate([columns.mean(axis=0)[None], resampled(data.groups, columns)])
            cells = "  ".join(interval(means[:, i], ".2f") for i in range(columns.shape[1]))
            print(f"{name:26} {cells}", flush=True)


def _scores_of(picks: Sequence[IntArray], scores: Sequence[Any]) -> FloatArray:
    """The scores of the first choice from each list, [lists, metrics]."""
    columns = [
        [own[pick[0]] for own, pick in zip(of_metric, picks, strict=True)] for of_metric in scores
    ]
    return np.array(columns).T


def main() -> None:
    parser = arguments(__doc__)
    options = parser.parse_args()
    options.kept.mkdir(parents=True, exist_ok=True)
    show_judged(judged_sets(options.judged), options.kept)
    samples = caption_samples(options.data, options.model, options.kept, options.captions)
    show_captions(samples, options.kept)


if __name__ == "__main__":
    main()
