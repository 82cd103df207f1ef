"""All pairs of tree kernels at once against the pairwise algorithm (production buckets, a memo), CPU seconds in one
run.

    python -m benchmarks.speed.tree_kernels

Candidates are variants of one tree of 5 EDUs and 60 words: 15 % of the words replaced, 10 % of the labels. The pairwise
algorithm is `kernel`, its nodes listed beforehand, timed on a sample of pairs and scaled to the
upper triangle. Ours is everything from the labelled trees on. Each line prints the ratio and the largest relative
difference of any sampled value.
"""

from __future__ import annotations

import os
import random

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.support.measuring import peak_mebibytes, timed
from discorank.metrics.representations import Block
from discorank.metrics.rst.kernel_matrix import columns, kernels, nodes
from discorank.metrics.rst.trees import REPRESENTATIONS, Preprocessing, Tree, represent
from discorank.metrics.text.texts import RSTTree
from tests.support.trees import kernel

SAMPLED_PAIRS = 400
RELATIONS = ("Elaboration", "Joint", "Cause", "Attribution")


def variants(count: int, seed: int = 1) -> list[Tree]:
    """Trees that differ from one base tree in some words and labels."""
    r = random.Random(seed)
    vocabulary = [f"w{i}" for i in range(400)]

    def changed(tree: Tree) -> Tree:
        if isinstance(tree, tuple):
            return tuple(r.choice(vocabulary) if r.random() < 0.15 else word for word in tree)
        nuc = r.choice(["NS", "SN", "NN"]) if r.random() < 0.1 else tree.nuc
        rel = r.choice(RELATIONS) if r.random() < 0.1 else tree.rel
        return RSTTree(nuc, rel, tuple(changed(child) for child in tree.children))

    edus = [tuple(r.choice(vocabulary) for _ in range(12)) for _ in range(5)]
    late = RSTTree("NS", "Cause", (edus[2], RSTTree("NN", "Joint", (edus[3], edus[4]))))
    base = RSTTree("SN", "Attribution", (edus[0], RSTTree("NS", "Elaboration", (edus[1], late))))
    return [base, *(changed(base) for _ in range(count - 1))]


def measure(name: str, count: int) -> str:
    labelled = [represent(tree, REPRESENTATIONS[name], Preprocessing()) for tree in variants(count)]
    lists, rows = [nodes(tree) for tree in labelled], np.arange(count)
    seconds, u = timed(
        lambda: kernels(columns(labelled)[0], [Block(rows, rows)], 0.4)[0], repeats=3
    )
    pairs = np.random.default_rng(0).integers(count, size=(SAMPLED_PAIRS, 2))
    loop, pair_values = timed(
        lambda: [kernel(lists[i], lists[j], 0.4) for i, j in pairs], repeats=3
    )
    worst = max(
        abs(u[i, j] / value - 1) for (i, j), value in zip(pairs, pair_values, strict=True) if value
    )
    all_pairs = loop / SAMPLED_PAIRS * count * (count + 1) / 2
    return f"{all_pairs / seconds:6.1f}x {seconds:8.3f} {all_pairs:9.2f} {worst:11.1e} {peak_mebibytes():9.0f}"


def main() -> None:
    print(
        f"{'case':24} {'ratio':>7} {'ours s':>8} {'pairwise':>9} {'difference':>11} {'peak MiB':>9}"
    )
    for name in ("DR", "DR-LEX", "DR-LEX2.1"):
        for count in (20, 100, 500):
            print(f"{name + f', N={count}':24} {measure(name, count)}", flush=True)


if __name__ == "__main__":
    main()
