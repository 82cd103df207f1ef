"""Which metrics order systems as people do: every metric on every set, and whether it does better than chrF.

    python -m benchmarks.metric_quality.metrics_against_people FOLDER --work WORK [--sets SET ...]
        [--metrics METRIC ...] [--model MODEL] [--language-models ENGLISH OTHERS] [--roles CLASSIFIER]
        [--segments N] [--draws N] [--threads N] [--only-kept] [--output TABLE.md]

FOLDER holds mt_mqm_* and summ_* systems files (.jsonl.gz). Scores are kept in WORK: a run that was stopped goes on,
`--only-kept` prints what there is so far. MODEL is the encoder of bertscore and the ds metrics, for English as MiniLM
is; ENGLISH and OTHERS are the causal models of lm and doc-lm; CLASSIFIER labels the roles for pdd (see `rst_roles`).
`--segments N` takes of a larger set the first documents that have N segments together. `combination` is trained for
every set on the other sets of its group.

A cell is pairwise accuracy / Pearson / Kendall's tau-b of systems' scores with people's, with + or - behind the first
two where PERM-BOTH finds the metric better or worse than chrF at p < 0.05: on segments if both metrics score these,
else on documents, means of which are what is tested; there is no mark where systems' own scores differ the other way.
A metric that a set cannot have is a dash with a note.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.metric_quality.people_table import BASE, Agreement, Cells, Facts, markdown
from benchmarks.metric_quality.trained_elsewhere import trained
from benchmarks.support.judged_sets import JudgedSet, paths, read_set
from benchmarks.support.kept_scores import KeptScores
from benchmarks.support.markdown import write_or_print
from discorank import load_metric
from discorank.metrics.errors import InputError
from discorank.metrics.mixture import Utility
from discorank.metrics.representations import FloatArray
from discorank.rerank.selection.agreement import DRAWS, Statistic, pairwise_accuracy, perm_both
from discorank.rerank.selection.statistics import pearson, tau_b
from discorank.rerank.selection.system_scores import Scored, human_scored

LEXICAL = ("chrf", "chrf++", "bleu", "ter", "rouge-l", "nist", "meteor")
ENCODED = ("bertscore", "doc-bertscore", "embedding", "ds-focus", "ds-sent")
TREES = ("dr", "dr-lex")
CAUSAL = ("lm", "doc-lm")
METRICS = (*LEXICAL, *ENCODED, *TREES, *CAUSAL, "pdd", "combination")
IN_CONTEXT = {"doc-bertscore": "bertscore", "doc-lm": "lm"}  # and what they are without
# those that a set can have
COMBINED = (
    "chrf",
    "chrf++",
    "bleu",
    "rouge-l",
    "rouge-w",
    "meteor",
    "bertscore",
)
STATISTICS: tuple[Statistic, Statistic] = ("pairwise_accuracy", "pearson")
LEVEL = 0.05
Both = tuple[FloatArray, FloatArray]  # of a metric and of chrF


class Choices(NamedTuple):
    """What the command line chooses."""

    model: str = "minilm"
    language_models: tuple[str, str] = ("smollm2", "gemma3-270m")  # English, others
    roles: str | None = None
    draws: int = DRAWS
    only_kept: bool = False


class NotForSetError(Exception):
    """A metric that a set cannot have, and why."""


class Bench:
    """All metrics on some sets.

    Args:
        sets: what people judged.
        kept: where scores are.
        work: for the model files of combinations.
        choices: of models.
    """

    def __init__(
        self, sets: Sequence[JudgedSet], kept: KeptScores, work: Path, choices: Choices
    ) -> None:
        self.sets, self.kept, self.work, self.choices = sets, kept, work, choices

    def metric(self, name: str, data: JudgedSet) -> Utility:
        """The metric as a set takes it.

        Raises:
            NotForSetError: it cannot.
        """
        if name == "combination":
            return self._combination(data)
        if name in (*ENCODED, *TREES, "pdd") and data.language != "en":
            reading = "the parser reads" if name in TREES else "the encoder is for"
            raise NotForSetError(f"{reading} English only")
        if name in IN_CONTEXT and data.whole:
            same = IN_CONTEXT[name]
            raise NotForSetError(
                f"texts are whole, no context stands before them: the same as `{same}`"
            )
        if name == "pdd" and not self.choices.roles:
            raise NotForSetError("sentences have no roles, and no classifier is given")
        settings = {"model": self.choices.model} if name in ENCODED else {}
        settings = {"model": str(self.choices.roles)} if name == "pdd" else settings
        if name in CAUSAL:
            model = self.choices.language_models[0 if data.language == "en" else 1]
            settings = {"model": model, "dtype": "bfloat16"}
        metric = load_metric(name, **settings)
        metric = metric if data.language == "en" else metric.for_language(data.language)
        references = [
            text for d in data.documents for texts in d.references.values() for text in texts
        ]
        return metric.fit(references) if any(part.unfitted for _, part in metric.parts) else metric

    def _combination(self, data: JudgedSet) -> Utility:
        others = [other for other in self.sets if other.group == data.group and other is not data]
        if not others:
            raise NotForSetError("no other set to train on")
        names = [name for name in COMBINED if name not in ENCODED or data.language == "en"]
        scores = [
            (other, [self.kept.scored(other, self.metric(name, other)) for name in names])
            for other in others
        ]
        signatures = [self.metric(name, data).signature() for name in names]
        return trained(self.work / f"combination.{data.name}.json", signatures, data, scores)

    def scored(self, name: str, data: JudgedSet) -> Scored:
        """The systems of a set under a metric.

        Raises:
            NotForSetError: there are no scores.
        """
        try:
            return self.kept.scored(data, self.metric(name, data))
        except InputError as error:
            raise NotForSetError(str(error)) from error

    def cells(self, names: Sequence[str]) -> Cells:
        """All cells, metric by metric so that the cheap ones come first."""
        cells: Cells = {}
        for name in names:
            for data in self.sets:
                try:
                    own = self.scored(name, data)
                except NotForSetError as error:
                    print(f"{data.name} {name}: - ({error})", file=sys.stderr)
                    cells |= {
                        (data.name, dimension, name): str(error) for dimension in data.dimensions
                    }
                    continue
                base = self.scored(BASE, data)
                for dimension in data.dimensions:
                    human = human_scored(dimension, data.lower, data.documents)
                    cells[data.name, dimension, name] = agreement(
                        own, base, human, self.choices.draws
                    )
        return cells


def agreement(metric: Scored, base: Scored, human: Scored, draws: int = DRAWS) -> Agreement:
    """A metric against people on the systems they judged, with marks where it differs from the base."""
    places = [metric.systems.index(name) for name in human.systems]
    people = human.sign * human.system_scores()
    scores = metric.sign * metric.system_scores()[places], base.sign * base.system_scores()[places]
    units = utilities(metric, base, places)
    marks = [_mark(scores, units, people, statistic, draws) for statistic in STATISTICS]
    tau = tau_b(scores[0].tolist(), people.tolist())
    accuracy, r = (_measured(scores[0], people, statistic) for statistic in STATISTICS)
    return Agreement(accuracy, r, np.nan if tau is None else tau, (marks[0], marks[1]))


def utilities(first: Scored, second: Scored, places: Sequence[int]) -> Both:
    """Utilities of two metrics, per segment where both have these, else per document, as `compare` tests them."""
    if first.segments is not None and second.segments is not None:
        return first.sign * first.segments[places], second.sign * second.segments[places]
    first_units = first.sign * first.document_scores()[places]
    return first_units, second.sign * second.document_scores()[places]


def _mark(scores: Both, units: Both, people: FloatArray, statistic: Statistic, draws: int) -> str:
    """ "+" or "-" where the first of two metrics is significantly better or worse than the second.

    The test reads means of units; there is no mark where the systems' own scores differ the other way.
    """
    p = perm_both(*units, people, statistic, draws)
    shown, tested = (
        _measured(first, people, statistic) - _measured(second, people, statistic)
        for first, second in (scores, (units[0].mean(axis=1), units[1].mean(axis=1)))
    )
    if p is None or p >= LEVEL or not shown * tested > 0:
        return ""
    return "+" if shown > 0 else "-"


def _measured(scores: FloatArray, human: FloatArray, statistic: Statistic) -> float:
    by_pairs = statistic == "pairwise_accuracy"
    value = (
        pairwise_accuracy(scores, human) if by_pairs else pearson(scores.tolist(), human.tolist())
    )
    return np.nan if value is None else value


def facts(data: JudgedSet) -> Facts:
    """What the table says of a set."""
    return Facts(
        data.name,
        data.group,
        tuple(data.dimensions),
        max(
            len(human_scored(dimension, data.lower, data.documents).systems)
            for dimension in data.dimensions
        ),
        len(data.documents),
        sum(document.segments for document in data.documents),
        data.judged_segments(),
        tuple(data.references),
    )


def table(
    folder: Path,
    work: Path,
    sets: Sequence[str],
    names: Sequence[str],
    most: int | None,
    choices: Choices,
) -> str:
    """The table of a folder, in Markdown."""
    judged = [read_set(path, most) for path in paths(folder, sets)]
    if not judged:
        raise SystemExit(f"no mt_mqm_*.jsonl.gz or summ_*.jsonl.gz in {folder}")
    ordered = sorted(judged, key=lambda data: (data.whole, data.language != "en"))
    bench = Bench(ordered, KeptScores(work / "scores", choices.only_kept), work, choices)
    return markdown([facts(data) for data in ordered], names, bench.cells(names))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--metrics", nargs="+", default=list(METRICS), choices=METRICS)
    parser.add_argument("--model", default="minilm")
    parser.add_argument(
        "--language-models",
        nargs=2,
        default=list(Choices().language_models),
        metavar=("ENGLISH", "OTHERS"),
    )
    parser.add_argument("--roles")
    parser.add_argument("--segments", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--only-kept", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    names = list(dict.fromkeys((BASE, *options.metrics)))
    english, others = options.language_models
    choices = Choices(
        options.model, (english, others), options.roles, options.draws, options.only_kept
    )
    markdown_table = table(
        options.folder, options.work, options.sets, names, options.segments, choices
    )
    write_or_print(markdown_table, options.output)


if __name__ == "__main__":
    main()
