"""The drawings of a prompt, one for each pool of texts, and the list that they make."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from ..generation.generator import Generated, Prompt
from ..generation.list_checks import checked
from .drawing import Drawing
from .settings import ServerPool, ServerSettings


def drawings_of(prompt: Prompt, settings: ServerSettings) -> dict[str, Drawing]:
    """What is to be drawn for a prompt, by name of the pool."""
    return {pool.name: _drawing(prompt, pool, settings) for pool in settings.pools}


def _drawing(prompt: Prompt, pool: ServerPool, settings: ServerSettings) -> Drawing:
    """What is to be drawn for one pool; each request has another seed."""

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
        if settings.logprobs:
            request["logprobs"] = True if settings.chat else 1
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


def outcome(prompt: Prompt, drawings: Mapping[str, Drawing]) -> Generated:
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
    return checked(prompt.with_candidates(*(drawing.candidates() for drawing in drawings.values())))
