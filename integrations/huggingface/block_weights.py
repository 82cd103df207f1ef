"""What the tokens of a vocabulary weigh, and the sums over blocks of tokens that are all drawing looks at of most.

    each = softmax(logits),   blocks = sums of `each` over BLOCK tokens
Fresh memory for the results of a pass over a large vocabulary costs more than the pass, so `Scratch` keeps it from one
step of a model to the next.
"""

from __future__ import annotations

from typing import Any, NamedTuple

BLOCK = 128  # tokens whose probabilities are summed first
CACHED_CELLS = 1 << 18  # logits that the processor's cache holds with their weights
# More than the rounding of any part of the sum, relative to the whole, over a vocabulary of up to 2^22. In double it is
# below 2^22 * 2^-53 = 5e-10. In float32: of exp 20 units in the last place (torch's softmax), 2.4e-6; of its argument
# d = highest - logit, d * 2^-24, by the mean over p no more than ln(2^22) * 2^-24 = 0.9e-6; of sums of 128 numbers
# 128 * 2^-24 = 7.6e-6.
DOUBLE_SLACK, FLOAT_SLACK = 1e-9, 2e-5


class Scratch:
    """Memory for results that are of use until the next ones: it is fetched once."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], Any] = {}

    def like(self, name: str, values: Any, width: int) -> Any:
        """Memory for [rows of values, width] of their type, which overwrites what this name and width had before."""
        import torch

        rows = len(values)
        key = name, width, values.dtype, values.device
        kept = self._kept.get(key)
        if kept is None or len(kept) < rows:
            kept = torch.empty((rows, width), dtype=values.dtype, device=values.device)
            self._kept[key] = kept
        return kept[:rows]


class Weights(NamedTuple):
    """What the tokens of some rows weigh, in proportion to their probabilities.

    Args:
        logits: [rows, blocks, BLOCK]; 0 where no token is left for the last block.
        each: the weight of every token [rows, blocks, BLOCK], of all together about 1; 0 where there is no token.
        blocks: sums of `each` over blocks of tokens [rows, blocks], in double.
        logit_sums: sums of weight times logit over them [rows, blocks], in double; None unless asked for.
        slack: more than the rounding of any part of the sum, relative to the whole.
    """

    logits: Any
    each: Any
    blocks: Any
    logit_sums: Any
    slack: float

    @property
    def total(self) -> Any:
        """The sums [rows, 1]."""
        return self.blocks.sum(dim=1, keepdim=True)


def weights_of(
    logits: Any,
    precise: bool,
    scratch: Scratch | None = None,
    with_logits: bool = False,
) -> Weights:
    """The weights of logits [rows, vocabulary], in double or in float32.

    Args:
        scratch: memory for them, which the next call with it overwrites.
        with_logits: whether `logit_sums` are asked for.
    """
    import torch

    scratch = scratch or Scratch()
    logits = logits.double() if precise else logits.float()
    vocabulary = logits.shape[1]
    width = vocabulary + -vocabulary % BLOCK
    if width > vocabulary or not logits.is_contiguous():
        # nothing in the last block where there is no token
        whole = scratch.like("logits", logits, width)
        whole[:, :vocabulary] = logits
        whole[:, vocabulary:] = -torch.inf
        logits = whole
    weights = scratch.like("weights", logits, width)
    rows_at_once = max(1, CACHED_CELLS // width)
    products = scratch.like("products", weights[:rows_at_once], width) if with_logits else None
    blocks, logit_sums = [], []
    parts = zip(logits.split(rows_at_once), weights.split(rows_at_once), strict=True)
    for own, each in parts:
        torch.softmax(own, dim=1, out=each)
        blocks.append(_in_blocks(each).sum(dim=2))
        if products is not None:
            torch.mul(own, each, out=products[: len(own)])
            logit_sums.append(_in_blocks(products[: len(own)]).sum(dim=2))
    if width > vocabulary:
        # finite, so that weight times logit is 0
        logits[:, vocabulary:] = 0.0
    return Weights(
        _in_blocks(logits),
        _in_blocks(weights),
        torch.cat(blocks).double(),
        _without_nan(torch.cat(logit_sums), logits, weights) if with_logits else None,
        DOUBLE_SLACK if precise else FLOAT_SLACK,
    )


def _without_nan(sums: Any, logits: Any, weights: Any) -> Any:
    """Sums of weight times logit over blocks [rows, blocks], in double, 0 for a token that cannot come: -inf * 0."""
    row, block = sums.isnan().nonzero(as_tuple=True)
    if len(row):
        products = _in_blocks(logits)[row, block] * _in_blocks(weights)[row, block]
        sums[row, block] = products.nan_to_num_(nan=0.0).sum(dim=1)
    return sums.double()


def _in_blocks(values: Any) -> Any:
    """Numbers [rows, blocks * BLOCK] as [rows, blocks, BLOCK]."""
    return values.view(len(values), -1, BLOCK)
