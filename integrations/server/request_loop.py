"""The loop under all requests of generators, scores and judges: several in flight, and who is at fault where one fails.

A request that fails after all its retries may be the fault of its text or of the server. So the server gets a probe, a
request that a server in order can answer. If that fails too, the server is at fault and the run ends, as no other text
would fare better. If it is answered, the request is made once more, with at most one retry, and after another failure
and another answered probe the text is at fault and fails alone. So neither does one bad text end a run, nor does an
outage cost a text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from ...metrics.errors import DiscorankError, InputError, ResourceError
from .exchange import BusyError, Client, ExhaustedError, RefusedError, UnusableError

AHEAD = 4  # jobs in progress for each connection
MAX_PROBES = 2  # answered probes after which a text is at fault
K = TypeVar("K")
V = TypeVar("V")


class ServerRequest(NamedTuple):
    """A request: its path beneath the server's address, its JSON, and what its job knows it by."""

    path: str
    body: Mapping[str, Any]
    label: Any = None


class Job(ABC):
    """What is wanted from a server, by one request or several.

    Attributes:
        num_open: requests in flight.
        num_probes: probes sent on its account.
        max_probes: how many of these are answered before its text is at fault.
        suspicion: why nothing came, while it is unknown whether the server or the text is at fault.
        fatal: the error that ends the run.
    """

    max_probes = MAX_PROBES
    num_open = num_probes = 0
    fatal: DiscorankError | None = None

    @property
    @abstractmethod
    def suspicion(self) -> DiscorankError | None:
        """See above."""

    @abstractmethod
    def requests(self) -> Iterable[ServerRequest]:
        """The requests to be sent now."""

    @abstractmethod
    def take(self, request: ServerRequest, reply: Any) -> None:
        """Take a reply; raises InputError for one that cannot be used."""

    @abstractmethod
    def fail(self, request: ServerRequest, error: DiscorankError) -> None:
        """Note the error of a request."""

    @abstractmethod
    def begin_again(self) -> None:
        """Forget a suspicion: the same requests are to be made again."""

    @abstractmethod
    def blame(self) -> None:
        """Note that the text is at fault."""

    @abstractmethod
    def end(self, error: DiscorankError) -> None:
        """Note the error of a server that does not work, as `fatal`."""


class TextJob(Job):
    """A job of one request.

    Attributes:
        error: of the text, which is at fault.
        is_sent: whether its request was sent.
        trusts_refusals: whether a text that is refused is at fault, whatever the server does with others.
    """

    trusts_refusals = True

    def __init__(self) -> None:
        self.error: InputError | None = None
        self.is_sent = False
        self._suspicion: DiscorankError | None = None

    @property
    def suspicion(self) -> DiscorankError | None:
        """As `Job`."""
        return self._suspicion

    @abstractmethod
    def request(self) -> ServerRequest:
        """The request."""

    @abstractmethod
    def named(self) -> str:
        """The text, as an error quotes it."""

    def requests(self) -> Iterable[ServerRequest]:
        """As `Job`."""
        if not self.is_sent:
            self.is_sent = True
            yield self.request()

    def fail(self, request: ServerRequest, error: DiscorankError) -> None:
        """As `Job`."""
        is_refused = isinstance(error, InputError) and not isinstance(error, UnusableError)
        is_unclear = isinstance(error, ExhaustedError) and not isinstance(error, BusyError)
        if is_unclear or (is_refused and not self.trusts_refusals):
            self._suspicion = error
        elif is_refused:
            self._at_fault(error, error.problem)
        else:
            self.end(error)

    def begin_again(self) -> None:
        """As `Job`."""
        self.is_sent, self._suspicion = False, None

    def blame(self) -> None:
        """As `Job`."""
        if self._suspicion is not None:
            problem = f"{self._suspicion.problem}, while the server answers other requests"
            self._at_fault(self._suspicion, problem)

    def _at_fault(self, error: DiscorankError, problem: str) -> None:
        fix = "Shorten or correct the text, or leave it out"
        self.error = InputError(f"{problem} ({self.named()})", where=error.where, fix=fix)
        self._suspicion = None

    def end(self, error: DiscorankError) -> None:
        """As `Job`; a `ResourceError`, as the texts are not at fault."""
        fix = error.fix or "Does the server know every key of the request? See its settings"
        self.fatal, self._suspicion = ResourceError(error.problem, where=error.where, fix=fix), None


