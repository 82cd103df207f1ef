"""The candidates that one prompt still lacks, and the requests for them.

A server may ignore ``n`` and give one candidate, give fewer than ``n``, or refuse ``n`` altogether: then further
requests are made for the rest, of one candidate each where several do not work. Candidates stand in the order of the
requests, whatever the order of the replies, and what requests say depends on their number alone. It knows nothing of
how requests are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...metrics.errors import DiscorankError, InputError
from ...rerank.lists import Candidate
from .server_errors import ExhaustedError

EMPTY_REPLIES = 3  # replies without any text, after which a pool is given up

# makes the body of a request from its number and how many candidates it is for
Body = Callable[[int, int], dict[str, Any]]


@dataclass(slots=True)
class Drawing:
    """The candidates of one pool of one prompt.

    Args:
        size: how many are to be drawn.
        body: makes a request.
        most_at_once: for how many candidates a request may be; None for all that are missing.
        one_at_a_time: whether a request is for one candidate each.
        awaited: how many candidates the requests under way are for.
        next_call: the number of the next request.
        empty_replies: how many replies in a row had no text.
        candidates_of: the candidates of each reply, by number of the request.
        error: the last error.
        given_up: whether no more requests are made.
    """

    size: int
    body: Body
    most_at_once: int | None = None
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
        return self.size - sum(map(len, self.candidates_of.values()))

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
            n = min(lacking, self.most_at_once or lacking)
            if not accepts_n or self.one_at_a_time:
                n = 1
            yield self.next_call, n, self.body(self.next_call, n)
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
