"""BARTScore (Yuan et al. 2021): how likely BART finds a text given another.

    g(y | x) = 1/n sum_{t=1..n} log p(y_t | y_<t, x)

over all n tokens of y, those that begin and end it counted, as in the released code.

    bartscore               precision g(h | r), recall g(r | h), or f, the mean of both; f is symmetric
    bartscore-faithfulness  g(h | s) given the source; reference-free, linear in the number of hypotheses

At most 0, higher is better; an empty text is scored by the tokens that begin and end it. There is no context.
"""

from __future__ import annotations

from math import inf
from typing import ClassVar, Literal

import numpy as np

from ...errors import InputError
from ...representations import Reps
from ...scorer import Info
from ...spec.checked_settings import settings
from ..models.context_tokens import Frame
from ..models.settings import ContextModelMetric
from .likelihood_scorer import (
    HYPOTHESIS_GIVEN_REFERENCE,
    HYPOTHESIS_GIVEN_SOURCE,
    REFERENCE_GIVEN_HYPOTHESIS,
    Direction,
    Extent,
    LikelihoodScorer,
    load,
)

DIRECTIONS: dict[str, tuple[Direction, ...]] = {
    "f": (HYPOTHESIS_GIVEN_REFERENCE, REFERENCE_GIVEN_HYPOTHESIS),
    "precision": (HYPOTHESIS_GIVEN_REFERENCE,),
    "recall": (REFERENCE_GIVEN_HYPOTHESIS,),
}


class BARTMetric(ContextModelMetric):
    """The check that both metrics make."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.context:
            problem = f"{self.name} is not defined with context"
            raise InputError(problem, where="context", fix="Leave it at 0")


@settings
class BARTScore(BARTMetric):
    """Hypothesis and reference, one given the other.

    Args:
        model: a folder or a name on the hub; BART, best trained on a task near the texts.
        direction: precision, recall or f (see above).
        agg: several references: the mean over them, or the best (max).
    """

    default_model: ClassVar[str] = "facebook/bart-large-cnn"
    counts_passes: ClassVar[bool] = True
    direction: Literal["f", "precision", "recall"] = "f"
    agg: Literal["mean", "max"] = "mean"
    name: ClassVar[str] = "bartscore"
    info: ClassVar[Info] = Info(
        summary="likelihood of the text given the reference, of the reference given the text, or both",
        reasons="mean log-probability of a token in each direction: 0 if certain, more negative if less likely",
        papers=("yuan2021bartscore",),
        bounds=(-inf, 0.0),
        symmetric=True,
        multi_reference="mean",
        bucketed=True,
        costly_pairs=True,
        version=2,
    )

    @property
    def symmetric(self) -> bool:
        """Of both directions together."""
        return self.direction == "f"

    def load(self) -> LikelihoodScorer:
        """The model."""
        multi_reference: Literal["best", "mean"] = "best" if self.agg == "max" else "mean"
        loaded = load(self, Frame.of)
        directions = DIRECTIONS[self.direction]
        return LikelihoodScorer(self, loaded, _extent, directions, multi_reference)


@settings
class BARTScoreFaithfulness(BARTMetric):
    """The hypothesis given its source.

    Args:
        model: a folder or a name on the hub; BART, best trained on a task near the texts.
    """

    default_model: ClassVar[str] = "facebook/bart-large-cnn"
    counts_passes: ClassVar[bool] = True
    name: ClassVar[str] = "bartscore-faithfulness"
    info: ClassVar[Info] = Info(
        summary="likelihood of the text given its source",
        reasons="mean log-probability of a token in each direction: 0 if certain, more negative if less likely",
        papers=("yuan2021bartscore",),
        needs_source=True,
        needs_references=False,
        bounds=(-inf, 0.0),
        bucketed=True,
        version=2,
    )

    def load(self) -> LikelihoodScorer:
        """The model."""
        loaded = load(self, Frame.of)
        return LikelihoodScorer(self, loaded, _extent, (HYPOTHESIS_GIVEN_SOURCE,))


def _extent(read: Reps) -> Extent:
    """Every label."""
    length = read["ids"].lengths
    return Extent(np.zeros_like(length), length)
