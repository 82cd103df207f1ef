"""The actors of an engine as the driver sees them: the steps each has, and whether it lives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

from ....metrics.base import Metric
from ..status import WorkerMeter
from .blocks import BLOCK_SECONDS, Kind, Rates, Step

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
