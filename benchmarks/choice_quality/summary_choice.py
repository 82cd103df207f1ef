"""MBR over the summaries of several systems, and metrics against human scores: SummEval, REALSumm, NeR18.

    python -m benchmarks.choice_quality.summary_choice FOLDER [--sets SET ...] [--utilities UTILITY ...]

FOLDER holds summ_summeval, summ_realsumm and summ_newsroom_ner18 (.jsonl.gz), one article per line with references,
systems and human scores (higher is better). First table: of each article every utility chooses one system's summary by
its mean utility against the others' (references hidden); the mean human scores of what was chosen, and the gain of
each over a system drawn at random, with 95 % intervals by bootstrap over articles. Second table: Kendall's tau-b,
signed, of system means against mean human scores, the metric given the references; a distance that is good is
negative.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import kendalltau  # type: ignore[import-untyped]

from discorank import load_metric
from discorank.integrations.formats.open_lists import open_lists
from discorank.rerank.lists import CandidateList
from discorank.rerank.mbr_decoder import MBRDecoder

SETS = ("summeval", "realsumm", "newsroom_ner18")
UTILITIES = (
    "ds-focus",
    'ds-focus(compat="reference")',
    'ds-focus(missing="penalise",aggregate="F",norm="squared")',
    'ds-focus(norm="l2")',
    'ds-focus(norm="squared")',
    'ds-focus(focus="entity",norm="squared")',
    "ds-sent",
    "ds-sent(weighted=true)",
    "lexical-chain",
    "chrf",
    "rouge-l(stemmer=true)",
    'bertscore(model="minilm")',
)
ALONE = (
    'cohesion(measure="rc")',
    "cohesion",
    "entity-graph",
    'entity-graph(focus="entity")',
)
RESAMPLES = 2000
Scores = np.ndarray[Any, Any]


def read(folder: str, name: str) -> tuple[list[CandidateList], list[str], Scores]:
    """The articles all of whose systems are rated, the dimensions, and their scores [articles, systems, dimensions]."""
    with open_lists(str(Path(folder) / f"summ_{name}.jsonl.gz"), "systems") as lists:
        records = [entry.record for entry in lists if entry.record is not None]
    dimensions = sorted(
        {key for record in records for c in record.candidates for key in c.fields} - {"system"}
    )
    rated = [r for r in records if all(set(dimensions) <= c.fields.keys() for c in r.candidates)]
    rows = [sorted(r.candidates, key=lambda c: str(c.fields["system"])) for r in rated]
    ratings = [[[float(c.fields[d]) for d in dimensions] for c in row] for row in rows]
    print(
        f"{name}: {len(rated)} of {len(records)} articles, {len(rows[0])} systems; {', '.join(dimensions)}"
    )
    return (
        [replace(r, candidates=tuple(row)) for r, row in zip(rated, rows, strict=True)],
        dimensions,
        np.array(ratings),
    )


def with_interval(values: Scores) -> str:
    """Mean and 95 % interval by articles."""
    draws = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return f"{values.mean():+.3f} [{low:+.3f},{high:+.3f}]"


def choices(records: list[CandidateList], scores: Scores, utilities: tuple[str, ...]) -> None:
    """The table of choices."""
    articles = np.arange(len(records))
    expected = scores.mean(axis=1)

    def line(name: str, chosen: Scores, seconds: float | None = None) -> Scores:
        means = " ".join(f"{x:6.3f}" for x in chosen.mean(axis=0))
        gains = "  ".join(with_interval(gain) for gain in (chosen - expected).T)
        time = "" if seconds is None else f"{seconds:5.0f} s"
        average = with_interval((chosen - expected).mean(axis=1))
        print(
            f"  {name:44} {means} {chosen.mean():6.3f}  {gains}  all {average} {time}", flush=True
        )
        return chosen

    print(
        "  chosen: mean of every dimension and of all; gain over a random system in each, then in their mean"
    )
    line("random system", expected)
    line("best single system (hindsight)", scores[:, scores.mean(axis=(0, 2)).argmax()])
    line("oracle", scores[articles, scores.mean(axis=2).argmax(axis=1)])
    scores_of = {}
    for name in utilities:
        start = perf_counter()
        picks = [
            ranking.index for ranking in MBRDecoder(utility=name, self_pair=False).decode(records)
        ]
        scores_of[name] = line(f"MBR {name}", scores[articles, picks], perf_counter() - start)
    for name in utilities:
        if name.startswith("ds-") and "chrf" in scores_of and name != "chrf":
            print(
                f"  {name} - chrf: "
                + "  ".join(with_interval(d) for d in (scores_of[name] - scores_of["chrf"]).T)
            )


def correlations(
    records: list[CandidateList], dimensions: list[str], scores: Scores, names: tuple[str, ...]
) -> None:
    """The table of Kendall's tau."""
    print(f"  {'system-level tau, signed':44} {' '.join(f'{d[:12]:>13}' for d in dimensions)}")
    hypotheses = [str(c.text) for r in records for c in r.candidates]
    references = [[str(x) for x in r.references] for r in records for _ in r.candidates]
    for name in names:
        metric = load_metric(name)
        values = metric.score(hypotheses, references).reshape(scores.shape[:2]).mean(axis=0)
        taus = [
            kendalltau(values, scores[:, :, d].mean(axis=0)).statistic
            for d in range(len(dimensions))
        ]
        print(f"  {name:44} {' '.join(f'{tau:+13.2f}' for tau in taus)}", flush=True)


def main(folder: str, sets: list[str], utilities: tuple[str, ...]) -> None:
    """Both tables of every set."""
    for name in sets:
        records, dimensions, scores = read(folder, name)
        choices(records, scores, utilities)
        correlations(records, dimensions, scores, (*utilities, *ALONE))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--utilities", nargs="+", default=list(UTILITIES))
    given = parser.parse_args()
    main(given.folder, given.sets, tuple(given.utilities))
