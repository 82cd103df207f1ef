"""The actors of an engine as the driver sees them: what each has to do, and whether it lives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

from ....metrics.base import Metric
from ..status import WorkerMeter
from .blocks import BLOCK_SECONDS, Kind, Rates, Step

ASKED = 4  # how many times in the seconds that an actor may be silent it is asked for a sign


class Call(NamedTuple):
    """A step that an actor has; Ray's names of what comes of it."""

    step: Step
    outcome: Any  # a `Done`
    value: Any = None  # what stays in the object store


@dataclass(slots=True, eq=False)
class Actor:
    """A worker in another process."""

    handle: Any
    meter: WorkerMeter
    kinds: tuple[Kind, ...]
    loading: Any = None  # Ray's name of the outcome of loading; None once loaded
    given: int = 0  # how many metrics it was given
    calls: deque[Call] = field(default_factory=deque)  # in the order it works on them
    since: float = 0.0  # when it began with the first of them
    pulse: Any = None  # Ray's name of an answer that is still to come
    asked: float = 0.0  # when it was last asked for one
    answered: bool = False  # ever

    @property
    def loaded(self) -> bool:
        """Whether it can work."""
        return self.loading is None

    def load(self, metrics: Sequence[Metric]) -> None:
        """Has it load those of all metrics that are new to it."""
        self.loading, self.given = self.handle.load.remote(metrics), len(metrics)

    def awaited(self) -> Iterator[Any]:
        """Ray's names of all that is to come from it."""
        yield from (name for name in (self.loading, self.pulse) if name is not None)
        yield from (call.outcome for call in self.calls)

    def has_room(self, rates: Rates) -> bool:
        """Whether it may get another step: nothing waits behind a long one, nor behind one that is alone."""
        if not self.calls:
            return True
        first = self.calls[0].step
        return not (first.alone or rates.of(first.amounts) > 2 * BLOCK_SECONDS)

    def call(self, step: Step) -> None:
        """Gives it a step."""
        method = getattr(self.handle, step.method)
        if step.group is None:
            call = Call(step, method.remote(*step.arguments))
        else:
            value, outcome = method.options(num_returns=2).remote(*step.arguments)
            call = Call(step, outcome, value)
        if not self.calls:
            self.since = monotonic()
        self.calls.append(call)
        step.copies += 1

    def finished(self) -> Call:
        """Takes the first of its calls away."""
        call = self.calls.popleft()
        call.step.copies -= 1
        self.since = monotonic()
        return call

    def orphans(self) -> list[Step | None]:
        """The steps that nobody has now that it is dead, the one at work first (None if another has that)."""
        calls, self.calls = self.calls, deque()
        for call in calls:
            call.step.copies -= 1
        return [None if call.step.done or call.step.copies else call.step for call in calls]

    def works_longer_than(self, seconds: float) -> bool:
        """Whether it has been at work on one step for so long."""
        return bool(self.calls) and monotonic() - self.since > seconds

    def is_silent(self, seconds: float) -> bool:
        """Whether it has left a question unanswered for so long; asks one now and then.

        Until it has answered once, it may be waiting for room in the cluster.
        """
        now = monotonic()
        if self.pulse is None and now - self.asked > seconds / ASKED:
            self.pulse = self.handle.pulse.options(concurrency_group="pulse").remote()
            self.asked = now
        return self.answered and self.pulse is not None and now - self.asked > seconds

    def answers(self) -> None:
        """Takes its answer."""
        self.pulse, self.answered = None, True


def stolen_by(idle: Actor, actors: Sequence[Actor]) -> Call | None:
    """The step that an idle actor takes over from one that has not begun with it."""
    for actor in actors:
        for call in list(actor.calls)[1:]:
            step = call.step
            if step.copies == 1 and not step.done and not step.alone and step.kind in idle.kinds:
                return call
    return None
