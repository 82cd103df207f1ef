"""What context costs: forward passes and tokens as `discorank check` counts them, and CPU seconds, beside no context.

    python -m benchmarks.speed.context_cost SYSTEMS_FILE [--lists 12] [--metrics bertscore embedding lm]
        [--model minilm] [--language-model smollm2] [--dtype bfloat16] [--repeats 3]

The first lists of a systems file of mt_mqm_* that stand behind three sentences are valued, all pairs of each list
(`lm`: every candidate), behind nothing, behind 1, 2 and 3 sentences that all candidates share (`reference-k`), and
behind the two of each candidate's own system (`hypothesis-2`). Counts are of distinct texts in distinct contexts;
seconds are the least of some repetitions in one thread, without loading the model, and then the ratio to no context.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.support.context_readings import ALONE, Reading, candidate_items
from benchmarks.support.judged_segments import JudgedSegments
from benchmarks.support.markdown import table
from benchmarks.support.measuring import timed
from discorank import load_metric
from discorank.metrics.base import Metric
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.execution.store import Store
from discorank.metrics.text.texts import Comparison, Item
from discorank.rerank.pass_counts import PassCounts

READINGS = (ALONE, "reference-1", "reference-2", "reference-3", "hypothesis-2")
BEHIND = 3  # sentences, at the least
CAUSAL = "lm"


def comparisons(
    metric: Metric, data: JudgedSegments, reading: Reading, num_lists: int
) -> list[Comparison]:
    """The lists as the metric reads them."""
    rows: list[Comparison] = []
    for i, items in zip(data.rated, candidate_items(data, reading), strict=True):
        if (data.records[i].position or 0) >= BEHIND and len(rows) < num_lists:
            distinct: tuple[Item, ...] = tuple(dict.fromkeys(items))
            rows.append(Comparison(distinct, distinct if metric.info.needs_references else ()))
    return rows


def counted(metric: Metric, lists: Sequence[Comparison]) -> PassCounts:
    """The forward passes of some lists.

    Raises:
        SystemExit: the metric has none.
    """
    scorer = metric.unloaded()
    if scorer is None:
        raise SystemExit(f"{metric.name} has no forward passes")
    counts = PassCounts(metric, scorer)
    for comparison in lists:
        counts.add_comparison(comparison)
    return counts


def valued(metric: Metric, lists: Sequence[Comparison]) -> None:
    """Values some lists, every text anew."""
    matrices(metric, lists, Store(metric.scorer))


def rows_of(
    metric_of: Any, name: str, data: JudgedSegments, num_lists: int, repeats: int
) -> list[list[str]]:
    """A row for every reading of a metric."""
    rows = []
    base: tuple[int, float] | None = None
    for reading in map(Reading.of, READINGS):
        metric = metric_of(name, reading.width)
        lists = comparisons(metric, data, reading, num_lists)
        counts = counted(metric, lists)
        _ = metric.scorer
        seconds, _ = timed(partial(valued, metric, lists), repeats)
        base = base or (counts.tokens, seconds)
        ratios = counts.tokens / base[0], seconds / base[1]
        rows.append(
            [
                f"`{name}`",
                "-".join(map(str, reading)) if reading.width else reading.whose,
                str(counts.passes),
                f"{counts.tokens} ({ratios[0]:.2f})",
                f"{seconds:.2f} ({ratios[1]:.2f})",
            ]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--lists", type=int, default=12)
    parser.add_argument("--metrics", nargs="+", default=["bertscore", "embedding", CAUSAL])
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--language-model", default="smollm2")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    loaded: dict[tuple[str, int], Metric] = {}

    def metric_of(name: str, width: int) -> Metric:
        """The metric, loaded once."""
        settings: dict[str, Any] = {"model": options.model}
        if name == CAUSAL:
            settings = {"model": options.language_model, "dtype": options.dtype}
        if (name, width) not in loaded:
            made: Any = load_metric(name, context=width, **settings)
            loaded[name, width] = made
        return loaded[name, width]

    data = JudgedSegments(options.file)
    rows: list[list[str]] = []
    for name in options.metrics:
        rows += rows_of(metric_of, name, data, options.lists, options.repeats)
    head = ["metric", "reading", "passes", "tokens (ratio)", "CPU seconds (ratio)"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
