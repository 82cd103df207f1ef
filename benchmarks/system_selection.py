"""Which metrics agree with people about systems: pairwise accuracy, Pearson, Kendall; significance against chrF.

    python -m benchmarks.system_selection FOLDER [--sets SET ...] [--metrics METRIC ...] [--draws N]
    python -m benchmarks.system_selection --false-positives [--draws N]

FOLDER holds mt_mqm_* and summ_* systems files (.jsonl.gz); MQM is lower-is-better, summaries have several dimensions.
p is that of PERM-BOTH, the metric against chrF; the last rows are means over all sets and dimensions. The second form
measures how often two systems that spoil the same texts at the same rate differ significantly: 1000 tests at 5 %.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

from discorank import load_metric
from discorank.integrations.humanscores import HumanKey
from discorank.integrations.source import LineSource
from discorank.integrations.systems import SystemsOptions, read_documents
from discorank.rerank.selection.comparing import SystemComparison, compare_systems
from discorank.rerank.selection.outputs import DocumentOutputs
from discorank.rerank.selection.scores import score_systems
from discorank.rerank.selection.testing import judge

METRICS = ("chrf", "bleu", "ter", "rouge-l", "lc")
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "saw", "dogs", "run", "by", "it", "then", "slept")


def compared(path: Path, metrics: Sequence[str], draws: int) -> SystemComparison:
    """All metrics on one set, against every dimension of human scores."""
    lower = path.name.startswith("mt_mqm")
    key = HumanKey("mqm", True) if lower else HumanKey("human")
    documents = list(read_documents(LineSource(path), SystemsOptions((key,))))
    dimensions = dict.fromkeys(name for document in documents for name in document.human)
    loaded = [load_metric(name) for name in metrics]
    return compare_systems(loaded, documents, [(name, lower) for name in dimensions], draws=draws)


def rows(found: SystemComparison) -> Iterator[tuple[str, str, list[float | None]]]:
    """(dimension, metric, accuracy, soft accuracy, Pearson, Kendall, p of accuracy, p of Pearson), chrF first."""
    for one in found.meta:
        for i, (scored, agreed) in enumerate(zip(found.scored, one.systems, strict=True)):
            test = next((t for t in one.tests if (t.a, t.b) == (0, i)), None)
            p = [test.p_accuracy, test.p_pearson] if test else [None, None]
            numbers = [agreed.pairwise_accuracy, agreed.soft_pairwise_accuracy, agreed.pearson, agreed.kendall]
            yield one.human.name, scored.name, [*numbers, *p]


def line(name: str, metric: str, numbers: Sequence[float | None]) -> str:
    """One row of the table."""
    return f"{name:<36} {metric:<24} " + " ".join("      -" if x is None else f"{x:7.3f}" for x in numbers)


def table(folder: Path, sets: Sequence[str], metrics: Sequence[str], draws: int) -> None:
    """Prints the table."""
    paths = sorted(p for p in folder.glob("*.jsonl.gz") if p.name.startswith(("mt_mqm", "summ_")))
    means: dict[str, list[list[float]]] = defaultdict(list)
    print(f"{'set, dimension':<36} {'metric':<24} accurac    soft pearson kendall   p acc p pears")
    for path in paths:
        name = path.name.removesuffix(".jsonl.gz")
        if sets and name not in sets:
            continue
        start = perf_counter()
        for dimension, metric, numbers in rows(compared(path, metrics, draws)):
            print(line(f"{name} {dimension}", metric, numbers), flush=True)
            means[metric].append([np.nan if x is None else x for x in numbers[:4]])
        print(f"  {perf_counter() - start:.1f} s")
    for metric, several in means.items():
        print(line(f"mean of {len(several)}", metric, np.nanmean(several, axis=0).tolist()))


def false_positives(draws: int, tests: int = 1000, documents: int = 30) -> None:
    """Prints the share of significant tests where nothing differs."""
    metric = load_metric("chrf")
    significant = np.zeros(2, int)
    for seed in range(tests):
        found = judge(score_systems(metric, list(spoiled(seed, documents))), draws, seed).pairs[0]
        significant += [found.p < 0.05, found.p_bootstrap < 0.05]
    shares = 100 * significant / tests
    print(f"{tests} tests, {documents} documents: randomisation {shares[0]:.1f} %, bootstrap {shares[1]:.1f} %")


def spoiled(seed: int, documents: int) -> Iterator[DocumentOutputs]:
    """Documents of one random segment, and two systems that replace three words in ten."""
    random = np.random.default_rng(seed)
    for d in range(documents):
        words = random.choice(WORDS, size=8)
        systems = {}
        for name in "AB":
            kept = random.random(8) > 0.3
            systems[name] = (" ".join(np.where(kept, words, random.choice(WORDS, size=8))),)
        yield DocumentOutputs(f"d{d}", False, None, systems, {"reference": (" ".join(words),)}, {})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--metrics", nargs="+", default=list(METRICS))
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--false-positives", action="store_true")
    given = parser.parse_args()
    if given.false_positives:
        false_positives(given.draws)
    elif given.folder:
        table(given.folder, given.sets, given.metrics, given.draws)
    else:
        parser.error("give FOLDER or --false-positives")


if __name__ == "__main__":
    main()
