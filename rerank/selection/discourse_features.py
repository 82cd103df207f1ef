"""Discourse features of texts: how those of references, good and bad texts differ, with tests.

    FREQ, CONN    how often foci come back, how connected sentences are (Zhao et al. 2023, section 4 and Eq. 4)
    relations     shares of the relations and of nuclei in discourse trees (Joty et al. 2017, section 5.2)
    roles         densities of discourse roles in positional bins (Liu et al. 2024, Figure 2)

Good and bad are the texts of the systems that people score best and worst, as Joty et al. have it, or the best and
worst texts of every document. p is of a randomisation test, two-sided: the good and the bad texts of a document change
places, or the references and the texts that are held against them.

    KL(group || reference) = sum_l q_l ln(q_l / p_l)    of shares q and p, half an instance added to every label l
    F1 of a label: its instances in a text and a reference that both have, over all pairs of these (micro-average)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from operator import eq
from typing import Any, NamedTuple

import numpy as np

from ...metrics.discourse.coherence.cohesion import Cohesion, discriminativeness
from ...metrics.discourse.coherence.foci import FocusReader, adjacency, conn, freq, grid_of
from ...metrics.discourse.roles.pdd import PDD, counts
from ...metrics.errors import InputError
from ...metrics.representations import FloatArray, Ragged
from ...metrics.rst.metric import TreeSource
from ...metrics.rst.trees import Tree, coarse, walk
from ...metrics.text.texts import Document, Item, RSTTree, Text
from .statistics import DRAWS, assignments, share_as_large

REFERENCE, ALL, GOOD, BAD = "reference", "all", "good", "bad"
FOCUS_FEATURES = ("frequency", "connectivity-u", "connectivity-w")
NUCLEARITY = ("Nucleus", "Satellite")
EDUS = "EDUs"
EPS = 1e-12
Progress = Callable[[int], None]


@dataclass(frozen=True)
class JudgedTexts:
    """A document: its references, and every system's text with its human score, where it has one; higher is better."""

    id: str
    references: tuple[Text, ...]
    systems: Mapping[str, Text]
    human: Mapping[str, float] = field(default_factory=dict)


Groups = Mapping[str, Sequence[Text]]


def grouped(documents: Sequence[JudgedTexts], top: int, by_system: bool) -> list[Groups]:
    """The texts of every document by group: reference, all, and good and bad where there are human scores.

    Args:
        documents: all of them.
        top: how many systems, or texts of a document, are good, and how many bad.
        by_system: whether systems are good and bad by their mean score, or the texts of every document by their own.

    Raises:
        InputError: there are too few systems, or texts, to tell good from bad.
    """
    judged = any(document.human for document in documents)
    means = _system_means(documents) if judged and by_system else {}
    groups: list[Groups] = []
    for document in documents:
        texts: dict[str, Sequence[Text]] = {
            REFERENCE: document.references,
            ALL: tuple(document.systems.values()),
        }
        if judged:
            own = {
                name: score for name, score in document.human.items() if name in document.systems
            }
            scores = {name: means[name] for name in own} if by_system else own
            texts |= _good_and_bad(document, means if by_system else scores, scores, top)
        groups.append(texts)
    return groups


def _system_means(documents: Sequence[JudgedTexts]) -> dict[str, float]:
    """The mean human score of every system."""
    scores: dict[str, list[float]] = {}
    for document in documents:
        for name, score in document.human.items():
            if name in document.systems:
                scores.setdefault(name, []).append(score)
    return {name: sum(values) / len(values) for name, values in scores.items()}


def _good_and_bad(
    document: JudgedTexts, ranked: Mapping[str, float], scores: Mapping[str, float], top: int
) -> dict[str, Sequence[Text]]:
    """The good and the bad texts of a document; `ranked` decides which systems are so."""
    if len(ranked) < 2 * top:
        problem = (
            f"{len(ranked)} of its texts have human scores, {top} good and {top} bad are wanted"
        )
        fix = "Give a smaller --top, or texts of more systems"
        raise InputError(problem, where=f"document {document.id!r:.80}", fix=fix)
    order = sorted(ranked, key=lambda name: -ranked[name])
    chosen = {GOOD: order[:top], BAD: order[-top:]}
    return {
        group: tuple(document.systems[name] for name in names if name in scores)
        for group, names in chosen.items()
    }


class Test(NamedTuple):
    """A difference of two groups, and how likely one as large is by chance."""

    difference: float
    p: float


