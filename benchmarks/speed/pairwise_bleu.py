"""Exact pairwise BLEU and the other lexical metrics against sacrebleu's sentence_score, CPU seconds in one run.

    python -m benchmarks.speed.pairwise_bleu

The sacrebleu loop is timed on a sample of pairs and scaled to all; values are compared on the sample.
"""

from __future__ import annotations

import logging
import os
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from benchmarks.support.lists import synthetic, with_duplicates
from benchmarks.support.measuring import peak_mebibytes, timed
from discorank.metrics.registry import load_metric

SAMPLED_PAIRS = 500
PEERS: dict[str, Any] = {
    "bleu": BLEU(effective_order=True),
    "chrf++": CHRF(word_order=2),
    "ter": TER(),
}


def measure(name: str, width: int, texts: list[str]) -> str:
    metric, peer = load_metric(name), PEERS[name]
    metric.pairwise(texts[:2], texts[:2])
    seconds, u = timed(lambda: metric.pairwise(texts, texts), repeats=3 if width <= 128 else 1)
    generator = np.random.default_rng(0)
    pairs = generator.integers(width, size=(SAMPLED_PAIRS, 2))
    loop, peer_scores = timed(
        lambda: [peer.sentence_score(texts[h], [texts[r]]).score for h, r in pairs]
    )
    sign = 1 if name != "ter" else -1
    worst = max(
        abs(sign * u[h, r] - value) for (h, r), value in zip(pairs, peer_scores, strict=True)
    )
    ratio = loop / SAMPLED_PAIRS * width**2 / seconds
    return f"{ratio:8.0f}x {seconds:9.3f} {worst:11.1e} {peak_mebibytes():9.0f}"


def main() -> None:
    logging.disable(logging.WARNING)
    print(f"{'case':40} {'ratio':>9} {'ours s':>9} {'difference':>11} {'peak MiB':>9}")
    for name, widths in (
        ("bleu", (32, 128, 512, 1024)),
        ("chrf++", (32, 128, 512)),
        ("ter", (32,)),
    ):
        for width in widths:
            for kind, make in (("no duplicates", synthetic), ("40 % duplicates", with_duplicates)):
                print(
                    f"{name + f', N={width}, ' + kind:40} {measure(name, width, make(width, 1))}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
