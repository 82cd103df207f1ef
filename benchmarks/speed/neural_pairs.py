"""Neural metrics over all pairs of a list, against mbrs (naist-nlp), bert_score, unbabel-comet and released classes.

    python -m benchmarks.speed.neural_pairs comet|comet-scores|bertscore|metricx|bleurt|xcomet ...
        [--peer-python PATH] [--threads 1] [--repeats 3] [--candidates N]

Peers live in an environment of their own, whose interpreter is given (for metricx, bleurt and xcomet: transformers
4.57, setuptools below 81, sentencepiece 0.2.0). Without one, steps written out after the released code run in this
environment; bertscore and comet-scores need one. All read the same files with random weights, 12 layers of 768, and
take turns.

    comet         mbrs' loop over references; a head of 3072 and 1024; the comparison alone, everything, in context
    comet-scores  `predict` of unbabel-comet; every text once, so that nothing is saved by representing a text once
    bertscore     bert_score and mbrs, layer 9; in context match=all is what bert_score computes, match=sentence is not
    the others    mbrs and the released classes; candidates of 20 to 40 words; MetricX has the whole vocabulary of mT5

Prints medians of wall and CPU seconds, the ratio of every turn, and the largest difference of a value beside the
standard deviation of values.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from benchmarks.support.lists import synthetic
from benchmarks.support.peers.learned_models import make_bleurt, make_metricx, make_xcomet
from benchmarks.support.peers.models import make_comet, make_encoder
from benchmarks.support.peers.process import Peer, Timed, timed
from discorank.metrics.base import Metric
from discorank.metrics.execution.store import Store
from discorank.metrics.neural.bertscore import BERTScore
from discorank.metrics.neural.bleurt.metric import BLEURT
from discorank.metrics.neural.comet.metric import Comet
from discorank.metrics.neural.metricx.metric import MetricX
from discorank.metrics.neural.xcomet import XComet
from discorank.metrics.text.texts import NO_CONTEXT, Context

CONTEXT, SAMPLED, LAYER = 2, 32, 9
SEPARATOR = "</s> "  # as a tokenizer reads it that does not strip spaces
MATCHES: tuple[Literal["all", "sentence"], ...] = ("all", "sentence")
MIN_WORDS, MAX_WORDS = 20, 40
TRAINED_ON = 400  # texts of a tokenizer
PEERS = "benchmarks.support.peers"


def report(name: str, repeats: int, peer: Callable[[], Timed], ours: Callable[[], Timed]) -> None:
    """Both in turns, as a line."""
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
    print(f"{name:52} {seconds}  {ratios:{width}} {cpu_ratios:{width}} {difference}", flush=True)


@contextmanager
def peer_of(python: str, module: str, *arguments: str) -> Iterator[Peer]:
    """A peer that is ended afterwards."""
    peer = Peer(python, f"{PEERS}.{module}", *arguments)
    try:
        yield peer
    finally:
        peer.close()


def compare_alone(
    metric: Comet | BERTScore, texts: list[str], source: str | None, context: Context
) -> Callable[[], Timed]:
    """The comparison of texts that are represented already."""
    store = Store(metric.scorer)
    blocks = store.add([metric.comparison(texts, texts, source, context)])
    run = partial(timed, lambda: metric.scorer.compare(store.reps, blocks)[0])
    run()
    return run


def all_of_it(metric: Metric, texts: list[str], **more: Any) -> Callable[[], Timed]:
    """All pairs of texts, everything included."""
    return partial(timed, metric.pairwise, hypotheses=texts, references=texts, **more)


def comet(options: argparse.Namespace, folder: Path, threads: int) -> None:
    """All pairs of COMET: without duplicates, with a third of them, and in context."""
    width = options.candidates or 128
    source, *texts = synthetic(width + 1 + CONTEXT, seed=0)
    before, texts = texts[:CONTEXT], texts[CONTEXT:]
    encoder = folder / "encoder"
    make_comet(folder / "comet", encoder, make_encoder(encoder, [source, *before, *texts]))
    model: dict[str, Any] = {"model": str(folder / "comet"), "encoder_path": str(encoder)}
    metric = Comet(**model, device="cpu")
    plain = [] if options.peer_python else ["--plain"]
    python = options.peer_python or sys.executable
    with peer_of(python, "comet", str(folder / "comet"), str(threads), *plain) as peer:
        peer("encode", texts=texts, source=source)
        ours = compare_alone(metric, texts, source, NO_CONTEXT)
        report("comet, compare", options.repeats, lambda: peer("compare"), ours)
        distinct = texts[: round(width * 2 / 3)]
        for candidates in (texts, distinct + distinct[: width - len(distinct)]):
            theirs = partial(peer, "pairwise", texts=candidates, source=source)
            ours = all_of_it(metric, candidates, source=source)
            name = f"comet, all of it, {width - len(set(candidates))} duplicates"
            report(name, options.repeats, theirs, ours)
        context = Context((source,) * CONTEXT, before)
        joined = [SEPARATOR.join((*before, text)) for text in texts]
        joined_source = SEPARATOR.join((*context.source, source))
        theirs = partial(peer, "pairwise", texts=joined, source=joined_source, context=True)
        in_context = Comet(**model, device="cpu", context=CONTEXT)
        ours = all_of_it(in_context, texts, source=source, context=context)
        report(f"comet, all of it, {CONTEXT} before", options.repeats, theirs, ours)
        few = joined[:SAMPLED]
        sources = [joined_source] * len(few)
        scored = peer("scores", hypotheses=few, references=few[::-1], sources=sources)
        every, own = scored.cpu_seconds / len(few) * width**2, ours().cpu_seconds
        print(
            f"every pair by itself (from {len(few)}): {every:.0f} CPU s, {every / own:.0f} x ours"
        )


def comet_scores(options: argparse.Namespace, folder: Path, threads: int) -> None:
    """Scores of segments whose texts are all distinct."""
    size = options.candidates or 64
    texts = [" ".join(synthetic(1, seed=seed)) for seed in range(3 * size)]
    columns = {
        "hypotheses": texts[:size],
        "references": texts[size : 2 * size],
        "sources": texts[2 * size :],
    }
    encoder = folder / "encoder"
    make_comet(folder / "comet", encoder, make_encoder(encoder, texts))
    metric = Comet(model=str(folder / "comet"), encoder_path=str(encoder), device="cpu")
    with peer_of(
        options.peer_python, "comet", str(folder / "comet"), str(threads), "--predict"
    ) as peer:
        few = {key: column[:2] for key, column in columns.items()}
        peer("scores", **few)
        metric.score(**few)
        ours = partial(timed, metric.score, **columns)
        theirs = partial(peer, "scores", **columns)
        report(f"comet scores, {size} segments", options.repeats, theirs, ours)


def bertscore(options: argparse.Namespace, folder: Path, threads: int) -> None:
    """All pairs of BERTScore, alone and in context, against two peers."""
    width = options.candidates or 64
    texts = synthetic(width + CONTEXT, seed=0)
    before, texts = tuple(texts[:CONTEXT]), texts[CONTEXT:]
    make_encoder(folder / "encoder", [*before, *texts])
    model: dict[str, Any] = {"model": str(folder / "encoder"), "layer": LAYER, "device": "cpu"}
    plain = BERTScore(**model)
    rows: list[tuple[str, BERTScore, tuple[str, ...]]]
    rows = [("bert_score", plain, ()), ("mbrs", plain, ())]
    rows += [("bert_score", BERTScore(**model, context=CONTEXT, match=m), before) for m in MATCHES]
    words = (str(folder / "encoder"), str(LAYER), str(threads))
    with peer_of(options.peer_python, "bertscore", *words) as peer:
        for name, metric, first in rows:
            joined = [SEPARATOR.join((*first, text)) for text in texts]
            peer(f"{name} encode", texts=joined)
            kind = f"bertscore, {name}" + (f", context, {metric.match}" if first else "")
            ours = compare_alone(metric, texts, None, Context((), first))
            theirs = partial(peer, f"{name} compare", texts=joined)
            report(f"{kind}, compare", options.repeats, theirs, ours)
            ours = all_of_it(metric, texts, context=Context((), first) if first else None)
            theirs = partial(peer, f"{name} pairwise", texts=joined)
            report(f"{kind}, all of it", options.repeats, theirs, ours)


def texts_of(n: int) -> list[str]:
    """Candidates of 20 to 40 words."""
    r = random.Random(0)
    whole = synthetic(n, 0, words=MAX_WORDS)
    return [" ".join(text.split()[: r.randint(MIN_WORDS, MAX_WORDS)]) for text in whole]


def learned_metric(name: str, folder: Path, texts: Sequence[str]) -> Metric:
    """The files of a metric, and the metric."""
    if name == "metricx":
        make_metricx(folder, texts)
        return MetricX(model=str(folder), version=24, device="cpu")
    if name == "bleurt":
        make_bleurt(folder, texts)
        return BLEURT(model=str(folder), device="cpu")
    encoder = folder.with_name("encoder")
    make_xcomet(folder, encoder, texts)
    return XComet(model=str(folder), encoder_path=str(encoder), device="cpu")


def learned(name: str, options: argparse.Namespace, folder: Path, threads: int) -> None:
    """All pairs of distinct candidates, and with a third of them repeated as samples are."""
    width = options.candidates or 12
    model = folder / name
    metric = learned_metric(name, model, texts_of(TRAINED_ON))
    source, *candidates = texts_of(1 + width)
    distinct = candidates[: round(width * 2 / 3)]
    repeated = distinct + candidates[: width - len(distinct)]
    reads_source = metric.info.needs_source or metric.info.takes_source
    more = {"source": source} if reads_source else {}

    def ours(texts: list[str]) -> Timed:
        measured = all_of_it(metric, texts, **more)()
        # a utility is negated where lower is better
        return measured._replace(value=metric.utility_sign * measured.value)

    sides = {"classes": (sys.executable, "--plain")}
    if options.peer_python:
        sides["mbrs"] = (options.peer_python, "")
    for side, (python, plain) in sides.items():
        with peer_of(python, "learned", name, str(model), *plain.split()) as peer:
            for texts in (candidates, repeated):
                theirs = partial(peer, "pairwise", texts=texts, source=source)
                about = f"{name}, {len(set(texts))} of {width} distinct, {side}"
                report(about, options.repeats, theirs, partial(ours, texts))


Run = Callable[[argparse.Namespace, Path, int], None]
RUNS: dict[str, Run] = {
    "comet": comet,
    "comet-scores": comet_scores,
    "bertscore": bertscore,
    **{name: partial(learned, name) for name in ("metricx", "bleurt", "xcomet")},
}
NEED_PEER = ("comet-scores", "bertscore")


def main() -> None:
    """Prints lines for each metric and number of threads."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("metrics", nargs="+", choices=RUNS)
    parser.add_argument("--peer-python", help="interpreter of the peer's environment")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--candidates", type=int, help="or segments")
    options = parser.parse_args()
    if not options.peer_python and set(options.metrics) & set(NEED_PEER):
        parser.error(f"{' and '.join(NEED_PEER)} need --peer-python")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    width = max(20, 5 * options.repeats)
    names = f"{'peer':>8} {'ours':>8} {'CPU':>8} {'ours':>8}"
    print(f"{'seconds':52} {names}  {'ratios of wall':{width}} {'of CPU':{width}} difference")
    for name in options.metrics:
        for threads in options.threads:
            torch.set_num_threads(threads)
            print(f"{threads} thread{'s' * (threads > 1)}")
            with tempfile.TemporaryDirectory() as folder:
                RUNS[name](options, Path(folder), threads)


if __name__ == "__main__":
    main()
