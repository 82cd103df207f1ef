"""The settings of a metric (`Metric`), from which a scorer is loaded: scores, corpus scores and utility matrices.

A scorer speaks the paper's language (a distance stays a distance); `utility_sign` turns it into a utility, here alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, final

from .errors import DiscorankError, InputError, ModelLoadError, excerpt
from .execution import evaluate, segment_scores
from .execution.by_sentence import compared, plan_of
from .execution.failures import failures_named, is_interrupt
from .execution.reading_plan import comparisons_of
from .execution.store import Store
from .log import LOG
from .metric_arguments import check_sources, comparison_of_list, comparisons_of_segments
from .optional_packages import missing_package
from .papers import OF_ALIGNMENT, VERNIKOS_2022, Paper
from .representations import FloatArray
from .scorer import DocumentReading, Info, Reading, Scorer
from .spec import signature
from .spec.checked_settings import Field, settings
from .text.texts import NO_CONTEXT, Comparison, Context, Text

_LOADED = frozenset({"scorer", "documents"})  # attributes made on first use


@settings
class Metric(ABC):
    """Settings of a metric: a frozen dataclass made by `@settings`, equal, hashable and picklable.

    The scorer is loaded on first use and never pickled. Every metric of segments has these settings, by name alone:

    Args:
        align: how whole documents are compared: join (by sentence if counts are equal, else as one text), or monotone.
        align_by: what finds the alignment: the metric, or in its place chrf or length.
        align_weights: the share of a sentence in its document: length (of its letters) or sentences (all alike).
        align_skip: what a sentence without a counterpart is worth; its value with the empty text if not given.
        windows: documents are read in overlapping windows of so many sentences, of fewer where these do not fit the
            model; whole or by sentence if not given.
        stride: how many sentences further the next window begins; half a window if not given.
        split_sentences: makes documents of texts: at line breaks (lines), by rule (rule) or by those of pysbd for a
            language (pysbd:en).
    """

    align: Literal["join", "monotone"] = field(default="join", kw_only=True)
    align_by: Literal["metric", "chrf", "length"] = field(default="metric", kw_only=True)
    align_weights: Literal["length", "sentences"] = field(default="length", kw_only=True)
    align_skip: Annotated[float, Field(allow_inf_nan=False)] | None = field(
        default=None, kw_only=True
    )
    windows: Annotated[int, Field(ge=1)] | None = field(default=None, kw_only=True)
    stride: Annotated[int, Field(ge=1)] | None = field(default=None, kw_only=True)
    split_sentences: Annotated[str, Field(pattern=r"^(lines|rule|pysbd:[a-z]+)$")] | None = field(
        default=None, kw_only=True
    )
    name: ClassVar[str]
    info: ClassVar[Info]
    # Settings that no file may give, as they say where texts and keys are sent, or what a search may cost.
    users_own: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *settings: Any, **more: Any) -> Self:
        """Checks the class: not where it is defined, as a class from cloudpickle gets its attributes later.

        Raises:
            InputError: it lacks a name or facts, or a setting for metrics of segments is given to one of documents.
        """
        for attribute in ("name", "info"):
            if not hasattr(cls, attribute):
                raise InputError(
                    f"a metric has a class attribute {attribute!r}",
                    where=cls.__qualname__,
                    fix="See docs/writing-a-metric.md",
                )
        if cls.info.unit == "document":
            for name in DocumentReading._fields:
                if name in more and more[name] != getattr(Metric, name):
                    raise InputError(
                        f"{name}={excerpt(more[name])}, but {cls.name} reads documents as a whole",
                        where=str(cls.name),
                        fix=f"Leave out {name}",
                    )
        _check_windows(cls.name, more.get("windows"), more.get("stride"))
        return super().__new__(cls)

    @cached_property
    def documents(self) -> DocumentReading:
        """How whole documents are read."""
        return DocumentReading(*(getattr(self, name) for name in DocumentReading._fields))

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

    def remarks(self, comparison: Comparison) -> tuple[str, ...]:
        """Flags of a list: what its reader should know of how the metric reads these texts; none by default."""
        return ()

    def fit(self, texts: Sequence[Text]) -> Self:
        """The metric with corpus state (idf, weights, ranges) from `texts`; itself where there is none."""
        return self

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[Paper, ...]:
        """The papers of the metric with these settings; context and alignment have some of their own."""
        papers_on_context = (VERNIKOS_2022,) if settings.get("context") else ()
        papers_on_alignment = OF_ALIGNMENT.get(str(settings.get("align")), ())
        return (*cls.info.papers, *papers_on_context, *papers_on_alignment)

    def for_language(self, lang: str) -> Self:
        """The metric with the defaults of a language (BCP 47) where settings were left at theirs; itself by default."""
        return self

    def with_defaults(self, **values: Any) -> Self:
        """The metric with these settings where it has them and they are at their defaults."""
        defaults = {setting.name: setting.default for setting in fields(self) if setting.init}
        if self.info.unit == "document":
            for name in DocumentReading._fields:
                del defaults[name]
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

    def check_files(self) -> None:  # noqa: B027  nothing to check without files
        """Checks that the files that settings name are those that the signature names; done after they were read.

        Raises:
            DiscorankError: they have changed since the metric was made, here or in another process.
        """

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _LOADED}

    @property
    def products(self) -> str:
        """What multiplies for its model here, on which the last bits of values depend; empty without a model."""
        return ""

    @property
    def utility_sign(self) -> float:
        """+1 or -1: what the paper's number is multiplied by to become a utility."""
        return 1.0 if self.info.higher_is_better else -1.0

    @property
    def parts(self) -> tuple[tuple[float, Metric], ...]:
        """(weight, metric) terms of the utility; one for a plain metric, several for a `Mix`."""
        return ((1.0, self),)

    @property
    def stamped(self) -> Mapping[str, str]:
        """Settings that name files, with a digest of these: they always stand in the signature."""
        return {}

    def signature(self) -> str:
        """The metric as a call, ``chrf(beta=1.0)``: names what differs from the defaults and parses back to it."""
        return signature.write(self, self.stamped)

    @final
    def score(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text | Sequence[Text]] | None = None,
        sources: Sequence[Text] | None = None,
        documents: Sequence[str] | None = None,
    ) -> FloatArray:
        """The paper's number of every hypothesis, float64 [n].

        A metric that waits for corpus state (`unfitted`) takes it from all references that are given.

        Args:
            hypotheses: n texts.
            references: one text or a list of texts per hypothesis; several combine the metric's own way.
            sources: one text per hypothesis, for metrics that read it.
            documents: a document id per hypothesis, needed when the metric has context.

        Raises:
            InputError: lengths that disagree, something missing, a list where a text belongs.

        Warns:
            TruncationWarning: texts were too long for the model.
        """
        segments = self.segments(hypotheses, references, sources, documents)
        metric = self._fitted_to(segments)
        store = Store(metric.scorer)
        values = segment_scores.scores(metric, segments, store)
        comparisons = [c for segment in segments for c in compared(metric, segment)]
        evaluate.warn_of_truncation(metric, store, comparisons)
        return values

    @final
    def corpus(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text | Sequence[Text]] | None = None,
        sources: Sequence[Text] | None = None,
        documents: Sequence[str] | None = None,
    ) -> float:
        """The metric's own corpus score; arguments and errors as `score`."""
        segments = self.segments(hypotheses, references, sources, documents)
        if not segments:
            where = f"{self.name}.corpus"
            raise InputError("no hypotheses", where=where, fix="A corpus has at least one segment")
        metric = self._fitted_to(segments)
        _, statistics = segment_scores.scores_and_statistics(metric, segments)
        with failures_named(metric.signature()):
            return metric.scorer.aggregate(statistics)

    def _fitted_to(self, segments: Sequence[Comparison]) -> Self:
        """The metric with corpus state from the references of these segments, if it waits for some."""
        if not (self.unfitted and self.info.needs_references):
            return self
        return self.fit([item.text for segment in segments for item in segment.references])

    @final
    def pairwise(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text],
        source: Text | None = None,
        context: Context | None = None,
    ) -> FloatArray:
        """Utilities, float64 [H, R] with a row per hypothesis ([H, 1] when reference-free); higher is better.

        Raises:
            InputError: a missing source, a context given to a metric that reads none, a list where a text belongs.
        """
        if context and not self.reads.context:
            raise InputError(
                f"{self.signature()} reads no context",
                where="context",
                fix="Set context=k in the metric",
            )
        comparison = self.comparison(hypotheses, references, source, context or NO_CONTEXT)
        store = Store(self.scorer)
        (matrix,) = evaluate.matrices(self, [comparison], store)
        values = self.utility_sign * matrix
        evaluate.warn_of_truncation(self, store, comparisons_of([plan_of(self, comparison)]))
        return values

    @final
    def explain(
        self,
        hypothesis: Text,
        references: Sequence[Text] = (),
        source: Text | None = None,
        context: Context | None = None,
    ) -> list[dict[str, Any]]:
        """Why a hypothesis got its values: the scorer's JSON data per reference, or once where it reads none.

        A segment metric that reads documents gives the data of their sentences one after the other, or, of aligned
        ones, what belongs together with its share of the value and its own value.

        Raises:
            InputError: as `pairwise`.
        """
        from .execution.explanations import explanations_of

        comparison = self.comparison([hypothesis], references, source, context or NO_CONTEXT)
        return explanations_of(self, comparison)

    @final
    def comparison(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text],
        source: Text | None,
        context: Context,
    ) -> Comparison:
        """The items of one list as this metric reads them; what it does not read is left out."""
        return comparison_of_list(self, hypotheses, references, source, context)

    @final
    def segments(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text | Sequence[Text]] | None,
        sources: Sequence[Text | None] | None,
        documents: Sequence[str] | None,
    ) -> list[Comparison]:
        """The items of aligned segments as this metric reads them; errors as `score`.

        A source may be None: all are where the source is not needed, or it is an error.
        """
        return comparisons_of_segments(self, hypotheses, references, sources, documents)

    @final
    def check_sources(self, sources: Sequence[object], places: Sequence[str]) -> None:
        """Raises InputError for the first place without a source, where it is needed or read and others have one."""
        check_sources(self, sources, places)


def _check_windows(name: str, windows: object, stride: object) -> None:
    """Raises InputError for a stride without windows, or one that would leave out sentences."""
    if isinstance(stride, int) and windows is None:
        raise InputError(f"stride={stride} without windows", where=name, fix="Set windows=k too")
    if isinstance(stride, int) and isinstance(windows, int) and stride > windows:
        raise InputError(
            f"stride={stride} beside windows={windows} leaves sentences out",
            where=name,
            fix=f"Set a stride of at most {windows}",
        )
