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

Combinations are trained on other sets of the kind, without the documents that the set itself has. Features are
utilities of single segments (whole summaries) against the references; two systems whose scores on a segment differ by
more than a margin make a pair, in every dimension that people judged.

A file of WORK holds the scores of one set under one metric. Its name has a digest of all that these depend on: the
metric's signature and version, the bytes of the set, the references, the number of documents.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np

from benchmarks.support.judged_sets import JudgedSet, paths, read_set
from benchmarks.support.measuring import write_or_print
from discorank import load_metric
from discorank.metrics.base import Metric
from discorank.metrics.combination import FORMAT
from discorank.metrics.errors import InputError
from discorank.metrics.mixture import Mix, Utility
from discorank.metrics.representations import FloatArray
from discorank.metrics.storage.checksums import with_checksum
from discorank.rerank.selection.agreement import DRAWS, Statistic, pairwise_accuracy, perm_both
from discorank.rerank.selection.judged_systems import human_layer
from discorank.rerank.selection.statistics import correlation
from discorank.rerank.selection.system_scores import (
    DocumentOutputs,
    Layer,
    Part,
    score_systems,
)
from discorank.rerank.training.combination_training import Tuning, by_scores, gathered, learn

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
BASE = "chrf"
HEAD = ["set", "systems", "documents", "segments", "judged", "references"]
MARGIN = 0.5  # of MQM; scores of summaries have none
START = 150  # characters of a source by which documents of two sets are told apart
Examples = tuple[list[FloatArray], list[list[tuple[int, int]]], list[str]]  # of every segment


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

    def scored(self, name: str, data: JudgedSet) -> Layer:
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
                    human = human_layer(dimension, data.lower, data.documents)
                    cells[data.name, dimension, name] = agreement(
                        own, base, human, self.choices.draws
                    )
        return cells


def agreement(metric: Layer, base: Layer, human: Layer, draws: int = DRAWS) -> Agreement:
    """A metric against people on the systems they judged, with marks where it differs from the base."""
    places = [metric.systems.index(name) for name in human.systems]
    people = human.sign * human.system_scores()
    scores = metric.sign * metric.system_scores()[places], base.sign * base.system_scores()[places]
    units = utilities(metric, base, places)
    marks = [_mark(scores, units, people, statistic, draws) for statistic in STATISTICS]
    tau = correlation("tau_b", scores[0], people)
    accuracy, r = (_measured(scores[0], people, statistic) for statistic in STATISTICS)
    return Agreement(accuracy, r, tau, (marks[0], marks[1]))


def utilities(first: Layer, second: Layer, places: Sequence[int]) -> Both:
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
    value = pairwise_accuracy(scores, human) if by_pairs else correlation("pearson", scores, human)
    return np.nan if value is None else value


