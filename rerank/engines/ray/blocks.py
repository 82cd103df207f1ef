"""What actors are asked to do, what it is expected to cost, and what comes next.

A list that costs a block or more goes first, the longest first, so that it does not hold the rest; the others wait in
order and go in blocks of about a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from .worker import Done, Sent

if TYPE_CHECKING:
    from .groups import Group

Kind = Literal["model", "compare"]  # which actors may do it
Amounts = tuple[int, int]  # characters that are represented, and pairs that are compared

GUESS = 1.5e-5  # seconds per character and per pair, before any were measured
BLOCK_SECONDS = 1.0  # what a block should take
KEPT = 0.7  # what older measurements count for when a newer one comes
STAGES = (
    ("prepare", "represent", "cache"),
    ("compare", "choose"),
)  # the time of characters, and of pairs


class Rates:
    """Seconds per character represented and per pair compared, as measured of late."""

    def __init__(self) -> None:
        self.seconds = [GUESS, GUESS]
        self.amounts = [1.0, 1.0]
        self.kept = 0.0  # what was measured counts for when there is more

    def of(self, amounts: Amounts) -> float:
        """Seconds that so many (characters, pairs) are expected to take."""
        return sum(amount * self.seconds[i] / self.amounts[i] for i, amount in enumerate(amounts))

    def learn(self, amounts: Amounts, done: Done) -> None:
        """Takes what (characters, pairs) took; what is no stage's is shared out among these."""
        stages = done.work.seconds
        took = [sum(stages.get(name, 0.0) for name in names) for names in STAGES]
        for i, (amount, seconds) in enumerate(zip(amounts, took, strict=True)):
            if amount and seconds:
                self.seconds[i] = self.kept * self.seconds[i] + done.seconds * seconds / sum(took)
                self.amounts[i] = self.kept * self.amounts[i] + amount
        self.kept = KEPT


@dataclass(slots=True, eq=False)
class Step:
    """One call of a worker's method."""

    method: str
    arguments: tuple[Any, ...]
    tasks: list[Sent]  # the lists it is about
    amounts: Amounts
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

    def __len__(self) -> int:
        """How many lists are not yet in a step."""
        return len(self.lists) + len(self.long)

    def add(self, sent: Sent) -> None:
        """Takes a list."""
        seconds = self.rates.of(sent.amounts)
        if seconds < BLOCK_SECONDS:
            self.lists.append(sent)
        else:
            heappush(self.long, (-seconds, next(self.number), sent))

    def back(self, steps: Iterable[Step]) -> None:
        """Takes steps that come before all else, in order."""
        self.steps.extendleft(reversed(list(steps)))

    def forget(self, group: Group) -> None:
        """Lets go of a group's steps."""
        self.steps = deque(step for step in self.steps if step.group is not group)

    def keep(self, numbers: Collection[int]) -> None:
        """Lets go of all lists but some."""
        self.steps = deque(
            step for step in self.steps if any(sent.key in numbers for sent in step.tasks)
        )
        self.lists = deque(sent for sent in self.lists if sent.key in numbers)
        self.long = [entry for entry in self.long if entry[2].key in numbers]
        heapify(self.long)

    def step(self, kinds: Collection[Kind], busy: bool) -> Step | None:
        """The first step of these kinds; one that must be alone is not for an actor that is busy."""
        for step in self.steps:
            if step.kind in kinds and not (step.alone and busy):
                self.steps.remove(step)
                return step
        return None

    def block(self, shares: int) -> list[Sent]:
        """Lists for the next block: about a second of them, or one, or a fair share of what waits if that is less."""
        most = -(-len(self) // shares)
        block: list[Sent] = []
        seconds = 0.0
        while len(block) < most:
            seconds += self.rates.of((self.long[0][2] if self.long else self.lists[0]).amounts)
            if block and seconds > BLOCK_SECONDS:
                break
            block.append(heappop(self.long)[2] if self.long else self.lists.popleft())
        return block
