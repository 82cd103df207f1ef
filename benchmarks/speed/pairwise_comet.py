"""COMET over all pairs of a list against mbrs (naist-nlp), which runs the whole estimator in a loop over references.

    python -m benchmarks.speed.pairwise_comet [--peer-python PATH] [--threads 1 2] [--repeats 3]

mbrs lives in an environment of its own, whose interpreter is given; without one, the same steps written out run in this
environment. Both read the same checkpoint with random weights, of the shape of XLM-R base with a head of 3072 and 1024,
and take turns. Prints medians of wall and CPU seconds, the ratio of every turn, and the largest difference of a value
beside the standard deviation of values.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.support.lists import synthetic
from benchmarks.support.peers.models import make_comet, make_encoder
from benchmarks.support.peers.process import Peer, Timed, timed
from discorank.metrics.execution.store import Store
from discorank.metrics.neural.comet.metric import Comet
from discorank.metrics.text.texts import NO_CONTEXT, Context

WIDTH, CONTEXT, SAMPLED = 128, 2, 32
SEPARATOR = "</s> "  # as a tokenizer reads it that does not strip spaces


def arguments(description: str | None) -> argparse.Namespace:
    """The options of a benchmark against a peer."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer-python", help="interpreter of the peer's environment")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


def report(name: str, repeats: int, peer: Callable[[], Timed], ours: Callable[[], Timed]) -> None:
    """Both in turns."""
    turns = [(peer(), ours()) for _ in range(repeats)]
    wall, own_wall = ([turn[side].wall_seconds for turn in turns] for side in (0, 1))
    cpu, own_cpu = ([turn[side].cpu_seconds for turn in turns] for side in (0, 1))
    ratios, cpu_ratios = (
        " ".join(f"{a / b:.2f}" for a, b in zip(*sides, strict=True))
        for sides in ((wall, own_wall), (cpu, own_cpu))
    )
    theirs, own_values = (np.array(one.value) for one in turns[-1])
    difference = f"{np.abs(theirs - own_values).max():.0e} of {own_values.std():.0e}"
    seconds = " ".join(f"{median(values):8.2f}" for values in (wall, own_wall, cpu, own_cpu))
    width = max(20, 5 * repeats)
    print(f"{name:44} {seconds}  {ratios:{width}} {cpu_ratios:{width}} {difference}", flush=True)


def header(peer: str, repeats: int) -> None:
    """Above what `report` prints."""
    width = max(20, 5 * repeats)
    names = f"{peer:>8} {'ours':>8} {'CPU':>8} {'ours':>8}"
    print(
        f"{'seconds':44} {names}  {'ratios of wall':{width}} {'of CPU':{width}} largest difference, of deviation"
    )


def cases(repeats: int, peer: Peer, folder: Path, encoder: Path, texts: list[str]) -> None:
    """The compare step alone, and all of it: without duplicates, with a third of them, and in context."""
    source, before, texts = texts[0], texts[1:3], texts[3:]
    distinct = texts[: round(WIDTH * 2 / 3)]
    metric = Comet(model=str(folder), encoder_path=str(encoder), device="cpu")
    store = Store(metric.scorer)
    blocks = store.add([metric.comparison(texts, texts, source, NO_CONTEXT)])
    print(f"N={WIDTH}, {store.lengths[blocks[0].hypotheses].mean():.1f} tokens on average")
    peer("encode", texts=texts, source=source)
    ours = partial(timed, lambda: metric.scorer.compare(store.reps, blocks)[0])
    ours()
    report("compare", repeats, lambda: peer("compare"), ours)
    for candidates in (texts, distinct + distinct[: WIDTH - len(distinct)]):
        theirs = partial(peer, "pairwise", texts=candidates, source=source)
        ours = partial(
            timed, metric.pairwise, hypotheses=candidates, references=candidates, source=source
        )
        report(f"all of it, {WIDTH - len(set(candidates))} duplicates", repeats, theirs, ours)
    metric = Comet(model=str(folder), encoder_path=str(encoder), device="cpu", context=CONTEXT)
    context = Context((source,) * CONTEXT, before)
    joined = [SEPARATOR.join((*before, text)) for text in texts]
    source_joined = SEPARATOR.join((*context.source, source))
    theirs = partial(peer, "pairwise", texts=joined, source=source_joined, context=True)
    ours = partial(
        timed, metric.pairwise, hypotheses=texts, references=texts, source=source, context=context
    )
    report(f"all of it, {CONTEXT} sentences of context", repeats, theirs, ours)
    few = joined[:SAMPLED]
    seconds = peer(
        "scores", hypotheses=few, references=few[::-1], sources=[source_joined] * SAMPLED
    ).cpu_seconds
    every, own = seconds / SAMPLED * WIDTH**2, ours().cpu_seconds
    print(
        f"every pair encoded by itself (CPU, from {SAMPLED} pairs): {every:.0f} s, {every / own:.0f} times ours"
    )


def main() -> None:
    options = arguments(__doc__)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    texts = synthetic(WIDTH + 1 + CONTEXT, seed=0)
    with tempfile.TemporaryDirectory() as name:
        folder, encoder = Path(name, "comet"), Path(name, "encoder")
        make_comet(folder, encoder, make_encoder(encoder, texts))
        header("mbrs" if options.peer_python else "loop", options.repeats)
        for threads in options.threads:
            torch.set_num_threads(threads)
            plain = [] if options.peer_python else ["--plain"]
            python = options.peer_python or sys.executable
            peer = Peer(python, "benchmarks.support.peers.comet", str(folder), str(threads), *plain)
            print(f"{threads} thread{'s' * (threads > 1)}")
            cases(options.repeats, peer, folder, encoder, texts)
            peer.close()


if __name__ == "__main__":
    main()
