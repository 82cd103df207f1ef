"""The engine that a command names, and its settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...metrics.errors import InputError
from ...rerank.engines.interface import Engine
from ...rerank.engines.local import LocalEngine
from ...rerank.engines.ray.settings import RaySettings
from ..terminal.standard_streams import stdout_without
from . import build_group
from .inputs import cache_in

GROUPS = {"ray": RaySettings}
RAY_THREADS = "ray_"  # how the names of threads begin in which Ray prints, on stdout, what it has to say of workers


HAS_WORKERS = (
    os.name == "posix"
)  # a worker is handed its pipe by number, which no process of Windows takes
SMALL_BYTES = 1 << 18  # an input that is decided before it is known whether several processes pay


def _is_large(path: str | None) -> bool:
    """Whether the input is a file of some size."""
    return path is not None and os.path.isfile(path) and os.path.getsize(path) >= SMALL_BYTES


def _may_share(values: Mapping[str, Any]) -> bool:
    """Whether processes may be taken that nobody asked for."""
    is_open = values["engine"] == "local" and values["jobs"] == "auto"
    return is_open and HAS_WORKERS and _is_large(values.get("input"))


@contextmanager
def engine_in(values: Mapping[str, Any]) -> Iterator[Engine]:
    """The engine that the options name, stopped at the end of the block."""
    cache = cache_in(values)
    if _may_share(values):
        from ...rerank.engines.sharing import SharingEngine, usable_processors

        with SharingEngine(usable_processors(), cache) as sharing:
            yield sharing
        return
    if values["engine"] == "local" and values["jobs"] in ("auto", 1):
        yield LocalEngine(cache)
        return
    if values["engine"] == "local":
        if not HAS_WORKERS:
            raise InputError(
                "no processes share lists on Windows", where="--jobs", fix="Leave it out"
            )
        from ...rerank.engines.processes import ProcessEngine

        with ProcessEngine(values["jobs"], cache) as processes:
            yield processes
        return
    from ...rerank.engines.ray.engine import RayEngine

    settings = build_group(RaySettings, "ray", values)
    with stdout_without(RAY_THREADS), RayEngine(settings, cache) as engine:
        yield engine
