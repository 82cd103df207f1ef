"""The laws of equal bytes on a sample, as a program of its own: ``python -m tests.laws.equal_bytes [--models]``.

`test_processors` starts it under settings that make numpy, torch and oneDNN believe in another processor, and makes
the checks in its own process for this one. It prints a line of JSON as soon as their products have run, `architecture`,
and one at the end: `checks`, how many comparisons there were, `failures`, those whose bytes differed, and `left_out`,
the metrics that could not be loaded. Metrics with models are checked where it is asked for, as importing transformers
takes longer than all of it.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl
import torch
from torch.nn import functional

from discorank import InputError, MBRDecoder, ModelLoadError, load_metric
from discorank.cli.main import main as discorank
from discorank.metrics.execution.evaluate import matrices, tiles_of
from discorank.metrics.execution.meter import Meter
from discorank.metrics.execution.store import Fresh, Store
from discorank.metrics.neural.bertscore import best_matches
from discorank.metrics.neural.comet.network import Head, PairHead
from discorank.metrics.neural.models.attention import Packing
from discorank.metrics.neural.models.elementwise import elementwise
from discorank.metrics.neural.models.inner_products import products
from discorank.metrics.neural.models.linear_products import (
    label_log_probabilities,
    linear,
    linear_in_slices,
)
from discorank.metrics.representations import Block, Ragged
from discorank.metrics.text.texts import NO_CONTEXT, Comparison
from discorank.rerank.budget.settings import Budget
from discorank.rerank.engines.interface import Task
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.engines.ray.worker import Share
from discorank.rerank.lists import read_list
from discorank.rerank.runs.run import json_row

from ..support.lists import WORDS, made_lists, write_lists

GOLDEN = Path(__file__).parents[1] / "golden"
TINY = GOLDEN / "docmetrics" / "models"
XLMR = f'encoder_path="{TINY}/tiny-xlmr"'
METRICS = (
    f'ds-focus(model="{TINY}/tiny-bert")',
    f'ds-sent(model="{TINY}/tiny-xlmr")',
    f'embedding(model="{GOLDEN}/sentence_embedding/models/tiny-st-dense")',
    f'bertscore(model="{TINY}/tiny-bert",layer=2)',
    f'comet(model="{TINY}/tiny-comet-ref",{XLMR})',
    f'bleurt(model="{GOLDEN}/bleurt/models/tiny-bleurt-20")',
    f'metricx(model="{GOLDEN}/metricx/models/tiny-metricx-24",'
    f'tokenizer_path="{GOLDEN}/metricx/models/tiny-mt5-tokenizer",regression_token_id=11)',
    f'lm-pair(model="{GOLDEN}/causal/models/tiny-gemma3")',
    f'bartscore(model="{TINY}/tiny-bart")',
    f'role-match(model="{GOLDEN}/pdd/tiny-roles",encoder_path="{TINY}/tiny-bert")',
    "chrf++",
)
SOURCE = "the ferry leaves"
WIDTHS = (16, 384, 1024)
# Rows that are computed together, of 1024.
PARTS = (slice(16), slice(48, 96), slice(1024 - 272, None))

checked: Counter[str] = Counter()
failed: Counter[str] = Counter()


def check(what: str, values: Any, expected: Any) -> None:
    """Counts a comparison of two arrays or tensors, byte for byte."""
    checked[what] += 1
    failed[what] += (
        np.ascontiguousarray(values).tobytes() != np.ascontiguousarray(expected).tobytes()
    )


def drawn(*shape: int) -> torch.Tensor:
    """Numbers that are the same in every process."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


# --- products and sums, of the widths of real models


def check_inner_products() -> None:
    for width in WIDTHS:
        x = drawn(80, width).numpy()
        whole = products(x, x)
        for n, m in ((1, 1), (1, 40), (40, 1), (3, 17), (16, 16), (33, 2)):
            for seed in range(3):
                chance = np.random.default_rng(seed)
                a, b = chance.permutation(80)[:n], chance.permutation(80)[:m]
                check("inner products", products(x[a], x[b]), whole[np.ix_(a, b)])


def check_linear_layers() -> None:
    for into, out in ((16, 32), (512, 512), (768, 3072), (3072, 768), (1024, 1024)):
        x, weight, bias = drawn(1024, into), drawn(out, into), drawn(out)
        for name, product in (("linear layers", linear), ("torch's layers", linear_in_slices)):
            whole = product(x, weight, bias)
            for part in PARTS:
                check(name, product(x[part].clone(), weight, bias), whole[part])
    for into, out in ((256, 256), (512, 512), (1024, 256)):
        x, weight = drawn(1024, into).bfloat16(), drawn(out, into).bfloat16()
        whole = linear(x, weight).float()
        for part in PARTS:
            check("layers in bfloat16", linear(x[part].clone(), weight).float(), whole[part])


