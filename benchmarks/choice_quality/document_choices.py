"""Choosing whole documents among systems: which sums of sentence and document utilities choose best by people.

    python -m benchmarks.choice_quality.document_choices FOLDER WORK [--kept] [--sets SET ...]
        [--roles CLASSIFIER] [-o TABLES.md]

FOLDER holds the sets of `judged_sets`; matrices are kept in WORK, so that the same command goes on, and ``--kept``
makes the tables of what is there. A document is decided as `decode --choice document --normalize zscore` does: every
system's whole document is a candidate, each part of a sum is its expected utility against the other systems, turned
into z-scores within the list. Segment metrics read translations segment by segment, summaries as one text; chrF also,
on summaries and paragraphs, the text as one, and split into sentences and aligned. Sets of fewer than ten documents,
and languages without blanks, are left out. CLASSIFIER labels English sentences with roles for `pdd` (see `rst_roles`).

A document's human score is the sum of its segments' MQM, where all systems are rated, or the mean of a summary's
dimensions. A figure is the gain over a system drawn at random, in standard deviations of the scores within a document
of the set, with the 95 % interval by document. Weights of a sum are named here, or chosen on all other sets.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.judged_sets import (
    FROM_ENGLISH,
    INTO_ENGLISH,
    SUMMARIES_OF,
    JudgedSet,
    paths,
    read_set,
)
from benchmarks.support.kept_matrices import KeptMatrices
from benchmarks.support.markdown import write_or_print
from benchmarks.support.resampling import Resampling, shown
from discorank import load_metric
from discorank.metrics.base import Metric
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.sentence_splitting import sentences
from discorank.metrics.text.texts import Document, Text
from discorank.rerank.choice import in_order
from discorank.rerank.expectation import expected_utility
from discorank.rerank.normalization import normalized
from discorank.rerank.selection.document_outputs import DocumentOutputs

FEW = 10  # documents, below which a set is left out
WITHOUT_BLANKS = ("zh", "ja")
LEXICAL = ("chrf", "rouge-l")
ENGLISH = ("bertscore", "ds-focus", "ds-sent", "dr-lex")  # models and a parser for English
ROLES = "pdd"  # by a classifier of English sentences
# chrF of other readings of a document, on sets of texts that systems cut into sentences as they like
ALIGNED = {
    "chrf, joined": ("chrf", "joined"),
    "chrf, monotone": ('chrf(align="monotone")', "sentences"),
}
ALIGNED_SETS = ("summeval", "realsumm", "newsroom_ner18", "wmt23.en-de")
WEIGHTS = (0.0, 0.5, 1.0)  # of every part, where weights are chosen on other sets
SENTENCE_PARTS, DOCUMENT_PARTS = ("chrf", "rouge-l", "bertscore"), ("ds-focus", "ds-sent", "dr-lex")
Rule = Mapping[str, float]  # weight of every part
NAMED: tuple[Rule, ...] = (
    *({part: 1.0} for part in (*LEXICAL, *ALIGNED, *ENGLISH, ROLES)),
    {"chrf": 1, "rouge-l": 1},
    {"chrf": 1, "bertscore": 1},
    {"chrf": 1, "ds-focus": 1},
    {"chrf": 1, "ds-sent": 1},
    {"chrf": 1, "dr-lex": 1},
    {"chrf": 1, ROLES: 1},
    {"rouge-l": 1, "ds-focus": 1},
    {"bertscore": 1, "ds-focus": 1},
    {"chrf": 1, "rouge-l": 1, "ds-focus": 1},
    {"chrf": 1, "rouge-l": 1, "bertscore": 1},
    {"chrf": 1, "rouge-l": 1, "bertscore": 1, "ds-focus": 1, "ds-sent": 1},
)


class DocumentSet(NamedTuple):
    """The documents of a set whose every system is judged.

    Args:
        name: of the set.
        kind: the part of the table where it stands.
        human: scores [documents, S], higher is better.
        parts: expected utilities [documents, S] as z-scores, by part.
    """

    name: str
    kind: str
    human: FloatArray
    parts: dict[str, FloatArray]

    @property
    def gains(self) -> FloatArray:
        """Every system's score less the mean of its document, in standard deviations, [documents, S]."""
        deviations = self.human - self.human.mean(axis=1, keepdims=True)
        return np.asarray(deviations / np.sqrt((deviations**2).mean()))

    def gain(self, rule: Rule) -> FloatArray | None:
        """The gain of what a rule chooses, [documents]; None where a part of it is not there."""
        if not self.parts.keys() >= rule.keys():
            return None
        values = sum(weight * self.parts[part] for part, weight in rule.items())
        chosen = [next(in_order(row)) for row in np.asarray(values)]
        return np.asarray(self.gains[np.arange(len(chosen)), chosen])


