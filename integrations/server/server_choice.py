"""Generates candidates for texts with a server and chooses among them, in one call: rankings come out, streamed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from ...metrics.errors import DiscorankError, unknown
from ...metrics.registry import MetricLike
from ...rerank.choice import Ranking
from ...rerank.engines.interface import Engine
from ...rerank.lists import CandidateList
from ...rerank.mbr_decoder import MBRDecoder
from ...rerank.reranker import Reranker
from ..generation.generator import Prompt
from ..generation.list_checks import warning_of_no_choice
from ..generation.utility_argument import decider_of, reads_logprobs
from .generator import ServerGenerator
from .settings import Connection, ServerSettings

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
    known = GENERATION | CONNECTION | DECODING
    for name in settings:
        if name not in known:
            raise unknown("setting", name, known)
    decoding = {name: value for name, value in settings.items() if name in DECODING}
    generation = {name: value for name, value in settings.items() if name in GENERATION}
    connecting = {name: value for name, value in settings.items() if name in CONNECTION}
    decider = decider_of(utility, decoding)
    if not generation.get("logprobs", False):
        generation["logprobs"] = reads_logprobs(decider)
    server_settings = ServerSettings(**generation)
    generator = ServerGenerator(server_settings, Connection(base_url, **connecting))
    return decider.decode(warning_of_no_choice(_lists(generator, texts)), engine)


def _lists(generator: ServerGenerator, texts: Iterable[str | Prompt]) -> Iterator[CandidateList]:
    """The lists, named ``0``, ``1``, ... where a text has no id; the first error is raised."""
    ids_under_way: deque[str] = deque()

    def prompts() -> Iterator[Prompt]:
        for i, text in enumerate(texts):
            prompt = text if isinstance(text, Prompt) else Prompt(str(i), text, text)
            ids_under_way.append(prompt.id)
            yield prompt

    for generated in generator.generate(prompts()):
        prompt_id = ids_under_way.popleft()
        if isinstance(generated, DiscorankError):
            raise generated.inside(f"text {prompt_id!r}")
        yield generated