def check_attention() -> None:
    for heads, width in ((2, 16), (12, 64)):
        for length in (1, 5, 16, 31, 40, 65):
            q = drawn(6 * length, heads, width)
            k, v = 2 * q.flip(0), 3 * q.flip(2)
            device = torch.device("cpu")
            whole = Packing(np.array([length] * 6), device)(q, k, v, width**-0.5)
            for first, count in ((0, 1), (5, 1), (2, 3)):
                rows = slice(first * length, (first + count) * length)
                attend = Packing(np.array([length] * count), device)
                part = attend(q[rows], k[rows], v[rows], width**-0.5)
                check("attention", part, whole[rows])


def check_matching() -> None:
    lengths = np.array([3, 9, 1, 30, 17, 64, 5, 12, 100, 8])
    for width in WIDTHS:
        vectors = Ragged.of_lengths(functional.normalize(drawn(249, width)).numpy(), lengths)
        weights = Ragged.of_lengths(np.ones(249), lengths)
        device = torch.device("cpu")
        rows = np.arange(10)
        whole = best_matches(device, vectors, weights, Block(rows, rows))
        for h, r in ((rows[3:4], rows[5:6]), (rows[2:7], rows[:3]), (rows[::-1], rows[[8, 1]])):
            for one, all_of_them in zip(
                best_matches(device, vectors, weights, Block(h, r)), whole, strict=True
            ):
                check("matching", one, all_of_them[np.ix_(h, r)])


def check_heads() -> None:
    layers = [(drawn(96, 6 * 64), drawn(96)), (drawn(1, 96), drawn(1))]
    head = PairHead(Head(layers, torch.Tensor.tanh_, None))
    vectors, rows = drawn(40, 64), np.arange(1, 40)
    (whole,) = head.compare(vectors, [Block(rows, rows, 0)])
    for h, r in ((rows[:1], rows[5:6]), (rows[3:20], rows[:2]), (rows[::-3], rows[30:])):
        (values,) = head.compare(vectors, [Block(h, r, 0)])
        check("heads", values, whole[np.ix_(h - 1, r - 1)])


def check_probabilities() -> None:
    states, weight, bias = drawn(256, 384), drawn(5000, 384), drawn(5000)
    labels = torch.arange(256) * 17
    numbers = torch.arange(len(states))
    whole = label_log_probabilities(states, weight, bias, numbers, labels)
    for part in (slice(16), slice(48, 96)):
        own = torch.arange(len(labels[part]))
        values = label_log_probabilities(states[part].clone(), weight, bias, own, labels[part])
        check("probabilities", values, whole[part])


def check_rows() -> None:
    x = drawn(64, 300)
    of_rows: dict[str, Callable[[Any], Any]] = {
        "softmax": lambda x: torch.softmax(x, 1),
        "logsumexp": lambda x: torch.logsumexp(x, 1),
        "layer norm": lambda x: functional.layer_norm(x, (300,)),
        "torch's sums": lambda x: x.sum(1),
        "pooling": lambda x: x.view(len(x), 20, 15).mean(1),
        "numpy's sums": lambda x: x.numpy().sum(axis=1),
        "numpy's einsum": lambda x: np.einsum("fd,fd->f", x.numpy(), x.numpy()),
        "numpy's norms": lambda x: np.linalg.norm(x.numpy(), axis=1),
        "numpy's functions": lambda x: np.tanh(np.exp(x.numpy())) + np.log(abs(x.numpy())),
    }
    for name, function in of_rows.items():
        whole = function(x)
        for rows in (slice(1), slice(5, 8), slice(-33, None)):
            check(name, function(x[rows]), whole[rows])


def check_activations() -> None:
    x = drawn(4, 50_000)
    activations: tuple[Callable[[Any], Any], ...] = (
        functional.silu,
        functional.gelu,
        torch.tanh,
        torch.sigmoid,
        lambda x: functional.gelu(x, approximate="tanh"),
    )
    for activation in activations:
        whole = elementwise(activation, x)
        for threads in (3, 2, 1):
            torch.set_num_threads(threads)
            check("activations", elementwise(activation, x), whole)
            check("activations", elementwise(activation, x[1:2, 7:]), whole[1:2, 7:])


# --- metrics: batches, tiles, other lists


def made_texts() -> list[str]:
    """Texts of no word to thirty."""
    chance = random.Random(1)
    return [
        " ".join(chance.choices(WORDS, k=length)) for length in (0, 1, 3, 5, 8, 8, 9, 14, 21, 30)
    ]


