"""All pairs of lists by lexical metrics, against sacrebleu's `sentence_score` and fastchrf: CPU seconds in one run.

    python -m benchmarks.speed.pairwise [chrf bleu chrf++ ter] [--lists SYSTEMS_FILE]

Ours is the whole of it: reading texts, representing, comparing all lists. The loop over sacrebleu is timed on a sample
of pairs and scaled to all, and values are compared on the sample; chrF is compared with all values of fastchrf's
batched pairwise function too. Each line has the ratios, the largest difference of a value, and the peak memory so far.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import fastchrf
import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from benchmarks.support.lists import documents, real, synthetic, with_duplicates
from benchmarks.support.measuring import peak_mebibytes, timed
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import NO_CONTEXT

Lists = list[list[str]]
SAMPLED_PAIRS = 300
PEERS: dict[str, Any] = {
    "chrf": CHRF(),
    "bleu": BLEU(effective_order=True),
    "chrf++": CHRF(word_order=2),
    "ter": TER(),
}
# candidates of a list, and how many lists
SIZES: dict[str, tuple[tuple[int, int], ...]] = {
    "chrf": ((8, 2000), (32, 500), (128, 20), (512, 1), (1024, 1)),
    "bleu": ((32, 1), (128, 1), (512, 1), (1024, 1)),
    "chrf++": ((32, 1), (128, 1), (512, 1)),
    "ter": ((32, 1),),
}
KINDS: dict[str, Callable[[int, int], list[str]]] = {
    "no duplicates": synthetic,
    "40 % duplicates": with_duplicates,
}


def cases(name: str, systems: str | None) -> Iterator[tuple[str, Lists]]:
    """Lists to compare with a metric, and what they are called."""
    for width, count in SIZES[name]:
        for kind, make in KINDS.items():
            yield f"{count} of N={width}, {kind}", [make(width, seed) for seed in range(count)]
    if name == "chrf":
        yield "8 of N=8, documents of 3000 characters", [documents(8, seed) for seed in range(8)]
        yield "1 of N=64, documents of 3000 characters", [documents(64, 0)]
        repeated = [letter * n for letter in "ab. " for n in range(90, 890, 100)]
        yield "1 of N=32, n-grams that repeat hundreds of times", [repeated]
    if systems:
        yield f"real lists of {os.path.basename(systems)}", real(systems)


def ours(metric: Any, lists: Lists) -> list[FloatArray]:
    """Values of all pairs, [N, N] of each list."""
    return matrices(metric, [metric.comparison(texts, texts, None, NO_CONTEXT) for texts in lists])


def by_fastchrf(lists: Lists) -> list[list[list[float]]]:
    """The same of chrF by fastchrf."""
    scores: list[list[list[float]]] = fastchrf.pairwise_chrf(
        lists, lists, char_order=6, beta=2.0, remove_whitespace=True, eps_smoothing=False
    )
    return scores


def by_sacrebleu(name: str, lists: Lists, values: list[FloatArray]) -> tuple[float, float]:
    """CPU seconds of a loop over all pairs, from a sample; the largest difference of a value in the sample."""
    generator = np.random.default_rng(0)
    pairs = []
    for _ in range(SAMPLED_PAIRS):
        i = int(generator.integers(len(lists)))
        h, r = generator.integers(len(lists[i]), size=2)
        pairs.append((i, h, r))
    peer = PEERS[name]
    seconds, scores = timed(
        lambda: [peer.sentence_score(lists[i][h], [lists[i][r]]).score for i, h, r in pairs]
    )
    differences = [
        abs(values[i][h, r] - score) for (i, h, r), score in zip(pairs, scores, strict=True)
    ]
    return seconds / SAMPLED_PAIRS * sum(len(texts) ** 2 for texts in lists), max(differences)


def measure(name: str, lists: Lists) -> str:
    """A line of the table."""
    metric = load_metric(name)
    ours(metric, [lists[0][:2]])
    seconds, values = timed(partial(ours, metric, lists), repeats=3)
    memory = peak_mebibytes()
    loop, worst = by_sacrebleu(name, lists, values)
    fast = ""
    if name == "chrf":
        other, scores = timed(partial(by_fastchrf, lists))
        differences = [
            float(np.abs(np.array(b) - a).max()) for a, b in zip(values, scores, strict=True)
        ]
        worst, fast = max(worst, *differences), f"{other / seconds:.1f}x"
    return f"{seconds:8.3f} {loop / seconds:8.0f}x {fast:>9} {worst:11.1e} {memory:9.0f}"


def main() -> None:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("metrics", nargs="*", metavar="METRIC", help=", ".join(PEERS))
    parser.add_argument("--lists", metavar="SYSTEMS_FILE", help="real lists besides")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    head = ("case", "ours s", "sacrebleu", "fastchrf", "difference", "peak MiB")
    print("{:58} {:>8} {:>9} {:>9} {:>11} {:>9}".format(*head))
    for name in options.metrics or PEERS:
        for about, lists in cases(name, options.lists):
            print(f"{f'{name}, {about}':58} {measure(name, lists)}", flush=True)


if __name__ == "__main__":
    main()
