"""What drawing a token costs, against the step of a model that gives the logits: Gemma 3 270M, 262,144 tokens.

    python -m benchmarks.speed.drawing [--generator gemma3-270m] [--rows 64]

Milliseconds of processor time for each sequence and step, the least of several runs, on one thread: the forward pass of
one token behind a prompt of 60; drawing plainly (the whole vocabulary in order for a nucleus and typical tokens);
drawing as it is. The tokens are compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time
from typing import Any

from discorank.integrations.huggingface.model_loading import load
from discorank.integrations.huggingface.sampling import (
    CUTOFFS,
    Method,
    drawing,
    drawn,
)

PROMPT_TOKENS = 60
RUNS = 5
COMPARED = 4  # draws of all rows that are compared


def least(work: Callable[[], Any], rows: int, runs: int = RUNS) -> float:
    """Milliseconds of processor time for each row."""
    work()
    times = []
    for _ in range(runs):
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times) / rows * 1e3


def logits_and_step(name: str, rows: int, dtype: str) -> tuple[Any, float]:
    """Logits [rows, vocabulary] behind real text, and what a step costs."""
    import torch

    loaded = load(name, device="cpu", dtype=dtype)
    text = (
        "English: The weather is nice today, so we are going to the park.\nGerman: Das Wetter ist"
    )
    ids = loaded.tokenizer(text * 4, return_tensors="pt")["input_ids"][:, :PROMPT_TOKENS]
    with torch.inference_mode():
        prompt = loaded.model(input_ids=ids.expand(rows, -1), use_cache=True, logits_to_keep=1)
        cache = prompt.past_key_values  # grows by the few steps that are measured
        most = loaded.model(input_ids=ids).logits[0].float()  # [prompt, vocabulary]

        def step() -> None:
            loaded.model(input_ids=ids[:, :1].expand(rows, -1), past_key_values=cache)

        cost = least(step, rows)
    # a row for every place of the prompt, again and again
    return most[torch.arange(rows) % len(most)].contiguous(), cost


def main() -> None:
    """Prints a line for each way of sampling."""
    import numpy as np
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generator", default="gemma3-270m")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--dtype", default="bfloat16")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = arguments.rows
    logits, step = logits_and_step(arguments.generator, rows, arguments.dtype)
    print(f"{rows} sequences, {logits.shape[1]} tokens; a step of the model: {step:.2f} ms each")
    chance = np.random.default_rng(0).random((rows, 1000))
    methods: tuple[Method, ...] = ("epsilon", "ancestral", "nucleus", "typical")
    for method in methods:
        print(compared(method, logits, chance, step), flush=True)


def compared(method: Method, logits: Any, chance: Any, step: float) -> str:
    """A line of what drawing by a method costs, and whether it draws the same tokens.

    Args:
        method: the way of sampling.
        logits: [rows, vocabulary].
        chance: uniform numbers [rows, steps].
        step: milliseconds of a step of the model.
    """
    import torch

    cutoff, rows = CUTOFFS[method], len(logits)
    draws = drawing(chance, method, cutoff, 1.0)
    u = torch.from_numpy(chance).T.contiguous()  # [steps, rows]

    def plainly() -> Any:
        tokens = drawn(logits, u[0], method, cutoff, logits.shape[1])
        return torch.full_like(logits, -torch.inf).scatter_(1, tokens[:, None], 0.0)

    old = least(plainly, rows, 1)
    new = least(lambda: draws(None, logits), rows)
    equal = True
    for one in u[:COMPARED]:
        plain = drawn(logits, one, method, cutoff, logits.shape[1])
        equal &= torch.equal(drawn(logits, one, method, cutoff), plain)
    return (
        f"{method}: {old:.2f} ms plainly, {new:.2f} ms as it is ({new / step:.1%} of a step), "
        f"{'the same tokens' if equal else 'OTHER TOKENS'}"
    )


if __name__ == "__main__":
    main()
