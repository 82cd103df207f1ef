"""Wrappers (`Wrapper`): a metric of segments in another way to read whole documents, ``aligned(chrf)``.

A wrapper is a metric as the one in it: of its name, direction and context, with its scorer, in sums too. Its signature
is a call around the signature of that metric, and parses back to it.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from ..base import Metric
from ..errors import InputError, excerpt
from ..scorer import Info, Reading, Scorer
from ..spec.checked_settings import Converted, Field, changed, settings
from ..spec.signature import call
from ..text.sentence_splitting import as_document
from ..text.texts import Comparison, Item, Text
from .units import Span

Spans = tuple[Span, ...]  # of the windows of a document


def _of_segments(value: object) -> Metric:
    """A metric that a wrapper may stand around."""
    if not isinstance(value, Metric):
        raise InputError(
            f"found {excerpt(value)}, expected a metric",
            where="wrapper",
            fix="Write it around one: aligned(chrf)",
        )
    if value.info.unit == "document":
        raise InputError(
            f"{value.name} reads documents as a whole",
            where=value.name,
            fix="Leave the wrapper out: it is for metrics of segments",
        )
    return value


@settings
class Wrapper(Metric, ABC):
    """A metric of segments that reads whole documents otherwise; all else is that of the metric in it.

    Args:
        metric: the metric.
    """

    metric: Annotated[Metric, Converted(_of_segments)]
    wrapper_name: ClassVar[str]
    wrapper_papers: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if isinstance(self.metric, Wrapper) and type(self) in self.metric.kinds:
            fix = f"Write {self.wrapper_name} once"
            raise InputError("stands around itself", where=self.wrapper_name, fix=fix)

    @property
    def kinds(self) -> tuple[type[Wrapper], ...]:
        """The wrappers around the innermost metric, this one first."""
        inner = self.metric.kinds if isinstance(self.metric, Wrapper) else ()
        return (type(self), *inner)

    @property
    def name(self) -> str:  # type: ignore[override]
        """That of the metric."""
        return self.metric.name

    @cached_property
    def info(self) -> Info:  # type: ignore[override]
        """The facts of the metric; the linear form is not that of units."""
        return replace(self.metric.info, linear=self.metric.info.linear and not self.by_units)

    def signature(self) -> str:
        """``aligned(chrf)``, with the settings of the wrapper behind the metric."""
        own = {name: value for name, value in changed(self).items() if name != "metric"}
        texts = {
            name: value.signature() if isinstance(value, Metric) else value
            for name, value in own.items()
        }
        return call(self.wrapper_name, texts, self.metric.signature())

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The papers of the wrapper alone."""
        return cls.wrapper_papers

    @property
    def innermost(self) -> Metric:
        """The metric in all wrappers."""
        return self.metric.innermost

    @property
    def reads(self) -> Reading:
        """The context of the metric."""
        return self.metric.reads

    @property
    def needs_source(self) -> bool:
        """Whether the metric needs the source."""
        return self.metric.needs_source

    @property
    def costly_pairs(self) -> bool:
        """Whether its pairs are costly."""
        return self.metric.costly_pairs

    @property
    def symmetric(self) -> bool:
        """Whether it is symmetric."""
        return self.metric.symmetric

    @property
    def unfitted(self) -> bool:
        """Whether it waits for `fit`."""
        return self.metric.unfitted

    @property
    def products(self) -> str:
        """The matrix product's backend of its model."""
        return self.metric.products

    @property
    def stamped(self) -> Mapping[str, str]:
        """The files that it names."""
        return self.metric.stamped

    @property
    def by_units(self) -> bool:
        """Whether the metric inside compares units."""
        return self.metric.by_units

    def unit_plan(self, comparison: Comparison) -> Any:
        """That of the metric inside."""
        return self.metric.unit_plan(comparison)

    def windows_of(self, comparison: Comparison) -> Mapping[Item, Spans] | None:
        """The windows of every document of a comparison and of its source, where the metric inside has some."""
        return self.metric.windows_of(comparison) if isinstance(self.metric, Wrapper) else None

    def split(self, texts: Sequence[Text]) -> Sequence[Text]:
        """As the metric inside splits them."""
        return self.metric.split(texts)

    def load(self) -> Scorer:
        """The scorer of the metric."""
        return self.metric.scorer

    def unloaded(self) -> Scorer | None:
        """That of the metric."""
        return self.metric.unloaded()

    def with_scorer(self, scorer: Scorer) -> Self:
        """The same, run by another scorer inside and out."""
        changed = super().with_scorer(scorer)
        object.__setattr__(changed, "metric", self.metric.with_scorer(scorer))
        return changed

    def check_files(self) -> None:
        """Those of the metric."""
        self.metric.check_files()

    def remarks(self, comparison: Comparison) -> tuple[str, ...]:
        """Those of the metric."""
        return self.metric.remarks(comparison)

    def fit(self, texts: Sequence[Text]) -> Self:
        """Around the fitted metric."""
        return self._around(self.metric.fit(texts))

    def with_defaults(self, **values: Any) -> Self:
        """Around the metric with these settings."""
        return self._around(self.metric.with_defaults(**values))

    def for_language(self, lang: str) -> Self:
        """Around the metric with the defaults of a language."""
        return self._around(self.metric.for_language(lang))

    def _around(self, metric: Metric) -> Self:
        return self if metric is self.metric else replace(self, metric=metric)


@settings
class Split(Wrapper):
    """Texts split into sentences, so that they are read as documents; those that come as documents stay as they are.

    Args:
        at: at line breaks (lines), by rule (rule), or by those of pysbd for a language (pysbd:en).
    """

    at: Annotated[str, Field(pattern=r"^(lines|rule|pysbd:[a-z]+)$")] = "rule"
    wrapper_name: ClassVar[str] = "split"

    def split(self, texts: Sequence[Text]) -> Sequence[Text]:
        """The texts as documents of sentences; a text of one sentence stays a text."""
        return [as_document(text, self.at) for text in super().split(texts)]
