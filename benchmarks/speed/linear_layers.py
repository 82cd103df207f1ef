"""What oneDNN's linear layers and the sliced softmax of likelihoods bring, against another version, in one run.

    python -m benchmarks.speed.linear_layers --before SRC [--rounds 2] [--texts 64] [--pairs 16]

SRC is the folder `src` of the other version. Models have random weights: an encoder of the shape of XLM-R base with
COMET's head of 3072 and 1024 over it, and an mBART of 6 + 6 layers of 768 with 250,000 words. Texts have 25 words,
those of the decoder 30 tokens, all different. One thread; the versions take turns, each in a process of its own. Prints
the median [least, greatest] of CPU seconds and of their ratio, the rate, its share of that of oneDNN's product of 1024
rows with 4096 outputs of 1024 each, which is measured beside it, and the largest difference of a value.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.support.lists import synthetic
from benchmarks.support.peers.models import make_comet, make_encoder

WORDS, TOKENS = 250_000, 30
NAMES = (
    "encoding",
    "COMET, all pairs of vectors",
    "COMET, texts to values",
    "likelihoods of pairs",
)

SIDE = """
import json, sys, time
import numpy as np, torch
torch.set_num_threads(1)
from transformers import MBartConfig, MBartForConditionalGeneration
from discorank.metrics.execution.store import Store
from discorank.metrics.neural.comet.metric import Comet
from discorank.metrics.neural.models.seq2seq import Seq2Seq
from discorank.metrics.neural.models.shared_prefix import Targets
from discorank.metrics.representations import Ragged
from discorank.metrics.text.texts import NO_CONTEXT, Comparison, Item

def timed(call):
    start = time.process_time()
    value = call()
    return time.process_time() - start, value

job = json.load(sys.stdin)
texts, source = job["texts"][1:], job["texts"][0]
metric = Comet(model=job["folder"], encoder_path=job["encoder"], device="cpu")
scorer = metric.scorer
scorer.represent(scorer.prepare([Item(text) for text in texts[:16]])[0])
prepared, lengths = scorer.prepare([Item(text) for text in texts])
seconds, flops, values = [], [], []

def add(call, flop):
    spent, value = timed(call)
    seconds.append(spent)
    flops.append(flop)
    values.append(np.ravel(value).tolist()[:512])

add(lambda: scorer.represent(prepared)["embedding"], scorer.encoder.flops(lengths))
store = Store(scorer)
blocks = store.add([metric.comparison(texts, texts, source, NO_CONTEXT)])
add(lambda: scorer.compare(store.reps, blocks)[0], 0)
add(lambda: metric.pairwise(texts, texts, source), 0)
del metric, scorer, store
torch.manual_seed(0)
sizes = dict(d_model=768, encoder_layers=6, decoder_layers=6, encoder_ffn_dim=3072, decoder_ffn_dim=3072)
config = MBartConfig(vocab_size=job["words"], encoder_attention_heads=12, decoder_attention_heads=12, **sizes)
model = Seq2Seq(MBartForConditionalGeneration(config).eval(), "cpu", "float32")
side = round(job["pairs"] ** 0.5)
rows = torch.randint(5, job["words"], (side, job["tokens"])).numpy()
ids = Ragged.of_rows(list(rows))
some = np.full(side, job["tokens"])
targets = Targets(ids, np.ones_like(some), some - 1)
pairs = np.stack(np.divmod(np.arange(side * side), side), axis=1)
flop = model.flops(some, np.full((len(pairs), 2), job["tokens"]))
add(lambda: model.log_likelihoods(model.encode(ids), targets, pairs), flop)

x, w = torch.randn(1024, 1024), torch.randn(4096, 1024)
with torch.inference_mode():
    product = lambda: torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], "")
    product()
    peak = 2 * 1024 * 1024 * 4096 / min(timed(product)[0] for _ in range(5))
print(json.dumps({"seconds": seconds, "flops": flops, "values": values, "peak": peak}))
"""


def side(folder: str | None, job: dict[str, Any]) -> dict[str, Any]:
    """What a version needed, in a process of its own."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = {
        **os.environ,
        **threads,
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if folder:
        environment["PYTHONPATH"] = folder
    command = [sys.executable, "-W", "ignore", "-c", SIDE]
    done = subprocess.run(
        command,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        input=json.dumps(job),
        text=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def spread(values: Sequence[float], digits: int) -> str:
    """Median [least, greatest]."""
    return f"{median(values):.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"


def main() -> None:
    """Prints a row per kind of work."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=16)
    options = parser.parse_args()
    texts = synthetic(options.texts + 1, seed=0)
    with tempfile.TemporaryDirectory() as name:
        folder, encoder = Path(name, "comet"), Path(name, "encoder")
        make_comet(folder, encoder, make_encoder(encoder, texts))
        job = {
            "texts": texts,
            "folder": str(folder),
            "encoder": str(encoder),
            "pairs": options.pairs,
            "words": WORDS,
            "tokens": TOKENS,
        }
        rounds = [(side(options.before, job), side(None, job)) for _ in range(options.rounds)]
    print("work | before, CPU s | now | ratio | GFLOP/s | of the peak | largest difference")
    for i, work in enumerate(NAMES):
        before, now = ([turn[k]["seconds"][i] for turn in rounds] for k in (0, 1))
        ratios = [a / b for a, b in zip(before, now, strict=True)]
        flop = rounds[0][1]["flops"][i]
        rates = [flop / seconds / 1e9 for seconds in now]
        shares = [100 * flop / turn[1]["seconds"][i] / turn[1]["peak"] for turn in rounds]
        speed = f"{spread(rates, 0)} | {spread(shares, 0)} %" if flop else " | "
        old, new = (rounds[-1][k]["values"][i] for k in (0, 1))
        difference = max(abs(a - b) for a, b in zip(old, new, strict=True))
        print(
            f"{work} | {spread(before, 2)} | {spread(now, 2)} | {spread(ratios, 2)} | {speed} | {difference:.0e}"
        )
    print(f"peak: {spread([turn[1]['peak'] / 1e9 for turn in rounds], 0)} GFLOP/s")


if __name__ == "__main__":
    main()
