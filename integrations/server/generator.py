"""The `Generator` of a server: many requests at a time, lists in the order of the prompts. Nothing is chosen here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from ...metrics.errors import DiscorankError, InputError, ResourceError
from ..generation.generator import Generated, Prompt
from .client import Client, ExhaustedError, RefusedError, UnusableError
from .drawing import Drawing, outcome
from .replies import candidates_in
from .settings import Connection, ServerSettings

AHEAD = 4  # prompts under way for each connection


@dataclass(slots=True, eq=False)
class _PromptUnderWay:
    """A prompt with the drawings of its pools, or the error that ends the run."""

    prompt: Prompt
    drawings: list[Drawing]
    fatal: DiscorankError | None = None

    @property
    def done(self) -> bool:
        return self.fatal is not None or all(drawing.done for drawing in self.drawings)


class _Request(NamedTuple):
    """A request under way: its number, and for how many candidates it is."""

    under_way: _PromptUnderWay
    drawing: Drawing
    call: int
    n: int


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
            ResourceError: the server cannot be reached, or a prompt has no candidate since it failed for so long.
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
                drawings = [Drawing(prompt, pool, self.settings) for pool in self.settings.pools]
                queue.append(_PromptUnderWay(prompt, drawings))
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
        if under_way.fatal is not None:
            return
        path = "chat/completions" if self.settings.chat else "completions"
        for drawing in under_way.drawings:
            for call, n, body in drawing.requests(self.accepts_n):
                future = client.post(path, body)
                requests[future] = _Request(under_way, drawing, call, n)

    def _take(self, request: _Request, future: Future[Any]) -> None:
        """Takes the candidates of a request that ended, or notes its error."""
        under_way, drawing, call, n = request
        try:
            choices = candidates_in(future.result(), self.settings.chat)
        except RefusedError as error:
            drawing.refused(n, error)
        except UnusableError as error:
            under_way.fatal = error
        except (ExhaustedError, InputError) as error:
            drawing.failed(n, error)
        except ResourceError as error:
            under_way.fatal = error
        else:
            drawing.take(call, n, choices)
            # n is ignored, or was refused where a single candidate is given
            ignores_n = len(choices) == 1 and n > 1
            if drawing.candidates_of[call] and (drawing.one_at_a_time or ignores_n):
                self.accepts_n = False


def _generated(under_way: _PromptUnderWay) -> Generated:
    """The outcome of a prompt that is done; raises the error that ends the run."""
    if under_way.fatal is not None:
        raise under_way.fatal
    generated = outcome(under_way.prompt, under_way.drawings)
    if isinstance(generated, ExhaustedError):
        where = f"prompt {under_way.prompt.id!r}: server"
        fix = f"{generated.fix}, and run the same command again; if this prompt alone fails, leave it out"
        raise ExhaustedError(
            generated.problem,
            where=where,
            fix=fix,
        )
    return generated
