"""DS-SENT (Zhao et al. 2023, Eq. 3): the cosine of two texts' sentence graphs.

    S_i = mean of the token vectors of sentence i,   X = (I + A) S,   x_i <- x_i / ||x_i||
    g = [min_i x_i ; mean_i x_i ; max_i x_i ; sum_i x_i]
    DS-SENT(h, r) = cos(g_h, g_r)

A is A_u or, ``weighted``, A_w of the sentences' foci (see `foci`). Rows of X have length one, as in the released
code. At most 1, higher is better, symmetric. A text without foci has A = 0; one without sentences (or with empty ones
alone) scores 1 with its like and 0 with others. The sum makes g depend on how many sentences there are.

The variants of the paper's Tables 3 and 4 are settings. ``adjacency=false`` leaves A out. ``align`` compares the rows
themselves in place of g:

    greedy    F = 2 P R / (P + R),  P = mean_i max_j cos(x_i^h, x_j^r),  R likewise over the rows of r (BERTScore); 0
              where P or R is not above 0
    optimal   max over T of sum_ij T_ij cos(x_i^h, x_j^r),  every row of a side with an equal share of T (MoverScore,
              with 1 - cos as the distance)

``compat="reference"`` keeps what the released code does with a reference of one sentence: its score is the mean of
cos(x_i^h, x_1^r), and it counts twice among several references.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from ...errors import InputError
from ...neural.models.inner_products import products
from ...optional_packages import imported, require
from ...representations import Array, Block, FloatArray, Ragged, Reps
from ...scorer import Info
from ...spec.checked_settings import settings
from .foci import Grid, adjacency, conn
from .focus_scorer import FocusModelMetric, FocusScorer, packed, row_of, states_of, unpacked


@settings
class DSSent(FocusModelMetric):
    """Cosine of sentence graphs.

    Args:
        weighted: how many foci two sentences share counts, not only whether.
        adjacency: whether sentences that share foci are added up; without, every sentence stands for itself.
        align: compares sentences, aligned greedily or optimally (needs scipy), in place of the vector of the graph.
    """

    weighted: bool = False
    adjacency: bool = True
    align: Literal["greedy", "optimal"] | None = None
    name: ClassVar[str] = "ds-sent"
    info: ClassVar[Info] = Info(
        summary="cosine of the sentence graphs of two texts",
        reasons=(
            "conn: connectedness of a text, the mean weight of an edge over all pairs of sentences; "
            "edges: two sentences, counted from 0, and the foci that they share"
        ),
        papers=("zhao2023discoscore",),
        unit="document",
        bounds=(-1, 1),
        symmetric=True,
        multi_reference="mean",
        bucketed=True,
        version=4,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for is_set, other in ((self.weighted, "weighted=true"), (self.compat, "compat")):
            if is_set and (not self.adjacency or (self.align and other == "compat")):
                problem = f"{other} says how sentences are added up, which this variant does not do"
                raise InputError(problem, where=self.name, fix="Leave one of them out")

    @property
    def costly_pairs(self) -> bool:
        """Whether pairs are searched for the best alignment."""
        return self.align == "optimal"

    @property
    def symmetric(self) -> bool:
        """To the last bit but for the search."""
        return self.align != "optimal"

    def cosine(self) -> float:
        """The threshold in force; the released code has another."""
        return 0.5 if self.threshold is None and self.compat else super().cosine()

    def load(self) -> DSSentScorer:
        """The encoder and the finder of foci.

        Raises:
            ModelLoadError: alignment is optimal, and scipy is not installed.
        """
        if self.align == "optimal":
            require(f"{self.name}(align='optimal')", "scipy")
        return DSSentScorer(self, placed=False)


class DSSentScorer(FocusScorer):
    """Represents a text by the vector of its sentence graph."""

    metric: DSSent

    def represent(self, prepared: Reps) -> Reps:
        """Columns "graph" [rows, 4 d] of length one, "mean" and "first" [rows, d] of the x_i, "sentences" [rows]; the
        grid, ragged: "names" and, per occurrence, "key" and "at"; and, where they are aligned, the "rows" x_i.
        """
        graphs: list[FloatArray] = []
        means: list[FloatArray] = []
        firsts: list[FloatArray] = []
        grid_names: list[Array] = []
        grid_keys: list[Array] = []
        rows: list[FloatArray] = []
        for row, states in enumerate(states_of(self.encoder, prepared)):
            names, key, _ = self.focus_vectors(prepared, row, states)
            grid = grid_of_occurrences(names, key, row_of(prepared["at"], row))
            n = int(row_of(prepared["sentences"], row)[0])
            x = self._sentences(states, row_of(prepared["sentence"], row), grid, n)
            graphs.append(_graph_vector(x))
            means.append(_means(x))
            firsts.append(x[0].copy() if n else np.zeros(x.shape[1]))
            grid_names.append(packed(names))
            grid_keys.append(key)
            rows.append(x)
        aligned = {"rows": Ragged.of_rows(rows)} if self.metric.align else {}
        return Reps(
            {
                **aligned,
                "graph": np.array(graphs),
                "mean": np.array(means),
                "first": np.array(firsts),
                "sentences": prepared["sentences"].values,
                "names": Ragged.of_rows(grid_names),
                "key": Ragged.of_rows(grid_keys),
                "at": prepared["at"],
            }
        )

    def _sentences(
        self,
        states: Array,
        sentence: Array,
        grid: Grid,
        n: int,
    ) -> FloatArray:
        """The rows x_i, [n, d], from states [tokens, d] and the sentence of each token, [tokens]."""
        # S: the mean of the token vectors of each sentence
        means = np.zeros((n, states.shape[1]))
        inside = (sentence >= 0) & (sentence < n)
        own = sentence[inside]
        np.add.at(means, own, states[inside].astype(np.float64))
        tokens = np.bincount(own, minlength=n)
        means /= np.maximum(tokens, 1)[:, None]
        if not self.metric.adjacency:
            return _units(means)
        # (I + A) S
        graph = adjacency(grid, n, self.metric.weighted)
        return _units(means + np.einsum("ij,jd->id", graph, means))

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Cosines of every pair, [H, R]."""
        return [self._cosines(reps, block) for block in blocks]

    def _cosines(self, reps: Reps, block: Block) -> FloatArray:
        """Cosines [H, R] of one block."""
        h = block.hypotheses
        r = block.references
        n_h = reps["sentences"][h][:, None]
        n_r = reps["sentences"][r][None, :]
        if self.metric.align:
            cosines = self._aligned(reps["rows"], block)
        else:
            graph = reps["graph"]
            cosines = np.clip(products(graph[h], graph[r]), -1, 1)
        if self.metric.compat:
            with_one_sentence = products(reps["mean"][h], reps["first"][r])
            is_one_sentence = (n_r == 1) & (n_h > 0)
            cosines = np.where(is_one_sentence, with_one_sentence, cosines)
        both_empty = (n_h == 0) & (n_r == 0)
        return np.where(both_empty, 1.0, cosines)

    def _aligned(self, rows: Ragged, block: Block) -> FloatArray:
        """Similarity of the sentences of every pair, [H, R]; 0 where a text has none."""
        align = _optimal if self.metric.align == "optimal" else _greedy
        matrix = np.zeros((len(block.hypotheses), len(block.references)))
        for i, h in enumerate(block.hypotheses.tolist()):
            for j, r in enumerate(block.references.tolist()):
                x, y = row_of(rows, h), row_of(rows, r)
                if len(x) and len(y):
                    matrix[i, j] = align(np.clip(products(x, y), -1, 1))
        return matrix

    def compare_multi(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The mean over references, or the largest, [H]."""
        values = self.compare(reps, blocks)
        if self.metric.several == "max":
            return [u.max(axis=1) for u in values]
        weights = [self._weights(reps, block) for block in blocks]
        return [_mean(u, w) for u, w in zip(values, weights, strict=True)]

    def _weights(self, reps: Reps, block: Block) -> FloatArray:
        """How often each reference counts, [R]."""
        weights = np.ones(len(block.references))
        if self.metric.compat:
            weights = weights + (reps["sentences"][block.references] == 1)
        return weights

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The sentence graphs of both sides: "edges", [sentence, later sentence, foci they share], and CONN."""
        sides = {
            "hypothesis": block.hypotheses[hypothesis],
            "reference": block.references[reference],
        }
        return {name: self._graph(reps, int(row)) for name, row in sides.items()}

    def _graph(self, reps: Reps, row: int) -> dict[str, Any]:
        """The sentence graph of one text."""
        names = unpacked(row_of(reps["names"], row))
        key = row_of(reps["key"], row)
        at = row_of(reps["at"], row)
        grid = grid_of_occurrences(names, key, at)
        n = int(reps["sentences"][row])
        graph = adjacency(grid, n, self.metric.weighted)
        edges = []
        for i, j in np.argwhere(graph > 0):
            shared = [name for name, places in grid.items() if {i, j} <= set(places)]
            edges.append([int(i), int(j), sorted(shared)])
        return {"sentences": n, "conn": conn(graph), "edges": edges}


def grid_of_occurrences(
    names: Sequence[str],
    key: Array,
    at: Array,
) -> dict[str, list[int]]:
    """The grid of occurrences of names: the number of the name and the sentence of each, [occurrences]."""
    grid: dict[str, list[int]] = {name: [] for name in names}
    for number, sentence in zip(key.tolist(), at.tolist(), strict=True):
        grid[names[number]].append(sentence)
    return grid


def _greedy(cosines: FloatArray) -> float:
    """F of the best partner of every row and of every column of cosines [n, m]."""
    precision = math.fsum(cosines.max(axis=1).tolist()) / len(cosines)
    recall = math.fsum(cosines.max(axis=0).tolist()) / cosines.shape[1]
    total = precision + recall
    value = 2 * precision * recall / total if total > 0 and min(precision, recall) > 0 else 0.0
    return min(value, 1.0)


def _optimal(cosines: FloatArray) -> float:
    """The greatest sum of T_ij cos_ij, every row of T with 1 / n and every column with 1 / m; cosines: [n, m]."""
    optimize: Any = imported("scipy.optimize", "ds-sent(align='optimal')")
    n, m = cosines.shape
    if n == m:
        # Then an assignment of rows to columns is among the best.
        chosen: FloatArray = cosines[optimize.linear_sum_assignment(cosines, maximize=True)]
        return float(math.fsum(chosen.tolist()) / n)
    # In units of 1 / (n m) a row has m and a column n to give; the plan is a matrix, row after row.
    sums = np.zeros((n + m, n, m))
    sums[np.arange(n), np.arange(n)] = 1
    sums[n + np.arange(m), :, np.arange(m)] = 1
    shares = np.concatenate((np.full(n, m), np.full(m, n)))
    plan = optimize.linprog(
        -cosines.ravel(), A_eq=sums.reshape(n + m, -1), b_eq=shares, method="highs-ds"
    )
    # The best plans of whole shares are whole numbers.
    whole: FloatArray = np.rint(plan.x)
    return float(math.fsum((whole * cosines.ravel()).tolist()) / (n * m))


def _graph_vector(x: FloatArray) -> FloatArray:
    """g / ||g||, [4 d], of rows [n, d]; zeros without rows."""
    if not len(x):
        return np.zeros(4 * x.shape[1])
    parts = [
        x.min(axis=0),
        _means(x),
        x.max(axis=0),
        x.sum(axis=0),
    ]
    g = np.concatenate(parts)
    return np.asarray(_units(g[None])[0])


def _means(x: FloatArray) -> FloatArray:
    """The mean [d] of rows [n, d]; zeros without rows."""
    return np.asarray(x.sum(axis=0) / max(1, len(x)))


def _units(x: FloatArray) -> FloatArray:
    """Rows [n, d] of length one; those of length 0 stay."""
    squares = (x * x).sum(axis=1, keepdims=True)
    length = np.sqrt(squares)
    return np.asarray(x / np.where(length > 0, length, 1))


def _mean(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The weighted mean [H] of values [H, R]."""
    total = (values * weights).sum(axis=1)
    return np.asarray(total / weights.sum())
