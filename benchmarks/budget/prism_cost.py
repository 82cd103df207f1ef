"""CPU seconds of Prism under a budget, with a model of base size and random weights.

    python -m benchmarks.budget.prism_cost LISTS TOKENIZER [--number 1] [--candidates 32] [--budgets 0.0625 0.125]

LISTS is a file that `discorank decode` reads, TOKENIZER a folder with the tokenizer of an mBART-50 model, whose
vocabulary the model gets (12 layers of width 768; weights decide no cost). Every request of a plan is one call of the
metric, and the seconds of a budget include the cheap utility and the plan.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.budget.matrices import read_lists
from benchmarks.support.measuring import cpu_seconds
from discorank import load_metric
from discorank.rerank.budget.plan import Estimate, drive, num_pairs, plan
from discorank.rerank.budget.settings import CHEAP, load_cheap_utility
from discorank.rerank.distinct import Distinct
from discorank.rerank.expectation import expected_utility

SHAPE = {
    "d_model": 768,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
}


def make_model(tokenizer: Path, folder: Path) -> float:
    """Writes a model of that shape; how many million parameters it has."""
    import torch
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    shutil.copytree(tokenizer, folder, ignore=shutil.ignore_patterns("model.safetensors"))
    config: Any = AutoConfig.from_pretrained(folder)
    config.update(SHAPE)
    torch.manual_seed(0)
    kind: Any = AutoModelForSeq2SeqLM
    model = kind.from_config(config)
    model.save_pretrained(folder)
    return float(sum(parameter.numel() for parameter in model.parameters())) / 1e6


def budgeted(metric: Any, texts: list[str], share: float) -> Estimate:
    """The expected utilities of texts from a share of their pairs."""
    cheap = load_cheap_utility(CHEAP)
    assert cheap is not None
    prior = np.stack([part.pairwise(texts, texts) for _, part in cheap.parts])
    size = len(texts)
    steps = plan(
        "adaptive",
        np.ones(size),
        size,
        prior=prior,
        pairs=int(share * num_pairs(size, size, True)),
        square=True,
        symmetric=True,
    )
    return drive(
        steps,
        lambda request: metric.pairwise(
            [texts[i] for i in request.rows], [texts[i] for i in request.columns]
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", type=Path, metavar="LISTS")
    parser.add_argument("tokenizer", type=Path, metavar="TOKENIZER")
    parser.add_argument("--number", type=int, default=1)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--budgets", nargs="+", type=float, default=(0.0625, 0.125))
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        size = make_model(options.tokenizer, Path(folder) / "model")
        metric: Any = load_metric("prism", model=str(Path(folder) / "model"), lang="en")
        metric.pairwise(["a b"], ["a"])
        print(f"{size:.0f} million parameters", flush=True)
        for record in read_lists([options.lists], "jsonl", options.number):
            texts = [str(text) for text in Distinct(record.candidates).texts][: options.candidates]
            start = cpu_seconds()
            matrix = metric.pairwise(texts, texts)
            whole = cpu_seconds() - start
            exact = expected_utility(matrix, np.ones(len(texts)))
            print(
                f"{len(texts)} candidates, all {matrix.size} pairs: {whole:.1f} CPU s", flush=True
            )
            for share in options.budgets:
                start = cpu_seconds()
                estimate = budgeted(metric, texts, share)
                took = cpu_seconds() - start
                loss = exact.max() - exact[np.nanargmax(estimate.values)]
                print(
                    f"{estimate.pairs} pairs: {took:.1f} CPU s, {whole / took:.1f} times less; regret "
                    f"{loss / exact.std():.4f}, said confidence {estimate.confidence:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