def check_metric(metric: Any, texts: Sequence[str]) -> None:
    """Its matrix against pairs alone, parts of it, another order, other lists, and tiles of represented chunks."""

    def utilities(h: Sequence[str], r: Sequence[str]) -> Any:
        return metric.pairwise(h, r, SOURCE)

    whole = utilities(texts, texts)
    name = metric.name
    for i, j in ((0, 0), (3, 7), (9, 2), (5, 5), (8, 9)):
        check(f"{name}: a pair", utilities([texts[i]], [texts[j]]), whole[i : i + 1, j : j + 1])
    check(f"{name}: a part", utilities(texts[2:7], texts[6:]), whole[2:7, 6:])
    order = np.random.default_rng(0).permutation(len(texts))
    shuffled = [texts[i] for i in order]
    check(f"{name}: another order", utilities(shuffled, shuffled), whole[np.ix_(order, order)])

    comparison = metric.comparison(list(texts), list(texts), SOURCE, NO_CONTEXT)
    (matrix,) = matrices(metric, [comparison])
    parts = (slice(0, 3), slice(3, 10), slice(1, 2))
    lists = [metric.comparison(texts[part], texts, SOURCE, NO_CONTEXT) for part in parts]
    for store in (None, Store(metric.scorer)):
        for part, values in zip(parts, matrices(metric, lists, store), strict=True):
            check(f"{name}: other lists", values, matrix[part])
    check_tiles(metric, comparison, matrix)


def check_tiles(metric: Any, comparison: Comparison, matrix: Any) -> None:
    """As actors of Ray compute a list that is split over them."""
    num_texts = len(matrix)
    task = Task("x", metric, (comparison,), np.ones(num_texts), keep_matrix=True)
    share = Share(metric, [task], Meter())
    parts = [share.represent(k, 3, None) for k in range(3)]
    fresh = Fresh.concat([part for part in parts if part is not None])
    steps = tiles_of(0, num_texts, num_texts, True, 3)
    tiles = [tile for step in steps for tile in share.compare(fresh, step)]
    (expectation,) = share.reduce(fresh, tiles).values()
    check(f"{metric.name}: tiles", expectation.matrix, matrix)


# --- runs: lists split over processes, and resumed


def check_splits(utilities: Sequence[str]) -> None:
    """Rows of lists that are decided together, one by one, and in halves of another order."""
    lists = [read_list(row) for row in made_lists(6, 7, seed=3)]
    deciders = [MBRDecoder(utility=utility, nbest=None) for utility in utilities]
    deciders.append(MBRDecoder(utility="chrf", nbest=None, budget=Budget(0.4, force=True)))
    deciders.append(MBRDecoder(utility="0.5*bleu + chrf", nbest=None, weights="logprob"))
    for decider in deciders:

        def rows(parts: Sequence[Sequence[Any]], decider: MBRDecoder = decider) -> dict[str, bytes]:
            made = {}
            for part in parts:
                for ranking in decider.decode(part, LocalEngine()):
                    made[ranking.id] = json_row(ranking)
            return made

        whole = rows([lists])
        for parts in ([[one] for one in lists], [lists[3:], lists[:3]]):
            made = rows(parts)
            for name, row in whole.items():
                check("splits", np.frombuffer(made[name], np.uint8), np.frombuffer(row, np.uint8))


def check_resuming(utility: str) -> None:
    """A run that goes on after its first lists against one of all lists."""
    lists = list(made_lists(7, 7, seed=4))
    with tempfile.TemporaryDirectory() as folder:
        written = {}
        for name, counts in (("whole", (7,)), ("resumed", (3, 5, 7))):
            output = Path(folder, name)
            for count in counts:
                path = write_lists(Path(folder, "lists.jsonl"), lists[:count])
                discorank(["decode", str(path), "-u", utility, "-o", str(output), "--quiet"])
            written[name] = np.frombuffer(output.read_bytes(), np.uint8)
        check("resuming", written["resumed"], written["whole"])


def say(values: dict[str, Any]) -> None:
    """A line of JSON, at once."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Make all checks, and print what became of them."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    x = np.ones((40, 40), np.float32)
    x @ x
    linear(torch.from_numpy(x), torch.from_numpy(x))
    blas = [info.get("architecture") for info in threadpoolctl.threadpool_info()]
    capability = torch.backends.cpu.get_cpu_capability()
    say({"architecture": [*filter(None, blas), capability]})
    say(result("--models" in sys.argv))


def result(has_models: bool) -> dict[str, Any]:
    """What became of all checks: their number, those that failed, the metrics left out."""
    with torch.inference_mode():
        check_inner_products()
        check_linear_layers()
        check_attention()
        check_matching()
        check_heads()
        check_probabilities()
        check_rows()
        check_activations()
    wanted = METRICS if has_models else METRICS[-1:]
    left_out = []
    for name in wanted:
        try:
            metric: Any = load_metric(name)
            metric.scorer  # noqa: B018
        except (ModelLoadError, InputError):
            left_out.append(name)
            continue
        check_metric(metric, made_texts())
    loaded = [name for name in wanted if name not in left_out]
    check_splits([name for name in loaded if name.startswith(("ds-sent", "embedding"))])
    check_resuming(loaded[min(1, len(loaded) - 1)])
    failures = {name: f"{count} of {checked[name]}" for name, count in failed.items() if count}
    return {"checks": checked.total(), "failures": failures, "left_out": left_out}


if __name__ == "__main__":
    main()