def metric_of(part: str, language: str, roles: str | None = None) -> Metric:
    """A part as the language has it; roles: the classifier of sentences."""
    spec, _ = ALIGNED.get(part, (part, ""))
    settings: dict[str, Any] = {"model": roles} if part == ROLES else {}
    (pair,) = load_metric(spec, **settings).for_language(language).parts
    return pair[1]


def judged(document: DocumentOutputs, judged_set: JudgedSet) -> FloatArray | None:
    """The score of every system of a document, [S]; None where no segment has all of them."""
    rows = []
    for dimension in judged_set.dimensions:
        scores = document.human[dimension]
        if not scores.keys() >= document.systems.keys():
            return None
        columns = [np.atleast_1d(np.array(scores[name], float)) for name in document.systems]
        segments = np.stack(columns)  # [S, segments], NaN where nobody judged
        rows.append(segments[:, ~np.isnan(segments).any(axis=0)].sum(axis=1))
        if np.isnan(segments).any(axis=0).all():
            return None
    sign = -1.0 if judged_set.lower else 1.0
    return np.asarray(sign * np.mean(rows, axis=0))


def read(part: str, document: DocumentOutputs, segments: tuple[str, ...]) -> Text:
    """A system's document as a part reads it."""
    _, reading = ALIGNED.get(part, (part, "segments"))
    if reading == "segments":
        return document.units(segments, True)[0]
    if reading == "joined":
        return " ".join(segments)
    return Document([sentence for segment in segments for sentence in sentences(segment)])


def expected(
    part: str, metric: Metric, documents: Sequence[DocumentOutputs], kept: KeptMatrices
) -> FloatArray | None:
    """Expected utilities [documents, S] against the other systems; None where not all are there."""
    rows = []
    for document in documents:
        texts = [read(part, document, segments) for segments in document.systems.values()]
        matrix = kept.matrix(metric, texts)
        if matrix is None:
            return None
        ones = np.ones(len(texts))
        rows.append(expected_utility(matrix, ones, ones))
    return np.stack(rows)


def usable(judged_set: JudgedSet) -> bool:
    """Whether a set has enough documents, in a language that all parts can cut into words."""
    return judged_set.language not in WITHOUT_BLANKS and len(judged_set.documents) >= FEW


def document_set(
    judged_set: JudgedSet, parts: Sequence[str], kept: KeptMatrices, roles: str | None = None
) -> DocumentSet:
    """A set with those of the parts that are there, or are computed."""
    scores = [judged(document, judged_set) for document in judged_set.documents]
    pairs = list(zip(judged_set.documents, scores, strict=True))
    documents = [document for document, own in pairs if own is not None]
    values = {}
    for part in parts:
        begun = process_time()
        of_part = expected(part, metric_of(part, judged_set.language, roles), documents, kept)
        if of_part is not None:
            values[part] = np.stack([normalized(row, "zscore") for row in of_part])
        seconds = process_time() - begun
        print(f"{judged_set.name} {part}: {seconds:.0f} CPU s", file=sys.stderr, flush=True)
    human = np.stack([own for own in scores if own is not None])
    return DocumentSet(judged_set.name, judged_set.group, human, values)


def grid(parts: Sequence[str]) -> Iterator[Rule]:
    """Every rule of weighted parts, each scale once."""
    for weights in product(WEIGHTS, repeat=len(parts)):
        if max(weights) == 1:
            yield {part: w for part, w in zip(parts, weights, strict=True) if w}


def learned(sets: Sequence[DocumentSet], at: int, parts: Sequence[str]) -> Rule | None:
    """The weights with the highest mean gain on all sets but one that have the parts; None where that one has not."""
    if not sets[at].parts.keys() >= set(parts):
        return None
    others = [own for i, own in enumerate(sets) if i != at and own.parts.keys() >= set(parts)]
    best: Rule | None = None
    highest = -np.inf
    for rule in grid(parts):
        gains = [own.gain(rule) for own in others]
        mean = float(np.mean([gain.mean() for gain in gains if gain is not None]))
        if mean > highest + 1e-12:
            best, highest = rule, mean
    return best


LEARNED = {
    "weights of other sets: sentence utilities": SENTENCE_PARTS,
    "weights of other sets: document utilities": DOCUMENT_PARTS,
    "weights of other sets: both": (*SENTENCE_PARTS, *DOCUMENT_PARTS),
}


