"""Contrastive accuracy: how often a metric ranks the correct translation above all contrastive ones.

    accuracy = |{i : u(correct_i) > u(contrastive_ij) for all j}| / n      (Vernikos et al. 2022, section 4.2)
u is the utility, higher is better; from 0 to 100 %. Utilities within 1e-9 (relative) are equal, and an equal one is not
a first place but a tie, counted apart; so is a contrastive translation with the very text of the correct one, which
nothing can rank lower. NaN counts as the lowest value. Meant for reference-free metrics: against a human reference the
task is easy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import NormalDist
from typing import Annotated, Any, NamedTuple

import numpy as np

from ...metrics.errors import DiscorankError, InputError
from ...metrics.mixture import Utility
from ...metrics.registry import MetricLike, load_metric
from ...metrics.representations import FloatArray
from ...metrics.spec.checked_settings import Field, from_json
from ...metrics.text.texts import Context
from ..choice import TIE
from ..engines.expectation import combined_values
from ..engines.interface import Engine, Result, Task
from ..engines.local import LocalEngine

CHUNK_ITEMS = 512  # handed to the engine together
CHUNK_CHARACTERS = 1 << 20
_FORM = (
    "An item is an object with id, correct, contrastive, context_source, context_target; contexts "
    "may be []"
)


@dataclass(frozen=True, slots=True)
class ContrastiveItem:
    """A correct translation among wrong ones that only the context may tell from it.

    Args:
        id: its name.
        correct: the correct translation.
        contrastive: the wrong ones, at least one.
        source: the sentence translated.
        context_source, context_target: the sentences before it, oldest first, and their translations.
        phenomenon: what the translations differ in.
        distance: how many sentences back the antecedent stands, None where it is not known.
        reference: a human translation, for metrics that compare with one; it shares `context_target`.
    """

    id: Annotated[str, Field(min_length=1)]
    correct: str
    contrastive: Annotated[tuple[str, ...], Field(min_length=1)]
    context_source: tuple[str, ...]
    context_target: tuple[str, ...]
    source: str | None = None
    phenomenon: str | None = None
    distance: Annotated[int, Field(ge=0)] | None = None
    reference: str | None = None


def read_item(data: Any) -> ContrastiveItem:
    """An item from its JSON form; other keys are ignored.

    Raises:
        InputError: something is missing or of the wrong type; names the key.
    """
    if isinstance(data, ContrastiveItem):
        return data
    return from_json(ContrastiveItem, data, "", _FORM)


class Verdict(NamedTuple):
    """Where the correct translation of an item came.

    `utilities` [1 + contrastive] begin with its own; `rank` is one more than the number of contrastive translations
    that are better or equal, `ties` the number of equal ones.
    """

    utilities: FloatArray
    rank: int
    ties: int
    flags: tuple[str, ...] = ()  # texts that were too long, as in a ranking

    @classmethod
    def of(cls, utilities: FloatArray, flags: tuple[str, ...] = ()) -> Verdict:
        """The verdict on utilities, the correct translation's first; one that is not finite is worse than all others.

        >>> Verdict.of(np.array([0.5, 0.7, 0.5, 0.1]))[1:]
        (3, 1, ())
        """
        values = np.where(np.isfinite(utilities), utilities, -inf)
        correct, others = values[0], values[1:]
        # of each pair, whether the lower value is as good as the higher
        higher = np.maximum(correct, others)
        margins = np.where(np.isinf(higher), 0.0, TIE * abs(higher))
        equal = np.minimum(correct, others) >= higher - margins
        rank = 1 + int((equal | (others > correct)).sum())
        return cls(utilities, rank, int(equal.sum()), flags)

    @property
    def is_first(self) -> bool:
        """Whether the correct translation is better than all others."""
        return self.rank == 1

    @property
    def shares_first(self) -> bool:
        """Whether none is better than the correct translation but some are equal."""
        return self.ties > 0 and self.rank == 1 + self.ties


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Counts of some items: all, those with the correct translation first, those where it shares the first place."""

    n: int
    correct: int
    ties: int

    @property
    def percent(self) -> float:
        """The share with the correct translation first."""
        return 100 * self.correct / self.n

    def interval_percent(self, level: float = 0.95) -> tuple[float, float]:
        """The Wilson score interval of `percent` (Wilson 1927), for items that are independent.

        >>> [round(bound, 2) for bound in Accuracy(10, 8, 0).interval_percent()]
        [49.02, 94.33]
        """
        z = NormalDist().inv_cdf((1 + level) / 2)
        share = self.correct / self.n
        spread = z * z / self.n
        variance = share * (1 - share) * spread + spread * spread / 4
        half = sqrt(variance)
        middle = share + spread / 2
        low = (middle - half) / (1 + spread)
        high = (middle + half) / (1 + spread)
        return 100 * max(0.0, low), 100 * min(1.0, high)


@dataclass(frozen=True, slots=True)
class ContrastiveAccuracy:
    """Accuracies of one metric; those of each phenomenon, and of each distance, together count every item once.

    Items without a phenomenon or distance stand under None, last.
    """

    overall: Accuracy
    phenomenon: Mapping[str | None, Accuracy]
    distance: Mapping[int | None, Accuracy]


