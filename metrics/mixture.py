"""A weighted sum of utilities, ``chrf + 0.5*bleu``; each part is computed as if alone.

u(h, r) = sum_i w_i s_i m_i(h, r),   s_i = -1 for distances, +1 otherwise
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Metric
from .errors import InputError, MetricError
from .representations import FloatArray
from .scorer import Reading
from .text.texts import Context, Text


@dataclass(frozen=True)
class Mix:
    """Weighted metrics that act as one utility; higher is better whatever the parts' own directions.

    Raises:
        InputError: no parts, or a weight that is not finite.
    """

    parts: tuple[tuple[float, Metric], ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise InputError(
                "a mix without parts",
                where="utility",
                fix="Write it as chrf + 0.5*bleu",
            )
        for weight, metric in self.parts:
            if not np.isfinite(weight):
                raise InputError(
                    f"weight {weight} of {metric.signature()}",
                    where="utility",
                    fix="Give a finite one",
                )

    @property
    def name(self) -> str:
        """The names of the parts."""
        return self.signature()

    @property
    def reads(self) -> Reading:
        """The widest context any part reads."""
        return max((metric.reads for _, metric in self.parts), key=lambda reading: reading.context)

    def signature(self) -> str:
        """The mix as a sum of calls; parses back to an equal mix."""
        terms = [f"{_factor(weight)}{metric.signature()}" for weight, metric in self.parts]
        return " + ".join(terms)

    def score(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text | Sequence[Text]] | None = None,
        sources: Sequence[Text] | None = None,
        documents: Sequence[str] | None = None,
    ) -> FloatArray:
        """The weighted sum of the parts' scores as utilities, [n]; arguments and errors as `Metric.score`."""
        total = np.zeros(len(hypotheses))
        for weight, metric in self.parts:
            values = metric.score(hypotheses, references, sources, documents)
            total = added(total, weight * metric.utility_sign, values, self.signature())
        return total

    def corpus(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text | Sequence[Text]] | None = None,
        sources: Sequence[Text] | None = None,
        documents: Sequence[str] | None = None,
    ) -> float:
        """The weighted sum of the parts' corpus scores as utilities."""
        total = np.zeros(())
        for weight, metric in self.parts:
            value = metric.corpus(hypotheses, references, sources, documents)
            total = added(total, weight * metric.utility_sign, value, self.signature())
        return float(total)

    def pairwise(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text],
        source: Text | None = None,
        context: Context | None = None,
    ) -> FloatArray:
        """The weighted sum of the parts' utilities, [H, R]; arguments and errors as `Metric.pairwise`."""
        if context and not self.reads.context:
            raise InputError(
                f"{self.signature()} reads no context",
                where="context",
                fix="Set context=k in a part",
            )
        total = np.zeros((len(hypotheses), 1))
        for weight, metric in self.parts:
            part_context = context if metric.reads.context else None
            values = metric.pairwise(hypotheses, references, source, part_context)
            total = added(total, weight, values, self.signature())
        return total

    def fit(self, texts: Sequence[Text]) -> Mix:
        """The mix of the fitted parts."""
        return Mix(tuple((weight, metric.fit(texts)) for weight, metric in self.parts))

    def with_defaults(self, **values: Any) -> Mix:
        """The mix of the parts with these settings where they have them and left them at their defaults."""
        return self.mapped(lambda metric: metric.with_defaults(**values))

    def for_language(self, lang: str) -> Mix:
        """The mix of the parts with the defaults of a language."""
        return self.mapped(lambda metric: metric.for_language(lang))

    def mapped(self, change: Callable[[Metric], Metric]) -> Mix:
        """The mix of what `change` makes of the parts; itself if these stay as they are, so that it keeps its name."""
        parts = tuple((weight, change(metric)) for weight, metric in self.parts)
        same = all(new is old for (_, new), (_, old) in zip(parts, self.parts, strict=True))
        return self if same else Mix(parts)


Utility = Metric | Mix


def added(
    total: FloatArray | float, weight: float, values: FloatArray | float, where: str
) -> FloatArray:
    """``total + weight * values``; with a weight of 0 no value counts, not even one that is not finite.

    Raises:
        MetricError: finite numbers have a sum that is too large for a number.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        counting = values if weight else np.where(np.isfinite(values), values, 0.0)
        result = np.asarray(total + weight * counting)
        if np.isfinite(result).all():
            return result
        overflows = np.isfinite(total) & np.isfinite(values) & ~np.isfinite(result)
    if overflows.any():
        problem = f"a sum with the weight {weight:g} is too large for a number"
        raise MetricError(problem, where=where, fix="Give smaller weights")
    return result


def _factor(weight: float) -> str:
    return "" if weight == 1 else f"{float(weight)!r}*"