def rows_of(sets: Sequence[DocumentSet]) -> dict[str, list[FloatArray | None]]:
    """The gains [documents] of every row of the table in every set."""
    rows: dict[str, list[FloatArray | None]] = {}
    for named in NAMED:
        rows[name_of(named)] = [own.gain(named) for own in sets]
    for name, parts in LEARNED.items():
        rules = [learned(sets, at, parts) for at in range(len(sets))]
        for own, rule in zip(sets, rules, strict=True):
            if rule is not None:
                print(f"{own.name}: {name}: {name_of(rule)}", file=sys.stderr)
        pairs = zip(sets, rules, strict=True)
        rows[name] = [None if rule is None else own.gain(rule) for own, rule in pairs]
    rows["best single system, in hindsight"] = [
        own.gains[:, own.gains.mean(axis=0).argmax()] for own in sets
    ]
    rows["oracle"] = [own.gains.max(axis=1) for own in sets]
    return rows


def name_of(rule: Rule) -> str:
    """A rule as a utility is written."""
    return " + ".join(part if w == 1 else f"{w:g}*{part}" for part, w in rule.items())


class Cell(NamedTuple):
    """The mean of the gains of some sets, and its draws."""

    mean: float
    draws: FloatArray

    @classmethod
    def of(cls, gains: Sequence[FloatArray | None]) -> Cell | None:
        """None where a set has none."""
        own = [gain for gain in gains if gain is not None]
        if not own or len(own) < len(gains):
            return None
        means = [gain.mean() for gain in own]
        draws = []
        for seed, gain in enumerate(own):
            resampling = Resampling([str(i) for i in range(len(gain))], seed=seed)
            draws.append(resampling.means(gain))
        return cls(float(np.mean(means)), np.mean(draws, axis=0))

    def __str__(self) -> str:
        """With the interval by document."""
        return shown(self.mean, self.draws, 2, "+")


def table(sets: Sequence[DocumentSet], against: str) -> str:
    """Gains in every column, and in the last those over a rule, on the sets that have all parts."""
    columns = columns_of(sets)
    rows = rows_of(sets)
    names = [f"{name} ({sum(len(sets[i].human) for i in places)})" for name, places in columns]
    header = ["chosen by", *names, f"less `{against}`"]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for name, gains in rows.items():
        cells = [str(Cell.of([gains[i] for i in places]) or "") for _, places in columns]
        pairs = zip(gains, rows[against], strict=True)
        less = [a - b for a, b in pairs if a is not None and b is not None]
        cells.append("" if name == against else str(Cell.of(less) or ""))
        lines.append("| " + " | ".join([f"`{name}`", *cells]) + " |")
    return "\n".join(lines) + "\n"


def columns_of(sets: Sequence[DocumentSet]) -> list[tuple[str, list[int]]]:
    """What the columns of the table are: sets of their own, or several together, by number."""
    alone = {*ALIGNED_SETS, "bio.de-en"}
    columns = [(own.name, [i]) for i, own in enumerate(sets) if own.name in alone]
    for kind in (INTO_ENGLISH, FROM_ENGLISH):
        places = [i for i, own in enumerate(sets) if own.name not in alone and own.kind == kind]
        if places:
            columns.append((f"{len(places)} sets {kind}", places))
    return columns


def main() -> None:
    """Computes what is not there and makes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--kept", action="store_true", help="of what is there alone")
    parser.add_argument("--roles")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    kept = KeptMatrices(given.work, given.kept)
    judged_sets = [read_set(path) for path in paths(given.folder, given.sets)]
    judged_sets = [own for own in judged_sets if usable(own)]
    # what costs little first
    judged_sets.sort(key=lambda own: (own.group != SUMMARIES_OF, cost(own)))
    for own in judged_sets:
        document_set(own, LEXICAL, kept)
    sets = []
    for own in judged_sets:
        parts = (*LEXICAL, *(ALIGNED if own.name in ALIGNED_SETS else ()))
        if own.language == "en":
            parts = (*parts, *ENGLISH, *((ROLES,) if given.roles else ()))
        sets.append(document_set(own, parts, kept, given.roles))
    write_or_print(table(sets, "chrf"), given.output)


def cost(judged_set: JudgedSet) -> int:
    """How many characters the systems wrote."""
    texts = [text for document in judged_set.documents for text in document.systems.values()]
    return sum(len(sentence) for text in texts for sentence in text)


if __name__ == "__main__":
    main()
