"""What chooses where generating and choosing are one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ...metrics.errors import InputError
from ...metrics.registry import MetricLike
from ...rerank.mbr_decoder import MBRDecoder
from ...rerank.reranker import Reranker


def decider_of(
    utility: MetricLike | MBRDecoder | Reranker, settings: Mapping[str, Any]
) -> MBRDecoder | Reranker:
    """A whole decider as it is, or an `MBRDecoder` of the utility and the settings, with every candidate as a place.

    Raises:
        InputError: settings beside a whole decider; as `MBRDecoder`.
    """
    if not isinstance(utility, MBRDecoder | Reranker):
        return MBRDecoder(**{"utility": utility, "nbest": None, **settings})
    if settings:
        fix = f"Set it in the {type(utility).__name__}"
        raise InputError("stands beside a whole decoder", where=min(settings), fix=fix)
    return utility


def reads_logprobs(decider: MBRDecoder | Reranker) -> bool:
    """Whether a decider looks at log-probabilities."""
    if isinstance(decider, MBRDecoder):
        return decider.weights == "logprob"
    if decider.decoder is not None and decider.decoder.weights == "logprob":
        return True
    features = cast("tuple[tuple[Any, float], ...]", decider.features)
    return any(feature in ("logprob", "logprob/length") for feature, _ in features)
