"""The steps that actors are sent: what each is expected to cost, and which comes next.

A list that costs a block or more goes first, the longest first, so that it does not hold the rest; the others wait in
order and go in blocks of about a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Literal

from .worker import SentTask, StepResult

Kind = Literal["model", "compare"]  # which actors may do it
Amounts = tuple[int, int]  # characters that are represented, and pairs that are compared

GUESS = 1.5e-5  # seconds per character and per pair, before any were measured
BLOCK_SECONDS = 1.0  # what a block should take
DECAY = 0.7  # what older measurements count for when a newer one comes
# the stages whose time is that of characters, and those whose time is that of pairs
STAGES = (
    ("prepare", "represent", "cache"),
    ("compare", "choose"),
)


class Rates:
    """Seconds per character represented and per pair compared, as measured of late."""

    def __init__(self) -> None:
        self.seconds = [GUESS, GUESS]
        self.amounts = [1.0, 1.0]
        self.decay = 0.0  # what the measurements so far count for when another comes

    def of(self, amounts: Amounts) -> float:
        """Seconds that these (characters, pairs) are expected to take."""
        characters, pairs = amounts
        for_characters = characters * self.seconds[0] / self.amounts[0]
        for_pairs = pairs * self.seconds[1] / self.amounts[1]
        return for_characters + for_pairs

    def learn(self, amounts: Amounts, outcome: StepResult) -> None:
        """Learns from the time that (characters, pairs) took; time outside all stages is shared out among these."""
        seconds_of = outcome.work.seconds
        stage_seconds = [sum(seconds_of.get(name, 0.0) for name in names) for names in STAGES]
        for i, (amount, seconds) in enumerate(zip(amounts, stage_seconds, strict=True)):
            if amount and seconds:
                share = outcome.seconds * seconds / sum(stage_seconds)
                self.seconds[i] = self.decay * self.seconds[i] + share
                self.amounts[i] = self.decay * self.amounts[i] + amount
        self.decay = DECAY


@dataclass(slots=True, eq=False)
class Step:
    """One call of a worker's method."""

    method: str
    arguments: tuple[Any, ...]
    tasks: list[SentTask]  # the lists it is about
    amounts: Amounts
    kind: Kind = "model"
    group: int | None = None  # number of the group whose stage it is
    place: tuple[int, int] = (0, 0)  # metric, and number of a chunk or of a step of tiles
    alone: bool = False  # was at work when a worker died: nothing else is on its next actor
    tries: int = 0  # how often it was alone when a worker died
    copies: int = 0  # how many actors have it
    done: bool = False  # a result that comes now changes nothing


class Queue:
    """The queue of an actor."""

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self.steps: deque[Step] = deque()  # of actors that died, and of stages
        self.short: deque[SentTask] = deque()  # in order
        self.going_on: dict[str, deque[SentTask]] = {}  # by the actor that has their texts
        self.long: list[tuple[float, int, SentTask]] = []  # a heap, the longest first
        self.arrival = count()  # orders long lists that cost alike

    def __len__(self) -> int:
        """How many lists are not yet in a step."""
        return len(self.short) + len(self.long) + sum(map(len, self.going_on.values()))

    def add(self, task: SentTask, home: str | None = None) -> None:
        """Takes a list; one that goes on is for the actor that has its texts, `home`."""
        if home is not None:
            self.going_on.setdefault(home, deque()).append(task)
            return
        seconds = self.rates.of(task.amounts)
        if seconds < BLOCK_SECONDS:
            self.short.append(task)
        else:
            heappush(self.long, (-seconds, next(self.arrival), task))

    def put_first(self, steps: Iterable[Step]) -> None:
        """Takes steps that come before all else, in order."""
        in_order = list(steps)
        self.steps.extendleft(reversed(in_order))

    def forget(self, group: int) -> None:
        """Lets go of a group's steps."""
        self.steps = deque(step for step in self.steps if step.group != group)

    def keep_only(self, numbers: Collection[int]) -> None:
        """Lets go of all lists but those of these numbers."""

        def is_needed(step: Step) -> bool:
            return any(task.key in numbers for task in step.tasks)

        self.steps = deque(step for step in self.steps if is_needed(step))
        self.short = deque(task for task in self.short if task.key in numbers)
        for home, tasks in self.going_on.items():
            self.going_on[home] = deque(task for task in tasks if task.key in numbers)
        self.long = [entry for entry in self.long if entry[2].key in numbers]
        heapify(self.long)

    def step(self, kinds: Collection[Kind], busy: bool) -> Step | None:
        """The first step of these kinds; one that must be alone is not for an actor that is busy."""
        for step in self.steps:
            if step.kind in kinds and not (step.alone and busy):
                self.steps.remove(step)
                return step
        return None

    def block(self, shares: int) -> list[SentTask]:
        """Lists that have not begun for the next block, at least one if there are any.

        About a second of them, or a fair share of what waits if that is less.
        """
        num_waiting = len(self.short) + len(self.long)
        max_lists = -(-num_waiting // shares)
        block: list[SentTask] = []
        seconds = 0.0
        while len(block) < max_lists:
            following = self.long[0][2] if self.long else self.short[0]
            seconds += self.rates.of(following.amounts)
            if block and seconds > BLOCK_SECONDS:
                break
            self._remove_first()
            block.append(following)
        return block

    def block_going_on(self, home: str) -> list[SentTask]:
        """Lists that go on for the next block of an actor: its own, or some of one that has more than a block of them.

        They are few, as engines begin no more while these wait, and whoever takes others' represents their texts again.
        """
        waiting = self.going_on.get(home)
        if not waiting:
            waiting = max(self.going_on.values(), key=self._seconds, default=deque())
            if self._seconds(waiting) <= BLOCK_SECONDS:
                return []
        block: list[SentTask] = []
        while waiting and (not block or self._seconds([*block, waiting[0]]) <= BLOCK_SECONDS):
            block.append(waiting.popleft())
        return block

    def _seconds(self, tasks: Iterable[SentTask]) -> float:
        return sum(self.rates.of(task.amounts) for task in tasks)

    def _remove_first(self) -> None:
        if self.long:
            heappop(self.long)
        else:
            self.short.popleft()
