"""What robust means over pseudo-references change: in choices by people's scores, and beside a degenerate candidate.

    python -m benchmarks.choice_quality.robust_means FOLDER WORK [--kept] [-o TABLES.md]

FOLDER holds the sets of `judged_sets`; matrices are kept in WORK (that of `document_choices` will do), so that the same
command goes on, and ``--kept`` takes those alone that are there. First table: MBR among the systems of every segment
(MQM) or article (the mean of a summary's dimensions), each against the others; the gain of a mean's choices over the
weighted mean's, in standard deviations of the scores within a list, with 95 % intervals by document, mean of the sets.
Second table: how many choices on SummEval change when "the man said . " sixty times is added to every article.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.choice_quality.document_choices import Cell
from benchmarks.choice_quality.looping_candidates import LOOP
from benchmarks.support.judged_sets import JudgedSet, paths, read_set
from benchmarks.support.kept_matrices import KeptMatrices
from benchmarks.support.markdown import write_or_print
from benchmarks.support.mqm_lists import SETS
from benchmarks.support.resampling import Resampling, groups_of
from discorank import load_metric
from discorank.metrics.base import Metric
from discorank.metrics.representations import FloatArray
from discorank.rerank.choice import in_order
from discorank.rerank.expectation import expected_utility
from discorank.rerank.robust import RobustMean, robust_expected_utility

SUMMARY_SETS = ("summeval", "realsumm", "newsroom_ner18")
MEANS: dict[str, RobustMean | None] = {
    "mean": None,
    "trimmed, 0.1": RobustMean("trimmed", 0.1, 1),
    "trimmed, 0.2": RobustMean("trimmed", 0.2, 1),
    "trimmed, 0.3": RobustMean("trimmed", 0.3, 1),
    "trimmed, 0.45 (about the median)": RobustMean("trimmed", 0.45, 1),
    "median-of-means, 3": RobustMean("median-of-means", 0.1, 3),
    "median-of-means, 5": RobustMean("median-of-means", 0.1, 5),
}
OF_SEGMENTS = ("chrf", "rouge-l")
OF_SUMMARIES = ("chrf", "rouge-l", "bertscore", "ds-focus", 'ds-focus(norm="squared")')
LOOPED = ("chrf", "ds-focus", 'ds-focus(norm="squared")')


class Lists(NamedTuple):
    """Judged lists of a set.

    Args:
        name: of the set.
        texts: of every list.
        scores: higher is better, [lists][S].
        groups: the document of every list, or the block that is drawn.
    """

    name: str
    texts: list[tuple[str, ...]]
    scores: list[FloatArray]
    groups: list[str]

    @classmethod
    def of(cls, judged: JudgedSet) -> Lists:
        """The lists whose every system is judged."""
        sign = -1.0 if judged.lower else 1.0
        texts, scores, owners = [], [], []
        for document in judged.documents:
            tables = [document.human[name] for name in judged.dimensions]
            if not all(table.keys() >= document.systems.keys() for table in tables):
                continue
            rows = [
                [np.atleast_1d(np.array(t[s], float)) for s in document.systems] for t in tables
            ]
            means = sign * np.mean(rows, axis=0)  # [S, segments]
            for i in range(document.segments):
                if not np.isnan(means[:, i]).any():
                    texts.append(tuple(own[i] for own in document.systems.values()))
                    scores.append(means[:, i])
                    owners.append(document.id)
        return cls(judged.name, texts, scores, groups_of(owners))


def expected(matrix: FloatArray, texts: Sequence[str], mean: RobustMean | None) -> FloatArray:
    """Expected utilities [N] of texts, each against the others."""
    ones = np.ones(len(texts))
    if mean is None:
        return expected_utility(matrix, ones, ones)
    return robust_expected_utility(matrix, ones, ones, mean.of(texts))


def choice(matrix: FloatArray, texts: Sequence[str], mean: RobustMean | None) -> int:
    """The number of the text that is chosen."""
    return next(in_order(expected(matrix, texts, mean)))


class Gains(NamedTuple):
    """Scores of what a mean chose, [lists], in standard deviations within a list, and how many choices it changed."""

    of_choices: FloatArray
    chosen: list[int]


def gains(lists: Lists, metric: Metric, kept: KeptMatrices) -> dict[str, Gains] | None:
    """The gains of every mean over a system drawn at random; None where not all matrices are there."""
    matrices = [kept.matrix(metric, texts) for texts in lists.texts]
    known = [matrix for matrix in matrices if matrix is not None]
    if len(known) < len(matrices):
        return None
    spread = np.sqrt(np.mean([np.var(row) for row in lists.scores]))
    result = {}
    for name, mean in MEANS.items():
        pairs = zip(known, lists.texts, strict=True)
        chosen = [choice(matrix, texts, mean) for matrix, texts in pairs]
        scores = zip(lists.scores, chosen, strict=True)
        of_choices = [(row[i] - row.mean()) / spread for row, i in scores]
        result[name] = Gains(np.array(of_choices), chosen)
    return result


def mean_cell(values: Sequence[FloatArray], groups: Sequence[Sequence[str]]) -> Cell:
    """The mean over sets of the mean of values [lists], drawn by group."""
    draws = [
        Resampling(own, seed=seed).means(row)
        for seed, (row, own) in enumerate(zip(values, groups, strict=True))
    ]
    return Cell(float(np.mean([row.mean() for row in values])), np.mean(draws, axis=0))


def choices_table(sets: Sequence[Lists], specs: Sequence[str], kept: KeptMatrices) -> list[str]:
    """The rows of some sets together, under each utility of which all is there."""
    lines = []
    for spec in specs:
        (pair,) = load_metric(spec).parts
        of_sets = [gains(lists, pair[1], kept) for lists in sets]
        found = [own for own in of_sets if own is not None]
        if len(found) < len(sets):
            continue
        groups = [lists.groups for lists in sets]
        plain = [own["mean"] for own in found]
        num_lists = sum(len(lists.texts) for lists in sets)
        for name in MEANS:
            own = [of_set[name] for of_set in found]
            gain = mean_cell([of_set.of_choices for of_set in own], groups)
            pairs = list(zip(own, plain, strict=True))
            less = mean_cell([a.of_choices - b.of_choices for a, b in pairs], groups)
            changed = sum(x != y for a, b in pairs for x, y in zip(a.chosen, b.chosen, strict=True))
            cells = [f"`{spec}`", name, str(gain)]
            cells += ["", ""] if name == "mean" else [str(less), f"{changed / num_lists:.0%}"]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def loop_table(lists: Lists, kept: KeptMatrices) -> list[str]:
    """How many choices the degenerate candidate changes under every mean."""
    lines = []
    for spec in LOOPED:
        (pair,) = load_metric(spec).parts
        added = [(*texts, LOOP) for texts in lists.texts]
        matrices = [kept.matrix(pair[1], texts) for texts in added]
        if any(matrix is None for matrix in matrices):
            continue
        for name, mean in MEANS.items():
            changed = own = 0
            for matrix, texts in zip(matrices, added, strict=True):
                assert matrix is not None
                after = choice(matrix, texts, mean)
                changed += choice(matrix[:-1, :-1], texts[:-1], mean) != after
                own += after == len(texts) - 1
            lines.append(f"| `{spec}` | {name} | {changed} of {len(added)} | {own} |")
    return lines


def tables(segments: Sequence[Lists], summaries: Sequence[Lists], kept: KeptMatrices) -> str:
    """Both tables."""
    head = ["| utility | mean | gain | less the mean's | other choices |", "|" + " --- |" * 5]
    lines = []
    for sets, specs in ((segments, OF_SEGMENTS), (summaries, OF_SUMMARIES)):
        names = ", ".join(f"{lists.name} ({len(lists.texts)})" for lists in sets)
        lines += [f"{names}:", "", *head, *choices_table(sets, specs, kept), ""]
    lines += ["| utility | mean | choices that change | the added text |", "|" + " --- |" * 4]
    return "\n".join([*lines, *loop_table(summaries[0], kept)]) + "\n"


def main() -> None:
    """Computes what is not there and makes the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--kept", action="store_true", help="of what is there alone")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    kept = KeptMatrices(given.work, given.kept)
    segments = [Lists.of(read_set(path)) for path in paths(given.folder, SETS)]
    by_name = {path: read_set(path) for path in paths(given.folder, SUMMARY_SETS)}
    own = {judged.name: Lists.of(judged) for judged in by_name.values()}
    summaries = [own[name] for name in SUMMARY_SETS]
    write_or_print(tables(segments, summaries, kept), given.output)


if __name__ == "__main__":
    main()
