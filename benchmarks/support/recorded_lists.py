"""Lists that were recorded once, for studies of choosing: a model's samples, and the systems of seven judged sets.

What costs time is kept in a folder (samples by blocks of captions, utility matrices by set and utility), so that a
study that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.mqm_lists import SETS, rated
from benchmarks.training.caption_model import captions
from discorank.integrations.generation.generator import Prompt
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray
from discorank.rerank.distinct import Distinct
from discorank.rerank.lists import CandidateList, read_list, write_list
from discorank.rerank.mbr_decoder import MBRDecoder

SAMPLES, BLOCK = 64, 50
TED_BLOCK = 10  # segments of a talk that are drawn together: these sets have three talks each


class RecordedSet(NamedTuple):
    """Lists with what a bootstrap draws together.

    Args:
        name: of the set.
        lists: its lists.
        groups: of every list, [lists].
    """

    name: str
    lists: list[CandidateList]
    groups: list[str]

    @property
    def errors(self) -> list[FloatArray]:
        """The MQM of every candidate, lower is better."""
        return [
            np.array([float(candidate.fields["mqm"]) for candidate in record.candidates])
            for record in self.lists
        ]


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What every study of recorded lists is given: JUDGED CAPTIONS MODEL KEPT."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("judged", type=Path, metavar="JUDGED")
    parser.add_argument("data", metavar="CAPTIONS")
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("kept", type=Path, metavar="KEPT")
    parser.add_argument("--captions", type=int, default=500)
    return parser


def judged_sets(folder: Path) -> list[RecordedSet]:
    """The seven sets of systems with MQM, the segments whose every system is rated."""
    sets = []
    for name in SETS:
        lists = rated(str(folder / f"mt_mqm_{name}.jsonl.gz"))
        groups = [str(record.document) for record in lists]
        if name.startswith("ted"):
            groups = [f"{document} {i // TED_BLOCK}" for i, document in enumerate(groups)]
        sets.append(RecordedSet(name, lists, groups))
    return sets


def caption_samples(
    data: str, model: Path, kept: Path, num_captions: int, temperature: float = 1.0
) -> RecordedSet:
    """64 samples of every one of the last captions by the model that `caption_model` trained, its references beside."""
    name = "captions" if temperature == 1 else f"captions-{temperature:g}"
    held = captions(data)[-num_captions:]
    weights = sha256((model / "model.safetensors").read_bytes()).hexdigest()[:12]
    lists: list[CandidateList] = []
    generator: Any = None
    for start in range(0, len(held), BLOCK):
        path = kept / f"{name}.{weights}.{num_captions}.{start}.jsonl"
        if not path.exists():
            generator = generator or _generator(model, temperature)
            block = held[start : start + BLOCK]
            prompts = [
                Prompt(str(start + i), german, german, references=(english,))
                for i, (german, english) in enumerate(block)
            ]
            _write(path, [write_list(record) for record in generator.generate(prompts)])
        lists += map(read_list, map(json.loads, path.read_text(encoding="utf-8").splitlines()))
    return RecordedSet(name, lists, [record.id for record in lists])


def _generator(model: Path, temperature: float) -> Any:
    import torch

    from discorank.integrations.huggingface import GenerationSettings, HuggingFaceGenerator
    from discorank.integrations.huggingface.model_loading import load

    torch.set_num_threads(1)
    loaded = load(str(model), device="cpu")
    how = GenerationSettings(
        num_candidates=SAMPLES,
        sampling="epsilon",
        temperature=temperature,
        max_new_tokens=60,
        sequences_at_once=256,
        seed=1,
    )
    return HuggingFaceGenerator(loaded.model, loaded.tokenizer, how)


def _write(path: Path, rows: Sequence[Any]) -> None:
    unfinished = path.with_suffix(".part")
    unfinished.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    os.replace(unfinished, path)


def utilities(data: RecordedSet, spec: str, kept: Path) -> list[FloatArray]:
    """Utilities [N, N] of all candidates of every list with each other."""
    texts = json.dumps([write_list(record) for record in data.lists]).encode()
    path = kept / f"{data.name}.{sha256(spec.encode() + texts).hexdigest()[:16]}.npz"
    if not path.exists():
        decoder = MBRDecoder(load_metric(spec), keep_matrix=True)
        matrices = [ranking.matrix for ranking in decoder.decode(data.lists)]
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as file:
            np.savez(file, **{str(i): u for i, u in enumerate(matrices)})  # type: ignore[arg-type]
        os.replace(unfinished, path)
    with np.load(path) as file:
        of_distinct = [file[str(i)] for i in range(len(data.lists))]
    places = [Distinct(record.candidates).of for record in data.lists]
    return [u[np.ix_(of, of)] for u, of in zip(of_distinct, places, strict=True)]


def against_references(data: RecordedSet, spec: str) -> list[FloatArray]:
    """The score of every candidate against the references, [N] for each list."""
    candidates = [str(c.text) for record in data.lists for c in record.candidates]
    references = [record.references for record in data.lists for _ in record.candidates]
    values = load_metric(spec).score(candidates, references)
    ends = np.cumsum([len(record.candidates) for record in data.lists])[:-1]
    return np.split(values, ends)


def resampled(groups: Sequence[str], columns: FloatArray, draws: int = 2000) -> FloatArray:
    """Bootstrap means over groups of columns [lists, m], [draws, m]."""
    number = np.unique(groups, return_inverse=True)[1]
    sums = np.stack([np.bincount(number, column) for column in columns.T], axis=1)
    counts = np.bincount(number)
    drawn = np.random.default_rng(0).integers(len(counts), size=(draws, len(counts)))
    return np.asarray(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)[:, None])
