"""System-level correlations beside published ones: ROUGE on SummEval (Zhao et al. 2023, table 1).

    python -m benchmarks.metric_quality.published_correlations FOLDER

FOLDER holds summ_summeval.jsonl.gz. The table prints Kendall's tau over the abstractive systems of SummEval's 100
articles without saying which ROUGE is meant; recall, the best of the 11 references, comes nearest. On a file with all
articles the figures should be equal, on a part of them they are near. ROUGE comes from the package rouge-score, so what
is tried here is `compare_systems`: several references, system scores, tau.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from rouge_score import rouge_scorer  # type: ignore[import-untyped]

from discorank import load_metric
from discorank.integrations.formats.systems import read_documents
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.selection.comparison import compare_systems
from discorank.rerank.selection.document_outputs import DocumentOutputs

EXTRACTIVE = frozenset({"M0", "M1", "M2", "M5"})
DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
PUBLISHED = {"rouge1": (9.09, 27.27, 18.18, 9.09), "rougeL": (0.00, 36.36, 21.21, 18.18)}


def recall(kind: str) -> Callable[[Any, Any], float]:
    """ROUGE recall of two texts."""
    scorer = rouge_scorer.RougeScorer([kind], use_stemmer=True)

    @cache
    def score(hypothesis: str, reference: str) -> float:
        return float(scorer.score(reference, hypothesis)[kind].recall)

    def named(hypothesis: Any, reference: Any) -> float:
        return score(str(hypothesis), str(reference))

    named.__qualname__ = kind
    return named


def abstractive(path: Path) -> list[DocumentOutputs]:
    """The articles without extractive systems."""
    documents = []
    for document in read_documents(LineSource(path)):
        texts = {name: text for name, text in document.systems.items() if name not in EXTRACTIVE}
        human = {
            dimension: {name: score for name, score in scores.items() if name in texts}
            for dimension, scores in document.human.items()
        }
        documents.append(
            DocumentOutputs(
                document.id, document.whole, document.source, texts, document.references, human
            )
        )
    return documents


def main(folder: Path) -> None:
    documents = abstractive(folder / "summ_summeval.jsonl.gz")
    metrics = [load_metric(recall(kind)) for kind in PUBLISHED]
    dimensions = [(name, False) for name in DIMENSIONS]
    comparison = compare_systems(metrics, documents, dimensions, draws=10)
    num_systems = len(comparison.systems)
    print(f"SummEval: {len(documents)} articles, {num_systems} systems, Kendall's tau x 100")
    print(f"{'':18}" + " ".join(f"{name:>12}" for name in DIMENSIONS))
    for i, (kind, published) in enumerate(PUBLISHED.items()):
        ours = [100 * (meta.systems[i].kendall or 0) for meta in comparison.meta]
        for name, numbers in ((kind, ours), ("  published", published)):
            print(f"{name:18}" + " ".join(f"{x:12.2f}" for x in numbers))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
