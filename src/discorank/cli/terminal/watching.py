"""An engine at work: rates in the line of progress, amounts at the end, and a warning if workers have to wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TypeVar

from ...metrics.execution.meter import Meter, Metered
from ...rerank.engines.interface import Engine
from ...rerank.engines.status import Status
from .console import say

AMOUNTS_SECONDS = 10.0  # of a shorter run no amounts are said but where workers were asked for
WARNING_SECONDS = 30.0  # before that, starting up explains why workers wait
STARVING = 0.7  # share of their time that workers are at work, below which something is wrong

T = TypeVar("T")


class Watch:
    """Reports on an engine while and after it works.

    Args:
        engine: reported on since it was loaded.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.meter = Meter()  # what the calling process does beside: reading and writing
        self.begun = monotonic()
        self.warned = False
        self.read = 0

    def reading(self, entries: Iterable[T]) -> Iterator[T]:
        """The entries; `read` counts them, which is ahead of those decided."""
        for entry in entries:
            self.read += 1
            yield entry

    @property
    def seconds(self) -> float:
        """How long the engine has been loaded."""
        return self.engine.status().seconds

    def note(self) -> str:
        """Rates so far, and how many workers there are; warns once if they starve."""
        status = self.engine.status()
        self._warn(status)
        return rates(status)

    def close(self) -> None:
        """Says how much work was done, where it was not little; the run file has the seconds of every stage."""
        status = self.engine.status()
        if status.workers or monotonic() - self.begun >= AMOUNTS_SECONDS:
            say(amounts_line(status))
        if judged := judged_line(self.meter.now + status.work):
            say(judged)
        self._warn(status)

    def _warn(self, status: Status) -> None:
        reason = None if self.warned else starving(status, self.meter.now)
        if reason:
            self.warned = True
            say(f"warning: {reason}")


def rates(status: Status) -> str:
    """Pairs and tokens per second; with workers, how many there are and how busy.

    >>> rates(Status(Metered(texts=10, tokens=4000, pairs=25), seconds=2.0))
    '12.5 pairs/s, 2,000 tokens/s'
    """
    seconds = max(1e-9, status.seconds)
    notes = []
    for amount, unit in ((status.work.pairs, "pairs"), (status.work.tokens, "tokens")):
        if amount:
            rate = amount / seconds
            notes.append(f"{rate:,.0f} {unit}/s" if rate >= 100 else f"{rate:.3g} {unit}/s")
    if status.workers:
        alive = sum(worker.alive for worker in status.workers)
        notes.append(f"{alive}/{len(status.workers)} workers {status.together.busy:.0%} busy")
    return ", ".join(notes)


def amounts_line(status: Status) -> str:
    """How much was represented and compared, and how fast."""
    work, seconds = status.work, max(1e-9, status.seconds)
    cached = f" and {work.cached_texts:,} from the cache" if work.cached_texts else ""
    texts = f"{work.texts:,} texts represented{cached}"
    tokens = f"{work.tokens:,} tokens ({work.tokens / seconds:,.0f}/s)"
    pairs = f"{work.pairs:,} pairs ({work.pairs / seconds:,.0f}/s)"
    line = f"{texts}, {tokens}, {pairs} in {seconds:.1f} s"
    if not status.workers:
        return line
    alive = sum(worker.alive for worker in status.workers)
    died = sum(worker.died for worker in status.workers)
    numbers = f"{alive} of {len(status.workers)} workers alive, {died} died"
    return f"{line}; {numbers}, {status.together.busy:.0%} busy"


def judged_line(work: Metered) -> str:
    """Calls and answers of judges; empty where there were none.

    >>> judged_line(Metered(calls=3, prompt_tokens=900, answer_tokens=6, repeated_calls=1, unparsable=1))
    'judges: 3 calls (1 asked again), 900 tokens of prompts, 6 of answers; 0 answers were kept, 1 without a value'
    """
    if not (work.calls or work.kept_answers):
        return ""
    again = f" ({work.repeated_calls:,} asked again)" if work.repeated_calls else ""
    tokens = f"{work.prompt_tokens:,} tokens of prompts, {work.answer_tokens:,} of answers"
    kept = f"{work.kept_answers:,} answers were kept, {work.unparsable:,} without a value"
    return f"judges: {work.calls:,} calls{again}, {tokens}; {kept}"


def starving(status: Status, own: Metered) -> str | None:
    """Why workers were idle for much of their time; None if they were not, or it is too early to say.

    Args:
        status: of the engine.
        own: seconds that this process was reading and writing.
    """
    if not status.workers or status.seconds < WARNING_SECONDS or status.together.busy >= STARVING:
        return None
    idle = f"the workers were at work {status.together.busy:.0%} of their time"
    driver, read = status.seconds - status.waited_seconds, own.seconds.get("read", 0.0)
    if driver < status.seconds / 2:
        return (
            f"{idle}: too few lists were ready at once. Those of a document wait for one another, and one worker has "
            "the last large list; take fewer workers"
        )
    if read > driver / 2:
        return f"{idle}: the input came too slowly, {read:.0f} of {status.seconds:.0f} s went into reading it"
    at_work = f"the driver was at work {driver:.0f} of {status.seconds:.0f} s"
    return f"{idle}: {at_work}; take fewer workers or split the file"
