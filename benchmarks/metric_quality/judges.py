"""Language-model judges on real candidates: agreement, ties, averages of cheap ones, what is chosen under them.

    python -m benchmarks.metric_quality.judges FOLDER [--pairs en-de en-ru] [--standard GPT4-DA-refA] [--output OUT.md]

FOLDER holds ``judged_wmt22.<pair>.jsonl.gz``. The standard stands for an expensive opinion, never for people. A figure
is the mean over the pairs, with a 95 % interval by document; the pairs share documents, which are drawn together. It
takes seconds, so nothing is kept.

    r         correlation of the scores of candidates less the mean of their segment, over all segments
    accuracy  pairs of candidates of a segment on which two judges say the same: better, worse or equally good
    systems   Pearson's r of the mean scores of systems
    ties      pairs of candidates of a segment to which a judge gives one score
    gain      the score of what is chosen under a judge: 0 for a random candidate, 100 for the judge's own choice

"Beside consensus" is the sum of expected utility and the judge's score, each standardised within the list.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.metric_quality.judge_agreement import (
    UTILITIES,
    Figure,
    Pair,
    accuracy,
    best_shares,
    correlation,
    gained,
    systems,
    ties,
)
from benchmarks.support.judged_lists import read_judged
from benchmarks.support.markdown import write_or_print
from benchmarks.support.resampling import Resampling, shown
from discorank.metrics.representations import FloatArray

STANDARD = "GPT4-DA-refA"
AVERAGES = (
    "Dav3-DA-src+Dav3-SQM-src",
    "Turbo-DA-src+Turbo-SQM-src",
    "Chat-DA-src+Chat-SQM-src",
    "Dav3-SQM-src+Chat-SQM-src",
    "Turbo-SQM-src+Chat-SQM-src",
    "GPT4-DA-src+GPT4-SQM-src",
)
CHEAP = ("Dav3", "Turbo", "Chat")  # beginnings of the names
CONSENSUS = UTILITIES[-1]
AGREEMENT = ("judge", "r", "accuracy", "systems", "ties")
CHOOSERS = (
    "judge",
    "gain, ties averaged",
    "ties by consensus",
    "beside consensus",
    "more than consensus",
)
JUDGED = ("judge", *(f"MBR `{utility}`" for utility in UTILITIES), "best system")
AVERAGED = ("average of", "r", "more than best", "gain", "more than best", "ties")
Measure = Callable[[Pair], Figure]


def read_pairs(folder: Path, names: Sequence[str], standard: str) -> list[Pair]:
    """The language pairs, with one set of draws of the documents of all."""
    data = [read_judged(folder / f"judged_wmt22.{name}.jsonl.gz") for name in names]
    resamplings = Resampling.together([own.documents for own in data])
    return [Pair(own, draws, standard) for own, draws in zip(data, resamplings, strict=True)]


def over(pairs: Sequence[Pair], measure: Measure) -> Figure:
    """The mean of a figure over the language pairs."""
    return Figure.mean([measure(pair) for pair in pairs])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def agreement_row(pairs: Sequence[Pair], judge: str) -> list[str]:
    """A judge against the standard."""
    measures: list[tuple[Measure, int]] = [
        (lambda pair: correlation(pair, pair.scores(judge), pair.standard), 3),
        (lambda pair: accuracy(pair, pair.scores(judge), pair.standard), 3),
        (lambda pair: systems(pair, pair.scores(judge), pair.standard), 3),
        (lambda pair: ties(pair, pair.scores(judge)), 3),
    ]
    return [judge, *(_cell(over(pairs, measure), digits) for measure, digits in measures)]


def _cell(figure: Figure, digits: int, sign: str = "") -> str:
    return shown(figure.value, figure.draws, digits, sign)


def mutual_row(pairs: Sequence[Pair], judge: str, judges: Sequence[str]) -> list[str]:
    """r of a judge with every other."""

    def with_other(other: str) -> Figure:
        return over(pairs, lambda pair: correlation(pair, pair.scores(judge), pair.scores(other)))

    return [judge, *(f"{with_other(other).value:.2f}" for other in judges)]


def chooser_row(pairs: Sequence[Pair], judge: str) -> list[str]:
    """What a judge's choice gains under the standard: alone, with consensus for ties, and beside consensus."""
    measures: list[Measure] = [
        lambda pair: gained(pair, best_shares(pair.scores(judge)), pair.standard),
        lambda pair: gained(pair, pair.by_consensus(judge), pair.standard),
        lambda pair: gained(pair, pair.beside_consensus(judge), pair.standard),
    ]
    consensus = over(pairs, lambda pair: gained(pair, pair.consensus[CONSENSUS], pair.standard))
    figures = [over(pairs, measure) for measure in measures]
    more = figures[-1].less(consensus)
    return [judge, *(_cell(figure, 1) for figure in figures), _cell(more, 1, "+")]


