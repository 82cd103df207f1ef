"""The candidates that one prompt still lacks, and the requests that ask for them.

A server may ignore ``n`` and give one candidate, give fewer than asked, or refuse ``n`` altogether: then it is asked
again for the rest, one candidate a request where several do not work. Candidates stand in the order of the requests,
whatever the order of the replies, and the seeds of requests depend on the prompt and their number alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from ...metrics.errors import DiscorankError, InputError
from ...rerank.lists import Candidate
from ..generation.generator import Generated, Prompt
from .settings import Pool, ServerSettings

EMPTY_REPLIES = 3  # replies without any text, after which a pool is given up


@dataclass(slots=True)
class Drawing:
    """The candidates of one pool of one prompt.

    Args:
        prompt: what the model reads.
        pool: what is drawn.
        settings: what else is asked for.
    """

    prompt: Prompt
    pool: Pool
    settings: ServerSettings
    single: bool = False  # ask for one at a time
    asked: int = 0  # candidates under way
    calls: int = 0
    empty: int = 0
    found: dict[int, list[Candidate]] = field(default_factory=dict)  # by number of the call
    error: DiscorankError | None = None
    given_up: bool = False

    @property
    def missing(self) -> int:
        """How many candidates have not come."""
        return self.pool.size - sum(map(len, self.found.values()))

    @property
    def done(self) -> bool:
        """Whether no reply is awaited and none is needed."""
        return not self.asked and (self.given_up or not self.missing)

    def requests(self, several: bool) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Number, number of candidates and body of the requests to be sent now.

        Args:
            several: whether the server is believed to give several candidates for one request.
        """
        lacking = 0 if self.given_up else self.missing - self.asked
        while lacking > 0:
            n = lacking if several and not self.single else 1
            yield self.calls, n, self._body(n)
            self.calls += 1
            self.asked += n
            lacking -= n

    def take(self, call: int, n: int, choices: Sequence[Candidate | InputError]) -> None:
        """The choices of a reply to a request for n; those beyond n, which nobody asked for, are left."""
        self.asked -= n
        texts = [choice for choice in choices[:n] if isinstance(choice, Candidate)]
        self.error = next(
            (choice for choice in choices if isinstance(choice, InputError)), self.error
        )
        self.found[call] = texts
        self.empty = 0 if texts else self.empty + 1
        self.given_up = self.given_up or self.empty >= EMPTY_REPLIES

    def refused(self, n: int, error: DiscorankError) -> None:
        """A request for n is refused: if it was for several, one at a time is tried next."""
        self.asked -= n
        if n > 1:
            self.single, self.calls = True, self.calls if self.found else 0
        else:
            self.error, self.given_up = error, True

    def failed(self, n: int, error: DiscorankError) -> None:
        """A request for n came to nothing after all its repetitions."""
        self.asked -= n
        self.error, self.given_up = error, True

    def candidates(self) -> list[Candidate]:
        """What has come, in the order of the requests."""
        return [candidate for call in sorted(self.found) for candidate in self.found[call]]

    def _body(self, n: int) -> dict[str, Any]:
        """The request for n candidates; a repeated call has another seed."""
        chosen = self.settings
        body: dict[str, Any] = {"model": chosen.model, "n": n, "max_tokens": chosen.max_new_tokens}
        if chosen.chat:
            system = [] if chosen.system is None else [{"role": "system", "content": chosen.system}]
            body["messages"] = [*system, {"role": "user", "content": self.prompt.text}]
        else:
            body["prompt"] = self.prompt.text
        body |= {"temperature": self.pool.temperature, "top_p": self.pool.top_p}
        if chosen.seed is not None:
            name = f"{chosen.seed}|{self.pool.name}|{self.prompt.id}|{self.calls}"
            body["seed"] = int.from_bytes(blake2b(name.encode(), digest_size=4).digest()) >> 1
        if chosen.logprobs:
            body["logprobs"] = True if chosen.chat else 1
        return {**body, **chosen.further}


def outcome(prompt: Prompt, drawings: Sequence[Drawing]) -> Generated:
    """The list of a prompt whose drawings are done, or the error if a pool is empty."""
    more: dict[str, Any] = {}
    for drawing in drawings:
        if drawing.missing == drawing.pool.size and drawing.error is not None:
            return drawing.error
        if drawing.missing:
            more[f"missing_{drawing.pool.name}"] = drawing.missing
            more["missing_because"] = str(drawing.error)
    pools = [drawing.candidates() for drawing in drawings]
    return (
        prompt.with_extra(more).with_candidates(*pools) if more else prompt.with_candidates(*pools)
    )
