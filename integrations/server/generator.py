"""The `Generator` of a server: many requests at a time, lists in the order of the prompts. Nothing is chosen here.

Whether a prompt or the server is at fault where requests fail is found out by `request_loop`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, Generic, TypeVar
from warnings import warn

from ...metrics.errors import DiscorankError, InputError
from ...metrics.execution.meter import Meter
from ...metrics.registry import MetricLike
from ...rerank.choice import Ranking
from ...rerank.engines.interface import Engine
from ...rerank.lists import Candidate
from ...rerank.mbr import MBRDecoder
from ...rerank.messages import value_at
from ...rerank.reranker import Reranker
from ...rerank.votes.confidence import TOKENS, confidence_of
from ..files.reply_choices import candidate_of, token_logprobs
from ..generation.generator import Generated, Prompt, before_stop, decider_of, in_groups, lists_of
from .error_details import NO_DETAILS
from .exchange import BusyError, Client, Exchange, ExhaustedError, RefusedError, UnusableError
from .request_loop import AHEAD, Job, RequestLoop, ServerRequest
from .server_probe import LOGPROB_FORMS, LogprobForm, ServerFacts, ServerProbe
from .settings import Connection, ServerPool, ServerSettings

MAX_TOKENS = 1 << 40  # more is no count


def candidates_in(reply: Any, stops: Sequence[str] = ()) -> list[Candidate | InputError]:
    """The candidate of every choice, or the error of a choice without a text, or of a reply without choices."""
    choices = value_at(reply, "choices")
    if not isinstance(choices, list) or not choices:
        return [InputError("a reply without choices", where="server")]
    return [_candidate(choice, stops) for choice in choices]


def tokens_in(reply: Any) -> int:
    """How many tokens a server says that it generated; 0 where it does not say."""
    count = value_at(value_at(reply, "usage"), "completion_tokens")
    return count if type(count) is int and 0 <= count < MAX_TOKENS else 0


def _candidate(choice: Any, stops: Sequence[str]) -> Candidate | InputError:
    """The candidate of a choice, with how sure the model was of it, or its error."""
    try:
        candidate = candidate_of(choice)
    except InputError as error:
        return InputError(error.problem, where=f"server: {error.where}".rstrip(": "), fix=error.fix)
    before = before_stop(str(candidate.text), stops)
    if before is not None:
        return Candidate(before)
    tokens = token_logprobs(choice)
    if tokens is None:
        return candidate
    confidence = {**confidence_of(tokens), TOKENS: tokens}
    return replace(candidate, fields={**candidate.fields, **confidence})


def drawings_of(
    prompt: Prompt, settings: ServerSettings, form: LogprobForm | None = None
) -> dict[str, Drawing[Candidate]]:
    """The candidates to draw for a prompt, by name of the pool; log-probabilities are asked for in this form."""
    return {pool.name: _drawing(prompt, pool, settings, form) for pool in settings.pools}


def _drawing(
    prompt: Prompt, pool: ServerPool, settings: ServerSettings, form: LogprobForm | None
) -> Drawing[Candidate]:
    """The candidates to draw for one pool; each request has another seed."""
    form = form or LOGPROB_FORMS[settings.chat][0]

    def body(call: int, n: int) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": settings.model,
            "n": n,
            "max_tokens": settings.max_new_tokens,
        }
        if settings.chat:
            request["messages"] = _messages(prompt, settings)
        else:
            request["prompt"] = prompt.text
        request["temperature"] = pool.temperature
        request["top_p"] = pool.top_p
        if settings.seed is not None:
            request["seed"] = seed_of(settings.seed, pool.name, prompt.id, call)
        if settings.top_logprobs is not None:
            chat = {"logprobs": True, "top_logprobs": settings.top_logprobs}
            request |= chat if settings.chat else {"logprobs": settings.top_logprobs}
        elif settings.logprobs:
            request |= form.keys
        if settings.stop:
            request["stop"] = list(settings.stop)
        return {**request, **settings.further}

    return Drawing(pool.size, body)


def _messages(prompt: Prompt, settings: ServerSettings) -> list[dict[str, str]]:
    """The prompt as a chat."""
    user = {"role": "user", "content": prompt.text}
    if settings.system is None:
        return [user]
    return [{"role": "system", "content": settings.system}, user]


def seed_of(*parts: object) -> int:
    """31 bits that depend on the parts alone.

    >>> seed_of(0, "candidates", "a", 1) == seed_of(0, "candidates", "a", 2)
    False
    """
    name = "|".join(map(str, parts))
    digest = blake2b(name.encode(), digest_size=4).digest()
    return int.from_bytes(digest) >> 1


def outcome(prompt: Prompt, drawings: Mapping[str, Drawing[Candidate]]) -> Generated:
    """The list of a prompt whose drawings are done, or the error if a pool is empty."""
    missing: dict[str, Any] = {}
    for name, drawing in drawings.items():
        if drawing.missing == drawing.size and drawing.error is not None:
            return drawing.error
        if drawing.missing:
            missing[f"missing_{name}"] = drawing.missing
            missing["missing_because"] = str(drawing.error)
    if missing:
        prompt = prompt.with_extra(missing)
    return prompt.generated(*(drawing.candidates() for drawing in drawings.values()))


EMPTY_REPLIES = 3  # replies without any text, after which a pool is given up

# makes the body of a request from its number and how many candidates it is for
Body = Callable[[int, int], dict[str, Any]]
C = TypeVar("C")


@dataclass(slots=True)
class Drawing(Generic[C]):
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
        is_trial: whether one request is made first, as the server refused one for several and may refuse this too.
    """

    size: int
    body: Body
    most_at_once: int | None = None
    one_at_a_time: bool = False
    awaited: int = 0
    next_call: int = 0
    empty_replies: int = 0
    candidates_of: dict[int, list[C]] = field(default_factory=dict)
    error: DiscorankError | None = None
    given_up: bool = False
    is_trial: bool = False

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
        most = min(1, self.missing) if self.is_trial else self.missing
        lacking = 0 if self.given_up else most - self.awaited
        while lacking > 0:
            n = min(lacking, self.most_at_once or lacking)
            if not accepts_n or self.one_at_a_time:
                n = 1
            yield self.next_call, n, self.body(self.next_call, n)
            self.next_call += 1
            self.awaited += n
            lacking -= n

    def take(self, call: int, n: int, choices: Sequence[C | InputError]) -> None:
        """Takes the choices of a reply to a request for n candidates; any beyond n are left."""
        self.awaited -= n
        errors = [choice for choice in choices if isinstance(choice, InputError)]
        if errors:
            self.error = errors[0]
        candidates = [choice for choice in choices[:n] if not isinstance(choice, InputError)]
        self.candidates_of[call] = candidates
        self.is_trial = False
        self.empty_replies = 0 if candidates else self.empty_replies + 1
        if self.empty_replies >= EMPTY_REPLIES:
            self.given_up = True

    def refused(self, n: int, error: DiscorankError) -> None:
        """Notes that a request for n is refused: unless something else than n is wrong, one is asked for next."""
        self.awaited -= n
        if n == 1 or names_another_key(error):
            self.error = error
            self.given_up = True
            return
        self.one_at_a_time = True
        if not self.candidates_of:
            # as if all requests had been for one candidate from the start: the seeds depend on their numbers
            self.next_call = 0
            self.is_trial = True

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

    @property
    def came(self) -> bool:
        """Whether any candidate has come."""
        return any(self.candidates_of.values())

    def candidates(self) -> list[C]:
        """The candidates that have come, in the order of the requests."""
        calls = sorted(self.candidates_of)
        return [candidate for call in calls for candidate in self.candidates_of[call]]


