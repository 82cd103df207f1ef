"""Whether p-values are right: beside sacrebleu's on a systems file, and on data where nothing differs.

    python -m benchmarks.metric_quality.p_values SYSTEMS.jsonl [--draws 10000] [--pairs 6] [--references NAME]
    python -m benchmarks.metric_quality.p_values --false-positives [--draws 1000]

The first form tests the first system against some others under chrF and BLEU with segments as units, by ours and by
sacrebleu's approximate randomisation and bootstrap. Both draw at random, so p differs by chance; the last column is the
difference in standard errors of a difference of two shares, sqrt(2 p (1 - p) / draws), and should stay below 4. The
second form measures how often two systems that spoil the same texts at the same rate differ significantly: 1000 tests
at 5 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from discorank import load_metric
from discorank.integrations.formats.systems import SystemsOptions, read_documents
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.selection.document_outputs import DocumentOutputs, with_references
from discorank.rerank.selection.resampling_units import in_units
from discorank.rerank.selection.significance import judge
from discorank.rerank.selection.system_scores import score_systems

PEERS = {"chrf": CHRF, "bleu": BLEU}
WORDS = (
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "saw",
    "dogs",
    "run",
    "by",
    "it",
    "then",
    "slept",
)


def beside_sacrebleu(path: Path, references: Sequence[str], pairs: int, draws: int) -> None:
    """Prints p of some pairs by both."""
    documents = list(read_documents(LineSource(path), SystemsOptions()))
    documents = with_references(documents, references or [next(iter(documents[0].references))])
    systems = list(documents[0].systems)[: pairs + 1]
    print(f"{sum(d.segments for d in documents)} segments, {draws} draws, {systems[0]} against")
    print(f"{'':24} {'metric':6} {'test':13} {'ours':>7} {'sacrebleu':>9} {'standard errors':>15}")
    for name, peer in PEERS.items():
        scored = in_units(
            score_systems(load_metric(name), documents), [d.segments for d in documents], 1
        )
        own = {pair.b: pair for pair in judge(scored, draws).pairs if pair.a == 0}
        for kind, label in (("ar", "randomisation"), ("bs", "bootstrap")):
            for i, theirs in enumerate(sacrebleu_p(systems, documents, peer(), kind, draws), 1):
                ours = own[i].p if kind == "ar" else own[i].p_bootstrap
                error = sqrt(2 * theirs * (1 - theirs) / draws)
                apart = abs(ours - theirs) / error
                print(
                    f"{systems[i]:24.24} {name:6} {label:13} {ours:7.4f} {theirs:9.4f} {apart:15.1f}"
                )


def sacrebleu_p(
    systems: Sequence[str], documents: Sequence[DocumentOutputs], peer: Any, kind: str, draws: int
) -> list[float]:
    """sacrebleu's p of the first system against each of the others."""
    texts: Any = [(name, [text for d in documents for text in d.systems[name]]) for name in systems]
    references = [[text for d in documents for text in next(iter(d.references.values()))]]
    _, scores = PairedTest(texts, {"peer": peer}, references, kind, draws)()
    results: Any = next(value for key, value in scores.items() if key != "System")
    return [float(result.p_value) for result in results[1:]]


def false_positives(draws: int, tests: int = 1000, documents: int = 30) -> None:
    """Prints the share of significant tests where nothing differs."""
    metric = load_metric("chrf")
    significant = np.zeros(2, int)
    for seed in range(tests):
        test = judge(score_systems(metric, list(spoiled(seed, documents))), draws, seed).pairs[0]
        significant += [test.p < 0.05, test.p_bootstrap < 0.05]
    shares = 100 * significant / tests
    print(
        f"{tests} tests, {documents} documents: randomisation {shares[0]:.1f} %, bootstrap {shares[1]:.1f} %"
    )


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("systems", type=Path, nargs="?")
    parser.add_argument("--references", nargs="+", default=[])
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--false-positives", action="store_true")
    options = parser.parse_args()
    if options.false_positives:
        false_positives(options.draws or 1000)
    elif options.systems:
        beside_sacrebleu(
            options.systems, options.references, options.pairs, options.draws or 10_000
        )
    else:
        parser.error("give SYSTEMS or --false-positives")


if __name__ == "__main__":
    main()
