"""The `Generator` of a server: many requests at a time, lists in the order of the prompts. Nothing is chosen here.

A prompt that fails for good is at fault itself if the server answers another request, fails at the prompt once more,
now with one repetition, and answers again; otherwise the server is. So neither one bad prompt ends a run, nor does an
outage cost an input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from ...metrics.errors import DiscorankError, InputError, ResourceError
from ...metrics.execution.meter import Meter
from ...rerank.lists import Candidate
from ..generation.generator import Generated, Prompt
from .client import Client
from .drawing import Drawing
from .prompt_drawings import drawings_of, outcome
from .replies import candidates_in, tokens_in
from .server_errors import BusyError, ExhaustedError, RefusedError, UnusableError
from .settings import Connection, ServerSettings

AHEAD = 4  # prompts under way for each connection
PROBE = "Hello"  # what a server is asked that failed at a prompt
PROBES = 2  # how many of these are answered before the prompt is at fault


@dataclass(slots=True, eq=False)
class _PromptUnderWay:
    """A prompt with the drawings of its pools, or the error that ends the run."""

    prompt: Prompt
    drawings: dict[str, Drawing]  # by pool
    fatal: DiscorankError | None = None
    num_probes: int = 0  # sent
    probing: bool = False  # whether one is under way

    @property
    def done(self) -> bool:
        if self.fatal is not None:
            return True
        is_drawn = all(drawing.done for drawing in self.drawings.values())
        return is_drawn and not (self.probing or self.is_suspect)

    @property
    def is_suspect(self) -> bool:
        """Whether the server is to be asked something else, to see whether it works."""
        is_drawn = all(drawing.done for drawing in self.drawings.values())
        is_failure = self.failure is not None and not isinstance(self.failure, BusyError)
        return is_drawn and is_failure and self.num_probes < PROBES

    @property
    def failure(self) -> DiscorankError | None:
        """Why the server gave nothing for a pool, where it was not for what it answered."""
        errors = (drawing.error for drawing in self.drawings.values() if drawing.exhausted)
        return next(errors, None)

    def failed(self) -> None:
        """The server works no more: what it did at this prompt ends the run."""
        if self.failure is not None:
            self.fatal = self.placed(self.failure)

    def placed(self, error: DiscorankError) -> ExhaustedError:
        """The error with the prompt that it came at."""
        where = f"prompt {self.prompt.id!r}: server"
        fix = f"{error.fix}, and run the same command again"
        return ExhaustedError(error.problem, where=where, fix=fix)

    def answered(self) -> None:
        """The server works: it gets the prompt again, or has failed at it often enough."""
        self.probing = False
        if self.num_probes == PROBES:
            return
        for drawing in self.drawings.values():
            if drawing.exhausted:
                drawing.begin_again()


class _Request(NamedTuple):
    """A request under way: its number, and for how many candidates it is; of no drawing if it is a probe."""

    under_way: _PromptUnderWay
    drawing: Drawing | None
    call: int = 0
    n: int = 0


Requests = dict[Future[Any], _Request]


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
        self.meter = Meter()
        self.accepts_n = True  # until the server ignores or refuses n
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
            ResourceError: the server cannot be reached, or failed for so long that a prompt has no candidate, and at
                other requests too.
            InputError: it refuses the key, or does not know the model.
        """
        with Client(self.connection) as client:
            yield from self._in_order(iter(prompts), client)

    def _in_order(self, prompts: Iterator[Prompt], client: Client) -> Iterator[Generated]:
        """The outcome of every prompt; `prompts_at_once` of them are under way at a time."""
        queue: deque[_PromptUnderWay] = deque()
        requests: Requests = {}
        while True:
            for prompt in islice(prompts, self.prompts_at_once - len(queue)):
                queue.append(_PromptUnderWay(prompt, drawings_of(prompt, self.settings)))
                self._send(queue[-1], client, requests)
            if not queue:
                return
            while not queue[0].done:
                for future in wait(requests, return_when=FIRST_COMPLETED).done:
                    request = requests.pop(future)
                    self._take(request, future)
                    self._send(request.under_way, client, requests)
            yield _generated(queue.popleft())

    def _send(
        self,
        under_way: _PromptUnderWay,
        client: Client,
        requests: Requests,
    ) -> None:
        """Sends the requests that a prompt lacks."""
        path = "chat/completions" if self.settings.chat else "completions"
        if under_way.fatal is not None or under_way.probing:
            return
        if under_way.is_suspect:
            under_way.probing = True
            under_way.num_probes += 1
            requests[client.post(path, self._probe())] = _Request(under_way, None)
            return
        for drawing in under_way.drawings.values():
            for call, n, body in drawing.requests(self.accepts_n):
                retries = self.connection.retries_again if under_way.num_probes else None
                future = client.post(path, body, retries)
                requests[future] = _Request(under_way, drawing, call, n)

    def _probe(self) -> dict[str, Any]:
        """A request that a server which works can answer."""
        drawings = drawings_of(Prompt(PROBE, PROBE), self.settings)
        _, _, body = next(drawings["candidates"].requests(accepts_n=False))
        return {**body, "max_tokens": 1}

    def _take(self, request: _Request, future: Future[Any]) -> None:
        """Takes the candidates of a request that ended, or notes its error."""
        under_way, drawing, call, n = request
        if drawing is None:
            self._take_probe(under_way, future)
            return
        try:
            reply = future.result()
            choices = candidates_in(reply, self.settings.chat, self.settings.stop)
        except RefusedError as error:
            drawing.refused(n, error)
        except UnusableError as error:
            under_way.fatal = error
        except (ExhaustedError, InputError) as error:
            drawing.failed(n, error)
        except ResourceError as error:
            under_way.fatal = error
        else:
            self.meter.count(tokens=tokens_in(reply))
            drawing.take(call, n, choices)
            # n is ignored, or was refused where a single candidate is given
            ignores_n = len(choices) == 1 and n > 1
            if drawing.candidates_of[call] and (drawing.one_at_a_time or ignores_n):
                self.accepts_n = False

    def _take_probe(self, under_way: _PromptUnderWay, future: Future[Any]) -> None:
        """Takes note whether the server answered something else than the prompt it failed at."""
        try:
            choices = candidates_in(future.result(), self.settings.chat)
        except RefusedError:
            under_way.answered()
        except ExhaustedError:
            under_way.failed()
        except DiscorankError as error:
            under_way.fatal = error
        else:
            if any(isinstance(choice, Candidate) for choice in choices):
                under_way.answered()
            else:
                under_way.failed()


def _generated(under_way: _PromptUnderWay) -> Generated:
    """The outcome of a prompt that is done; raises the error that ends the run."""
    if under_way.fatal is not None:
        raise under_way.fatal
    generated = outcome(under_way.prompt, under_way.drawings)
    if isinstance(generated, BusyError):
        raise under_way.placed(generated)
    if isinstance(generated, ExhaustedError):
        problem = f"{generated.problem}, while the server answers other requests"
        return InputError(problem, where="server", fix="Mend the prompt, or leave it out")
    return generated
