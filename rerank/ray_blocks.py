"""What actors are asked to do, what it is expected to cost, and what comes next.

A list that costs a block or more goes first, the longest first, so that it does not hold the rest; the others wait in
order and go in blocks of about a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from .ray_worker import Sent

if TYPE_CHECKING:
    from .ray_groups import Group

Kind = Literal["model", "compare"]  # which actors may do it

GUESS = 1.5e-5  # seconds per character and per pair, before any were measured
BLOCK_SECONDS = 1.0  # what a block should take
KEPT = 0.7  # what older measurements count for when a newer one comes


class Rates:
    """Seconds per character represented and per pair compared, as measured of late."""

    def __init__(self) -> None:
        self.seconds = [GUESS, GUESS]
        self.amounts = [1.0, 1.0]
        self.measured = False

    def of(self, sent: Sent) -> float:
        """Seconds that a list is expected to take."""
        return self.represent(sent.characters) + self.compare(sent.pairs)

    def represent(self, characters: int) -> float:
        """Seconds that so many characters are expected to take."""
        return self.seconds[0] / self.amounts[0] * characters

    def compare(self, pairs: int) -> float:
        """Seconds that so many pairs are expected to take."""
        return self.seconds[1] / self.amounts[1] * pairs

    def learn(self, amounts: tuple[int, int], seconds: tuple[float, float]) -> None:
        """Takes what (characters, pairs) took."""
        for i in (0, 1):
            if amounts[i]:
                kept = KEPT if self.measured else 0.0
                self.seconds[i] = kept * self.seconds[i] + seconds[i]
                self.amounts[i] = kept * self.amounts[i] + amounts[i]
        self.measured = True


@dataclass(slots=True, eq=False)
class Step:
    """One call of a worker's method."""

    method: str
    arguments: tuple[Any, ...]
    tasks: list[Sent]  # the lists it is about
    seconds: float  # that it is expected to take
    kind: Kind = "model"
    group: Group | None = None  # whose stage it is
    place: tuple[int, int] = (0, 0)  # metric and number of a chunk or tiles in its group
    alone: bool = False  # was at work when a worker died: nothing else is on its next actor
    tries: int = 0  # how often it was alone when a worker died
    copies: int = 0  # how many actors have it
    done: bool = False  # whatever comes of it now changes nothing


class Queue:
    """What waits for an actor."""

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self.steps: deque[Step] = deque()  # of actors that died, and of stages
        self.lists: deque[Sent] = deque()
        self.long: list[tuple[float, int, Sent]] = []  # a heap, the longest first
        self.number = count()

    def __bool__(self) -> bool:
        return bool(self.steps or self.lists or self.long)

    def add(self, sent: Sent) -> None:
        """Takes a list."""
        seconds = self.rates.of(sent)
        if seconds < BLOCK_SECONDS:
            self.lists.append(sent)
        else:
            heappush(self.long, (-seconds, next(self.number), sent))

    def back(self, steps: Iterable[Step]) -> None:
        """Takes steps that come before all else, in order."""
        self.steps.extendleft(reversed(list(steps)))

    def step(self, kinds: Iterable[Kind]) -> Step | None:
        """The first step of these kinds."""
        for step in self.steps:
            if step.kind in kinds:
                self.steps.remove(step)
                return step
        return None

    def block(self, shares: int) -> list[Sent]:
        """Lists for the next block: about a second of them, or one, or a fair share of what waits if that is less."""
        most = -(-(len(self.lists) + len(self.long)) // shares)
        block: list[Sent] = []
        seconds = 0.0
        while len(block) < most:
            seconds += self.rates.of(self.long[0][2] if self.long else self.lists[0])
            if block and seconds > BLOCK_SECONDS:
                break
            block.append(heappop(self.long)[2] if self.long else self.lists.popleft())
        return block
