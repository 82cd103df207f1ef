"""Likelihoods of many candidates behind one prompt: `lm`'s runner against plain forward passes of transformers.

    python -m benchmarks.speed.language_model [--models smollm2 random] [--candidates 32] [--prompt-tokens 150]
        [--rounds 2]

A plain pass reads prompt and candidate, one sequence at a time ("each") or all in one batch, padded on the right
("padded"); a log-softmax over its logits is what a likelihood is read from. `smollm2` is the bundled model, `random`
has the size of GPT-2 (12 layers of 768) and random weights. Candidates have 20 to 40 random tokens. One thread; sides
take turns, in float32 and bfloat16. Prints the median [least, greatest] of CPU seconds and of their ratio over the
rounds, the mebibytes that a side takes beside the model, and the largest relative difference of a summed
log-probability.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import os
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.measuring import peak_mebibytes, timed
from discorank.metrics.neural.models.causal_lm import CausalLM
from discorank.metrics.neural.models.files import model_files
from discorank.metrics.neural.models.pretrained import pretrained
from discorank.metrics.neural.models.prompt_pass import Prompted
from discorank.metrics.representations import FloatArray, Ragged

MIN_TOKENS, MAX_TOKENS = 20, 40
MODELS = ("smollm2", "random")
Side = Callable[[], FloatArray]


def model_of(name: str) -> Any:
    """A transformers model in float32."""
    import torch
    import transformers

    if name != "random":
        return pretrained(model_files.locate(name), "AutoModelForCausalLM")
    torch.manual_seed(0)
    library: Any = transformers
    return library.GPT2LMHeadModel(library.GPT2Config()).train(False)


def texts_of(vocabulary: int, candidates: int, prompt_tokens: int) -> Prompted:
    """Random candidates behind a random prompt."""
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, vocabulary, prompt_tokens)
    lengths = rng.integers(MIN_TOKENS, MAX_TOKENS + 1, candidates)
    rows = [np.concatenate((prompt, rng.integers(0, vocabulary, length))) for length in lengths]
    return Prompted(Ragged.of_rows(rows), np.full(candidates, prompt_tokens))


def ours(model: CausalLM, texts: Prompted) -> FloatArray:
    """Sums of log-probabilities, [candidates]."""
    values = model.log_probabilities(texts)
    return np.add.reduceat(values.values, values.offsets[:-1])


def each(model: Any, texts: Prompted) -> FloatArray:
    """The same by a plain pass per candidate."""
    return np.concatenate([padded(model, texts, [row]) for row in range(len(texts.first))])


def padded(model: Any, texts: Prompted, rows: Sequence[int]) -> FloatArray:
    """The same by one pass of a padded batch."""
    import torch

    longest = int(texts.ids.lengths[np.array(rows)].max())
    ids = np.zeros((len(rows), longest), np.int64)
    mask = np.zeros((len(rows), longest), np.int64)
    for place, row in enumerate(rows):
        tokens = texts.ids.values[texts.ids.offsets[row] : texts.ids.offsets[row + 1]]
        ids[place, : len(tokens)] = tokens
        mask[place, : len(tokens)] = 1
    tensor = torch.from_numpy(ids)
    with torch.inference_mode():
        out = model(input_ids=tensor, attention_mask=torch.from_numpy(mask), use_cache=False)
        log_probabilities = out.logits[:, :-1].float().log_softmax(-1)
        values = log_probabilities.gather(2, tensor[:, 1:, None])[:, :, 0].double().numpy()
    sums = []
    for place, row in enumerate(rows):
        first, length = int(texts.first[row]), int(texts.ids.lengths[row])
        sums.append(values[place, first - 1 : length - 1].sum())
    return np.array(sums)


class Turn(NamedTuple):
    """What one call took and returned."""

    seconds: float
    mebibytes: float  # at most, beside what was there
    values: FloatArray


def turn(call: Side) -> Turn:
    """One call in a process of its own."""
    # What the allocator holds free would hide what the call takes.
    ctypes.CDLL(None).malloc_trim(0)
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        before = peak_mebibytes()
        seconds, values = timed(call)
        sender.send(Turn(seconds, peak_mebibytes() - before, values))

    process = context.Process(target=run)
    process.start()
    taken: Turn = receiver.recv()
    process.join()
    return taken


def spread(values: Sequence[float]) -> str:
    """Median [least, greatest]."""
    return f"{median(values):6.2f} [{min(values):.2f}, {max(values):.2f}]"


def report(name: str, sides: dict[str, Side], rounds: int) -> None:
    """All sides in turns."""
    turns = [{side: turn(call) for side, call in sides.items()} for _ in range(rounds)]
    own = [at_once["lm"].seconds for at_once in turns]
    values = turns[-1]["lm"].values
    for side in sides:
        seconds = [at_once[side].seconds for at_once in turns]
        ratios = [a / b for a, b in zip(seconds, own, strict=True)]
        last = turns[-1][side]
        difference = np.abs(last.values / values - 1).max()
        columns = f"{spread(seconds):24}{spread(ratios):24}{last.mebibytes:8.0f}"
        print(f"{name:20}{side:8}{columns}    {difference:.0e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--prompt-tokens", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    torch.set_num_threads(1)
    titles = f"{'CPU seconds':24}{'ratio to lm':24}{'MiB':>8}    difference"
    print(f"{'':28}{titles}")
    for name in options.models:
        model = model_of(name)
        for dtype in options.dtypes:
            plain = copy.deepcopy(model).to(getattr(torch, dtype))
            runner = CausalLM(copy.deepcopy(model), "cpu", dtype)
            texts = texts_of(runner.vocabulary, options.candidates, options.prompt_tokens)
            rows = range(options.candidates)
            sides: dict[str, Side] = {
                "lm": partial(ours, runner, texts),
                "each": partial(each, plain, texts),
                "padded": partial(padded, plain, texts, rows),
            }
            report(f"{name} {dtype}", sides, options.rounds)


if __name__ == "__main__":
    main()