class Tally:
    """Counts the verdicts of one metric."""

    def __init__(self) -> None:
        # by value of the item's field of this name (None for `overall`): items, firsts, shared firsts
        names = ("overall", "phenomenon", "distance")
        self._counts: dict[str, dict[Any, list[int]]] = {name: {} for name in names}

    def add(self, item: ContrastiveItem, verdict: Verdict) -> None:
        """Counts one item."""
        for name, counts in self._counts.items():
            value = getattr(item, name, None)
            row = counts.setdefault(value, [0, 0, 0])
            row[0] += 1
            row[1] += verdict.is_first
            row[2] += verdict.shares_first

    def accuracy(self) -> ContrastiveAccuracy:
        """The counts.

        Raises:
            InputError: nothing was.
        """
        if not self._counts["overall"]:
            raise InputError("no items, expected at least one", where="contrastive items")
        return ContrastiveAccuracy(
            Accuracy(*self._counts["overall"][None]),
            _accuracies(self._counts["phenomenon"]),
            _accuracies(self._counts["distance"]),
        )


def _accuracies(counts: Mapping[Any, Sequence[int]]) -> dict[Any, Accuracy]:
    """The accuracy at every value of a field, in order, None last."""
    values = sorted(counts, key=lambda value: (value is None, value))
    return {value: Accuracy(*counts[value]) for value in values}


def contrastive_accuracy(
    metric: MetricLike,
    items: Iterable[ContrastiveItem | Mapping[str, Any]],
    engine: Engine | None = None,
) -> ContrastiveAccuracy:
    """How often a metric ranks the correct translation first, by phenomenon and by distance.

    Args:
        metric: a metric, its name or signature, or a function u(h, r).
        items: items or their JSON form, streamed.
        engine: where the metric runs; this process if not given.

    Raises:
        InputError: no items, one that cannot be read, or one that lacks the source or reference that the metric needs.
        MetricError: the metric failed on an item.
    """
    tally = Tally()
    for item, (verdict,) in verdicts([load_metric(metric)], _read(items), engine):
        tally.add(item, verdict)
    return tally.accuracy()


def verdicts(
    metrics: Sequence[Utility],
    items: Iterable[ContrastiveItem],
    engine: Engine | None = None,
) -> Iterator[tuple[ContrastiveItem, tuple[Verdict, ...]]]:
    """Every item, in order, with the verdict of each metric; errors as `contrastive_accuracy`."""
    engine = engine or LocalEngine()
    engine.load(metrics)
    for chunk in _chunks(items):
        tasks = [_task(metric, item) for item in chunk for metric in metrics]
        for key, task in enumerate(tasks):
            engine.submit(key, task)
        results: dict[int, Result | DiscorankError] = {}
        while len(results) < len(tasks):
            results.update(engine.collect())
        in_order = [_verdict(task, results[key]) for key, task in enumerate(tasks)]
        for i, item in enumerate(chunk):
            start = i * len(metrics)
            yield item, tuple(in_order[start : start + len(metrics)])


def _task(metric: Utility, item: ContrastiveItem) -> Task:
    """All translations of an item against its reference, if it has one, in its context."""
    texts = (item.correct, *item.contrastive)
    references = () if item.reference is None else (item.reference,)
    context = Context(item.context_source, item.context_target)
    for _, part in metric.parts:
        if part.info.needs_references and not references:
            problem = f"is missing, and {part.name} compares with it"
            fix = 'Take a reference-free metric such as comet-qe, or give every item a "reference"'
            raise InputError(problem, where=f"{_place(item.id)}: reference", fix=fix)
    try:
        comparisons = tuple(
            part.comparison(texts, references, item.source, context) for _, part in metric.parts
        )
    except InputError as error:
        raise error.inside(_place(item.id)) from None
    # the matrix is kept as a linear form would not pay for a single column
    return Task(item.id, metric, comparisons, np.ones(1), keep_matrix=True)


def _verdict(task: Task, result: Result | DiscorankError) -> Verdict:
    if isinstance(result, DiscorankError):
        raise result.inside(_place(task.id))
    return Verdict.of(combined_values(task.metric, result), result.flags)


def _chunks(items: Iterable[ContrastiveItem]) -> Iterator[list[ContrastiveItem]]:
    """A few hundred items at a time, fewer if they are long."""
    chunk: list[ContrastiveItem] = []
    characters = 0
    for item in items:
        chunk.append(item)
        texts = (item.correct, *item.contrastive, *item.context_source, *item.context_target)
        characters += sum(len(text) for text in texts)
        if len(chunk) >= CHUNK_ITEMS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _read(items: Iterable[Any]) -> Iterator[ContrastiveItem]:
    for number, data in enumerate(items, 1):
        try:
            yield read_item(data)
        except InputError as error:
            raise error.inside(f"item number {number}") from None


def _place(identity: str) -> str:
    return f"item {identity!r:.80}"
