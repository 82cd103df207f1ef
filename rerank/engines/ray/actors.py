"""The actors of an engine as the driver sees them: the steps each has, what these should cost, which comes next.

A list that costs a block or more goes first, the longest first, so that it does not hold the rest; the others wait in
order and go in blocks of about a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from time import monotonic
from typing import Any, Literal, NamedTuple

from ....metrics.base import Metric
from ..status import WorkerMeter
from .worker import SentTask, StepResult

# how many times an actor is asked for a sign of life within the seconds that it may be silent
PULSES_PER_SILENCE = 4
# a younger call may still be on its way to its actor, and is not cancelled: once, a call sent after one that was
# cancelled at that moment never ended
SETTLING_SECONDS = 0.1


class StepCall(NamedTuple):
    """A step that an actor has, with Ray's references to what it will return."""

    step: Step
    sent_at: float
    outcome: Any  # to a `StepResult`
    value: Any = None  # to what stays in the object store


@dataclass(slots=True, eq=False)
class Actor:
    """A worker in another process."""

    handle: Any
    meter: WorkerMeter
    kinds: tuple[Kind, ...]
    loading: Any = None  # Ray's reference to the outcome of loading; None once loaded
    num_metrics: int = 0  # how many metrics it was sent
    calls: deque[StepCall] = field(default_factory=deque)  # in the order it works on them
    began_at: float = 0.0  # when it began with the first of them
    pulse: Any = None  # Ray's reference to an answer that is still to come
    asked_at: float = 0.0  # when it was last asked for one
    has_answered: bool = False  # ever

    @property
    def loaded(self) -> bool:
        """Whether it can work."""
        return self.loading is None

    def load(self, metrics: Sequence[Metric]) -> None:
        """Has it load those of all metrics that are new to it."""
        self.loading = self.handle.load.remote(metrics)
        self.num_metrics = len(metrics)

    def awaited(self) -> Iterator[Any]:
        """Ray's references to all that is to come from it."""
        if self.loading is not None:
            yield self.loading
        if self.pulse is not None:
            yield self.pulse
        for call in self.calls:
            yield call.outcome

    def has_room(self, rates: Rates) -> bool:
        """Whether it may get another step: nothing waits behind a long one, nor behind one that is alone."""
        if not self.calls:
            return True
        first = self.calls[0].step
        is_long = rates.of(first.amounts) > 2 * BLOCK_SECONDS
        return not (first.alone or is_long)

    def call(self, step: Step) -> None:
        """Gives it a step."""
        method = getattr(self.handle, step.method)
        now = monotonic()
        if step.group is None:
            call = StepCall(step, now, method.remote(*step.arguments))
        else:
            value, outcome = method.options(num_returns=2).remote(*step.arguments)
            call = StepCall(step, now, outcome, value)
        if not self.calls:
            self.began_at = now
        self.calls.append(call)
        step.copies += 1

    def finished(self) -> StepCall:
        """Takes the first of its calls away."""
        call = self.calls.popleft()
        call.step.copies -= 1
        self.began_at = monotonic()
        return call

    def orphans(self) -> list[Step | None]:
        """The steps that nobody has now that it is dead, the one at work first (None if another actor has that)."""
        calls, self.calls = self.calls, deque()
        for call in calls:
            call.step.copies -= 1
        steps = [call.step for call in calls]
        return [None if step.done or step.copies else step for step in steps]

    def works_longer_than(self, seconds: float) -> bool:
        """Whether it has been at work on one step for more than these seconds."""
        return bool(self.calls) and monotonic() - self.began_at > seconds

    def is_silent(self, seconds: float) -> bool:
        """Whether it has left a question unanswered for more than these seconds; asks one now and then.

        Until it has answered once, it may be waiting for room in the cluster.
        """
        now = monotonic()
        if self.pulse is None and now - self.asked_at > seconds / PULSES_PER_SILENCE:
            self.pulse = self.handle.pulse.options(concurrency_group="pulse").remote()
            self.asked_at = now
        is_late = self.pulse is not None and now - self.asked_at > seconds
        return self.has_answered and is_late

    def answers(self) -> None:
        """Takes its answer."""
        self.pulse = None
        self.has_answered = True


def stolen_by(idle: Actor, actors: Sequence[Actor]) -> StepCall | None:
    """The step that an idle actor takes over from one that has not begun with it."""
    now = monotonic()
    for actor in actors:
        for call in list(actor.calls)[1:]:
            step = call.step
            is_settled = now - call.sent_at > SETTLING_SECONDS
            is_waiting = step.copies == 1 and not step.done
            if is_settled and is_waiting and not step.alone and step.kind in idle.kinds:
                return call
    return None


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
        self.continued: dict[str, deque[SentTask]] = {}  # by the actor that has their texts
        self.long: list[tuple[float, int, SentTask]] = []  # a heap, the longest first
        self.arrival = count()  # orders long lists that cost alike

    def __len__(self) -> int:
        """How many lists are not yet in a step."""
        return len(self.short) + len(self.long) + sum(map(len, self.continued.values()))

    def add(self, task: SentTask, home: str | None = None) -> None:
        """Takes a list; one that is continued is for the actor that has its texts, `home`."""
        if home is not None:
            self.continued.setdefault(home, deque()).append(task)
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
        for home, tasks in self.continued.items():
            self.continued[home] = deque(task for task in tasks if task.key in numbers)
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

    def block_continued(self, home: str) -> list[SentTask]:
        """Lists to continue for the next block of an actor: its own, or some of one that has more than a block of them.

        They are few, as engines begin no more while these wait, and whoever takes others' represents their texts again.
        """
        waiting = self.continued.get(home)
        if not waiting:
            waiting = max(self.continued.values(), key=self._seconds, default=deque())
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
