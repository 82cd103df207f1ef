"""Metrics that learn from a corpus, here the references of all documents."""

from __future__ import annotations

from collections.abc import Sequence

from ...metrics.execution.failures import failures_named
from ...metrics.mixture import Utility
from ...metrics.text.texts import Text
from .document_outputs import DocumentOutputs


def fitted_to_references(metric: Utility, documents: Sequence[DocumentOutputs]) -> Utility:
    """The metric with what it learns from a corpus, here all references."""
    if not any(part.unfitted for _, part in metric.parts):
        return metric
    references: list[Text] = []
    for document in documents:
        for texts in document.references.values():
            references += texts
    with failures_named(metric.signature()):
        return metric.fit(references)
