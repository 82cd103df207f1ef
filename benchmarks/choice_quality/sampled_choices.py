"""Choosing among the samples of one model, by what is scored with metrics that nothing was optimised for.

    python -m benchmarks.choice_quality.sampled_choices LISTS.jsonl --work WORK [--beam BEAM.jsonl] [--candidates 32]
        [--base beam]

LISTS are candidate lists of one model with references, as `discorank generate` writes them; BEAM are the same sources
translated by beam search, of which the first candidate counts (lists without one are left out). No candidate has a
system, so that nothing of systems can be learned. Chosen by: the first sample; the beam; consensus by several
utilities, `chrf + 100*rouge-l` being what `decode --chooser default` does; consensus less what is copied from the
source, each standardised; consensus and features with weights that a ridge learned on other documents (five folds),
where the references stand for people: the teacher is chrF and ROUGE-L against them; the same without consensus; and the
best by chrF against the references (oracle).

Scores are those of whole corpora, with 95 % intervals by document (without documents: by list), and differences from
the first sample, or from `--base`. BLEU and TER are what no row but "MBR `bleu`" optimises. Utilities are kept in WORK.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.support.kept_arrays import KeptArrays
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser.measured import columns_of
from discorank.rerank.chooser.segment_values import first_best, standard
from discorank.rerank.lists import CandidateList
from discorank.rerank.surface import SURFACE
from discorank.rerank.tuning.candidate_features import features

from .language_model_lists import documents_of, table

TEACHER = DEFAULT = "chrf + 100*rouge-l"
UTILITIES = ("chrf", "rouge-l", "bleu", DEFAULT)
FOLDS, RIDGE = 5, 10.0
Against = Literal["candidates", "references"]


def lists_of(path: Path, size: int | None = None) -> list[CandidateList]:
    """The lists of a file, each with its document, cut to their first candidates."""
    with open_lists(str(path), "jsonl") as lists:
        records = [entry.record for entry in lists if entry.record is not None]
    found = []
    for record in records:
        document = record.extra.get("document_id", record.document or record.id)
        extra = {**record.extra, "document_id": document}
        found.append(replace(record, candidates=record.candidates[:size], extra=extra))
    return found


def taught(columns: FloatArray, scores: FloatArray, fold: Sequence[int]) -> FloatArray:
    """Values of all candidates by a ridge of scores on columns, learned on the other folds, [n, N].

    Args:
        columns: standardised within lists, [n, N, F].
        scores: higher is better, [n, N].
        fold: of every list.
    """
    centred = standard(scores)
    folds = np.array(fold)
    values = np.zeros(scores.shape)
    for held in range(FOLDS):
        rest, own = np.flatnonzero(folds != held), np.flatnonzero(folds == held)
        x = columns[rest].reshape(-1, columns.shape[2])
        y = centred[rest].reshape(-1)
        penalty = RIDGE * np.eye(x.shape[1])
        values[own] = columns[own] @ np.linalg.solve(x.T @ x + penalty, x.T @ y)
    return values


def folds_of(records: Sequence[CandidateList]) -> list[int]:
    """The fold of every list, one for a document."""
    documents = [str(record.extra["document_id"]) for record in records]
    return [int(sha256(name.encode()).hexdigest(), 16) % FOLDS for name in documents]


def choices(records: Sequence[CandidateList], work: Path) -> dict[str, list[str]]:
    """What every rule takes."""
    kept = KeptArrays(work)
    texts = repr([[str(c.text) for c in r.candidates] + [*map(str, r.references)] for r in records])

    def valued(spec: str, against: Against) -> FloatArray:
        metric = load_metric(spec)
        key = f"{metric.signature()} {[p.info.version for _, p in metric.parts]} {against} {texts}"
        name = f"sampled.{against}"
        found = kept.array(name, key, lambda: np.stack(features(metric, records, against)))
        return np.asarray(found)

    expected = {spec: valued(spec, "candidates") for spec in UTILITIES}
    consensus = np.stack([standard(own) for own in expected.values()], axis=2)
    surface = columns_of(SURFACE, records)
    teacher = valued(TEACHER, "references")
    fold = folds_of(records)
    both = np.concatenate([consensus, surface], axis=2)
    values = {f"MBR `{spec}`": own for spec, own in expected.items()}
    copied = surface[:, :, SURFACE.index("copied")]
    values[f"`expected` by `{DEFAULT}` less `copied`"] = standard(expected[DEFAULT]) - copied
    values["consensus and features, taught by references"] = taught(both, teacher, fold)
    values["features alone, taught by references"] = taught(surface, teacher, fold)
    values["oracle by chrF"] = valued("chrf", "references")
    found = {"sample": [str(record.candidates[0].text) for record in records]}
    for name, own in values.items():
        picks = first_best(own)
        pairs = zip(records, picks.tolist(), strict=True)
        found[name] = [str(record.candidates[pick].text) for record, pick in pairs]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", type=Path)
    parser.add_argument("--beam", type=Path)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--base", default="sample", help="the row that differences are from")
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    records = lists_of(options.lists, options.candidates)
    first = {}
    if options.beam:
        best = {record.id: str(record.candidates[0].text) for record in lists_of(options.beam)}
        records = [record for record in records if record.id in best]
        first = {"beam": [best[record.id] for record in records]}
    found = choices(records, options.work)
    found = {"sample": found.pop("sample")} | first | found
    found = {options.base: found[options.base]} | found  # the first row is the base
    documents = documents_of(records, found)
    distinct = np.mean([len({c.text for c in record.candidates}) for record in records])
    size = len(records[0].candidates)
    print(f"{len(records)} lists of {size}, {distinct:.1f} distinct, {len(documents)} documents")
    print(f"\n{table(documents)}")


if __name__ == "__main__":
    main()
