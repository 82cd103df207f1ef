"""Simulated human evaluations with gaps: how often a system is called best that is not, and how often one that is.

    python -m benchmarks.choice_quality.human_gaps [--files 400] [--draws 1000]

Four systems, 16 documents of 6 segments. The errors of a segment are the sum of its document's difficulty (half of the
documents are easy), its own difficulty, and noise. In half of the files all systems are equal, in the others system D
is better. Patterns of judgements: `complete`; `easy half`, D on the easy documents only; `random half`, D on half of
the documents, drawn at random; `wave by domain`, A and B without the last quarter of the documents, C and D without the
first, ordered by domain, the easy one first. A system is called best as by `compare`: significantly better than every
other. For comparison: the same on the segments with judgements of all systems alone, and with means and tests over each
system's own segments.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from discorank.metrics.representations import FloatArray
from discorank.rerank.selection.judged_systems import human_layer
from discorank.rerank.selection.significance import judge
from discorank.rerank.selection.system_scores import DocumentOutputs, Layer

SYSTEMS = ("A", "B", "C", "D")
DOCUMENTS, SEGMENTS, LEVEL = 16, 6, 0.05
BETTER = 0.7  # errors per segment that D has fewer where it is better


def complete(random: Generator, easy: FloatArray) -> FloatArray:
    """All systems on all documents, [S, D]."""
    return np.ones((len(SYSTEMS), DOCUMENTS))


def easy_half(random: Generator, easy: FloatArray) -> FloatArray:
    """D on the easy documents only."""
    judged = np.ones((len(SYSTEMS), DOCUMENTS))
    judged[-1] = easy
    return judged


def random_half(random: Generator, easy: FloatArray) -> FloatArray:
    """D on half of the documents, drawn at random."""
    return easy_half(
        random, random.permutation(np.arange(DOCUMENTS) < DOCUMENTS // 2).astype(float)
    )


def wave_by_domain(random: Generator, easy: FloatArray) -> FloatArray:
    """Two systems lack the first quarter of the documents, two the second; the easy domain comes first."""
    judged = np.ones((len(SYSTEMS), DOCUMENTS))
    order = np.argsort(-easy, kind="stable")
    judged[2:, order[: DOCUMENTS // 4]] = 0
    judged[:2, order[-DOCUMENTS // 4 :]] = 0
    return judged


PATTERNS: dict[str, Callable[[Generator, FloatArray], FloatArray]] = {
    "complete": complete,
    "easy half": easy_half,
    "random half": random_half,
    "wave by domain": wave_by_domain,
}


def campaign(
    random: Generator, pattern: Callable[[Generator, FloatArray], FloatArray], better: float
) -> list[DocumentOutputs]:
    """A campaign's documents, with errors of the judged segments."""
    easy = random.permutation(np.arange(DOCUMENTS) < DOCUMENTS // 2).astype(float)
    judged = pattern(random, easy)
    documents = []
    for d in range(DOCUMENTS):
        difficulty = 3 - 2 * easy[d] + random.normal(0, 0.5)
        of_segments = random.normal(difficulty, 0.7, SEGMENTS)
        scores = {}
        for s, system in enumerate(SYSTEMS):
            own = of_segments + random.normal(0, 0.5) + random.normal(0, 0.7, SEGMENTS)
            own -= better * (system == "D")
            scores[system] = tuple(own.tolist()) if judged[s, d] else (None,) * SEGMENTS
        texts = dict.fromkeys(SYSTEMS, ("text",) * SEGMENTS)
        documents.append(DocumentOutputs(str(d), False, None, texts, {}, {"errors": scores}))
    return documents


def on_all(documents: list[DocumentOutputs]) -> list[DocumentOutputs]:
    """The documents on which all systems were judged."""
    return [d for d in documents if all(v[0] is not None for v in d.human["errors"].values())]  # type: ignore[index]


def called_best(scored: Layer, draws: int, seed: int) -> str | None:
    """The system that is significantly better than every other; None if there is none."""
    verdicts = judge(scored, draws, seed, LEVEL)
    best, *others = verdicts.order
    is_best = all(verdicts.is_better(best, other, LEVEL) for other in others)
    return scored.systems[best] if is_best else None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    print(f"{options.files} files each; share of files in %")
    print("pattern | false winner | common alone | own means | D found | common alone")
    print("--- | --- | --- | --- | --- | ---")
    for name, pattern in PATTERNS.items():
        counts = np.zeros(5)
        for number in range(options.files):
            for better in (0.0, BETTER):
                documents = campaign(np.random.default_rng([number, better > 0]), pattern, better)
                scored = human_layer("errors", True, documents)
                common = human_layer("errors", True, on_all(documents))
                ours = called_best(scored, options.draws, number)
                alone = called_best(common, options.draws, number)
                if better:
                    counts[3:] += ours == "D", alone == "D"
                else:
                    former = Layer(
                        scored.name, False, scored.systems, scored.parts, scored.segments
                    )
                    own = called_best(former, options.draws, number)
                    counts[:3] += ours is not None, alone is not None, own is not None
        print(" | ".join([name, *(f"{100 * count / options.files:.2f}" for count in counts)]))


if __name__ == "__main__":
    main()
