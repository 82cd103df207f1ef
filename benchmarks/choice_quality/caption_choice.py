"""Real samples of a real model: what choosing by expected utility gains over beam search and over one sample.

    python -m benchmarks.choice_quality.caption_choice DATA FOLDER [--captions 1000]
        [--sampling epsilon] [--utilities chrf bleu ...]

FOLDER is a model that `caption_model` trained on DATA; the captions are the last ones, which it has not seen. Every
row is a system: beam search (width 5), one sample, MBR over the first N of 64 samples, and the oracle, which chooses by
chrF against the human reference. chrF and BLEU are those of the corpus, with 95 % intervals by bootstrap over captions
(1000 draws, the same for all rows); "over beam" is the difference in chrF. Seconds are CPU seconds of generating, or of
choosing alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.support.measuring import cpu_seconds
from benchmarks.training.caption_model import captions
from discorank import load_metric
from discorank.integrations.generation.generator import Prompt
from discorank.integrations.huggingface import GenerationSettings, HuggingFaceGenerator
from discorank.integrations.huggingface.model_loading import load
from discorank.metrics.execution.segment_scores import scores_and_statistics
from discorank.rerank.lists import CandidateList
from discorank.rerank.mbr_decoder import MBRDecoder

SIZES, BEAM, DRAWS = (8, 16, 32, 64), 5, 1000
UTILITIES = ("chrf", "bleu", 'bertscore(model="minilm")')


class Corpus:
    """Corpus scores of a system by one metric, and their bootstrap."""

    def __init__(self, name: str, references: Sequence[str]) -> None:
        self.metric, self.references = load_metric(name), references
        self.draws = np.random.default_rng(0).integers(
            len(references), size=(DRAWS, len(references))
        )

    def scores(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """The score, and those of every draw, [1 + draws]."""
        ((_, metric),) = self.metric.parts
        segments = metric.segments(texts, self.references, None, None)
        statistics = scores_and_statistics(metric, segments)[1]
        scorer = metric.scorer
        drawn = [scorer.aggregate(statistics[draw]) for draw in self.draws]
        return np.array([scorer.aggregate(statistics), *drawn])


def interval(scores: np.ndarray[Any, Any]) -> str:
    low, high = np.quantile(scores[1:], [0.025, 0.975])
    return f"{scores[0]:6.2f} [{low:6.2f}, {high:6.2f}]"


def generated(
    generator: HuggingFaceGenerator, prompts: list[Prompt]
) -> tuple[list[CandidateList], float]:
    start = cpu_seconds()
    lists = list(generator.generate(prompts))
    assert all(isinstance(record, CandidateList) for record in lists)
    return [record for record in lists if isinstance(record, CandidateList)], cpu_seconds() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--captions", type=int, default=1000)
    parser.add_argument("--sampling", default="epsilon")
    parser.add_argument("--utilities", nargs="+", default=UTILITIES)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    held = captions(options.data)[-options.captions :]
    references = [english for _, english in held]
    prompts = [
        Prompt(str(i), german, german, references=(english,))
        for i, (german, english) in enumerate(held)
    ]
    loaded = load(options.folder, device="cpu")
    beam = GenerationSettings(
        num_candidates=BEAM, sampling="beam", max_new_tokens=60, sequences_at_once=256
    )
    samples = GenerationSettings(
        num_candidates=max(SIZES),
        sampling=options.sampling,
        max_new_tokens=60,
        sequences_at_once=256,
        seed=1,
    )
    chrf, bleu = Corpus("chrf", references), Corpus("bleu", references)

    def row(name: str, texts: Sequence[str], seconds: float) -> None:
        ours = chrf.scores(texts)
        beside = f"{interval(ours)}  {interval(bleu.scores(texts))}  {interval(ours - base)}"
        print(f"{name:34} {beside}  {seconds:8.1f} s", flush=True)

    best, seconds = generated(HuggingFaceGenerator(loaded.model, loaded.tokenizer, beam), prompts)
    base = chrf.scores([str(record.candidates[0].text) for record in best])
    print(f"{len(held)} captions, {options.sampling} sampling")
    print(f"{'':34} {'chrF':>23}  {'BLEU':>23}  {'over beam':>23}")
    row(f"beam {BEAM}", [str(record.candidates[0].text) for record in best], seconds)
    lists, seconds = generated(
        HuggingFaceGenerator(loaded.model, loaded.tokenizer, samples), prompts
    )
    distinct = np.mean(
        [len({candidate.text for candidate in record.candidates}) for record in lists]
    )
    print(f"64 samples: {seconds:.1f} s, {distinct:.1f} distinct on average", flush=True)
    row("one sample", [str(record.candidates[0].text) for record in lists], seconds / max(SIZES))
    for size in SIZES:
        cut_lists = [replace(record, candidates=record.candidates[:size]) for record in lists]
        for name in (*options.utilities, "oracle"):
            oracle = name == "oracle"
            decoder = MBRDecoder(utility="chrf" if oracle else name, oracle=oracle)
            start = cpu_seconds()
            texts = [str(ranking.text) for ranking in decoder.decode(cut_lists)]
            row(f"{name if oracle else 'MBR ' + name}, N={size}", texts, cpu_seconds() - start)


if __name__ == "__main__":
    main()
