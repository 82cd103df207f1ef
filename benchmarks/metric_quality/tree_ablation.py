"""What each layer of a discourse tree is worth to DR-LEX: Tables 6 and 7 of Joty et al. 2017 on sets with MQM.

    python -m benchmarks.metric_quality.tree_ablation DATA [--segments 100]

DATA holds mt_mqm_*-en.jsonl.gz. Rows are the sets into English and their mean; columns words alone, with the skeleton
of the tree, with nuclearity, with relations, with both, and the tree without words (`dr`). A cell is Spearman's
correlation of systems' means with people's (the paper's figure) and, in brackets, the mean of Kendall's tau-b within
segments. Sentences are scored, parsed by the parser that ships with discorank.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.support.rated import Rated, agreement, into_english, of_metric
from discorank.metrics.representations import FloatArray
from discorank.rerank.selection.correlation import spearman

VARIANTS = {
    "words": 'dr-lex(ignore="tree")',
    "+ skeleton": 'dr-lex(ignore="both")',
    "+ nuclearity": 'dr-lex(ignore="relations")',
    "+ relations": 'dr-lex(ignore="nuclearity")',
    "dr-lex": "dr-lex",
    "dr": "dr",
}


def by_system(rated: Rated, values: FloatArray) -> list[float]:
    """The mean of every system's rows, systems in order of their names."""
    rows: dict[str, list[float]] = defaultdict(list)
    for system, value in zip(rated.systems or (), values.tolist(), strict=True):
        rows[system].append(value)
    return [float(np.mean(rows[system])) for system in sorted(rows)]


def cell(rated: Rated, spec: str) -> tuple[float, float]:
    """Spearman over systems, and tau-b within segments."""
    scores = of_metric(spec)(rated.hypotheses, rated.references)
    people = by_system(rated, rated.human["mqm"])
    of_systems = spearman(by_system(rated, scores), people)
    return of_systems or 0.0, agreement(rated, scores)["within"]


def row(name: str, cells: Sequence[tuple[float, float]]) -> str:
    """A row of the table."""
    shown = [f"{of_systems:.3f} ({within:.3f})" for of_systems, within in cells]
    return f"| {name} | {' | '.join(shown)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--segments", type=int, default=100)
    options = parser.parse_args()
    begun = process_time()
    print(f"| | systems, rows | {' | '.join(VARIANTS)} |")
    print("|---" * (len(VARIANTS) + 2) + "|")
    figures = []
    for rated in into_english(options.data, options.segments):
        if rated.systems is None:
            continue
        cells = [cell(rated, spec) for spec in VARIANTS.values()]
        figures.append(cells)
        size = f"{len(set(rated.systems))}, {len(rated.hypotheses)}"
        print(row(f"{rated.name} | {size}", cells), flush=True)
    means = np.mean(figures, axis=0).tolist()
    print(row("mean | ", means))
    print(f"{process_time() - begun:.0f} CPU-s")


if __name__ == "__main__":
    main()
