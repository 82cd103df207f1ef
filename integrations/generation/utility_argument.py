"""Turns the `utility` argument of the calls that generate and choose into an `MBRDecoder` or a `Reranker`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ...metrics.errors import InputError
from ...metrics.registry import MetricLike
from ...rerank.mbr_decoder import MBRDecoder
from ...rerank.reranker import Reranker

_LOGPROB_FEATURES = ("logprob", "logprob/length", "logprob/tokens")


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
        raise InputError(
            "stands beside a whole decoder",
            where=min(settings),
            fix=f"Set it in the {type(utility).__name__}",
        )
    return utility


def reads_logprobs(decider: MBRDecoder | Reranker) -> bool:
    """Whether a decider looks at log-probabilities."""
    decoder = decider if isinstance(decider, MBRDecoder) else decider.decoder
    if decoder is not None and decoder.weights == "logprob":
        return True
    if isinstance(decider, MBRDecoder):
        return False
    features = cast("tuple[tuple[Any, float], ...]", decider.features)
    return any(feature in _LOGPROB_FEATURES for feature, _ in features)
