"""Scores a test set of the metrics task by a metric of ours, at every level, under a name as the task has them.

The score of a system, a domain or a document is the metric's own corpus score of its segments (BLEU and chrF pool
counts). Scores of metrics where lower is better are negated. A reference that the metric reads is not scored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from ....metrics.execution.cache import Cache
from ....metrics.execution.meter import Meter
from ....metrics.mixture import Utility
from ....metrics.representations import FloatArray
from ..document_outputs import DocumentOutputs
from ..system_scores import score_systems
from .eval_set import EvalSet, Level, MetricName, Scores


def score_eval_set(
    metric: Utility,
    eval_set: EvalSet,
    references: Sequence[str] = (),
    cache: Cache | None = None,
    progress: Callable[[int], None] = lambda done: None,
    meter: Meter | None = None,
) -> EvalSet:
    """The test set with one more metric.

    Args:
        metric: what scores.
        eval_set: the texts; one that was not supplied is scored as an empty one.
        references: those the metric reads, if it reads any; the standard one if not given.
        cache: what models made of texts in earlier runs.
        progress: told how many more documents have been read.
        meter: counts the work.

    Raises:
        InputError: a reference is not there, or a text cannot be read.
        MetricError: a score is no number.
    """
    reads_references = any(part.info.needs_references for _, part in metric.parts)
    read = eval_set.main_references(references) if reads_references else frozenset[str]()
    name = MetricName(base_name(metric), read)
    documents = eval_documents(eval_set, sorted(read))
    scored = score_systems(metric, documents, cache, progress, meter)
    domains = [
        [document.domain == domain for document in eval_set.documents]
        for domain in eval_set.domains
    ]
    tables: dict[Level, FloatArray] = {
        "sys": scored.system_scores()[:, None],
        "domain": scored.resampled(np.array(domains, np.int64)),
        "doc": scored.document_scores(),
    }
    if scored.segments is not None:
        tables["seg"] = scored.segments
    scores: dict[Level, Scores] = {
        level: dict(zip(scored.systems, scored.sign * table, strict=True))
        for level, table in tables.items()
    }
    return eval_set.with_metric(name, scores)


def base_name(metric: Utility) -> str:
    """The metric's signature as the name of files: no white space, no slash."""
    return re.sub(r"[\s/\0]+", "_", metric.signature()).lstrip(".")


def eval_documents(eval_set: EvalSet, references: Sequence[str]) -> list[DocumentOutputs]:
    """The documents with all outputs but the references that are read."""
    documents = []
    for document in eval_set.documents:
        inside = slice(document.start, document.stop)

        def of(texts: Sequence[str | None], inside: slice = inside) -> tuple[str, ...]:
            return tuple(text or "" for text in texts[inside])

        outputs = {
            name: of(texts)
            for name, texts in sorted(eval_set.outputs.items())
            if name not in references
        }
        read = {name: of(eval_set.references[name]) for name in references}
        documents.append(
            DocumentOutputs(document.name, False, of(eval_set.sources), outputs, read, {})
        )
    return documents
