"""The order: which list waits for which, and what it then reads.

A metric that reads context needs the sentences before. They are what was chosen ("sequential": a list waits for the one
before it) or what stands first ("one-best"); lists without context are decided independently.

The sentences of a document follow each other in a stream. Each reads the last k that were chosen before it. A jump in
position, or a line between them that could not be read, empties the context: what comes next does not stand right
behind what was chosen last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self

from ..metrics.errors import InputError
from ..metrics.spec.checked_settings import settings
from ..metrics.text.texts import NO_CONTEXT, Context, Text
from .capabilities import OWN_CONTEXT, Costs
from .lists import CandidateList

Strategy = Literal["sequential", "one-best", "independent"]
StrategySetting = Literal["auto", "sequential", "one-best", "independent"]


@settings
class Order:
    """Where the context of a list comes from.

    Args:
        strategy: where context comes from in lists of a document: what was chosen before ("sequential", which "auto" is
            for metrics with context) or stands first ("one-best"), or nowhere ("independent").
    """

    heading: ClassVar = "order"

    strategy: Annotated[StrategySetting, Costs(OWN_CONTEXT)] = "auto"

    def resolved(self, width: int) -> Strategy:
        """The strategy that "auto" stands for, for metrics that read `width` preceding sentences.

        Raises:
            InputError: metrics that read context cannot decide lists independently.
        """
        if self.strategy == "auto":
            return "sequential" if width else "independent"
        if width and self.strategy == "independent":
            raise InputError(
                "the metric reads context, which independent lists do not have",
                where="strategy",
                fix='Choose "sequential" or "one-best", or set context=0 in the metric',
            )
        return self.strategy


def follows(before: int | None, position: int | None, after_gap: bool = False) -> bool:
    """Whether a sentence stands right behind the one before it, by their positions where both are known.

    Args:
        before, position: where the two stand in their document.
        after_gap: a line between them could not be read; decides where a position is not known.
    """
    if before is None or position is None:
        return not after_gap
    return position == before + 1


@dataclass(slots=True)
class DocumentStream:
    """The context of the next sentence of one document.

    Args:
        width: how many preceding sentences are context, k.
        context: the last of them.
        position: where the last sentence stands in its document, if it says so.
        is_lost: the last sentence came to nothing, so nobody knows what the next one should read.
    """

    width: int
    context: Context = NO_CONTEXT
    position: int | None = None
    is_lost: bool = False

    def enter(self, position: int | None, after_gap: bool) -> bool:
        """Moves on to the next sentence; returns whether it is cut off from the sentences before, or these are lost.

        Args:
            position: where it stands in the document, if it says so.
            after_gap: a line before it could not be read.
        """
        is_next = follows(self.position, position, after_gap)
        is_cut = self.is_lost or (not is_next and self.context != NO_CONTEXT)
        if is_cut:
            self.context = NO_CONTEXT
        self.position, self.is_lost = position, False
        return is_cut

    def extend(self, source: str, target: str) -> None:
        """Adds the sentence and what was chosen for it."""
        sources = (*self.context.source, source)
        targets = (*self.context.target, target)
        self.context = Context(sources, targets).last(self.width)

    def lose(self) -> None:
        """Nothing could be chosen for the sentence: the next one begins anew."""
        self.is_lost = True


@dataclass(slots=True)
class DocumentContext:
    """The context of the next list of a document, and its flags.

    Args:
        stream: the sentences before.
        was_cut: the context was cut since the last choice.
        after_failed: how many of the next lists have one in their context that failed.
    """

    stream: DocumentStream
    was_cut: bool = False
    after_failed: int = 0

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of the next list."""
        cut = ("context-cut",) if self.was_cut else ()
        return (*cut, "context-of-failed") if self.after_failed else cut

    def copy(self) -> Self:
        """One that goes on by itself."""
        return replace(self, stream=replace(self.stream))

    def enter(self, record: CandidateList, after_gap: bool) -> None:
        """Moves on to a list, which may cut the context."""
        if self.stream.enter(record.position, after_gap):
            self.was_cut, self.after_failed = True, 0

    def extend(
        self, record: CandidateList, text: Text, is_chosen: bool, failed: bool = False
    ) -> None:
        """Adds what was chosen for a list, or the text that one without a choice lends."""
        self.was_cut &= not is_chosen
        width = self.stream.width
        if not width:
            return
        self.after_failed = width if failed else max(0, self.after_failed - 1)
        self.stream.extend(str(record.source or ""), str(text))
