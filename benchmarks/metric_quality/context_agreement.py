"""Whether a metric agrees better with people when it reads the sentences before, and whose these should be.

    python -m benchmarks.metric_quality.context_agreement FOLDER --work WORK [--metrics bertscore embedding lm]
        [--sets NAME ...] [--readings NAME ...] [--segments N [SET=N ...]] [--model minilm]
        [--models ENGLISH OTHERS] [--dtype bfloat16] [--draws 1000] [--only-kept] [--output TABLES.md]

FOLDER holds mt_mqm_* systems files. Readings are ``alone``, ``reference-k`` and ``hypothesis-k``: a hypothesis is
read behind nothing, the k reference sentences before it, or its own system's (Vernikos et al. 2022, Table 3 and
Fig. 2); the reference always behind its own. `bertscore` and `embedding` compare with the first reference (refB of TED
zh-en) under MODEL, an English encoder, so only sets into English have them; `lm` is reference-free, under SmolLM2 into
English and Gemma 3 270M out of it, and takes ``chosen-k`` too, the sentences that consensus chose.
Only segments count whose every system is rated, all lend context. Printed are, of every metric, system-level Pearson
and the mean of Kendall's tau-b within segments, and then for each other reading the difference from `alone`, with 95 %
intervals by document (sets of fewer than ten: by blocks of ten segments), and p of PERM-BOTH (Deutsch et al. 2021).
`--segments N` takes the first N judged segments of a set, `SET=N` of one. Values are kept in WORK, which
`fluency` and `context_choice` may share: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.choice_quality.fluency import MODELS, language_model
from benchmarks.metric_quality.context_tables import Agreement, markdown
from benchmarks.support.context_readings import (
    ALONE,
    KeptUtilities,
    Reading,
    contexts,
    first_context,
)
from benchmarks.support.judged_segments import JudgedSegments, judged_sets
from benchmarks.support.kept_values import KeptValues, ListTexts
from benchmarks.support.markdown import write_or_print
from benchmarks.support.mqm_lists import SETS
from benchmarks.support.resampling import Resampling
from discorank.metrics.representations import FloatArray
from discorank.rerank.selection.agreement import pairwise_accuracy, with_ties
from discorank.rerank.selection.correlation import tau_b
from discorank.rerank.selection.metric_tests import DRAWS, perm_both, perm_both_segments

ENCODED, CAUSAL = ("bertscore", "embedding"), "lm"
READINGS = (
    ALONE,
    *(f"reference-{k}" for k in (1, 2, 3)),
    *(f"hypothesis-{k}" for k in (1, 2, 3)),
)


class Choices(NamedTuple):
    """What the command line chooses."""

    model: str = "minilm"
    models: tuple[str, str] = MODELS
    dtype: str = "bfloat16"
    draws: int = DRAWS


class Values:
    """Utilities of all systems on the segments that count, kept in a folder."""

    def __init__(self, work: Path, only: bool, choices: Choices) -> None:
        self.utilities = KeptUtilities(work / "utilities", only, choices.model)
        self.values = KeptValues(work, only)
        self.choices = choices

    def of(self, data: JudgedSegments, name: str, reading: Reading) -> FloatArray | None:
        """[segments, systems]; None where they are not complete, or the metric cannot read the set."""
        if name == CAUSAL:
            return self._likelihoods(data, reading)
        if not data.is_english:
            return None
        matrices = self.utilities.of(data, name, reading)
        return None if matrices is None else matrices[:, :, -1]

    def _likelihoods(self, data: JudgedSegments, reading: Reading) -> FloatArray | None:
        model = self.choices.models[0 if data.is_english else 1]
        metric = language_model(model, reading.width, self.choices.dtype)
        lists = list(likelihood_lists(data, reading))
        own = self.values.values(metric, lists, f"{data.name} {reading}")
        columns = [values for values in own if values is not None]
        if len(columns) < len(own):
            return None
        return np.concatenate(columns).reshape(len(data.rated), -1)


def likelihood_lists(data: JudgedSegments, reading: Reading) -> Iterator[ListTexts]:
    """The candidates as a language model reads them: one list where they share their context, else one each."""
    for i, before in zip(data.rated, contexts(data, reading), strict=True):
        record = data.records[i]
        source = str(record.source)
        texts = tuple(str(candidate.text) for candidate in record.candidates)
        shared = first_context(before)
        if shared is not None:
            yield ListTexts(texts, source, shared)
            continue
        for text, own in zip(texts, before, strict=True):
            yield ListTexts((text,), source, own)


def row_pearson(x: FloatArray, y: FloatArray) -> FloatArray:
    """Pearson's correlation of every row of x with that of y, both [..., S]: [...]."""
    x = x - x.mean(axis=-1, keepdims=True)
    y = y - y.mean(axis=-1, keepdims=True)
    squares = (x * x).sum(axis=-1) * (y * y).sum(axis=-1)
    products = (x * y).sum(axis=-1)
    undefined = np.zeros_like(squares)
    return np.asarray(np.divide(products, np.sqrt(squares), out=undefined, where=squares > 0))


