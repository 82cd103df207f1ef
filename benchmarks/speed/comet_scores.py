"""Scores of COMET, all texts distinct, against unbabel-comet's `predict`.

    python -m benchmarks.speed.comet_scores --peer-python PATH [--threads 1] [--repeats 3] [--segments 64]

unbabel-comet lives in an environment of its own, whose interpreter is given. Both read the same checkpoint with random
weights, of the shape of XLM-R base with a head of 3072 and 1024, and take turns. Every text stands once, so that
nothing is saved by representing a text once: what differs is how batches are made and what multiplies.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.speed.pairwise_comet import header, report
from benchmarks.support.lists import synthetic
from benchmarks.support.peers.models import make_comet, make_encoder
from benchmarks.support.peers.process import Peer, timed
from discorank.metrics.neural.comet.metric import Comet


def main() -> None:
    """Prints a line per number of threads."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--segments", type=int, default=64)
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    size = options.segments
    texts = [" ".join(synthetic(1, seed=seed)) for seed in range(3 * size)]
    columns = {
        "hypotheses": texts[:size],
        "references": texts[size : 2 * size],
        "sources": texts[2 * size :],
    }
    with tempfile.TemporaryDirectory() as name:
        folder, encoder = Path(name, "comet"), Path(name, "encoder")
        make_comet(folder, encoder, make_encoder(encoder, texts))
        header("COMET", options.repeats)
        for threads in options.threads:
            torch.set_num_threads(threads)
            module = "benchmarks.support.peers.comet_predict"
            peer = Peer(options.peer_python, module, str(folder), str(threads))
            metric = Comet(model=str(folder), encoder_path=str(encoder), device="cpu")
            few = {key: column[:2] for key, column in columns.items()}
            peer("scores", **few)
            metric.score(**few)
            ours = partial(timed, metric.score, **columns)
            case = f"{size} segments, {threads} thread{'s' * (threads > 1)}"
            report(case, options.repeats, partial(peer, "scores", **columns), ours)
            peer.close()


if __name__ == "__main__":
    main()
