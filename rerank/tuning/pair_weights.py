"""Learns weights of metrics from the features of pairs of candidates of which one is better; see `metrics.logistic`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import numpy as np

from ...metrics.logistic import Fitting, Scale, Tried, choose_penalty, fit, folds, loss, units
from ...metrics.representations import FloatArray
from ...metrics.spec.checked_settings import Field, settings
from .candidate_features import Against


@settings
class Tuning:
    """How a combination is trained.

    Args:
        against: what metrics compare candidates with: the human references, or the other candidates, as MBR does.
        margin: a pair counts where scores differ by more.
        penalty: of the squared weights; chosen by cross-validation over documents if not given.
        toward: what the penalty draws weights to: "mean", that all metrics count alike where they differ, or "zero",
            as in the papers.
        positive: whether no metric may count against a candidate; metrics agree so much that free weights cancel.
        draws: resamples of documents for the intervals of the weights.
        seed: of these draws.
    """

    against: Against = "references"
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    penalty: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    toward: Literal["mean", "zero"] = "mean"
    positive: bool = True
    draws: Annotated[int, Field(ge=10)] = 200
    seed: int = 0


class Data(NamedTuple):
    """Features of all candidates, and the pairs among them."""

    values: FloatArray  # [candidates, metrics]
    better: list[int]  # row of the better candidate of every pair
    worse: list[int]
    groups: list[str]  # document of every pair


def gathered(
    values: Sequence[FloatArray],
    pairs: Sequence[Sequence[tuple[int, int]]],
    groups: Sequence[str],
) -> Data:
    """Training data from the features [N, metrics], the (better, worse) places and the document of every list."""
    better: list[int] = []
    worse: list[int] = []
    documents: list[str] = []
    start = 0
    for list_values, list_pairs, document in zip(values, pairs, groups, strict=True):
        for a, b in list_pairs:
            better.append(start + a)
            worse.append(start + b)
            documents.append(document)
        start += len(list_values)
    return Data(np.concatenate(values), better, worse, documents)


class Learned(NamedTuple):
    """The outcome of training."""

    scale: Scale
    units: FloatArray  # of the differences, in scaled features, [metrics]
    differences: FloatArray  # of the scaled features in these units, [pairs, metrics]
    fitting: Fitting
    tried: list[Tried]  # penalties, where one was to be chosen
    weights: FloatArray  # of the scaled features

    def score(self, values: FloatArray) -> FloatArray:
        """The combination of features [..., metrics]."""
        return np.asarray(self.scale.scaled(values) @ self.weights)


def learn(data: Data, tuning: Tuning) -> Learned:
    """The weights of some data; errors as `folds`."""
    scale = Scale.of(data.values)
    scaled = scale.scaled(data.values)
    differences = scaled[data.better] - scaled[data.worse]
    centred = tuning.toward == "mean"
    unit = units(differences) if centred else np.ones(differences.shape[1])
    differences = differences / unit
    penalty = tuning.penalty
    tried: list[Tried] = []
    if penalty is None:
        penalty, tried = choose_penalty(differences, data.groups, tuning.positive, centred)
    fitting = Fitting(penalty, tuning.positive, centred)
    varies = differences.any(axis=0)
    weights = np.where(varies, fit(differences, fitting) / unit, 0)
    return Learned(scale, unit, differences, fitting, tried, weights)


def held_out(differences: FloatArray, groups: Sequence[str], fitting: Fitting) -> dict[str, float]:
    """Cross-validated share of pairs put right and mean loss; and that share for the single feature that is best on
    the pairs not held out, chosen anew in every fold. A tie is half right.
    """
    fold = folds(groups)
    right = 0.0
    right_of_single = 0.0
    total_loss = 0.0
    for number in range(int(fold.max()) + 1):
        rest = differences[fold != number]
        held = differences[fold == number]
        weights = fit(rest, fitting)
        best = int(_right(rest).mean(axis=0).argmax())
        right += float(_right(held @ weights).sum())
        right_of_single += float(_right(held[:, best]).sum())
        total_loss += float(loss(weights, held).sum())
    return {
        "accuracy": right / len(groups),
        "loss": total_loss / len(groups),
        "best_single_accuracy": right_of_single / len(groups),
    }


def _right(margins: FloatArray) -> FloatArray:
    """1 where the better one is ahead, 1/2 at a tie, else 0; of the shape given."""
    return np.asarray((margins > 0) + 0.5 * (margins == 0))