def facts(data: JudgedSet) -> Facts:
    """What the table says of a set."""
    return Facts(
        data.name,
        data.group,
        tuple(data.dimensions),
        max(
            len(human_layer(dimension, data.lower, data.documents).systems)
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


class Agreement(NamedTuple):
    """A metric against people on one dimension of a set.

    Args:
        accuracy: pairwise, of systems.
        pearson: of systems' scores.
        kendall: tau-b of systems' scores.
        marks: of accuracy and Pearson: "+" or "-" where the metric is significantly better or worse than chrF.
    """

    accuracy: float
    pearson: float
    kendall: float
    marks: tuple[str, str] = ("", "")


# of set, dimension and metric; a text says why there is none
Cells = dict[tuple[str, str, str], Agreement | str]


class Facts(NamedTuple):
    """A set in the table."""

    name: str
    group: str
    dimensions: tuple[str, ...]
    systems: int
    documents: int
    segments: int
    judged: int  # segments with a human score
    references: tuple[str, ...]


def markdown(sets: Sequence[Facts], metrics: Sequence[str], cells: Cells) -> str:
    """All panels."""
    groups = list(dict.fromkeys(facts.group for facts in sets))
    notes = _Notes()
    panels = [_means(sets, groups, metrics, cells)]
    for group in groups:
        own = [facts for facts in sets if facts.group == group]
        columns = [(facts, dimension) for facts in own for dimension in facts.dimensions]
        heads = [
            facts.name if len(facts.dimensions) == 1 else f"{facts.name}, {dimension}"
            for facts, dimension in columns
        ]
        rows = [
            [
                f"`{metric}`",
                *(
                    _cell(cells[facts.name, dimension, metric], notes)
                    for facts, dimension in columns
                ),
            ]
            for metric in metrics
        ]
        panels.append(f"### Systems {group}\n\n{_table([group, *heads], rows)}")
    return "\n\n".join([*panels, *notes.lines(), _table(HEAD, map(_facts, sets))]) + "\n"


def _facts(facts: Facts) -> list[str]:
    numbers = map(str, (facts.systems, facts.documents, facts.segments, facts.judged))
    return [
        facts.name,
        *numbers,
        str(len(facts.references)) if len(facts.references) > 4 else ", ".join(facts.references),
    ]


def _means(
    sets: Sequence[Facts], groups: Sequence[str], metrics: Sequence[str], cells: Cells
) -> str:
    """Means over the sets of every group, and how often a metric is significantly better and worse than chrF."""
    columns = [(group, [facts for facts in sets if facts.group == group]) for group in groups]
    columns += [("all sets", list(sets))] if len(groups) > 1 else []
    heads = [f"{name} ({len(own)})" for name, own in columns]
    rows = []
    for metric in metrics:
        judged = [
            cell for key, cell in cells.items() if key[2] == metric and isinstance(cell, Agreement)
        ]
        counts = [
            f"{sum(c.marks[i] == '+' for c in judged)} / {sum(c.marks[i] == '-' for c in judged)}"
            for i in (0, 1)
        ]
        counts = [f"{count} of {len(judged)}" for count in counts] if metric != BASE else ["", ""]
        rows.append(
            [f"`{metric}`", *(_mean_cell(own, metric, cells) for _, own in columns), *counts]
        )
    return _table(
        ["mean over", *heads, "accuracy: better / worse", "Pearson: better / worse"], rows
    )


def _mean_cell(sets: Iterable[Facts], metric: str, cells: Cells) -> str:
    """The mean over those sets that the metric has; if these are not all, also their number and chrF's on the same."""
    every = list(sets)
    own = [
        facts
        for facts in every
        if all(isinstance(cells[facts.name, d, metric], Agreement) for d in facts.dimensions)
    ]
    if not own:
        return "-"
    shown = _numbers(_mean(own, metric, cells))
    if len(own) == len(every):
        return shown
    return f"{shown} ({len(own)} set{'s' * (len(own) > 1)}; `{BASE}` {_numbers(_mean(own, BASE, cells))})"


def _mean(sets: Iterable[Facts], metric: str, cells: Cells) -> FloatArray:
    """The mean over sets of the mean over their dimensions, [3]."""
    means = []
    for facts in sets:
        agreements = [
            cell[:3]
            for d in facts.dimensions
            if isinstance(cell := cells[facts.name, d, metric], Agreement)
        ]
        means.append(np.mean(agreements, axis=0))
    return np.asarray(np.mean(means, axis=0))


def _numbers(values: Iterable[float], marks: Sequence[str] = ("", "", "")) -> str:
    return " / ".join(f"{value:.2f}{mark}" for value, mark in zip(values, marks, strict=True))


def _cell(cell: Agreement | str, notes: _Notes) -> str:
    if isinstance(cell, str):
        return f"- [{notes.number(cell)}]"
    return _numbers(cell[:3], (*cell.marks, ""))


class _Notes:
    """Reasons for dashes, numbered in order of appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, reason: str) -> int:
        return self.numbers.setdefault(reason, len(self.numbers) + 1)

    def lines(self) -> list[str]:
        text = "\n".join(f"[{number}] {reason}  " for reason, number in self.numbers.items())
        return [text] if text else []


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def trained(
    path: Path,
    names: Sequence[str],
    tested: JudgedSet,
    others: Sequence[tuple[JudgedSet, Sequence[Layer]]],
) -> Utility:
    """The combination for `tested`, which is written to `path`.

    Args:
        path: the model file.
        names: signatures of the metrics as the tested set takes them.
        tested: what it is not trained on.
        others: sets to train on, each with its scores under these metrics in their order.
    """
    here = {_start(document) for document in tested.documents}
    parts = [_examples(data, scored, here) for data, scored in others]
    rows = [row for some, _, _ in parts for row in some]
    pairs = [pair for _, some, _ in parts for pair in some]
    groups = [group for _, _, some in parts for group in some]
    learned = learn(gathered(rows, pairs, groups), Tuning(against="references", margin=MARGIN))
    features = [
        {"metric": name, "weight": float(weight), "min": float(low), "max": float(high)}
        for name, weight, low, high in zip(names, learned.weights, *learned.scale, strict=True)
    ]
    about = {"trained_on": [data.name for data, _ in others], "penalty": learned.fitting.penalty}
    about |= {"pairs": len(learned.differences), "features": features}
    unfinished = path.with_suffix(".part")
    model = with_checksum({"format": FORMAT, **about})
    unfinished.write_text(json.dumps(model, indent=1) + "\n", encoding="utf-8")
    os.replace(unfinished, path)
    return load_metric("combination", model=str(path))


def _examples(data: JudgedSet, scored: Sequence[Layer], left_out: set[str]) -> Examples:
    """Features [systems, metrics], (better, worse) systems and the document of every segment."""
    values = np.stack(
        [one.sign * one.segments for one in scored if one.segments is not None], axis=2
    )
    known = {name: s for s, name in enumerate(scored[0].systems)}
    owner = scored[0].parts[0].owner
    pairs: list[list[tuple[int, int]]] = [[] for _ in owner]
    for dimension in data.dimensions:
        human = human_layer(dimension, data.lower, data.documents)
        places = [known[name] for name in human.systems]
        for own, column in zip(
            pairs, human.segments.T if human.segments is not None else (), strict=True
        ):
            scores = [None if np.isnan(score) else float(score) for score in column]
            preferences = by_scores(scores, MARGIN if data.lower else 0.0, data.lower)
            own += [(places[better], places[worse]) for better, worse in preferences]
    segments = [i for i, d in enumerate(owner) if _start(data.documents[d]) not in left_out]
    names = [f"{data.name} {data.documents[owner[i]].id}" for i in segments]
    return [values[:, i] for i in segments], [pairs[i] for i in segments], names


def _start(document: DocumentOutputs) -> str:
    return "".join(" ".join(document.source or ()).lower().split())[:START]


class KeptScores:
    """The scores in a folder.

    Args:
        folder: made if it is not there.
        only: what is not there yet is not computed, but an error.
    """

    def __init__(self, folder: Path, only: bool = False) -> None:
        self.folder, self.only = folder, only
        folder.mkdir(parents=True, exist_ok=True)

    def scored(self, data: JudgedSet, metric: Utility) -> Layer:
        """The systems of a set under a metric; a mix is put together from the kept scores of its parts.

        Raises:
            InputError: as `score_systems`, or it is not there and `only` these are wanted.
        """
        if isinstance(metric, Mix):
            return mixed(metric, [self.scored(data, part) for _, part in metric.parts])
        path = self.folder / f"{data.name}.{metric.name}.{_digest(data, metric)}.npz"
        if path.exists():
            return _read(path, metric)
        if self.only:
            raise InputError("not scored")
        start = process_time()
        scores = score_systems(metric, data.documents)
        print(
            f"{data.name} {metric.signature():.80}: {process_time() - start:.1f} CPU s",
            file=sys.stderr,
            flush=True,
        )
        _write(path, scores)
        return scores


def mixed(mix: Mix, alone: list[Layer]) -> Layer:
    """The systems under a mix, from those under each of its metrics; equal to what `score_systems` finds."""
    factors = [weight * part.utility_sign for weight, part in mix.parts]
    own = list(zip(factors, alone, strict=True))
    parts = tuple(
        Part(factor, s.parts[0].scorer, s.parts[0].rows, s.parts[0].owner) for factor, s in own
    )
    values = [factor * s.segments for factor, s in own if s.segments is not None]
    segments = sum(values[1:], values[0]) if len(values) == len(own) else None
    return Layer(
        mix.signature(), True, alone[0].systems, parts, segments, sum(s.cuts for s in alone)
    )


def _digest(data: JudgedSet, metric: Metric) -> str:
    return sha256(f"{metric.signature()} {metric.info.version} {data.key}".encode()).hexdigest()[
        :16
    ]


def _write(path: Path, scored: Layer) -> None:
    part = scored.parts[0]
    about = {"systems": scored.systems, "cuts": scored.cuts}
    columns = {"rows": part.rows, "owner": part.owner, "about": np.array(json.dumps(about))}
    if scored.segments is not None:
        columns["segments"] = scored.segments
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **columns)
    os.replace(unfinished, path)


def _read(path: Path, metric: Metric) -> Layer:
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        part = Part(1.0, metric.scorer, file["rows"], file["owner"])
        segments = file.get("segments")
    systems = tuple(about["systems"])
    return Layer(
        metric.signature(), metric.info.higher_is_better, systems, (part,), segments, about["cuts"]
    )


if __name__ == "__main__":
    main()
