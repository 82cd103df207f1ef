"""The engine that a command names, and its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...rerank.engines.interface import Engine
from ...rerank.engines.local import LocalEngine
from ...rerank.engines.ray.settings import RaySettings
from ..terminal.standard_streams import stdout_without
from . import build_group
from .inputs import cache_in

GROUPS = {"ray": RaySettings}
RAY_THREADS = "ray_"  # how the names of threads begin in which Ray prints, on stdout, what it has to say of workers


@contextmanager
def engine_in(values: Mapping[str, Any]) -> Iterator[Engine]:
    """The engine that the options name, stopped at the end of the block."""
    cache = cache_in(values)
    if values["engine"] == "local" and values["jobs"] == 1:
        yield LocalEngine(cache)
        return
    if values["engine"] == "local":
        from ...rerank.engines.processes import ProcessEngine

        with ProcessEngine(values["jobs"], cache) as processes:
            yield processes
        return
    from ...rerank.engines.ray.engine import RayEngine

    settings = build_group(RaySettings, "ray", values)
    with stdout_without(RAY_THREADS), RayEngine(settings, cache) as engine:
        yield engine
