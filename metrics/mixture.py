"""A weighted sum of utilities, ``chrf + 0.5*bleu``; each part is computed as if alone.

u(h, r) = sum_i w_i s_i m_i(h, r),   s_i = -1 for distances, +1 otherwise

A user's Python function as a metric: called once per pair of distinct texts, trusted with nothing else.

u(hypothesis, reference) -> float        higher is better
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .base import Metric
from .errors import InputError, MetricError, is_interrupt
from .representations import Block, FloatArray, IntArray, Reps
from .scorer import Info, Reading, Scorer
from .text.texts import Context, Item, Text


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
        return self.mapped(lambda metric: metric.fit(texts))

    def with_defaults(self, **values: Any) -> Mix:
        """The mix of the parts with these settings where they have them and left them at their defaults."""
        return self.mapped(lambda metric: metric.with_defaults(**values))

    @property
    def variants(self) -> tuple[Metric, ...]:
        """The variants of all parts."""
        return tuple(variant for _, metric in self.parts for variant in metric.variants)

    def in_list(self, texts: Sequence[Text]) -> Mix:
        """The mix of the parts as they read a list of these texts."""
        return self.mapped(lambda metric: metric.in_list(texts))

    def for_language(self, lang: str) -> Mix:
        """The mix of the parts with the defaults of a language."""
        return self.mapped(lambda metric: metric.for_language(lang))

    def mapped(self, change: Callable[[Metric], Metric]) -> Mix:
        """The mix of what `change` makes of the parts; itself if these stay as they are, so that it keeps its name."""
        parts = tuple((weight, change(metric)) for weight, metric in self.parts)
        same = all(new is old for (_, new), (_, old) in zip(parts, self.parts, strict=True))
        return self if same else Mix(parts)


Utility = Metric | Mix
NEGATED = "lower is better, so that a sum subtracts it already, and the minus would reward errors"


def rewards_errors(weight: float, utility: Utility) -> bool:
    """Whether a negative weight undoes the sign that a sum gives to an error rate; a trained combination has its own.

    >>> from discorank import load_metric
    >>> rewards_errors(-1.0, load_metric("ter")), rewards_errors(-1.0, load_metric("bleu"))
    (True, False)
    """
    if weight >= 0 or not (isinstance(utility, Metric) or type(utility) is Mix):
        return False
    return any(own > 0 and part.utility_sign < 0 for own, part in utility.parts)


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


@dataclass(frozen=True)
class Function(Metric):
    """Any callable of two texts; its signature is ``module:name``, by which it is found again, unless labelled."""

    call: Callable[[Text, Text], float]
    label: str = ""
    info: ClassVar[Info] = Info(
        summary="a Python function of two texts", unit="document", costly_pairs=True
    )

    @property
    def name(self) -> str:  # type: ignore[override]
        """Where the function is found again."""
        if self.label:
            return self.label
        name = getattr(self.call, "__qualname__", type(self.call).__qualname__)
        return f"{self.call.__module__}:{name}"

    def signature(self) -> str:
        """The name: a function has no settings."""
        return self.name

    def load(self) -> FunctionScorer:
        """The function, ready to be called."""
        return FunctionScorer(self)


class FunctionScorer(Scorer):
    """Keeps the texts as they are and calls the function for each pair."""

    def __init__(self, metric: Function) -> None:
        self.info, self.metric = metric.info, metric

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """The texts themselves, and their lengths in characters."""
        texts = np.empty(len(items), object)
        texts[:] = [item.text for item in items]
        lengths = np.array([len(str(text)) for text in texts], np.int64)
        return Reps({"text": texts}), lengths

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """One call per pair.

        Raises:
            MetricError: the function raised, or returned something that is not a number.
        """
        texts = reps["text"]
        matrices = []
        for block in blocks:
            references = texts[block.references]
            rows = [[self._value(h, r) for r in references] for h in texts[block.hypotheses]]
            matrices.append(np.array(rows))
        return matrices

    def _value(self, hypothesis: Text, reference: Text) -> float:
        """The function's value of a pair; whatever goes wrong in it is a MetricError."""
        try:
            value: Any = self.metric.call(hypothesis, reference)
            return float(value)
        except BaseException as error:
            if is_interrupt(error):
                raise
            raise MetricError(f"{type(error).__name__}: {error}", where=self.metric.name) from error
