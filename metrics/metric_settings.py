"""Metrics before and after they are loaded (`MetricSettings`): settings, facts, signature and scorer.

A scorer speaks the paper's language (a distance stays a distance); `utility_sign` turns it into a utility.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from .errors import LOG, DiscorankError, InputError, ModelLoadError, is_interrupt
from .optional_packages import missing_package
from .reading_plan import UnitPlan
from .scorer import Info, Reading, Scorer, WrittenAnswer
from .spec import signature
from .spec.checked_settings import settings
from .text.texts import Comparison, Text


@settings
class MetricSettings(ABC):
    """Facts of a metric that need no computation; see `Metric`."""

    name: ClassVar[str]
    info: ClassVar[Info]
    # Settings that no file may give, as they say where texts and keys are sent, or what a search may cost.
    users_own: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *settings: Any, **more: Any) -> Self:
        """Checks the class: not where it is defined, as a class from cloudpickle gets its attributes later.

        Raises:
            InputError: it lacks a name or facts.
        """
        for attribute in ("name", "info"):
            if not hasattr(cls, attribute):
                raise InputError(
                    f"a metric has a class attribute {attribute!r}",
                    where=cls.__qualname__,
                    fix="discorank docs writing-a-metric shows one",
                )
        return super().__new__(cls)

    @property
    def reads(self) -> Reading:
        """How much context the metric reads, and whose; a metric with a `context` setting overrides it."""
        return Reading()

    @property
    def needs_source(self) -> bool:
        """Whether the source must be given; a metric whose settings decide it overrides this."""
        return self.info.needs_source

    @property
    def costly_pairs(self) -> bool:
        """Whether fewer pairs are less work (`Info.costly_pairs`); a metric whose model decides it overrides this."""
        return self.info.costly_pairs

    @property
    def symmetric(self) -> bool:
        """Whether u(h, r) = u(r, h) of texts in one context, or each in its own.

        A metric whose settings decide it overrides this; `Info.symmetric` is of default settings.
        """
        return self.info.symmetric

    @property
    def reads_source(self) -> bool:
        """Whether the source is read where it is given."""
        return self.needs_source or self.info.takes_source

    @property
    def by_units(self) -> bool:
        """Whether whole documents are compared unit by unit, by the `unit_plan` of a wrapper."""
        return False

    def unit_plan(self, comparison: Comparison) -> UnitPlan:
        """How documents are read unit by unit.

        Raises:
            TypeError: they are read by sentence, or as a whole.
        """
        raise TypeError(f"{self.name} does not compare units of documents")

    @abstractmethod
    def load(self) -> Scorer:
        """A fresh scorer.

        Raises:
            ModelLoadError: something it needs is missing or broken.
        """

    def unloaded(self) -> Scorer | None:
        """A scorer without weights, which prepares texts and counts `passes`; None where no model is counted.

        Raises:
            DiscorankError: as `load`.
        """
        return None

    @property
    def unfitted(self) -> bool:
        """Whether the metric cannot be used before `fit`."""
        return False

    @property
    def variants(self) -> tuple[Self, ...]:
        """Every metric that `in_list` may give, for engines to load; none where that is the metric itself."""
        return ()

    def in_list(self, texts: Sequence[Text]) -> Self:
        """The metric as it reads a list of these texts, where all of them must be read alike; itself by default."""
        return self

    def answers_of(self, texts: Sequence[Text]) -> Sequence[WrittenAnswer | None] | None:
        """The answers of texts, None for one that has none; None by default: it compares the texts themselves.

        A metric that has them says in `answer_rule` where they stand; rows and reports then show answers and votes.
        """
        return None

    @property
    def answer_rule(self) -> str:
        """Where the answers of `answers_of` stand."""
        return ""

    def fit(self, texts: Sequence[Text]) -> Self:
        """The metric with corpus state (idf, weights, ranges) from `texts`; itself where there is none."""
        return self

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The papers of the metric with these settings; context has one of its own."""
        return (
            *cls.info.papers,
            *(("vernikos2022embarrassingly",) if settings.get("context") else ()),
        )

    def for_language(self, lang: str) -> Self:
        """The metric with the defaults of a language (BCP 47) where settings were left at theirs; itself by default."""
        return self

    def with_defaults(self, **values: Any) -> Self:
        """The metric with these settings where it has them and they are at their defaults."""
        defaults = {setting.name: setting.default for setting in fields(self) if setting.init}
        changes = {
            name: value
            for name, value in values.items()
            if name in defaults and getattr(self, name) == defaults[name]
        }
        return replace(self, **changes) if changes else self

    @cached_property
    def scorer(self) -> Scorer:
        """The loaded metric of this process.

        Raises:
            DiscorankError: as `load`; a ModelLoadError for any other error in it.
        """
        LOG.info("loading %s", self.name)
        try:
            scorer = self.load()
        except (DiscorankError, MemoryError):
            raise
        except BaseException as error:
            if is_interrupt(error):
                raise
            missing = missing_package(error, self.name)
            problem = f"{type(error).__name__}: {error}"
            raise missing or ModelLoadError(problem, where=self.name) from error
        self.check_files()
        return scorer

    def with_scorer(self, scorer: Scorer) -> Self:
        """The same metric run by another scorer, as one without weights."""
        changed = copy(self)
        changed.__dict__["scorer"] = scorer
        return changed

    def check_files(self) -> None:  # noqa: B027  nothing to check without files
        """Checks that the files that settings name are those that the signature names; done after they were read.

        Raises:
            DiscorankError: they have changed since the metric was made, here or in another process.
        """

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "scorer"}

    @property
    def products(self) -> str:
        """The backend of its model's products here, on which the last bits of values depend; empty without a model."""
        return ""

    @property
    def utility_sign(self) -> float:
        """+1 or -1: what the paper's number is multiplied by to become a utility."""
        return 1.0 if self.info.higher_is_better else -1.0

    @property
    def stamped(self) -> Mapping[str, str]:
        """Settings that name files, with a digest of these: they always stand in the signature."""
        return {}

    def signature(self) -> str:
        """The metric as a call, ``chrf(beta=1.0)``: names what differs from the defaults and parses back to it."""
        return signature.write(self, self.stamped)
