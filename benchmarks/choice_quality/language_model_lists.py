"""Real n-best lists: a small language model translates, and different ways of choosing among its samples.

    python -m benchmarks.choice_quality.language_model_lists FOLDER --work WORK [--pairs en-de en-ru] [--sources N]
        [--model gemma3-270m] [--output TABLES.md]

FOLDER holds nbest_wmt22.<pair> for sources and references. Gemma 3 270M, a base model, reads one few-shot example and
the source; `discorank generate` draws 16 samples (epsilon 0.02, seed 0) and, apart, a beam of 5, up to the line's end.
Sources are those of 20 to 160 characters in a fixed random order, the first N. Chosen by a sample (the first), the
beam's best, MBR, the likelihood under the same model given the source, MBR and likelihood together, each standardised,
and the best by chrF against the references (oracle). Scores are those of whole systems, with 95 % intervals by
document, and the difference from the first sample. TER was not optimised by any. Generation and values are kept in
WORK: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.metric_quality.contrastive_lm import LANGUAGES, few_shot_example
from benchmarks.support.kept_values import KeptValues, ListTexts
from benchmarks.support.markdown import write_or_print
from benchmarks.support.resampling import RESAMPLES, shown
from discorank import load_metric
from discorank.cli.main import main as main_command
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.base import Metric
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import NO_CONTEXT
from discorank.rerank.choice import in_order
from discorank.rerank.lists import CandidateList
from discorank.rerank.mbr_decoder import MBRDecoder
from discorank.rerank.normalization import normalized
from discorank.rerank.selection.system_scores import DocumentOutputs, score_systems
from discorank.rerank.training.combination_training import features

METRICS = {"chrf": 1, "bleu": 1, "rouge-l": 100, "ter": 1}  # and what scores are multiplied by
CONSENSUS = "chrf + 100*rouge-l"
LENGTHS = (20, 160)  # characters of a source
SAMPLES, BEAM = 16, 5
MAX_NEW_TOKENS = 96
SEED = 0
WEIGHTS = (0.25, 0.5, 1.0)  # of the likelihood beside consensus
Choices = dict[str, list[str]]  # the chosen text of every list, by chooser


def sources(path: Path, most: int) -> Iterator[dict[str, Any]]:
    """Inputs of `discorank generate`, with references: segments in random order, so that many documents have some."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    low, high = LENGTHS
    places = [
        (row, i)
        for row in rows
        for i, source in enumerate(row["source"])
        if low <= len(source) <= high
    ]
    for number in np.random.default_rng(SEED).permutation(len(places))[:most].tolist():
        row, i = places[number]
        references = [own[i] for own in row["references"].values()]
        found = {"id": f"{row['id']}:{i}", "source": row["source"][i], "document_id": row["id"]}
        yield {**found, "references": references}


def generated(
    inputs: Path, pair: str, model: str, work: Path, sampling: str, size: int
) -> list[CandidateList]:
    """The lists of a generator, begun or gone on with."""
    out = inputs.with_suffix(f".{sampling}.jsonl")
    arguments = ["generate", str(inputs), "--generator", model, "-n", str(size)]
    arguments += ["--sampling", sampling, "--prompt", prompt(pair), "--stop", "\n"]
    arguments += ["--examples", str(few_shot_example(pair[-2:], work)), "--seed", str(SEED)]
    arguments += ["--max-new-tokens", str(MAX_NEW_TOKENS), "--max-errors", "1000"]
    arguments += ["--dtype", "bfloat16"]
    if main_command([*arguments, "-o", str(out)]) not in (0, 3):
        raise SystemExit(f"discorank generate failed on {inputs}")
    with open_lists(str(out), "jsonl") as lists:
        return [entry.record for entry in lists if entry.record is not None]


def prompt(pair: str) -> str:
    """What stands before a translation."""
    return f"English: {{source}}\n{LANGUAGES[pair[-2:]]}:"


def likelihood(pair: str, model: str, work: Path) -> Metric:
    """The metric that the lists are reranked by."""
    metric: Any = load_metric(
        "lm",
        model=model,
        given="source",
        prompt=prompt(pair) + " ",
        separator="\n\n",
        examples=str(few_shot_example(pair[-2:], work)),
        dtype="bfloat16",
    )
    return metric  # type: ignore[no-any-return]


