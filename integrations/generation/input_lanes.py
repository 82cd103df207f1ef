"""Inputs in the lanes of their documents: which have to wait for a choice, and what each has as its context."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from ...metrics.errors import DiscorankError
from ...metrics.text.texts import NO_CONTEXT, Context
from ...rerank.context import Lane
from .generator import Prompt


@dataclass(slots=True)
class WaitingInput:
    """An input that waits for its turn."""

    place: int
    prompt: Prompt
    after_gap: bool  # the line before it could not be read
    context: Context = NO_CONTEXT
    flags: tuple[str, ...] = ()

    @property
    def reading(self) -> str:
        """A digest of all that its list is made from: the input, and what its context says."""
        read = repr((self.prompt, self.context, self.flags))
        return blake2b(read.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class InputLanes:
    """The lanes of documents, from one block of inputs to the next.

    Args:
        width: how many preceding sentences are kept.
        chooses: whether something is chosen for every input, which the next one waits for.
    """

    def __init__(self, width: int, chooses: bool) -> None:
        self.width, self.chooses = width, chooses
        self._document: str | None = None  # of the last input
        self._lane, self._after_gap = Lane(width), False

    def queues(
        self, inputs: Sequence[Prompt | DiscorankError]
    ) -> list[tuple[Lane, deque[WaitingInput]]]:
        """The lane of every document, with its inputs in order."""
        queues: list[tuple[Lane, deque[WaitingInput]]] = []
        for place, entry in enumerate(inputs):
            if isinstance(entry, DiscorankError):
                self._after_gap = True
                continue
            lane = self._lane_of(entry)
            if not queues or queues[-1][0] is not lane:
                queues.append((lane, deque()))
            _, waiting = queues[-1]
            waiting.append(WaitingInput(place, entry, self._after_gap))
            self._after_gap = False
        return queues

    def ready(self, lane: Lane, waiting: deque[WaitingInput]) -> Iterator[WaitingInput]:
        """The next of a lane, or all where none has to wait for a choice, with their contexts."""
        while waiting:
            job = waiting.popleft()
            is_cut = lane.enter(job.prompt.position, job.after_gap)
            job.flags = ("context-cut",) * is_cut
            job.context = lane.context
            yield job
            if self.chooses:
                return
            _extend(lane, job.prompt, "")

    def chose(self, lane: Lane, job: WaitingInput, chosen: str | None) -> None:
        """Makes what was chosen for an input context of the next, where something chooses."""
        if self.chooses:
            _extend(lane, job.prompt, chosen)

    def replay(self, prompt: Prompt | None, chosen: str | None = None) -> None:
        """Counts an input that an earlier run has done, and what was chosen for it; None if it could not be read."""
        if prompt is None:
            self._after_gap = True
            return
        lane = self._lane_of(prompt)
        lane.enter(prompt.position, self._after_gap)
        _extend(lane, prompt, chosen if self.chooses else "")
        self._after_gap = False

    def _lane_of(self, prompt: Prompt) -> Lane:
        """The lane of the prompt's document; documents are adjacent, so one is enough."""
        if prompt.document is None or prompt.document != self._document:
            self._document, self._lane = prompt.document, Lane(self.width)
        return self._lane


def _extend(lane: Lane, prompt: Prompt, chosen: str | None) -> None:
    """Adds an input and what was chosen for it to its lane; None if nothing could be."""
    if chosen is None:
        lane.lose()
    else:
        lane.extend(str(prompt.source or prompt.text), chosen)