def judged_row(pairs: Sequence[Pair], judge: str) -> list[str]:
    """What consensus and the best system gain under a judge."""
    measures: list[Measure] = [
        lambda pair: gained(pair, pair.consensus[UTILITIES[0]], pair.scores(judge)),
        lambda pair: gained(pair, pair.consensus[UTILITIES[1]], pair.scores(judge)),
        lambda pair: gained(pair, best_system(pair.scores(judge)), pair.scores(judge)),
    ]
    return [judge, *(_cell(over(pairs, measure), 1) for measure in measures)]


def best_system(scores: FloatArray) -> FloatArray:
    """The system of the highest mean score, in every segment, [segments, systems]."""
    best = int(scores.mean(axis=0).argmax())
    return np.tile(np.eye(scores.shape[1])[best], (len(scores), 1))


def average_row(pairs: Sequence[Pair], average: str) -> list[str]:
    """An average of judges against the best of its members alone, which is known in hindsight."""
    members = average.split("+")

    def agreed(judge: str) -> Figure:
        return over(pairs, lambda pair: correlation(pair, pair.scores(judge), pair.standard))

    def chosen(judge: str) -> Figure:
        return over(
            pairs, lambda pair: gained(pair, best_shares(pair.scores(judge)), pair.standard)
        )

    cells = []
    for measure, digits in ((agreed, 3), (chosen, 1)):
        own = measure(average)
        best = max((measure(member) for member in members), key=lambda figure: figure.value)
        cells += [_cell(own, digits), _cell(own.less(best), digits, "+")]
    tied = over(pairs, lambda pair: ties(pair, pair.scores(average)))
    name = average if len(members) < 3 else f"all {len(members)} of {', '.join(CHEAP)}"
    return [name, *cells, _cell(tied, 3)]


def tables(folder: Path, names: Sequence[str], standard: str) -> str:
    """All tables, in Markdown."""
    pairs = read_pairs(folder, names, standard)
    judges = pairs[0].data.judges
    counts = [
        f"{p.data.name}: {len(p.data.records)} segments of {len(p.data.systems)} systems"
        for p in pairs
    ]
    documents = len({document for p in pairs for document in p.data.documents})
    cheap = "+".join(judge for judge in judges if judge.startswith(CHEAP))
    averages = [name for name in AVERAGES if set(name.split("+")) <= set(judges)]
    parts = [
        f"{'; '.join(counts)}; {documents} documents; against {standard}",
        table(AGREEMENT, [agreement_row(pairs, judge) for judge in judges]),
        table(
            ["r", *(judge.replace("-", " ") for judge in judges)],
            [mutual_row(pairs, judge, judges) for judge in judges],
        ),
        table(CHOOSERS, [chooser_row(pairs, judge) for judge in judges]),
        table(JUDGED, [judged_row(pairs, judge) for judge in judges]),
        table(AVERAGED, [average_row(pairs, average) for average in [*averages, cheap]]),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", nargs="+", default=["en-de", "en-ru"])
    parser.add_argument("--standard", default=STANDARD)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    markdown = tables(options.folder, options.pairs, options.standard)
    write_or_print(markdown, options.output)


if __name__ == "__main__":
    main()
