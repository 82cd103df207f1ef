"""The settings of a server that generates: what candidates depend on, and how it is reached."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple
from urllib.parse import SplitResult, urlsplit

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, Rare, settings
from ...metrics.storage.json_and_yaml import parse_json
from ..files.reply_choices import MAX_TOP
from ..generation.generator import check_stops

# endings of names, in small letters without what separates their words
_NAMES = re.compile(
    "((api|access|secret|private|auth|service|account)key|authorization|secret|password|passwd|passphrase|credentials?"
    "|bearer|cookie|^token|(api|access|auth|bearer|refresh|session|security|hf|hub)token)$"
)
_PARAMETER = re.compile(r"[?&;]([^=&;#\s]+)=[^&\s]")  # of an address: its name
_VALUE = re.compile(r"://[^/\s@]+@|^\s*(bearer|basic)\s+\S", re.IGNORECASE)


def refuse_secrets(value: Any, where: str) -> None:
    """Raises InputError for a secret anywhere in a JSON value; the message does not show it."""
    for place in _secrets(value, where):
        raise InputError(
            "holds a secret, which would stay in files",
            where=place,
            fix="Name the environment variable that holds the key of the server in key_variable (--key-variable)",
        )


def _secrets(value: Any, where: str) -> Iterator[str]:
    """The places of secrets."""
    if isinstance(value, dict):
        for name, inner in value.items():
            place = f"{where}.{name:.40}"
            if _is_secret_name(name) and inner not in (None, "", False):
                yield place
            else:
                yield from _secrets(inner, place)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _secrets(inner, f"{where}[{number}]")
    elif isinstance(value, str):
        yield from _in_text(value, where)


def _in_text(text: str, where: str) -> Iterator[str]:
    """The places of secrets in a text, which may be an address, a header, or JSON."""
    names = _PARAMETER.findall(text)
    if _VALUE.search(text) or any(map(_is_secret_name, names)):
        yield where
    if text.lstrip()[:1] in ("{", "["):
        try:
            inner = json.loads(text)
        except (ValueError, RecursionError):
            return
        yield from _secrets(inner, where)


def _is_secret_name(name: str) -> bool:
    return bool(_NAMES.search(re.sub("[^a-z0-9]", "", name.lower())))


# keys of a request that have settings of their own
_OURS = frozenset(
    {
        "model",
        "prompt",
        "messages",
        "n",
        "seed",
        "stream",
        "logprobs",
        "top_logprobs",
        "temperature",
        "top_p",
        "max_tokens",
    }
)


class ServerPool(NamedTuple):
    """A pool of texts to draw for every prompt."""

    name: str
    size: int
    temperature: float
    top_p: float


@settings
class ServerSettings:
    """How a server generates.

    Args:
        model: the model's name on the server.
        chat: whether prompts go to /chat/completions as what the user says, instead of to /completions.
        system: what the system says before, in a chat.
        num_candidates: candidates per prompt.
        temperature: divides logits.
        top_p: nucleus sampling; 1 cuts nothing off.
        num_references: pseudo-references per prompt, drawn apart; 0: the candidates serve as such.
        reference_temperature: divides logits for pseudo-references; as for candidates if not given.
        reference_top_p: nucleus of pseudo-references; as for candidates if not given.
        seed: sent to servers as a number that differs between prompts and calls; none is sent if it is None.
        max_new_tokens: longest candidate.
        logprobs: whether candidates carry their total natural log-probability, where the server gives it.
        top_logprobs: keep how sure the model was, from the log-probabilities of so many of the likeliest tokens, as
            the server gives them: before or after temperature and cut.
        stop: strings that end a candidate, which is the text before the first of them.
        request: more keys of the request, as a JSON object, such as {"top_k": -1}.
    """

    model: str
    chat: bool = False
    system: str | None = None
    num_candidates: Annotated[int, Field(ge=1)] = 16
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    num_references: Annotated[int, Field(ge=0)] = 0
    reference_temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    reference_top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: int | None = 0
    max_new_tokens: Annotated[int, Field(ge=1)] = 256
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=1, le=MAX_TOP)] | None = None
    stop: tuple[str, ...] = ()
    request: str | None = None

    def __post_init__(self) -> None:
        sets_references = self.reference_temperature is not None or self.reference_top_p is not None
        if sets_references and not self.num_references:
            raise InputError(
                "no pseudo-references are generated",
                where="num_references",
                fix="Say how many",
            )
        if self.system is not None and not self.chat:
            raise InputError(
                "only a chat has one",
                where="system",
                fix="Set chat, or put it into the prompt",
            )
        check_stops(self.stop)
        if self.stop and "stop" in self.further:
            raise InputError(
                "stands beside stop", where="request.stop", fix="Leave one of them out"
            )
        if taken := _OURS & self.further.keys():
            problem = "is a key that has a setting of its own"
            raise InputError(problem, where=f"request.{min(taken)}")

    @property
    def further(self) -> Mapping[str, Any]:
        """The further keys of a request."""
        return further_keys(self.request)

    @property
    def pools(self) -> tuple[ServerPool, ...]:
        """The candidates, and the pseudo-references where they are drawn apart."""
        candidates = ServerPool("candidates", self.num_candidates, self.temperature, self.top_p)
        if not self.num_references:
            return (candidates,)
        temperature = self.reference_temperature
        if temperature is None:
            temperature = self.temperature
        top_p = self.reference_top_p
        if top_p is None:
            top_p = self.top_p
        references = ServerPool("pseudo_references", self.num_references, temperature, top_p)
        return (candidates, references)

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of candidates, as JSON values."""
        return {
            **{pool.name: list(pool[1:]) for pool in self.pools},
            "model": self.model,
            "chat": self.chat,
            "system": self.system,
            "seed": self.seed,
            "max_new_tokens": self.max_new_tokens,
            "logprobs": self.logprobs,
            **({"top_logprobs": self.top_logprobs} if self.top_logprobs else {}),
            **({"stop": list(self.stop)} if self.stop else {}),
            "request": dict(self.further),
        }