_KEYS_OF_N = ("n", "best_of", "num_return_sequences")


def names_another_key(error: DiscorankError) -> bool:
    """Whether a refusal says that something else than the number of candidates is wrong."""
    details = getattr(error, "details", NO_DETAILS)
    is_too_long = details.code == "context_length_exceeded"
    return is_too_long or (details.param is not None and details.param not in _KEYS_OF_N)


PROBE = "Hello"  # prompt of a probe


class _PromptJob(Job):
    """A prompt with the drawings of its pools."""

    def __init__(self, generator: ServerGenerator, prompt: Prompt) -> None:
        self.generator, self.prompt = generator, prompt
        self.drawings = drawings_of(prompt, generator.settings, generator.logprob_form)
        self.is_blamed = False

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to come."""
        is_drawn = all(drawing.done for drawing in self.drawings.values())
        return self.fatal is not None or (is_drawn and not self.num_open and not self.suspicion)

    @property
    def suspicion(self) -> DiscorankError | None:
        """Why a pool got nothing, once all is drawn, where it is unknown who is at fault."""
        drawings = self.drawings.values()
        if self.is_blamed or not all(drawing.done for drawing in drawings):
            return None
        error = next((drawing.error for drawing in drawings if drawing.exhausted), None)
        return None if isinstance(error, BusyError) else error

    def requests(self) -> Iterator[ServerRequest]:
        """As `Job`."""
        for drawing in self.drawings.values():
            for call, n, body in drawing.requests(self.generator.accepts_n):
                yield ServerRequest(self.generator.path, body, (drawing, call, n))

    def take(self, request: ServerRequest, reply: Any) -> None:
        """Take the candidates of a reply."""
        drawing, call, n = request.label
        choices = candidates_in(reply, self.generator.settings.stop)
        self.generator.meter.count(tokens=tokens_in(reply))
        drawing.take(call, n, choices)
        # n is ignored, or was refused where a single candidate is given
        ignores_n = len(choices) == 1 and n > 1
        if drawing.candidates_of[call] and (drawing.one_at_a_time or ignores_n):
            self.generator.accepts_n = False

    def fail(self, request: ServerRequest, error: DiscorankError) -> None:
        """As `Job`."""
        drawing, _, n = request.label
        if isinstance(error, RefusedError):
            drawing.refused(n, error)
        elif isinstance(error, ExhaustedError) or (
            isinstance(error, InputError) and not isinstance(error, UnusableError)
        ):
            drawing.failed(n, error)
        else:
            self.fatal = error

    def begin_again(self) -> None:
        """As `Job`."""
        for drawing in self.drawings.values():
            if drawing.exhausted:
                drawing.begin_again()

    def blame(self) -> None:
        """As `Job`."""
        self.is_blamed = True

    def end(self, error: DiscorankError) -> None:
        """As `Job`."""
        self.fatal = self._placed(error) if isinstance(error, ExhaustedError) else error

    def _placed(self, error: ExhaustedError) -> ExhaustedError:
        """The error of a server with the prompt at which it failed."""
        where = f"prompt {self.prompt.id!r}: server"
        fix = f"{error.fix}, and run the same command again"
        return ExhaustedError(error.problem, where=where, fix=fix)

    def outcome(self) -> Generated:
        """The list, or the error of the prompt, of a job that is done; raises the error that ends the run."""
        if self.fatal is not None:
            raise self.fatal
        generated = outcome(self.prompt, self.drawings)
        if isinstance(generated, BusyError):
            raise self._placed(generated)
        if isinstance(generated, ExhaustedError):
            problem = f"{generated.problem}, while the server answers other requests"
            return InputError(problem, where="server", fix="Correct the prompt, or leave it out")
        return generated


class ServerGenerator:
    """Generates with a server.

    Args:
        settings: what is asked for.
        connection: how the server is reached.
        probes: whether the server is asked what it does before the first prompt, and refused where candidates would be
            the same, or without the log-probabilities that are asked for.

    Raises:
        InputError: the key cannot be had.
    """

    def __init__(
        self, settings: ServerSettings, connection: Connection, probes: bool = False
    ) -> None:
        self.settings, self.connection, self.probes = settings, connection, probes
        self.logprob_form: LogprobForm | None = None  # the first if it is not known
        self.meter = Meter()
        self.accepts_n = True  # until the server ignores or refuses n
        connection.key()

    @property
    def identity(self) -> Mapping[str, Any]:
        """The settings that candidates depend on."""
        return {"generator": "server", **self.settings.identity}

    @property
    def path(self) -> str:
        """The path of requests."""
        return "chat/completions" if self.settings.chat else "completions"

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
            InputError: it refuses the key, or does not know the model; or what the probe found does not do.
        """
        with Client(self.connection) as client:
            waiting = iter(prompts)
            for first in waiting:
                if self.probes:
                    self._take_facts(client.result_of(self.facts))
                yield from self._in_order(chain([first], waiting), client)

    async def facts(self, exchange: Exchange) -> ServerFacts:
        """What the server does with requests as they will be made."""
        settings = self.settings
        sampling = {"temperature": settings.temperature, "top_p": settings.top_p}
        probe = ServerProbe(exchange, settings.model, settings.chat, settings.further, sampling)
        return await probe.facts()

    def _take_facts(self, facts: ServerFacts) -> None:
        """Takes what holds; raises InputError where that does not do, and warns where runs will not repeat."""
        settings = self.settings
        is_sampled = settings.num_candidates > 1 and settings.temperature > 0
        reads_logprobs = settings.logprobs or settings.top_logprobs is not None
        for problem in facts.problems(settings.temperature if is_sampled else None, reads_logprobs):
            raise problem
        if facts.keeps_seed is False and settings.seed is not None:
            doing = "does not repeat a text for its seed, so that another run gets other candidates"
            warn(f"the server {doing}", UserWarning, stacklevel=2)
        self.accepts_n, self.logprob_form = facts.takes_n, facts.logprob_form

    def _in_order(self, prompts: Iterator[Prompt], client: Client) -> Iterator[Generated]:
        """The outcome of every prompt; `prompts_at_once` of them are in progress at a time."""
        queue: deque[_PromptJob] = deque()
        loop: RequestLoop[_PromptJob] = RequestLoop(client, self._probe, _check_text)
        while True:
            for prompt in islice(prompts, self.prompts_at_once - len(queue)):
                queue.append(_PromptJob(self, prompt))
                loop.start(queue[-1])
            if not queue:
                return
            while not queue[0].is_done:
                loop.step()
            yield queue.popleft().outcome()

    def _probe(self) -> ServerRequest:
        """A request that a server which works can answer."""
        drawings = drawings_of(Prompt(PROBE, PROBE), self.settings)
        _, _, body = next(drawings["candidates"].requests(accepts_n=False))
        return ServerRequest(self.path, {**body, "max_tokens": 1})


