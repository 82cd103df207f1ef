"""discorank chooses the best of several candidate texts with document-level and discourse metrics.

    >>> import discorank
    >>> discorank.decode(["a cat sat", "the cat sat", "a dog"], utility="chrf").text
    'the cat sat'

Names are imported when they are first used, so that ``import discorank`` loads neither numpy nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Block": ".metrics.representations",
    "Cache": ".metrics.execution.cache",
    "LocalEngine": ".rerank.engines.local",
    "TruncationWarning": ".metrics.errors",
    "contrastive_accuracy": ".rerank.selection.contrastive",
    "Info": ".metrics.scorer",
    "Item": ".metrics.text.texts",
    "Ragged": ".metrics.representations",
    "Reading": ".metrics.scorer",
    "Reps": ".metrics.representations",
    "settings": ".metrics.spec.checked_settings",
    "CandidateList": ".rerank.lists",
    "Candidate": ".rerank.lists",
    "Context": ".metrics.text.texts",
    "DiscorankError": ".metrics.errors",
    "Document": ".metrics.text.texts",
    "InputError": ".metrics.errors",
    "MBRDecoder": ".rerank.mbr_decoder",
    "Metric": ".metrics.base",
    "MetricError": ".metrics.errors",
    "ModelLoadError": ".metrics.errors",
    "RSTTree": ".metrics.text.texts",
    "Ranking": ".rerank.choice",
    "Reranker": ".rerank.reranker",
    "ResumeError": ".metrics.errors",
    "Scorer": ".metrics.scorer",
    "decode": ".rerank.decode_list",
    "load_metric": ".metrics.registry",
    "read_trees": ".metrics.rst.formats.tree_files",
}

__all__ = [
    "Block",
    "Cache",
    "Candidate",
    "CandidateList",
    "Context",
    "DiscorankError",
    "Document",
    "Info",
    "InputError",
    "Item",
    "LocalEngine",
    "MBRDecoder",
    "Metric",
    "MetricError",
    "ModelLoadError",
    "RSTTree",
    "Ragged",
    "Ranking",
    "Reading",
    "Reps",
    "Reranker",
    "ResumeError",
    "Scorer",
    "TruncationWarning",
    "contrastive_accuracy",
    "decode",
    "load_metric",
    "read_trees",
    "settings",
]

if TYPE_CHECKING:
    from .metrics.base import Metric
    from .metrics.errors import (
        DiscorankError,
        InputError,
        MetricError,
        ModelLoadError,
        ResumeError,
        TruncationWarning,
    )
    from .metrics.execution.cache import Cache
    from .metrics.registry import load_metric
    from .metrics.representations import Block, Ragged, Reps
    from .metrics.rst.formats.tree_files import read_trees
    from .metrics.scorer import Info, Reading, Scorer
    from .metrics.spec.checked_settings import settings
    from .metrics.text.texts import Context, Document, Item, RSTTree
    from .rerank.choice import Ranking
    from .rerank.decode_list import decode
    from .rerank.engines.local import LocalEngine
    from .rerank.lists import Candidate, CandidateList
    from .rerank.mbr_decoder import MBRDecoder
    from .rerank.reranker import Reranker
    from .rerank.selection.contrastive import contrastive_accuracy


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'discorank' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
