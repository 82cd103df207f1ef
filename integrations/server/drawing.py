"""The candidates that one prompt still lacks, and the requests for them.

A server may ignore ``n`` and give one candidate, give fewer than ``n``, or refuse ``n`` altogether: then further
requests are made for the rest, of one candidate each where several do not work. Candidates stand in the order of the
requests, whatever the order of the replies, and the seeds of requests depend on the prompt and their number alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from ...metrics.errors import DiscorankError, InputError
from ...rerank.lists import Candidate
from ..generation.generator import Generated, Prompt
from ..generation.list_checks import checked
from .client import ExhaustedError
from .settings import ServerPool, ServerSettings

EMPTY_REPLIES = 3  # replies without any text, after which a pool is given up


@dataclass(slots=True)
class Drawing:
    """The candidates of one pool of one prompt.

    Args:
        prompt: what the model reads.
        pool: what is drawn.
        settings: of the requests.
        one_at_a_time: whether a request is for one candidate each.
        awaited: how many candidates the requests under way are for.
        next_call: the number of the next request.
        empty_replies: how many replies in a row had no text.
        candidates_of: the candidates of each reply, by number of the request.
        error: the last error.
        given_up: whether no more requests are made.
    """

    prompt: Prompt
    pool: ServerPool
    settings: ServerSettings
    one_at_a_time: bool = False
    awaited: int = 0
    next_call: int = 0
    empty_replies: int = 0
    candidates_of: dict[int, list[Candidate]] = field(default_factory=dict)
    error: DiscorankError | None = None
    given_up: bool = False

    @property
    def missing(self) -> int:
        """How many candidates have not come."""
        return self.pool.size - sum(map(len, self.candidates_of.values()))

    @property
    def done(self) -> bool:
        """Whether no reply is awaited and none is needed."""
        return not self.awaited and (self.given_up or not self.missing)

    def requests(self, accepts_n: bool) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Number, number of candidates and body of the requests to be sent now.

        Args:
            accepts_n: whether the server is believed to give several candidates for one request.
        """
        lacking = 0 if self.given_up else self.missing - self.awaited
        while lacking > 0:
            n = lacking if accepts_n and not self.one_at_a_time else 1
            yield self.next_call, n, self._body(n)
            self.next_call += 1
            self.awaited += n
            lacking -= n

    def take(self, call: int, n: int, choices: Sequence[Candidate | InputError]) -> None:
        """Takes the choices of a reply to a request for n candidates; any beyond n are left."""
        self.awaited -= n
        errors = [choice for choice in choices if isinstance(choice, InputError)]
        if errors:
            self.error = errors[0]
        candidates = [choice for choice in choices[:n] if isinstance(choice, Candidate)]
        self.candidates_of[call] = candidates
        self.empty_replies = 0 if candidates else self.empty_replies + 1
        if self.empty_replies >= EMPTY_REPLIES:
            self.given_up = True

    def refused(self, n: int, error: DiscorankError) -> None:
        """Notes that a request for n is refused: if n is above 1, requests for one candidate are made next."""
        self.awaited -= n
        if n == 1:
            self.error = error
            self.given_up = True
            return
        self.one_at_a_time = True
        if not self.candidates_of:
            # as if all requests had been for one candidate from the start: the seeds depend on their numbers
            self.next_call = 0

    def failed(self, n: int, error: DiscorankError) -> None:
        """Notes that a request for n failed after all its repetitions."""
        self.awaited -= n
        self.error = error
        self.given_up = True

    @property
    def exhausted(self) -> bool:
        """Whether nothing came of it since what may pass did not."""
        return not self.candidates_of and isinstance(self.error, ExhaustedError)

    def begin_again(self) -> None:
        """Forgets that it failed: the same requests are made as at first."""
        self.next_call = 0
        self.error = None
        self.given_up = False

    def candidates(self) -> list[Candidate]:
        """The candidates that have come, in the order of the requests."""
        calls = sorted(self.candidates_of)
        return [candidate for call in calls for candidate in self.candidates_of[call]]

    def _body(self, n: int) -> dict[str, Any]:
        """The next request, for n candidates; each request has another seed."""
        settings = self.settings
        body: dict[str, Any] = {
            "model": settings.model,
            "n": n,
            "max_tokens": settings.max_new_tokens,
        }
        if settings.chat:
            body["messages"] = self._messages()
        else:
            body["prompt"] = self.prompt.text
        body["temperature"] = self.pool.temperature
        body["top_p"] = self.pool.top_p
        if settings.seed is not None:
            body["seed"] = self._seed(settings.seed)
        if settings.logprobs:
            body["logprobs"] = True if settings.chat else 1
        if settings.stop:
            body["stop"] = list(settings.stop)
        return {**body, **settings.further}

    def _messages(self) -> list[dict[str, str]]:
        """The prompt as a chat."""
        user = {"role": "user", "content": self.prompt.text}
        if self.settings.system is None:
            return [user]
        return [{"role": "system", "content": self.settings.system}, user]

    def _seed(self, seed: int) -> int:
        """The seed of the next request: 31 bits that depend on `seed`, pool, prompt and number of the request."""
        name = f"{seed}|{self.pool.name}|{self.prompt.id}|{self.next_call}"
        digest = blake2b(name.encode(), digest_size=4).digest()
        return int.from_bytes(digest) >> 1


def outcome(prompt: Prompt, drawings: Sequence[Drawing]) -> Generated:
    """The list of a prompt whose drawings are done, or the error if a pool is empty."""
    missing: dict[str, Any] = {}
    for drawing in drawings:
        if drawing.missing == drawing.pool.size and drawing.error is not None:
            return drawing.error
        if drawing.missing:
            missing[f"missing_{drawing.pool.name}"] = drawing.missing
            missing["missing_because"] = str(drawing.error)
    if missing:
        prompt = prompt.with_extra(missing)
    return checked(prompt.with_candidates(*(drawing.candidates() for drawing in drawings)))