@settings
class Connection:
    """How a server is reached; nothing that candidates depend on.

    Args:
        base_url: its address up to the version, such as http://localhost:8000/v1.
        key_variable: the environment variable that holds the key; no key is sent if it is not named.
        connections: how many requests are made at the same time.
        timeout_seconds: how long one request may take in all.
        retries: how often a request is repeated that failed for a reason that may pass.
        backoff_seconds: how long the first repetition waits; each further one waits twice as long, up to a minute.
    """

    heading: ClassVar = "server"

    base_url: str
    key_variable: str | None = None
    connections: Annotated[int, Field(ge=1, le=1024)] = 8
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False), Rare()] = 600.0
    retries: Annotated[int, Field(ge=0), Rare()] = 5
    backoff_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False), Rare()] = 0.5

    def __post_init__(self) -> None:
        address = http_address(self.base_url)
        is_plain = all(letter.isprintable() and not letter.isspace() for letter in self.base_url)
        if (
            address is None
            or "@" in address.netloc
            or address.query
            or address.fragment
            or not is_plain
        ):
            problem = "is not an http address of scheme, host, port and path alone"
            fix = "Such as http://localhost:8000/v1; a key comes from the variable in key_variable"
            raise InputError(problem, where="base_url", fix=fix)

    @property
    def retries_again(self) -> int:
        """How often a request is repeated that failed before, while the server answers others: no outage passes."""
        return min(1, self.retries)

    def key(self) -> str | None:
        """The key, from the environment.

        Raises:
            InputError: the variable is not set, or holds what no header can; the message does not show it.
        """
        return key_in(self.key_variable, "key_variable")


def key_in(variable: str | None, where: str) -> str | None:
    """The key in an environment variable, None if none is named; errors as `Connection.key`, with where it is named."""
    if variable is None:
        return None
    key = os.environ.get(variable, "")
    if not key:
        raise InputError(f"{variable} is not set", where=where, fix="Export it before running")
    if not all("!" <= letter <= "~" for letter in key):
        problem = f"{variable} holds a character that no key has"
        raise InputError(problem, where=where, fix="Is there a line break or a space in it?")
    return key


def further_keys(request: str | None) -> Mapping[str, Any]:
    """The keys of a request that are written as a JSON object.

    Raises:
        InputError: it is none, or holds a secret; the message does not show it.
    """
    if request is None:
        return {}
    try:
        value = parse_json(request.encode())
    except (InputError, UnicodeEncodeError) as error:
        problem = error.problem if isinstance(error, InputError) else "holds half a character"
        raise InputError(problem, where="request", fix="Write a JSON object") from None
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise InputError(f"found a {kind}, expected a JSON object", where="request")
    refuse_secrets(value, "request")
    return value


def http_address(url: str) -> SplitResult | None:
    """The parts of an http URL with a host; None if it is no such URL."""
    try:
        address = urlsplit(url)
        # raises ValueError for a port that no host has, and for a host whose labels are empty or too long
        scheme, host, port = address.scheme, address.hostname, address.port
        (host or "").encode("idna")
    except ValueError:
        return None
    return address if scheme in ("http", "https") and host and port != 0 else None
