"""How sure a model was of a candidate: numbers of the distributions that its tokens were drawn from.

Of the T tokens y_1..y_T of a candidate, p_t the model's distribution over V tokens at step t, v_1, v_2, ... the tokens
by falling p_t, and k of them kept:

    mean-logprob   (1/T) sum_t log p_t(y_t)
    certainty      (1/T) sum_t KL(uniform || p_t) = (1/T) sum_t [-log V - (1/V) sum_v log p_t(v)]    Kang et al. 2025
    tail-entropy   (1/w) sum_{t > T - w} H(p_t),   H(p) = -sum_v p(v) log p(v)
    bottom-window  the mean of the lowest tenth of (1/w) sum_{t in window} C_t over all windows of w tokens,
                   C_t = -(1/k) sum_{j <= k} log p_t(v_j)                                     Fu et al. 2025, DeepConf

w is a quarter of the tokens, from 1 to `MAX_WINDOW`, the paper's; of the windows at least one counts. Certainty needs
the whole distribution: where only the likeliest tokens are known, as of servers, there is none, and the entropy is that
of these and of the rest as one token, a lower bound. Natural logarithms. Higher is surer, but for the entropy.

As weights of pseudo-references (CISC, Taubenfeld et al. 2025): w(r) = exp((s c(r) - max s c) / temperature), s = -1 for
the entropy and 1 for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray
from ..lists import Candidate, finite

MAX_WINDOW = 2048
WINDOW_SHARE, LOWEST_SHARE = 0.25, 0.1
# the field of a candidate that holds its `TokenLogprobs`, until it is written
TOKENS = "token_logprobs"
# by name, whether more is surer
SIGNS: Mapping[str, int] = {
    "mean-logprob": 1,
    "certainty": 1,
    "tail-entropy": -1,
    "bottom-window": 1,
}


class TokenLogprobs(NamedTuple):
    """The distributions that the tokens of a candidate came from.

    Args:
        chosen: log-probabilities of the tokens, [T].
        top: those of the likeliest tokens, falling, [T, k]; -inf where there are fewer.
        certainty: KL(uniform || p_t), [T]; None where the whole distribution is not known.
        entropy: H(p_t), [T]; None as well.
    """

    chosen: NDArray[np.float32]
    top: NDArray[np.float32]
    certainty: NDArray[np.float32] | None = None
    entropy: NDArray[np.float32] | None = None


def confidence_of(tokens: TokenLogprobs) -> dict[str, float]:
    """The numbers of a candidate, by name; none of one without tokens, and none that is not finite."""
    num_tokens = len(tokens.chosen)
    if not num_tokens:
        return {}
    window = min(MAX_WINDOW, ceil(WINDOW_SHARE * num_tokens))
    entropy = entropy_of_top(tokens.top) if tokens.entropy is None else tokens.entropy
    numbers = {
        "mean-logprob": tokens.chosen.mean(dtype=np.float64),
        "tail-entropy": entropy[-window:].mean(dtype=np.float64),
        "bottom-window": _bottom(tokens.top, window),
    }
    if tokens.certainty is not None:
        numbers["certainty"] = tokens.certainty.mean(dtype=np.float64)
    return {name: float(value) for name, value in numbers.items() if np.isfinite(value)}


def entropy_of_top(top: NDArray[np.float32]) -> FloatArray:
    """The entropy of the likeliest tokens and of the rest as one token, [T], from their log-probabilities [T, k]."""
    logs = top.astype(np.float64)
    shares = np.exp(logs)
    rest = np.clip(1.0 - shares.sum(axis=1, keepdims=True), 0.0, 1.0)
    everything = np.concatenate([shares, rest], axis=1)
    terms = everything * np.log(np.where(everything > 0, everything, 1.0))
    return np.asarray(-terms.sum(axis=1))


def _bottom(top: NDArray[np.float32], window: int) -> float:
    """The mean of the lowest tenth of windows of token confidence."""
    logs = top.astype(np.float64)
    is_known = np.isfinite(logs)
    known = np.maximum(is_known.sum(axis=1), 1)
    confidence = -np.where(is_known, logs, 0.0).sum(axis=1) / known  # [T]
    sums = np.cumsum(np.concatenate([[0.0], confidence]))
    groups = np.sort((sums[window:] - sums[:-window]) / window)
    lowest = groups[: max(1, int(LOWEST_SHARE * len(groups)))]
    return float(lowest.mean())


def confidences(
    name: str, candidates: Sequence[Candidate], where: str = "candidates"
) -> FloatArray:
    """How sure the model was of candidates, higher is surer, [N].

    Raises:
        InputError: a candidate lacks the number; `where` names their place.
    """
    values = []
    for i, candidate in enumerate(candidates):
        value = finite(candidate.fields.get(name))
        if value is None:
            fix = "Keep it where candidates are drawn: generate --top-logprobs 20"
            if name == "certainty":
                fix += "; servers do not tell it"
            raise InputError(f"no {name}", where=f"{where}[{i}]", fix=fix)
        values.append(SIGNS[name] * value)
    return np.array(values)