def ratio_test(
    first: FloatArray, second: FloatArray, draws: int = DRAWS, seed: int = 0
) -> list[Test]:
    """Tests of differences of ratios over documents: first minus second, one test a column.

    Args:
        first: numerators and denominators of one group, [documents, 2, columns].
        second: of the other.
        draws: how many assignments are drawn where there are more.
        seed: of the draws.
    """

    def ratios(sums: FloatArray) -> FloatArray:
        return sums[..., 0, :] / np.maximum(sums[..., 1, :], EPS)

    a, b = first.sum(axis=0), second.sum(axis=0)
    observed = ratios(a) - ratios(b)  # [columns]
    moved = (second - first).reshape(len(first), -1)
    large = np.zeros(len(observed), np.int64)
    count, exact, masks = assignments(len(first), draws, seed)
    for swapped in masks:
        change = (swapped @ moved).reshape(-1, *a.shape)
        drawn = ratios(a + change) - ratios(b - change)
        large += (np.abs(drawn) >= np.abs(observed) - EPS).sum(axis=0)
    return [
        Test(float(difference), share_as_large(int(number), count, exact))
        for difference, number in zip(observed, large, strict=True)
    ]


def _means_of(groups: Sequence[FloatArray]) -> FloatArray:
    """Means over the texts of documents as ratios, [documents, 2, columns], from values [texts, columns] of each.

    Every document counts once, however many texts it has: groups that change places may differ in that.
    """
    return np.array([[values.mean(axis=0), np.ones(values.shape[1])] for values in groups])


class FocusRow(NamedTuple):
    """A feature of foci of one group of texts beside the references: Eq. 4, and means."""

    feature: str
    group: str
    reference: float
    mean: float
    lower: float  # D of Eq. 4: pairs whose reference has less of it
    equal: float
    higher: float
    p: float  # of the means of documents being alike
    pairs: int