def segment_taus(values: FloatArray, human: FloatArray) -> FloatArray:
    """Tau-b of every segment [n, S] that people order, 0 where the metric does not: [segments with an order]."""
    taus = []
    for own, of_people in zip(with_ties(values), with_ties(human), strict=True):
        if np.ptp(of_people):
            taus.append(tau_b(own.tolist(), of_people.tolist()) or 0.0)
    return np.array(taus)


def agreement(
    data: JudgedSegments,
    metric: str,
    reading: str,
    values: FloatArray,
    base: FloatArray,
    draws: int,
) -> Agreement:
    """A metric in a reading against people; `base` is the metric alone."""
    human = -np.array(data.mqm)  # [segments, systems]
    people, scores = human.mean(axis=0), values.mean(axis=0)
    resampling = Resampling(data.groups)
    pearsons = row_pearson(resampling.means(values), resampling.means(human))
    taus = segment_taus(values, human)
    is_ordered = np.ptp(human, axis=1) > 0
    groups = [group for group, own in zip(data.groups, is_ordered, strict=True) if own]
    p_pearson = p_tau = None
    if reading != ALONE:
        p_pearson = perm_both(values.T, base.T, people, "pearson", draws)
        p_tau = perm_both_segments(values.T, base.T, human.T, draws)
    return Agreement(
        data.name,
        metric,
        reading,
        (float(row_pearson(scores, people)), float(taus.mean())),
        (pearsons, Resampling(groups).means(taus)),
        (p_pearson, p_tau),
        pairwise_accuracy(scores, people),
        (len(data.rated), len(set(data.groups)), human.shape[1]),
    )


def agreements(
    sets: Sequence[JudgedSegments],
    metrics: Sequence[str],
    readings: Sequence[str],
    values: Callable[[JudgedSegments, str, Reading], FloatArray | None],
    draws: int,
) -> Iterator[Agreement]:
    """All that are complete; those alone come first."""
    for name in metrics:
        for data in sets:
            base = values(data, name, Reading.of(ALONE))
            if base is None:
                continue
            for reading in (ALONE, *(own for own in readings if own != ALONE)):
                own = values(data, name, Reading.of(reading))
                if own is not None:
                    yield agreement(data, name, reading, own, base, draws)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--metrics", nargs="+", default=list(ENCODED), choices=(*ENCODED, CAUSAL))
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--readings", nargs="+", default=list(READINGS))
    parser.add_argument("--segments", nargs="+", default=[], metavar="N or SET=N")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--models", nargs=2, default=list(MODELS), metavar=("ENGLISH", "OTHERS"))
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--only-kept", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    sets = judged_sets(options.folder, options.sets, options.segments)
    english, others = options.models
    choices = Choices(options.model, (english, others), options.dtype, options.draws)
    values = Values(options.work, options.only_kept, choices)
    rows = agreements(sets, options.metrics, options.readings, values.of, options.draws)
    write_or_print(markdown(list(rows)), options.output)


if __name__ == "__main__":
    main()
