"""What a model loses in bfloat16, or int8: errors of utilities, ranks and choices, and what it gains in processor time.

    python -m benchmarks.metric_quality.dtypes LISTS [--lists 40] [--base-lists 8] [--rounds 2] [--precision int8]

LISTS is a file that `discorank decode` reads. Utilities of all pairs under `embedding` and `bertscore` by MiniLM, a
real model, and under COMET with an encoder of the shape of XLM-R base and random weights, in float32 and in bfloat16,
which take turns. Prints per utility: the ratio of CPU seconds (encoding and all pairs), the mean and largest difference
of a utility over the standard deviation of utilities within lists, the mean Spearman correlation of expected utilities
in a list, in how many lists another text is chosen, and how much expected utility that costs, over the same deviation.

int8 is no option of a metric: torch's dynamic quantisation scales activations by the largest of a batch, so a value
would depend on the texts beside it. It is measured here with every list as a batch of its own.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.support.measuring import timed
from benchmarks.support.peers.models import make_comet, make_encoder
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray

Matrices = list[FloatArray]
Texts = list[tuple[list[str], str]]  # candidates and source of every list


def read(path: str, most: int) -> Texts:
    """The distinct candidates of the first lists that have at least five."""
    texts: Texts = []
    with open_lists(path) as lists:
        for entry in lists:
            if entry.record is None or len(texts) == most:
                continue
            candidates = list(dict.fromkeys(str(one.text) for one in entry.record.candidates))
            if len(candidates) >= 5:
                texts.append((candidates, str(entry.record.source or "")))
    return texts


def ranks(values: FloatArray) -> FloatArray:
    """Places of values in their order."""
    return np.argsort(np.argsort(values)).astype(float)


def report(
    name: str, seconds: Sequence[tuple[float, float]], exact: Matrices, rough: Matrices
) -> None:
    """A row; seconds: of every round, in float32 and in the other precision."""
    deviation = float(np.mean([matrix.std() for matrix in exact]))
    errors = np.concatenate([np.abs(a - b).ravel() for a, b in zip(exact, rough, strict=True)])
    correlations, changed, lost = [], 0, 0.0
    for a, b in zip(exact, rough, strict=True):
        expected, other = a.mean(axis=1), b.mean(axis=1)
        correlations.append(float(np.corrcoef(ranks(expected), ranks(other))[0, 1]))
        changed += int(expected.argmax() != other.argmax())
        lost += float(expected.max() - expected[other.argmax()])
    ratios = [a / b for a, b in seconds]
    print(
        f"{name} | {median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}] | {errors.mean() / deviation:.4f} | "
        f"{errors.max() / deviation:.3f} | {np.mean(correlations):.4f} | {changed} of {len(exact)} | "
        f"{lost / len(exact) / deviation:.4f}",
        flush=True,
    )


def in_int8(metric: Any) -> Any:
    """The metric with weights of its encoder's linear layers as 8 bits, and activations rounded batch by batch."""
    import torch

    encoder = metric.scorer.encoder
    for layer in encoder.model.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.__class__ = torch.nn.Linear  # not that of our products, which torch does not know
    quantise: Any = torch.ao.quantization.quantize_dynamic
    encoder.model = quantise(encoder.model, {torch.nn.Linear}, dtype=torch.qint8)
    return metric


def compared(
    name: str, make: Callable[..., Any], texts: Texts, rounds: int, precision: str
) -> None:
    """Measures a metric that `make` makes in float32 and in a lower precision."""
    if precision == "int8":
        metrics = [make(dtype="float32"), in_int8(make(dtype="float32"))]
    else:
        metrics = [make(dtype=dtype) for dtype in ("float32", precision)]

    def run(metric: Any) -> Matrices:
        source = metric.needs_source
        return [metric.pairwise(c, c, s if source else None) for c, s in texts]

    for metric in metrics:
        metric.pairwise(*(2 * [texts[0][0]]), texts[0][1] if metric.needs_source else None)
    seconds = []
    for _ in range(rounds):
        (exact_seconds, exact), (rough_seconds, rough) = (
            timed(partial(run, metric)) for metric in metrics
        )
        seconds.append((exact_seconds, rough_seconds))
    report(name, seconds, exact, rough)


def main() -> None:
    """Prints a row per utility."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists")
    parser.add_argument("--lists", type=int, default=40, dest="number")
    parser.add_argument("--base-lists", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--precision", choices=("bfloat16", "int8"), default="bfloat16")
    options = parser.parse_args()
    texts = read(options.lists, options.number)
    print("utility | CPU | mean error | largest | Spearman | other choices | utility lost")
    for name, settings in (("embedding", {}), ("bertscore", {"layer": 5})):
        one: dict[str, Any] = {"model": "minilm", "device": "cpu", **settings}
        compared(
            f"{name}, MiniLM",
            partial(load_metric, name, **one),
            texts,
            options.rounds,
            options.precision,
        )
    few = texts[: options.base_lists]
    words = [text for candidates, source in few for text in (*candidates, source)]
    with tempfile.TemporaryDirectory() as folder:
        comet, encoder = Path(folder, "comet"), Path(folder, "encoder")
        make_comet(comet, encoder, make_encoder(encoder, words))
        paths: dict[str, Any] = {"model": str(comet), "encoder_path": str(encoder), "device": "cpu"}
        compared(
            "COMET, random base",
            partial(load_metric, "comet", **paths),
            few,
            options.rounds,
            options.precision,
        )


if __name__ == "__main__":
    main()
