"""Exact pairwise chrF against fastchrf (all pairs) and a sacrebleu loop (a sample of pairs), CPU seconds in one run.

    python -m benchmarks.speed.pairwise_chrf [SYSTEMS_FILE]

Ours is the whole of it: reading texts, representing, comparing all lists. fastchrf is its batched pairwise function.
Each case prints the ratio, the largest difference of any value, and the peak memory of the process so far.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
from functools import partial

import fastchrf
import numpy as np
from sacrebleu.metrics.chrf import CHRF

from benchmarks.support.lists import documents, real, synthetic, with_duplicates
from benchmarks.support.measuring import peak_mebibytes, timed
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.lexical.chrf import ChrF
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import NO_CONTEXT

SAMPLED_PAIRS = 300


def ours(lists: list[list[str]]) -> list[FloatArray]:
    metric = ChrF()
    return matrices(metric, [metric.comparison(texts, texts, None, NO_CONTEXT) for texts in lists])


def peer(lists: list[list[str]]) -> list[list[list[float]]]:
    scores: list[list[list[float]]] = fastchrf.pairwise_chrf(
        lists, lists, char_order=6, beta=2.0, remove_whitespace=True, eps_smoothing=False
    )
    return scores


def sacrebleu_seconds_per_pair(lists: list[list[str]]) -> float:
    metric = CHRF()
    generator = np.random.default_rng(0)
    pairs = []
    for _ in range(SAMPLED_PAIRS):
        texts = lists[generator.integers(len(lists))]
        pairs.append((texts[generator.integers(len(texts))], texts[generator.integers(len(texts))]))
    seconds, _ = timed(lambda: [metric.sentence_score(h, [r]) for h, r in pairs])
    return seconds / SAMPLED_PAIRS


def cases(arguments: list[str]) -> dict[str, list[list[str]]]:
    lists_of = {}
    for width, count in ((8, 2000), (32, 500), (128, 20), (512, 1), (1024, 1)):
        lists_of[f"{count} of N={width}, no duplicates"] = [
            synthetic(width, seed) for seed in range(count)
        ]
        lists_of[f"{count} of N={width}, 40 % duplicates"] = [
            with_duplicates(width, seed) for seed in range(count)
        ]
    lists_of["8 of N=8, documents of 3000 characters"] = [documents(8, seed) for seed in range(8)]
    lists_of["1 of N=64, documents of 3000 characters"] = [documents(64, 0)]
    lists_of["1 of N=32, n-grams that repeat hundreds of times"] = [
        [c * n for c in "ab. " for n in range(90, 890, 100)]
    ]
    for path in arguments:
        lists_of[f"real lists of {os.path.basename(path)}"] = real(path)
    return lists_of


def main(arguments: list[str]) -> None:
    ours([["a b", "a c"]])
    head = ("case", "fastchrf s", "ours s", "ratio", "sacrebleu ratio", "difference", "peak MiB")
    print("{:50} {:>10} {:>8} {:>7} {:>16} {:>11} {:>9}".format(*head))
    for name, lists in cases(arguments).items():
        pairs = sum(len(texts) ** 2 for texts in lists)
        own, u = timed(partial(ours, lists), repeats=3)
        memory = peak_mebibytes()
        other, v = timed(partial(peer, lists))
        worst = max(float(np.abs(np.array(b) - a).max()) for a, b in zip(u, v, strict=True))
        slow = sacrebleu_seconds_per_pair(lists) * pairs
        print(
            f"{name:50} {other:10.2f} {own:8.3f} {other / own:6.1f}x {slow / own:15.0f}x {worst:11.1e} {memory:9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
