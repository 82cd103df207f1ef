"""How much of a machine the encoder uses, and COMET MBR of one large list, on any device.

    python -m benchmarks.speed.encoding [--device cuda:0] [--dtype bfloat16] [--shape large]
        [--texts 8192] [--candidates 256]

The encoder has the shape of XLM-R base or large, and random weights; texts have 25 words. The peak is that of one
large matrix product in the same precision on the same device, by the library that the encoder uses, measured here.
Operations are counted as two for every weight of the layers and every token, and four times the width for every pair of
tokens of a text.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.support.lists import synthetic
from benchmarks.support.peers.models import BASE, LARGE, make_comet, make_encoder
from discorank.metrics.execution.store import Store
from discorank.metrics.neural.comet.metric import Comet
from discorank.metrics.text.texts import Comparison, Item

SIDE = 8192  # of the matrix product that gives the peak; half of it on a CPU


def seconds(call: Callable[[], Any], device: str, repeats: int = 3) -> float:
    """The least of some wall times."""
    import torch

    best = float("inf")
    for _ in range(repeats):
        start = perf_counter()
        call()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        best = min(best, perf_counter() - start)
    return best


def peak(device: str, dtype: str) -> float:
    """Operations per second of a matrix product."""
    import torch

    from discorank.metrics.neural.models.linear_products import linear

    side = SIDE if device.startswith("cuda") else SIDE // 2
    a, b = (torch.randn(side, side, device=device, dtype=getattr(torch, dtype)) for _ in range(2))
    with torch.inference_mode():
        return float(2 * side**3 / seconds(lambda: linear(a, b), device, 5))


def operations(lengths: np.ndarray[Any, Any], shape: dict[str, int]) -> float:
    """Of one pass of the encoder over texts of these lengths."""
    width, inner, layers = (
        shape[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers")
    )
    weights = 4 * width * width + 2 * width * inner
    return float(
        layers * (2 * weights * lengths.sum() + 4 * width * (lengths.astype(float) ** 2).sum())
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--shape", choices=["base", "large"], default="base")
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--candidates", type=int, default=64)
    options = parser.parse_args()
    shape = LARGE if options.shape == "large" else BASE
    texts = synthetic(max(options.texts, options.candidates + 1), seed=0)
    with tempfile.TemporaryDirectory() as name:
        folder, encoder = Path(name, "comet"), Path(name, "encoder")
        make_comet(folder, encoder, make_encoder(encoder, texts, shape))
        metric = Comet(
            model=str(folder), encoder_path=str(encoder), device=options.device, dtype=options.dtype
        )
        scorer = metric.scorer
        items = tuple(Item(text) for text in texts[: options.texts])
        lengths = scorer.prepare(items)[1]
        whole = seconds(lambda: Store(scorer).add([Comparison(items)]), options.device)
        rate = operations(lengths, shape) / whole
        best = peak(options.device, options.dtype)
        print(f"XLM-R {options.shape} shape, {options.device}, {options.dtype}")
        print(
            f"encoding {len(items)} texts of {lengths.mean():.1f} tokens: {whole:.2f} s with tokenising,"
        )
        print(
            f"  {len(items) / whole:.0f} texts/s, {lengths.sum() / whole:.0f} tokens/s, {rate / 1e12:.2f} Tera-ops/s,"
        )
        print(f"  {100 * rate / best:.0f} % of the {best / 1e12:.2f} of a large matrix product")
        candidates, source = texts[: options.candidates], texts[-1]
        mbr = seconds(lambda: metric.pairwise(candidates, candidates, source), options.device)
        print(f"COMET MBR of {len(candidates)} candidates, all pairs and encoding: {mbr:.2f} s")


if __name__ == "__main__":
    main()
