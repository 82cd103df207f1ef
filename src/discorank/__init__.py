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
    "Block": ".metrics.reps",
    "Cache": ".metrics.cache",
    "LocalEngine": ".rerank.engine",
    "TruncationWarning": ".metrics.errors",
    "contrastive_accuracy": ".rerank.contrastive",
    "Info": ".metrics.base",
    "Item": ".metrics.texts",
    "Ragged": ".metrics.reps",
    "Reading": ".metrics.base",
    "Reps": ".metrics.reps",
    "settings": ".metrics.settings",
    "CandidateList": ".rerank.lists",
    "Candidate": ".rerank.lists",
    "Context": ".metrics.texts",
    "DiscorankError": ".metrics.errors",
    "Document": ".metrics.texts",
    "InputError": ".metrics.errors",
    "MBRDecoder": ".rerank.mbr",
    "Metric": ".metrics.base",
    "MetricError": ".metrics.errors",
    "ModelLoadError": ".metrics.errors",
    "RSTTree": ".metrics.texts",
    "Ranking": ".rerank.choice",
    "Reranker": ".rerank.reranker",
    "ResumeError": ".metrics.errors",
    "Scorer": ".metrics.base",
    "decode": ".rerank.mbr",
    "load_metric": ".metrics.registry",
    "read_trees": ".metrics.rst.formats.files",
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
    from .metrics.base import Info, Metric, Reading, Scorer
    from .metrics.cache import Cache
    from .metrics.errors import (
        DiscorankError,
        InputError,
        MetricError,
        ModelLoadError,
        ResumeError,
        TruncationWarning,
    )
    from .metrics.registry import load_metric
    from .metrics.reps import Block, Ragged, Reps
    from .metrics.rst.formats.files import read_trees
    from .metrics.settings import settings
    from .metrics.texts import Context, Document, Item, RSTTree
    from .rerank.choice import Ranking
    from .rerank.contrastive import contrastive_accuracy
    from .rerank.engine import LocalEngine
    from .rerank.lists import Candidate, CandidateList
    from .rerank.mbr import MBRDecoder, decode
    from .rerank.reranker import Reranker


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'discorank' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
