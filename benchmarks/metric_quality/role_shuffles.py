"""Whether PDD tells a reordered article from one that keeps its course, against role match (the PDD paper, section 4).

    python -m benchmarks.metric_quality.role_shuffles FILE

FILE, JSONL (.gz too), has the gold roles of a document per line: id, schema (news9 or lfqa6), split, roles, words per
sentence. Of every document Variation 1 is a full shuffle of its sentences, Variation 2 a shuffle inside a random number
of positional bins; the document itself is the reference. The paper does not say how many bins: here 2 to 10, and once
any number, always fewer than sentences, so that Variation 2 may move something too. Its raters were never released:
here Variation 2 is better by construction, shown first or second at random, and Cohen's kappa is between this and the
metric's preferences, a tie counting half. Printed for PDD with several N and for role match: accuracy, kappa with its
95 % interval by document, ties, and the difference of PDD's kappa from that of role match with its interval. As in the
paper, documents are by people, have more sentences than N, and news articles 100 to 800 words.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discorank import Document
from discorank.metrics.discourse.roles.densities import bins_of
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray, IntArray

BINS = {"news9": (2, 3, 5, 8, 15, 20), "lfqa6": (2, 3, 5, 8)}
PAPER = {"news9": 8, "lfqa6": 3}
SCHEMAS = {"news9": "news", "lfqa6": "lfqa"}
RENAMED = {"Answer - Organizational sentence": "Organizational sentence"}
# beginnings of the ids of what people wrote
HUMAN = (
    "news/",
    "lfqa/ELI5/",
    "lfqa/NQ/",
    "lfqa/Web-GPT/",
)
REPEATS, RESAMPLES = 5, 2000
ANY = 1 << 30
TESTED = ("validation", "test")


def read(path: Path, schema: str, splits: Sequence[str] | None) -> list[list[str]]:
    """The roles of every document that people wrote, without NA and unlabelled sentences."""
    role_lists = []
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            in_splits = splits is None or document["split"] in splits
            if document["schema"] == schema and in_splits and document["id"].startswith(HUMAN):
                roles = [
                    RENAMED.get(role, role) for role in document["roles"] if role not in ("NA", "")
                ]
                if schema != "news9" or 100 <= sum(document["words"]) <= 800:
                    role_lists.append(roles)
    return [roles for roles in role_lists if len(roles) > PAPER[schema]]


def variations(
    roles: list[str], most: int, random: np.random.Generator
) -> tuple[list[str], list[str]]:
    """Sentences shuffled anywhere, and inside bins."""
    everywhere = random.permutation(len(roles))
    which = bins_of(len(roles), int(random.integers(2, min(most, len(roles) - 1) + 1)))
    inside = np.concatenate(
        [random.permutation(np.flatnonzero(which == b)) for b in np.unique(which)]
    )
    return [roles[i] for i in everywhere], [roles[i] for i in inside]


def triples(
    documents: Sequence[list[str]], most: int
) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """(document, Variation 1, Variation 2), several times for each document."""
    random = np.random.default_rng(0)
    for roles in documents:
        for _ in range(REPEATS):
            yield roles, *variations(roles, most, random)


def preferences(signature: str, schema: str, data: Sequence[tuple[list[str], ...]]) -> FloatArray:
    """1 where the metric prefers Variation 2, 1/2 where it cannot tell, [triples]."""
    metric: Any = load_metric(signature, schema=SCHEMAS[schema])
    reference, everywhere, inside = (
        [Document(["."] * len(roles), roles=roles) for roles in column]
        for column in zip(*data, strict=True)
    )
    low, high = (
        metric.utility_sign * metric.score(side, reference) for side in (everywhere, inside)
    )
    return np.where(np.isclose(high, low, rtol=1e-9, atol=1e-12), 0.5, (high > low).astype(float))


def kappa(right: FloatArray, second: IntArray) -> float:
    """Cohen's kappa of the metric's choice of A or B with the rater's, who prefers B where `second` is 1."""
    chosen = np.where(second == 1, right, 1 - right)  # how much of B
    agreed, rater, metric = right.mean(), second.mean(), chosen.mean()
    by_chance = rater * metric + (1 - rater) * (1 - metric)
    return float((agreed - by_chance) / (1 - by_chance))


def interval(values: Sequence[float]) -> str:
    low, high = np.quantile(values, [0.025, 0.975])
    return f"[{low:+.3f}, {high:+.3f}]"


def show(path: Path, schema: str, splits: Sequence[str] | None, title: str, most: int = 10) -> None:
    documents = read(path, schema, splits)
    data = list(triples(documents, most))
    print(
        f"\n{title}: {len(documents)} documents x {REPEATS}, {np.mean([len(d) for d in documents]):.1f} sentences each"
    )
    print(
        f"{'':12} {'accuracy':>8} {'kappa':>7} {'95 %':>17} {'ties':>6} {'less role-match':>16} {'95 %':>17}"
    )
    second = np.random.default_rng(1).integers(2, size=len(data))
    draws = np.random.default_rng(2).integers(len(documents), size=(RESAMPLES, len(documents)))
    rows = (draws[:, :, None] * REPEATS + np.arange(REPEATS)).reshape(RESAMPLES, -1)
    base = preferences("role-match", schema, data)
    resampled_base = [kappa(base[own], second[own]) for own in rows]
    names = ["role-match", *(f"pdd(bins={n})" for n in BINS[schema])]
    for name in names:
        right = base if name == "role-match" else preferences(name, schema, data)
        resampled = [kappa(right[own], second[own]) for own in rows]
        k = kappa(right, second)
        cells = f"{right.mean():8.3f} {k:7.3f} {interval(resampled):>17} {100 * (right == 0.5).mean():5.1f}%"
        if name != "role-match":
            less = [a - b for a, b in zip(resampled, resampled_base, strict=True)]
            cells += f" {k - kappa(base, second):+16.3f} {interval(less):>17}"
        mark = " (the paper's N)" if name == f"pdd(bins={PAPER[schema]})" else ""
        print(f"{name:12} {cells}{mark}", flush=True)


def main(path: str) -> None:
    show(Path(path), "news9", TESTED, "news, validation and test")
    show(Path(path), "news9", None, "news, all")
    show(Path(path), "news9", None, "news, all, any number of bins", ANY)
    show(Path(path), "lfqa6", None, "LFQA, written by people")
    show(Path(path), "lfqa6", None, "LFQA, written by people, any number of bins", ANY)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