J = TypeVar("J", bound=Job)


class RequestLoop(Generic[J]):
    """Makes the requests of jobs.

    Args:
        client: sends them.
        probe: makes the request that shows whether the server works; None where no more may be sent.
        check: takes the reply to it; raises InputError for one that a server in order does not give.

    Attributes:
        jobs: those in progress.
    """

    def __init__(
        self,
        client: Client,
        probe: Callable[[], ServerRequest | None],
        check: Callable[[Any], object],
    ) -> None:
        self._client, self._probe, self._check = client, probe, check
        self._open: dict[Future[Any], tuple[J, ServerRequest | None]] = {}  # no request: a probe
        self.jobs: set[J] = set()

    def run(self, waiting: deque[J], at_once: int) -> Iterator[list[J]]:
        """Jobs as they end, those that end together at a time; `waiting` may be added to meanwhile.

        It ends early where the first of those that wait sends nothing.
        """
        while True:
            while waiting and len(self.jobs) < at_once:
                self.start(waiting[0])
                if waiting[0] not in self.jobs:
                    break
                waiting.popleft()
            if not self.jobs:
                return
            yield self.step()

    def start(self, job: J) -> None:
        """Send what a job lacks, which is in progress while any of its requests is in flight."""
        if job.fatal is None and job.suspicion is None:
            retries = self._client.connection.retries_again if job.num_probes else None
            for request in job.requests():
                self._send(job, request, request, retries)
        elif job.fatal is None and not job.num_open and (probe := self._probe()) is not None:
            job.num_probes += 1
            self._send(job, None, probe, None)
        if job.num_open:
            self.jobs.add(job)
        else:
            self.jobs.discard(job)

    def _send(
        self, job: J, request: ServerRequest | None, sent: ServerRequest, retries: int | None
    ) -> None:
        job.num_open += 1
        self._open[self._client.post(sent.path, sent.body, retries)] = job, request

    def step(self) -> list[J]:
        """Wait until a reply comes; the jobs that are not in progress any more."""
        ended: list[J] = []
        for future in wait(self._open, return_when=FIRST_COMPLETED).done:
            job, request = self._open.pop(future)
            job.num_open -= 1
            if request is None and job.suspicion is not None:
                self._settle(job, future, job.suspicion)
            elif request is not None:
                try:
                    job.take(request, future.result())
                except DiscorankError as error:
                    job.fail(request, error)
            self.start(job)
            if not job.num_open:
                ended.append(job)
        return ended

    def _settle(self, job: J, future: Future[Any], suspicion: DiscorankError) -> None:
        """Find out by the reply to a probe who is at fault: the server, or the text of a job."""
        is_failure = isinstance(suspicion, ExhaustedError)
        try:
            self._check(future.result())
        except (ExhaustedError, InputError) as error:
            # one that refuses the probe works, where it failed at the text
            if not (is_failure and isinstance(error, RefusedError)):
                job.end(error if isinstance(error, UnusableError) else suspicion)
                return
        except DiscorankError as error:
            job.end(error)
            return
        if is_failure and job.num_probes < job.max_probes:
            job.begin_again()
        else:
            job.blame()


def forget_oldest(known: dict[K, V], most: int) -> None:
    """Remove the oldest entries of what is remembered, where there are more than `most`."""
    for key in list(islice(known, max(0, len(known) - most))):
        del known[key]
