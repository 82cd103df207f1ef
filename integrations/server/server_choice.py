"""Generates with a server and chooses, in one call."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from ...metrics.errors import DiscorankError, unknown
from ...metrics.registry import MetricLike
from ...rerank.choice import Ranking
from ...rerank.engines.local import Engine
from ...rerank.lists import CandidateList
from ...rerank.mbr import MBRDecoder
from ...rerank.reranker import Reranker
from ..generation.generator import Prompt
from ..generation.utility_argument import decider_of, reads_logprobs
from .generator import ServerGenerator
from .settings import Connection, ServerSettings

REACHING = frozenset(field.name for field in fields(Connection)) - {"base_url"}
GENERATION = frozenset(field.name for field in fields(ServerSettings))
DECODING = frozenset({"weights", "self_pair", "strategy"})  # of MBRDecoder


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
        InputError: settings that do not fit; the first text that comes to nothing, with its id.
        ResourceError: the server cannot be reached.
    """
    for name in settings:
        if name not in GENERATION | REACHING | DECODING:
            raise unknown("setting", name, GENERATION | REACHING | DECODING)
    decider = decider_of(
        utility, {name: value for name, value in settings.items() if name in DECODING}
    )
    asked = {name: value for name, value in settings.items() if name in GENERATION}
    chosen = ServerSettings(
        **{**asked, "logprobs": asked.get("logprobs", False) or reads_logprobs(decider)}
    )
    connection = Connection(
        base_url, **{name: value for name, value in settings.items() if name in REACHING}
    )
    return decider.decode(_lists(ServerGenerator(chosen, connection), texts), engine)


def _lists(generator: ServerGenerator, texts: Iterable[str | Prompt]) -> Iterator[CandidateList]:
    """The lists, named ``0``, ``1``, ... where a text has no id; the first error is raised."""
    names: deque[str] = deque()

    def prompts() -> Iterator[Prompt]:
        for number, text in enumerate(texts):
            prompt = text if isinstance(text, Prompt) else Prompt(str(number), text, text)
            names.append(prompt.id)
            yield prompt

    for found in generator.generate(prompts()):
        name = names.popleft()
        if isinstance(found, DiscorankError):
            raise found.inside(f"text {name!r}")
        yield found
