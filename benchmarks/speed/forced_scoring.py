"""What it costs to score candidates with `logprobs`, beside how `generate` scores what it drew: ratios of one run.

    python -m benchmarks.speed.forced_scoring [--candidates N] [--prompt-tokens N] [--tokens N]

Both get the same token ids, made up, of one list; models are random, of four layers. The values are compared too.
"""

from __future__ import annotations

import argparse
from copy import deepcopy
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch

from discorank.integrations.huggingface.forced_passes import ForcedSequence, passes_of
from discorank.integrations.huggingface.token_generator import TokenGenerator

VOCABULARY, WIDTH = 32_000, 256
REPETITIONS = 3


def models() -> dict[str, Any]:
    """A decoder-only model, one of the BART family, and another encoder-decoder."""
    import transformers as library

    transformers: Any = library
    torch.manual_seed(0)
    shared: dict[str, Any] = {"vocab_size": VOCABULARY, "pad_token_id": 0, "eos_token_id": 1}
    llama = transformers.LlamaConfig(
        **shared,
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=4,
        num_attention_heads=4,
    )
    bart = transformers.BartConfig(
        **shared,
        d_model=WIDTH,
        encoder_layers=4,
        decoder_layers=4,
        encoder_ffn_dim=4 * WIDTH,
        decoder_ffn_dim=4 * WIDTH,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        decoder_start_token_id=1,
        forced_eos_token_id=None,
    )
    t5 = transformers.T5Config(
        **shared,
        d_model=WIDTH,
        d_kv=64,
        d_ff=4 * WIDTH,
        num_layers=4,
        num_heads=4,
        decoder_start_token_id=0,
    )
    return {
        "llama": transformers.LlamaForCausalLM(llama),
        "bart": transformers.BartForConditionalGeneration(bart),
        "t5": transformers.T5ForConditionalGeneration(t5),
    }


def least_seconds(work: Any) -> tuple[float, Any]:
    """The least of a few times, and what came of the work."""
    seconds, result = [], None
    for _ in range(REPETITIONS):
        start = perf_counter()
        result = work()
        seconds.append(perf_counter() - start)
    return min(seconds), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--prompt-tokens", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=25)
    options = parser.parse_args()
    torch.set_num_threads(1)
    r = np.random.default_rng(0)
    prompt = r.integers(5, VOCABULARY, options.prompt_tokens).tolist()
    outputs = r.integers(5, VOCABULARY, (options.candidates, options.tokens)).tolist()
    print(
        f"{options.candidates} candidates of {options.tokens} tokens, {options.prompt_tokens} before them"
    )
    print("| model | generate, seconds | logprobs, seconds | ratio | largest difference |")
    print("|---|---|---|---|---|")
    for name, model in models().items():
        model = model.train(False)
        config = model.generation_config
        generator = TokenGenerator(deepcopy(model), config, 64, 0, 64)
        before, (expected,) = least_seconds(
            partial(generator.log_probabilities, [prompt], [outputs])
        )
        start = config.decoder_start_token_id
        encodes = model.config.is_encoder_decoder
        source, head = (tuple(prompt), [start]) if encodes else ((), prompt)
        sequences = [ForcedSequence(source, (*head, *tokens), len(head)) for tokens in outputs]
        passes = passes_of(model)
        after, values = least_seconds(partial(passes.log_probabilities, sequences))
        difference = max(abs(a - b) for a, b in zip(expected, values, strict=True))
        print(
            f"| {name} | {before:.3f} | {after:.3f} | {before / after:.1f} | {difference:.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