def focus_rows(
    groups: Sequence[Groups],
    foci: Cohesion,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[FocusRow]:
    """FREQ and CONN of every group against the references; documents without either are left out.

    foci: a metric by whose settings foci are found.

    Raises:
        InputError, ModelLoadError, MetricError: as the metrics of foci do.
    """
    reader = FocusReader(foci)
    known: dict[Text, FloatArray] = {}

    def values(texts: Sequence[Text]) -> FloatArray:
        rows = []
        for text in texts:
            if text not in known:
                known[text] = _focus_features(reader, text)
            rows.append(known[text])
        return np.array(rows).reshape(-1, len(FOCUS_FEATURES))

    by_group: dict[str, list[FloatArray]] = {}
    for texts in groups:
        for group, own in texts.items():
            by_group.setdefault(group, []).append(values(own))
        if progress:
            progress(1)
    references = by_group.pop(REFERENCE)
    return [
        row
        for group, own in by_group.items()
        for row in _rows_of_group(group, references, own, draws, seed)
    ]


def _focus_features(reader: FocusReader, text: Text) -> FloatArray:
    """The features of a text, in the order of `FOCUS_FEATURES`."""
    foci = reader.read(text)
    grid = grid_of(foci.keys_by_sentence())
    size = len(foci.sentences)
    graphs = [adjacency(grid, size, weighted) for weighted in (False, True)]
    return np.array([freq(grid), *map(conn, graphs)])


def _rows_of_group(
    group: str,
    references: Sequence[FloatArray],
    own: Sequence[FloatArray],
    draws: int,
    seed: int,
) -> list[FocusRow]:
    """A row for every feature; nothing where no document has both references and such texts."""
    both = [(r, h) for r, h in zip(references, own, strict=True) if len(r) and len(h)]
    if not both:
        return []
    tests = ratio_test(
        _means_of([r for r, _ in both]), _means_of([h for _, h in both]), draws, seed
    )
    rows = []
    for column, feature in enumerate(FOCUS_FEATURES):
        pairs = [(x, y) for r, h in both for x in r[:, column] for y in h[:, column]]
        of_r, of_h = zip(*pairs, strict=True)
        lower, higher = discriminativeness(of_r, of_h), discriminativeness(of_h, of_r)
        row = FocusRow(
            feature,
            group,
            _mean_of([r for r, _ in both], column),
            _mean_of([h for _, h in both], column),
            lower,
            sum(map(eq, of_r, of_h)) / len(pairs),  # a difference of shares may be -0
            higher,
            tests[column].p,
            len(pairs),
        )
        rows.append(row)
    return rows


def _mean_of(values: Sequence[FloatArray], column: int) -> float:
    """The mean of a column over all texts of all documents."""
    return float(np.concatenate(values)[:, column].mean())


@dataclass(frozen=True)
class LabelRow:
    """A label of discourse trees: its share of all labels of its kind in every group, and good against bad."""

    label: str
    count: int  # in all texts and references
    shares: Mapping[str, float]
    f1: Mapping[str, float]  # of groups against the references
    test: Test | None  # good less bad


class TreeComparison(NamedTuple):
    """Labels of discourse trees, and how far every group is from the references."""

    relations: list[LabelRow]
    nuclearity: list[LabelRow]
    divergence: Mapping[str, float]  # KL of relations
    edu_f1: Mapping[str, float]
    depth_rmse: Mapping[str, float]


class _TreeCounts(NamedTuple):
    """What a tree has."""

    relations: Counter[str]
    nuclearity: Counter[str]
    edus: int
    depth: int


def tree_comparison(
    groups: Sequence[Groups],
    source: TreeSource,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> TreeComparison:
    """Relations, nuclearity, EDUs and depth of the trees of every group.

    Raises:
        InputError, ModelLoadError: as `TreeSource.tree`.
    """
    known: dict[Text, _TreeCounts] = {}
    counted: list[dict[str, list[_TreeCounts]]] = []
    for texts in groups:
        for own in texts.values():
            for text in own:
                if text not in known:
                    known[text] = _tree_counts(source.tree(text))
        counted.append({group: [known[text] for text in own] for group, own in texts.items()})
        if progress:
            progress(1)
    relations = _label_rows(counted, "relations", draws, seed)
    compared = [group for group in counted[0] if group != REFERENCE] if counted else []
    return TreeComparison(
        relations,
        _label_rows(counted, "nuclearity", draws, seed),
        {group: _divergence(counted, group) for group in compared if _has_references(counted)},
        {group: _edu_f1(counted, group) for group in compared if _has_references(counted)},
        {group: _depth_rmse(counted, group) for group in compared if _has_references(counted)},
    )


def _has_references(counted: Sequence[Mapping[str, Sequence[_TreeCounts]]]) -> bool:
    return any(texts[REFERENCE] for texts in counted)


def _tree_counts(tree: Tree) -> _TreeCounts:
    """A node has one relation, and a nuclearity for each of its children."""
    relations: Counter[str] = Counter()
    nuclearity: Counter[str] = Counter()
    edus = 0
    for node in walk(tree):
        if isinstance(node, RSTTree):
            relations[coarse(node.rel)] += 1
            nuclearity.update("Nucleus" if letter == "N" else "Satellite" for letter in node.nuc)
        else:
            edus += 1
    return _TreeCounts(relations, nuclearity, edus, _depth(tree))


def _depth(tree: Tree) -> int:
    """Levels of relations above the deepest EDU."""
    deepest, stack = 0, [(tree, 0)]
    while stack:
        node, level = stack.pop()
        deepest = max(deepest, level)
        if isinstance(node, RSTTree):
            stack += [(child, level + 1) for child in node.children]
    return deepest


Counted = Sequence[Mapping[str, Sequence[_TreeCounts]]]


def _label_rows(counted: Counted, kind: str, draws: int, seed: int) -> list[LabelRow]:
    """A row for every label, the most frequent first."""
    totals = {group: _total(counted, group, kind) for group in (counted[0] if counted else ())}
    # Good and bad texts are among all.
    of_all = sum((totals[group] for group in (REFERENCE, ALL) if group in totals), Counter())
    labels = [label for label, _ in of_all.most_common()]
    tests: list[Test | None] = [None] * len(labels)
    if GOOD in totals and labels:
        first, second = (_by_document(counted, group, kind, labels) for group in (GOOD, BAD))
        tests = list(ratio_test(first, second, draws, seed))
    compared = [g for g in totals if g != REFERENCE and _has_references(counted)]
    rows = []
    for label, test in zip(labels, tests, strict=True):
        shares = {group: own[label] / max(1, own.total()) for group, own in totals.items() if own}
        f1 = {group: _label_f1(counted, group, kind, label) for group in compared}
        rows.append(LabelRow(label, of_all[label], shares, f1, test))
    return rows


def _total(counted: Counted, group: str, kind: str) -> Counter[str]:
    """All labels of a group."""
    return sum((getattr(own, kind) for texts in counted for own in texts[group]), Counter())


def _by_document(counted: Counted, group: str, kind: str, labels: Sequence[str]) -> FloatArray:
    """Instances of every label and of all labels in every document, [documents, 2, labels]."""
    rows = []
    for texts in counted:
        own: Counter[str] = sum((getattr(text, kind) for text in texts[group]), Counter())
        rows.append([[own[label] for label in labels], [own.total()] * len(labels)])
    return np.array(rows, np.float64)


def _pairs(counted: Counted, group: str) -> Iterable[tuple[_TreeCounts, _TreeCounts]]:
    """Every text of a group with every reference of its document."""
    return ((own, r) for texts in counted for own in texts[group] for r in texts[REFERENCE])


def _f1(pairs: Iterable[tuple[int, int]]) -> float:
    """Of the instances in texts and references, of pairs of both numbers; 0 without any."""
    common = total = 0
    for own, other in pairs:
        common += min(own, other)
        total += own + other
    return 2 * common / total if total else 0.0


def _label_f1(counted: Counted, group: str, kind: str, label: str) -> float:
    pairs = _pairs(counted, group)
    return _f1((getattr(own, kind)[label], getattr(r, kind)[label]) for own, r in pairs)


def _edu_f1(counted: Counted, group: str) -> float:
    return _f1((own.edus, r.edus) for own, r in _pairs(counted, group))


def _depth_rmse(counted: Counted, group: str) -> float:
    squares = [(own.depth - r.depth) ** 2 for own, r in _pairs(counted, group)]
    return float(np.sqrt(sum(squares) / max(1, len(squares))))


def _divergence(counted: Counted, group: str) -> float:
    """KL(group || reference) of relations, in nats."""
    own, other = (_total(counted, name, "relations") for name in (group, REFERENCE))
    labels = own.keys() | other.keys()
    if not labels:
        return 0.0
    half = len(labels) / 2
    q = {label: (own[label] + 0.5) / (own.total() + half) for label in labels}
    p = {label: (other[label] + 0.5) / (other.total() + half) for label in labels}
    return sum(q[label] * log(q[label] / p[label]) for label in sorted(labels))


class RoleDensities(NamedTuple):
    """Densities of roles in bins, and good against bad."""

    roles: tuple[str, ...]
    density: Mapping[str, FloatArray]  # of every group, [bins, roles]
    tests: list[list[Test]] | None  # good less bad, [bins][roles]


def role_densities(
    groups: Sequence[Groups], metric: PDD, draws: int = DRAWS, seed: int = 0
) -> RoleDensities:
    """Densities of the roles of every group in the bins of the metric, as PDD pools sets.

    Raises:
        InputError, ModelLoadError: as `PDD`.
    """
    scorer: Any = metric.scorer
    texts = list(dict.fromkeys(text for own in groups for some in own.values() for text in some))
    prepared, _ = scorer.prepare([Item(text) for text in texts])
    roles: Ragged = scorer.represent(prepared)["roles"]
    row = {text: number for number, text in enumerate(texts)}
    kinds = np.unique(roles.values)
    compact = Ragged(np.searchsorted(kinds, roles.values), roles.offsets)
    size = max(1, len(kinds))
    of_text = counts(compact, metric.bins, size)  # [texts, bins, roles]

    def of(some: Sequence[Text]) -> FloatArray:
        picked: FloatArray = of_text[[row[text] for text in some]].sum(axis=0)
        return picked

    density = {}
    for group in groups[0] if groups else ():
        total = sum((of(own[group]) for own in groups), np.zeros((metric.bins, size)))
        density[group] = total / np.maximum(total.sum(axis=1, keepdims=True), 1)
    tests = None
    if GOOD in density:
        both = [_role_ratios([of(own[name]) for own in groups]) for name in (GOOD, BAD)]
        flat = ratio_test(both[0], both[1], draws, seed)
        tests = [flat[start : start + size] for start in range(0, len(flat), size)]
    names = tuple(scorer.schema.name(int(kind)) for kind in kinds)
    return RoleDensities(names, density, tests)


def _role_ratios(counted: Sequence[FloatArray]) -> FloatArray:
    """Sentences of every role in every bin, and all of the bin, of documents, [documents, 2, bins * roles]."""
    stacked = np.array(counted)  # [documents, bins, roles]
    totals = np.broadcast_to(stacked.sum(axis=2, keepdims=True), stacked.shape)
    return np.stack([stacked, totals], axis=1).reshape(len(stacked), 2, -1)


def has_roles(groups: Sequence[Groups]) -> bool:
    """Whether all texts bring the roles of their sentences."""
    texts = [text for own in groups for some in own.values() for text in some]
    return bool(texts) and all(isinstance(t, Document) and t.roles is not None for t in texts)
