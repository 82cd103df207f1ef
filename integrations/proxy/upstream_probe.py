"""What the server upstream does, found out once when `serve` starts: see `server_probe`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...metrics.errors import DiscorankError, InputError
from ...metrics.storage.json_and_yaml import parse_json
from ..files.reply_choices import value_at
from ..server.exchange import Exchange, NotThereError, check_status, whole
from ..server.server_probe import ServerFacts, ServerProbe, copies_problem, logprobs_problem
from .settings import DrawingSettings


async def upstream_facts(
    exchange: Exchange, model: str | None, drawing: DrawingSettings
) -> ServerFacts:
    """What the server does in chats, or in completions if it has no chats.

    Args:
        exchange: requests to it.
        model: which of its models; the only one it names, if not given.
        drawing: how candidates are drawn.

    Raises:
        DiscorankError: it cannot be asked, or names several models.
    """
    name = model or await _only_model(exchange)
    sampling: Mapping[str, Any] = {}
    if drawing.sampling_temperature is not None:
        sampling = {"temperature": drawing.sampling_temperature}
    try:
        return await ServerProbe(exchange, name, True, drawing.further, sampling).facts()
    except NotThereError:
        return await ServerProbe(exchange, name, False, drawing.further, sampling).facts()


async def _only_model(exchange: Exchange) -> str:
    """The name of the one model that the server has."""
    async with exchange.opened("GET", "models", b"", {}) as reply:
        content = await whole(reply.pieces, None)
    check_status(reply.status, reply.headers, content, exchange.shown)
    listed = value_at(parse_json(content), "data")
    names = [value_at(model, "id") for model in (listed if isinstance(listed, list) else [])]
    if len(names) != 1 or not isinstance(names[0], str):
        problem = f"the server names {len(names)} models"
        raise InputError(problem, where="--probe-model", fix="Say which one is to be asked")
    return names[0]


def problems_of(
    facts: ServerFacts, drawing: DrawingSettings, reads_logprobs: bool
) -> Iterator[DiscorankError]:
    """What the server does not do that choices need."""
    temperature = drawing.sampling_temperature or 1.0
    problems = [copies_problem(facts, temperature)]
    if reads_logprobs:
        problems.append(logprobs_problem(facts))
    yield from (problem for problem in problems if problem is not None)
