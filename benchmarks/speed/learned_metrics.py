"""MetricX, BLEURT and XCOMET over all pairs of a list, against mbrs (naist-nlp) and against the released classes.

    python -m benchmarks.speed.learned_metrics [--peer-python PATH] [--metrics metricx bleurt xcomet]
        [--candidates 12] [--rounds 3]

mbrs lives in an environment of its own, whose interpreter is given (transformers 4.57, setuptools below 81,
sentencepiece 0.2.0). The released classes run in this environment: padded batches, every pair by itself, for XCOMET
three passes a pair. All read the same files with random weights: 12 layers of 768, for MetricX with the whole
vocabulary of mT5. Candidates have 20 to 40 words and are all distinct, or a third of them are repeated as samples are.
One thread; sides take turns. Prints the median [least, greatest] of CPU seconds and of their ratio over the rounds, and
the largest difference of a value beside the standard deviation of values.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.support.lists import synthetic
from benchmarks.support.peers.learned_models import make_bleurt, make_metricx, make_xcomet
from benchmarks.support.peers.process import Peer, timed
from discorank.metrics.base import Metric
from discorank.metrics.neural.bleurt.metric import BLEURT
from discorank.metrics.neural.metricx.metric import MetricX
from discorank.metrics.neural.xcomet.metric import XComet

MIN_WORDS, MAX_WORDS = 20, 40
METRICS = ("metricx", "bleurt", "xcomet")
TRAINED_ON = 400


def texts_of(n: int, seed: int) -> list[str]:
    """Candidates of 20 to 40 words."""
    r = random.Random(seed)
    whole = synthetic(n, seed, words=MAX_WORDS)
    return [" ".join(text.split()[: r.randint(MIN_WORDS, MAX_WORDS)]) for text in whole]


def make(name: str, folder: Path, texts: Sequence[str]) -> Metric:
    """The files of a metric, and the metric."""
    model = str(folder)
    if name == "metricx":
        make_metricx(folder, texts)
        return MetricX(model=model, version=24, device="cpu")
    if name == "bleurt":
        make_bleurt(folder, texts)
        return BLEURT(model=model, device="cpu")
    encoder = folder.with_name("encoder")
    make_xcomet(folder, encoder, texts)
    return XComet(model=model, encoder_path=str(encoder), device="cpu")


def spread(values: Sequence[float]) -> str:
    """Median [least, greatest]."""
    return f"{median(values):6.2f} [{min(values):.2f}, {max(values):.2f}]"


def report(
    name: str, metric: Metric, peers: dict[str, Peer], texts: list[str], rounds: int
) -> None:
    """All sides in turns."""
    source, *candidates = texts
    distinct = candidates[: round(len(candidates) * 2 / 3)]
    repeated = distinct + candidates[: len(candidates) - len(distinct)]
    for kind, those in (("distinct", candidates), (f"{len(distinct)} distinct", repeated)):
        sides: dict[str, Any] = {"ours": partial(_ours, metric)}
        sides |= {side: partial(peer, "pairwise") for side, peer in peers.items()}
        turns = [
            {side: call(texts=those, source=source) for side, call in sides.items()}
            for _ in range(rounds)
        ]
        own = [turn["ours"].cpu_seconds for turn in turns]
        for side in peers:
            other = [turn[side].cpu_seconds for turn in turns]
            ratios = [a / b for a, b in zip(other, own, strict=True)]
            ours, theirs = (np.array(turns[-1][one].value) for one in ("ours", side))
            difference = f"{np.abs(ours - theirs).max():.0e} of {ours.std():.0e}"
            columns = (spread(other), spread(own), spread(ratios))
            seconds = "  ".join(f"{column:22}" for column in columns)
            print(f"{name:8} {kind:11} {side:8} {seconds}  {difference}", flush=True)


def _ours(metric: Metric, texts: list[str], source: str) -> Any:
    more = {"source": source} if metric.info.needs_source or metric.info.takes_source else {}
    measured = timed(metric.pairwise, hypotheses=texts, references=texts, **more)
    # As a utility the sign is turned where lower is better.
    return measured._replace(value=metric.utility_sign * measured.value)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer-python", help="interpreter of the peer's environment")
    parser.add_argument("--metrics", nargs="+", default=list(METRICS), choices=METRICS)
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    torch.set_num_threads(1)
    width = options.candidates
    texts = texts_of(1 + width, seed=0)
    columns = "  ".join(f"{name:22}" for name in ("CPU seconds", "ours", "ratio"))
    size = f"{width} x {width} pairs"
    print(f"{size:20} against  {columns}  largest difference, of deviation")
    for name in options.metrics:
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder, name)
            metric = make(name, model, texts_of(TRAINED_ON, seed=0))
            module = "benchmarks.support.peers.learned"
            peers = {"classes": Peer(sys.executable, module, name, str(model), "--plain")}
            if options.peer_python:
                peers["mbrs"] = Peer(options.peer_python, module, name, str(model))
            report(name, metric, peers, texts, options.rounds)
            for peer in peers.values():
                peer.close()


if __name__ == "__main__":
    main()
