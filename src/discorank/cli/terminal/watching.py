"""How an engine at work is shown: rates beside the progress, where the time went at the end, and who had to wait."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic, process_time
from typing import NamedTuple, TypeVar

from ...metrics.execution.meter import STAGES, Meter, Metered
from ...rerank.engines.interface import Engine
from ...rerank.engines.status import Status, WorkerStatus
from ...tables import aligned
from .console import is_quiet, say

TABLE_SECONDS = 10.0  # a shorter run gets no table but where workers were asked for
WARNING_SECONDS = 30.0  # before that, starting up explains why workers wait
STARVING = 0.7  # share of their time that workers are at work, below which something is wrong
WORKERS_SHOWN = 16

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
        # from the start of the process until the first list is read
        self.cpu_before = process_time()
        self.warned = False
        self.read = 0

    def reading(self, entries: Iterable[T]) -> Iterator[T]:
        """The entries; `read` counts them, which is ahead of those decided."""
        self.cpu_before = self.cpu_before if self.read else process_time()
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
        """Says where the time went."""
        status, own = self.engine.status(), self.meter.now
        if status.workers or monotonic() - self.begun >= TABLE_SECONDS:
            load = max(0.0, monotonic() - self.begun - status.seconds)
            table = aligned(time_table(rows_of(status, own, load)))
            cpu = cpu_line(self.cpu_before, process_time())
            say(f"{amounts_line(status)}\n{table}\n{cpu}")
        if judged := judged_line(own + status.work):
            say(judged)
        self._warn(status)

    def _warn(self, status: Status) -> None:
        if self.warned:
            return
        reason = starving(status, self.meter.now)
        if reason and not is_quiet():
            from tqdm import tqdm

            self.warned = True
            # above the bar, where there is one
            tqdm.write(f"warning: {reason}", file=sys.stderr)


def rates(status: Status) -> str:
    """Pairs and tokens per second; with workers, how many there are and how busy.

    >>> rates(Status(Metered(texts=10, tokens=4000, pairs=25), seconds=2.0))
    '12.5 pairs/s, 2.00k tokens/s'
    """
    from tqdm import tqdm

    seconds = max(1e-9, status.seconds)
    notes = []
    if status.work.pairs:
        notes.append(f"{tqdm.format_sizeof(status.work.pairs / seconds)} pairs/s")
    if status.work.tokens:
        notes.append(f"{tqdm.format_sizeof(status.work.tokens / seconds)} tokens/s")
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


class TimeRow(NamedTuple):
    """The seconds of a process by stage, all of them, and the share of work."""

    name: str
    stages: Mapping[str, float]
    seconds: float
    busy: float | None = None

    @classmethod
    def of(cls, worker: WorkerStatus) -> TimeRow:
        """The row of a worker; what is of no stage is sending and reading lists."""
        rest = max(0.0, worker.busy_seconds - worker.work.all_seconds)
        stages = {**worker.work.seconds, "rest": rest}
        return cls(worker.name, stages, worker.busy_seconds, worker.busy)


def cpu_line(before: float, whole: float) -> str:
    """All CPU seconds of this process, and how many went before the first list.

    >>> cpu_line(4.6, 5.8)
    'CPU seconds of this process: 5.8 (4.6 to start and load, 1.2 from the first list on)'
    """
    parts = f"{before:.1f} to start and load, {whole - before:.1f} from the first list on"
    return f"CPU seconds of this process: {whole:.1f} ({parts})"


def rows_of(status: Status, own: Metered, load: float = 0.0) -> list[TimeRow]:
    """This process and each worker; of many workers those least at work, and all together.

    Args:
        status: of the engine.
        own: what this process did beside the engine.
        load: seconds that the engine took to load its metrics, or to start workers that do.
    """
    if not status.workers:
        work = own + status.work
        rest = max(0.0, status.seconds - work.all_seconds)
        stages = {"load": load, **work.seconds, "rest": rest}
        return [TimeRow("this process", stages, load + status.seconds)]
    at_work = max(0.0, status.seconds - status.waited_seconds)
    rest = max(0.0, at_work - own.all_seconds)
    stages = {"load": load, **own.seconds, "wait": status.waited_seconds, "rest": rest}
    busy = at_work / max(1e-9, status.seconds)
    rows = [TimeRow("driver", stages, load + status.seconds, busy)]
    least = sorted(status.workers, key=lambda worker: worker.busy)[:WORKERS_SHOWN]
    rows += [TimeRow.of(worker) for worker in status.workers if worker in least]
    if len(status.workers) > 1:
        rows.append(TimeRow.of(status.together))
    return rows


def time_table(rows: Sequence[TimeRow]) -> list[list[str]]:
    """The rows as cells, with a column for every stage that took any time."""
    all_stages = ("load", *STAGES, "wait", "rest")
    stages = [stage for stage in all_stages if any(row.stages.get(stage) for row in rows)]
    has_shares = any(row.busy is not None for row in rows)
    table = [["seconds", *stages, "all"]]
    if has_shares:
        table[0].append("busy")
    for row in rows:
        cells = [f"{row.stages[stage]:.1f}" if stage in row.stages else "" for stage in stages]
        cells.append(f"{row.seconds:.1f}")
        if has_shares:
            cells.append("" if row.busy is None else f"{row.busy:.0%}")
        table.append([row.name, *cells])
    return table


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
