"""BERTScore over all pairs of a list against bert_score, and against mbrs (naist-nlp), which loops over references.

    python -m benchmarks.speed.pairwise_bertscore --peer-python PATH [--threads 1 2] [--repeats 3]

Both peers live in an environment of their own, whose interpreter is given. All read the same encoder with random
weights, of the shape of XLM-R base, and its layer 9, and take turns. Prints as `pairwise_comet` does. In context
match=all is what the peer computes; match=sentence, the default, is defined otherwise, so values differ.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Literal

from benchmarks.speed.pairwise_comet import SEPARATOR, arguments, header, report
from benchmarks.support.lists import synthetic
from benchmarks.support.peers.models import make_encoder
from benchmarks.support.peers.process import Peer, timed
from discorank.metrics.execution.store import Store
from discorank.metrics.neural.bertscore.metric import BERTScore
from discorank.metrics.text.texts import Context

WIDTH, CONTEXT, LAYER = 64, 2, 9
MATCHES: tuple[Literal["all", "sentence"], ...] = ("all", "sentence")


def cases(
    name: str, repeats: int, peer: Peer, metric: BERTScore, texts: list[str], before: list[str]
) -> None:
    """One metric against one peer, which gets context as part of the texts."""
    context = Context((), before)
    joined = [SEPARATOR.join((*before, text)) for text in texts]
    store = Store(metric.scorer)
    blocks = store.add([metric.comparison(texts, texts, None, context)])
    peer(f"{name} encode", texts=joined)
    ours = partial(timed, lambda: metric.scorer.compare(store.reps, blocks)[0])
    all_of_ours = partial(
        timed,
        metric.pairwise,
        hypotheses=texts,
        references=texts,
        context=context if before else None,
    )
    ours()
    kind = f", context, match={metric.match}" if before else ""
    report(f"pairs, {name}{kind}", repeats, lambda: peer(f"{name} compare", texts=joined), ours)
    report(
        f"all of it, {name}{kind}",
        repeats,
        lambda: peer(f"{name} pairwise", texts=joined),
        all_of_ours,
    )


def main() -> None:
    options = arguments(__doc__)
    if not options.peer_python:
        raise SystemExit(__doc__)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    texts = synthetic(WIDTH + CONTEXT, seed=0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "encoder")
        make_encoder(folder, texts)
        header("peer", options.repeats)
        for threads in options.threads:
            torch.set_num_threads(threads)
            print(f"N={WIDTH}, {threads} thread{'s' * (threads > 1)}")
            peer = Peer(
                options.peer_python,
                "benchmarks.support.peers.bertscore",
                str(folder),
                str(LAYER),
                str(threads),
            )
            for name in ("bert_score", "mbrs"):
                metric = BERTScore(model=str(folder), layer=LAYER, device="cpu")
                cases(name, options.repeats, peer, metric, texts[CONTEXT:], [])
            for match in MATCHES:
                metric = BERTScore(
                    model=str(folder), layer=LAYER, device="cpu", context=CONTEXT, match=match
                )
                cases("bert_score", options.repeats, peer, metric, texts[CONTEXT:], texts[:CONTEXT])
            peer.close()


if __name__ == "__main__":
    main()