def choices(samples: Sequence[CandidateList], lm: Sequence[FloatArray]) -> Choices:
    """What every chooser takes of the samples, given their likelihood."""
    consensus = features(load_metric(CONSENSUS), samples, "candidates")
    values = {
        "sample": [np.zeros(len(own)) for own in consensus],
        "MBR `chrf`": features(load_metric("chrf"), samples, "candidates"),
        f"MBR `{CONSENSUS}`": consensus,
        "`lm` given the source": list(lm),
    }
    for weight in WEIGHTS:
        values[f"both, likelihood x {weight:g}"] = [
            normalized(a, "zscore") + weight * normalized(b, "zscore")
            for a, b in zip(consensus, lm, strict=True)
        ]
    oracle = MBRDecoder(utility="chrf", oracle=True)
    chosen = {
        name: [
            str(record.candidates[next(in_order(own))].text)
            for record, own in zip(samples, columns, strict=True)
        ]
        for name, columns in values.items()
    }
    return chosen | {"oracle by chrF": [str(ranking.text) for ranking in oracle.decode(samples)]}


def documents_of(records: Sequence[CandidateList], chosen: Choices) -> list[DocumentOutputs]:
    """The choices as systems that are compared."""
    rows: dict[str, list[int]] = {}
    for i, record in enumerate(records):
        rows.setdefault(str(record.extra["document_id"]), []).append(i)
    documents = []
    for name, own in rows.items():
        systems = {chooser: tuple(texts[i] for i in own) for chooser, texts in chosen.items()}
        references = {
            f"ref{k}": tuple(str(records[i].references[k]) for i in own)
            for k in range(len(records[0].references))
        }
        documents.append(DocumentOutputs(name, False, None, systems, references, {}))
    return documents


def table(documents: Sequence[DocumentOutputs]) -> str:
    """Scores of the choosers, in Markdown: with its interval, and the difference from the first with its own."""
    systems = list(documents[0].systems)
    drawn = np.random.default_rng(0).integers(len(documents), size=(RESAMPLES, len(documents)))
    copies = np.stack([np.bincount(row, minlength=len(documents)) for row in drawn])
    cells: dict[str, list[str]] = {system: [] for system in systems}
    for metric, factor in METRICS.items():
        scored = score_systems(load_metric(metric), documents)
        scores, draws = factor * scored.system_scores(), factor * scored.resampled(copies)
        for system, score, own in zip(systems, scores.tolist(), draws, strict=True):
            text = shown(score, own, 1)
            if system != systems[0]:
                text += f"; {shown(score - scores[0], own - draws[0], 1, '+')}"
            cells[system].append(text)
    head = ["chosen by", *(f"`{metric}`" for metric in METRICS)]
    rows = [head, ["---"] * len(head), *([system, *own] for system, own in cells.items())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def of_pair(folder: Path, pair: str, most: int, model: str, work: Path) -> str:
    """The table of a language pair."""
    inputs = work / f"{pair}.sources.{most}.jsonl"
    rows = sources(folder / f"nbest_wmt22.{pair}.jsonl.gz", most)
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    inputs.write_text("".join(lines), encoding="utf-8")
    samples = generated(inputs, pair, model, work, "epsilon", SAMPLES)
    beams = generated(inputs, pair, model, work, "beam", BEAM)
    best = {record.id: str(record.candidates[0].text) for record in beams}
    samples = [record for record in samples if record.id in best]
    lists = [
        ListTexts(tuple(str(c.text) for c in record.candidates), str(record.source), NO_CONTEXT)
        for record in samples
    ]
    values = KeptValues(work).values(likelihood(pair, model, work), lists, pair)
    chosen = choices(samples, [own for own in values if own is not None])
    first = {"sample": chosen["sample"], "beam": [best[record.id] for record in samples]}
    documents = documents_of(samples, first | chosen)
    distinct = np.mean([len(set(own.texts)) for own in lists])
    counts = f"{pair}: {len(lists)} of {len(lines)} sources, {len(documents)} documents"
    return f"{counts}, {distinct:.1f} distinct candidates of {SAMPLES}\n\n{table(documents)}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--pairs", nargs="+", default=["en-de", "en-ru"])
    parser.add_argument("--sources", type=int, default=200)
    parser.add_argument("--model", default="gemma3-270m")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    parts = [
        of_pair(options.folder, pair, options.sources, options.model, options.work)
        for pair in options.pairs
    ]
    markdown = "\n\n".join(parts) + "\n"
    write_or_print(markdown, options.output)


if __name__ == "__main__":
    main()
