"""Candidate lists from a server: many requests at a time, lists in the order of the prompts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

from ...metrics.errors import DiscorankError, InputError, ResourceError
from ..generation.generator import Generated, Prompt
from .client import Client, ExhaustedError, RefusedError, UnusableError
from .drawing import Drawing, outcome
from .replies import candidates_in
from .settings import Connection, ServerSettings

AHEAD = 4  # prompts under way for each connection
Request = tuple["_Job", Drawing, int, int]  # number of the call, number of candidates


@dataclass(slots=True, eq=False)
class _Job:
    """A prompt under way."""

    prompt: Prompt
    drawings: list[Drawing]
    fatal: DiscorankError | None = None

    @property
    def done(self) -> bool:
        return self.fatal is not None or all(drawing.done for drawing in self.drawings)


class ServerGenerator:
    """Generates with a server.

    Args:
        settings: what is asked for.
        connection: how the server is reached.

    Raises:
        InputError: the key cannot be had.
    """

    def __init__(self, settings: ServerSettings, connection: Connection) -> None:
        self.settings, self.connection = settings, connection
        self.several = True  # until the server ignores or refuses n
        connection.key()

    @property
    def identity(self) -> Mapping[str, Any]:
        """The settings that candidates depend on."""
        return {"generator": "server", **self.settings.identity}

    @property
    def prompts_at_once(self) -> int:
        """Prompts enough to keep all connections busy."""
        return AHEAD * self.connection.connections

    def generate(self, prompts: Iterable[Prompt]) -> Iterator[Generated]:
        """The candidate list of every prompt, or the error that stands for it, in the order of the prompts.

        A list whose last requests failed keeps the candidates that came; `missing_candidates` (and
        `missing_pseudo_references`) says how many did not, and `missing_because` why.

        Raises:
            ResourceError: the server cannot be reached, or a prompt has no candidate since it failed for so long.
            InputError: it refuses the key, or does not know the model.
        """
        with Client(self.connection) as client:
            yield from self._in_order(iter(prompts), client)

    def _in_order(self, prompts: Iterator[Prompt], client: Client) -> Iterator[Generated]:
        jobs: deque[_Job] = deque()
        under_way: dict[Future[Any], Request] = {}
        while True:
            while len(jobs) < self.prompts_at_once and (prompt := next(prompts, None)) is not None:
                jobs.append(
                    _Job(
                        prompt,
                        [Drawing(prompt, pool, self.settings) for pool in self.settings.pools],
                    )
                )
                self._ask(jobs[-1], client, under_way)
            if not jobs:
                return
            while not jobs[0].done:
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    request = under_way.pop(future)
                    self._take(request, future)
                    self._ask(request[0], client, under_way)
            job = jobs.popleft()
            if job.fatal is not None:
                raise job.fatal
            found = outcome(job.prompt, job.drawings)
            if isinstance(found, ExhaustedError):
                fix = f"{found.fix}, and run the same command again; if this prompt alone fails, leave it out"
                raise ExhaustedError(
                    found.problem, where=f"prompt {job.prompt.id!r}: server", fix=fix
                )
            yield found

    def _ask(self, job: _Job, client: Client, under_way: dict[Future[Any], Request]) -> None:
        """Sends the requests that a job lacks."""
        path = "chat/completions" if self.settings.chat else "completions"
        for drawing in job.drawings if job.fatal is None else ():
            for call, n, body in drawing.requests(self.several):
                under_way[client.post(path, body)] = (job, drawing, call, n)

    def _take(self, request: Request, future: Future[Any]) -> None:
        """Notes what came of a request."""
        job, drawing, call, n = request
        try:
            choices = candidates_in(future.result(), self.settings.chat)
        except RefusedError as error:
            drawing.refused(n, error)
        except UnusableError as error:
            job.fatal = error
        except (ExhaustedError, InputError) as error:
            drawing.failed(n, error)
        except ResourceError as error:
            job.fatal = error
        else:
            drawing.take(call, n, choices)
            if drawing.found[call] and (drawing.single or len(choices) == 1 < n):
                self.several = False