def _check_text(reply: Any) -> None:
    """Raises InputError for a reply to a probe in which no choice has a text."""
    choices = candidates_in(reply)
    if not any(isinstance(choice, Candidate) for choice in choices):
        raise InputError("a reply without a text", where="server")


# names of settings: of Connection, of ServerSettings, and of MBRDecoder
CONNECTION = frozenset(field.name for field in fields(Connection)) - {"base_url"}
GENERATION = frozenset(field.name for field in fields(ServerSettings))
DECODING = frozenset({"weights", "self_pair", "strategy"})


def generate(
    base_url: str,
    texts: Iterable[str | Prompt],
    utility: MetricLike | MBRDecoder | Reranker = "chrf",
    *,
    engine: Engine | None = None,
    **settings: Any,
) -> Iterator[Ranking]:
    """The choice among a server's candidates for every text, in order, streamed.

    Args:
        base_url: the server's address, such as http://localhost:8000/v1.
        texts: what the model reads: strings, or `Prompt` objects for documents and sources.
        utility: what an `MBRDecoder` takes; or a whole MBRDecoder or Reranker.
        engine: what values the lists.
        settings: of `ServerSettings` (model, num_candidates, seed, ...), of `Connection` (key_variable, ...), and of
            `MBRDecoder` (weights, ...; ``temperature`` is that of sampling). Log-probabilities are asked for where
            the choice needs them.

    Raises:
        InputError: settings that do not fit; the first text for which nothing could be generated, with its id.
        ResourceError: the server cannot be reached.
    """
    generation, connecting, decoding = in_groups(settings, GENERATION, CONNECTION, DECODING)
    decider = decider_of(utility, decoding)
    if not generation.get("logprobs", False):
        generation["logprobs"] = decider.reads_logprobs
    server_settings = ServerSettings(**generation)
    generator = ServerGenerator(server_settings, Connection(base_url, **connecting))
    prompts = (
        text if isinstance(text, Prompt) else Prompt(str(i), text, text)
        for i, text in enumerate(texts)
    )
    return decider.decode(lists_of(generator, prompts), engine)
