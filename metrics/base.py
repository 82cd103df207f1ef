"""The two classes every metric is made of: settings (`Metric`) and a loaded scorer (`Scorer`).

A scorer speaks the paper's language (a distance stays a distance); `utility_sign` turns it into a utility in one place.
It knows no files, lists, weights, caches or Ray.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import inf
from typing import Any, ClassVar, Literal, NamedTuple, Self, final

import numpy as np

from .errors import DiscorankError, InputError, ModelLoadError, excerpt
from .execution import evaluate
from .execution.store import Store
from .representations import Block, FloatArray, IntArray, Reps
from .spec import signature
from .text.by_sentence import columns_of, lift
from .text.texts import NO_CONTEXT, Comparison, Context, Document, Item, Text, aligned, paired


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """What the engines and the documentation must know about a metric without loading it."""

    summary: str  # one line for people
    paper: str  # where it comes from
    unit: Literal["segment", "document"] = "segment"
    needs_source: bool = False
    needs_references: bool = True
    higher_is_better: bool = True
    bounds: tuple[float, float] = (-inf, inf)  # of the paper's number
    symmetric: bool = False  # with default settings u(h, r) = u(r, h)
    several: Literal["max", "mean", "own"] = (
        "max"  # several references: the best, the mean, or `compare_multi`
    )
    linear: bool = False  # the scorer implements `expected`
    bucketed: bool = (
        False  # `represent` runs a model: it wants batches of similar length under a budget
    )
    version: int = 1  # raised whenever a score changes


class Reading(NamedTuple):
    """How many preceding sentences an item carries, and whose target context a hypothesis is read in.

    In whole documents that are compared pairwise it is the hypothesis's own, unless `everywhere`: then every hypothesis
    is read in the context of every reference.
    """

    context: int = 0
    context_from: str = "reference"
    everywhere: bool = False


class Scorer(ABC):
    """A loaded metric in one process."""

    info: Info
    batch_tokens: int = 4096  # summed lengths of one `represent` batch, where `info.bucketed`
    identity: str = ""  # all that representations depend on beside the item, where `info.bucketed`: key of a cache

    @abstractmethod
    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Reads items on the CPU (tokenise, count, label): columns, and the length of each item.

        A column "cut" says what was left out of a text that is too long: nothing (0), context (1), text itself (2).
        """

    def represent(self, prepared: Reps) -> Reps:
        """The expensive step; where `info.bucketed`, on batches in order of length.

        Row i depends on row i alone, to the last bit on a CPU. A column "cut" is kept by the engine.
        """
        return prepared

    @abstractmethod
    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block ([H, 1] when reference-free); blocks arrive by the hundred.

        A value depends on its pair alone, to the last bit: not on the other pairs or blocks of the call.
        """

    def compare_multi(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H] of every block: each hypothesis against all references of its block together."""
        found = self.compare(reps, blocks)
        if self.info.several == "mean":
            return [u.mean(axis=1) for u in found]
        return [u.max(axis=1) if self.info.higher_is_better else u.min(axis=1) for u in found]

    def expected(
        self, reps: Reps, blocks: Sequence[Block], weights: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """Values [H] averaged under reference weights [R] that sum to one, without the matrix (if `info.linear`)."""
        raise TypeError(f"{type(self).__name__} has no linear form")

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """Summed lengths of the forward passes that `compare` needs for a block; 0 where pairs are plain algebra."""
        return 0

    def pair_cut(self, reps: Reps, block: Block) -> int:
        """The most that is left out of any pair of a block that is too long together; as the column "cut"."""
        return 0

    def statistics(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """Statistics [n, columns] of n one-hypothesis blocks, from which `aggregate` makes corpus scores."""
        found = (
            self.compare_multi(reps, blocks)
            if self.info.needs_references
            else self.compare(reps, blocks)
        )
        return np.concatenate([value.ravel() for value in found])[:, None]

    def aggregate(self, statistics: FloatArray) -> float:
        """The corpus score of some rows of `statistics`; by default the mean of segment scores."""
        return float(statistics[:, 0].mean())

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray | None:
        """Corpus scores [b] from b sums of rows of `statistics` [b, columns] and how many rows each sums up [b].

        Equal to `aggregate` of those rows up to rounding; None where sums do not tell the score.
        """
        return sums[:, 0] / rows if type(self).aggregate is Scorer.aggregate else None

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """Why a pair (positions in the block) got its value, as JSON data for `explain` and `report`."""
        return {}


class Metric(ABC):
    """Settings of a metric: a frozen dataclass made by `@settings`, equal, hashable and picklable.

    The scorer is loaded on first use and never pickled.
    """

    name: ClassVar[str]
    info: ClassVar[Info]

    def __new__(cls, *settings: Any, **more: Any) -> Self:
        """Checks the class: not when it is made, as one that was sent by cloudpickle is filled afterwards."""
        for attribute in ("name", "info"):
            if not hasattr(cls, attribute):
                fix = "See docs/writing-a-metric.md"
                raise InputError(
                    f"a metric has a class attribute {attribute!r}", where=cls.__qualname__, fix=fix
                )
        return super().__new__(cls)

    @property
    def reads(self) -> Reading:
        """How much context the metric reads, and whose; a metric with a `context` setting overrides it."""
        return Reading()

    @abstractmethod
    def load(self) -> Scorer:
        """A fresh scorer.

        Raises:
            ModelLoadError: something it needs is missing or broken.
        """

    @property
    def unfitted(self) -> bool:
        """Whether the metric cannot be used before `fit`."""
        return False

    def fit(self, texts: Sequence[Text]) -> Self:
        """The metric with corpus state (idf, weights, ranges) from `texts`; itself where there is none."""
        return self

    def for_language(self, lang: str) -> Self:
        """The metric with the defaults of a language (BCP 47) where settings were left at theirs; itself by default."""
        return self

    def with_defaults(self, **values: Any) -> Self:
        """The metric with these settings where it has them and they are at their defaults."""
        own = {field.name: field.default for field in fields(self) if field.init}  # type: ignore[arg-type]
        given = {
            name: v
            for name, v in values.items()
            if name in own and getattr(self, name) == own[name]
        }
        return replace(self, **given) if given else self  # type: ignore[type-var]

    @cached_property
    def scorer(self) -> Scorer:
        """The loaded metric of this process; raises ModelLoadError where `load` fails in a way of its own."""
        try:
            return self.load()
        except (DiscorankError, MemoryError):
            raise
        except Exception as error:
            raise ModelLoadError(f"{type(error).__name__}: {error}", where=self.name) from error

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "scorer"}

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
        store = Store(self.scorer)
        segments = self.segments(hypotheses, references, sources, documents)
        values = evaluate.scores(self, segments, store)
        evaluate.warn_of_cuts(
            self, store, [c for segment in segments for c in lift(self, segment, strict=True)]
        )
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
            raise InputError(
                "no hypotheses",
                where=f"{self.name}.corpus",
                fix="A corpus has at least one segment",
            )
        return self.scorer.aggregate(evaluate.scores_and_statistics(self, segments)[1])

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
        values = self.utility_sign * evaluate.matrices(self, [comparison], store)[0]
        columns = columns_of(self, comparison)
        evaluate.warn_of_cuts(self, store, [c for column in columns for c in column])
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

        A segment metric that reads documents gives the data of their sentences one after the other.

        Raises:
            InputError: as `pairwise`.
        """
        comparison = self.comparison([hypothesis], references, source, context or NO_CONTEXT)
        columns = lift(self, comparison)
        store = Store(self.scorer)
        blocks = store.add(columns)
        n = len(references) if self.info.needs_references else 1
        found = [
            [self.scorer.describe(store.reps, block, 0, j) for block in blocks] for j in range(n)
        ]
        return [parts[0] if len(parts) == 1 else {"sentences": parts} for parts in found]

    @final
    def comparison(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text],
        source: Text | None,
        context: Context,
    ) -> Comparison:
        """The items of one list as this metric reads them: what it has no use for is left out."""
        check_texts(hypotheses, "hypotheses")
        if references is not hypotheses:
            check_texts(references, "references")
        if self.info.needs_source and source is None:
            raise InputError(
                f"{self.name} needs the source", where="source", fix="Give the source of the list"
            )
        return paired(
            hypotheses,
            references if self.info.needs_references else (),
            source if self.info.needs_source else None,
            context.last(self.reads.context),
        )

    @final
    def segments(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text | Sequence[Text]] | None,
        sources: Sequence[Text] | None,
        documents: Sequence[str] | None,
    ) -> list[Comparison]:
        """The items of aligned segments as this metric reads them; errors as `score`."""
        check_texts(hypotheses, "hypotheses")
        lists: list[list[Text]] = [[] for _ in hypotheses]
        if self.info.needs_references:
            given = _as_long_as(hypotheses, references, "references", self.name)
            several_or_one = [[r] if isinstance(r, str | Document) else r for r in given]
            for i, several in enumerate(several_or_one):
                check_texts(several, f"references[{i}]")
            lists = [list(several) for several in several_or_one]
            for i, several in enumerate(lists):
                if not several:
                    raise InputError(
                        "no reference", where=f"references[{i}]", fix="Give at least one text"
                    )
        used = None
        if self.info.needs_source:
            used = _as_long_as(hypotheses, sources, "sources", self.name)
            check_texts(used, "sources")
        if documents is not None:
            _as_long_as(hypotheses, documents, "documents", self.name)
        if self.reads.context and len({len(several) for several in lists}) > 1:
            raise InputError(
                "context needs the same number of references in every segment",
                where="references",
                fix="Leave out the references that only some segments have",
            )
        return aligned(
            hypotheses, lists, used, documents, self.reads.context, self.reads.context_from
        )


def check_texts(texts: Sequence[Any], where: str) -> None:
    """Raises InputError unless `texts` is a list of strings and Documents."""
    if isinstance(texts, str | Document):
        raise InputError(
            "found one text, expected a list of texts", where=where, fix="Put it in a list"
        )
    if not isinstance(texts, Sequence):
        raise InputError(f"found {excerpt(texts)}, expected a list of texts", where=where)
    for i, text in enumerate(texts):
        if not isinstance(text, str | Document):
            fix = (
                "A document is written discorank.Document([...])"
                if isinstance(text, list | tuple)
                else ""
            )
            raise InputError(
                f"found {excerpt(text)}, expected a string", where=f"{where}[{i}]", fix=fix
            )


def _as_long_as(
    hypotheses: Sequence[Any], values: Sequence[Any] | None, name: str, metric: str
) -> Sequence[Any]:
    if values is None:
        raise InputError(
            f"{metric} needs {name}", where=name, fix=f"Give {name}, one entry per hypothesis"
        )
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InputError(
            f"found {excerpt(values)}, expected a list", where=name, fix=f"Give {name} as a list"
        )
    if len(values) != len(hypotheses):
        raise InputError(
            f"{len(values)} {name} for {len(hypotheses)} hypotheses",
            where=name,
            fix="Give one entry per hypothesis",
        )
    return values
