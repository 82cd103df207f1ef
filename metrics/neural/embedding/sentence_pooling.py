"""How sentence-transformers make one vector of the token vectors x_k of a text.

    cls         the first counted token             max        max_k x_k, dimension by dimension
    mean        sum x_k / n                         mean_sqrt_len_tokens   sum x_k / sqrt(n)
    lasttoken   the last token                      weightedmean           sum k x_k / sum k,  k = 1, 2, ...

over the n tokens that count: special tokens do, those of a prompt may not, and those of context sentences never.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from ...representations import IntArray

Mode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
# In the order in which several are put one behind the other.
MODES: tuple[Mode, ...] = get_args(Mode)
# Those that mean something where tokens in the middle do not count.
IN_CONTEXT = ("max", "mean", "mean_sqrt_len_tokens")


class SentencePooling:
    """Pools sequences of one length.

    Args:
        modes: one, or several that are put one behind the other.
        includes_prompt: whether the tokens of a prompt count.
    """

    def __init__(self, modes: Sequence[Mode], includes_prompt: bool) -> None:
        self.modes = tuple(modes)
        self.includes_prompt = includes_prompt

    def vectors(self, x: Any, counted: Any) -> Any:
        """Vectors [n, modes d] of token vectors x [n, length, d] and which of them count, bool [n, length]."""
        import torch

        pooled = [self._vectors(mode, x, counted) for mode in self.modes]
        return torch.cat(pooled, 1) if len(pooled) > 1 else pooled[0]

    def _vectors(self, mode: Mode, x: Any, counted: Any) -> Any:
        """Vectors [n, d] by one mode."""
        import torch

        if mode == "lasttoken":
            return x[:, -1]
        if mode == "cls":
            first = counted.int().argmax(1)  # [n]
            return x[torch.arange(len(x), device=x.device), first]
        if mode == "max":
            return x.masked_fill(~counted[..., None], -torch.inf).amax(1)
        weights = counted.to(x.dtype)  # [n, length]
        if mode == "weightedmean":
            places = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
            weights = weights * places
        total = (x * weights[..., None]).sum(1)  # [n, d]
        count = weights.sum(1, keepdim=True).clamp(min=1e-9)  # [n, 1]
        return total / (count.sqrt() if mode == "mean_sqrt_len_tokens" else count)


def counted_tokens(length: int, starts: IntArray, device: Any) -> Any:
    """Of sequences of one length, the first token and all from `starts` [n] on, bool [n, length]."""
    import torch

    places = torch.arange(length, device=device)  # [length]
    first = torch.from_numpy(starts).to(device)[:, None]  # [n, 1]
    return (places == 0) | (places >= first)
