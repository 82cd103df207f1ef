"""The engine that a command names, and its settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from ...metrics.spec.checked_settings import Composed, settings
from ...rerank.engines.interface import Engine
from ...rerank.engines.local import LocalEngine
from ...rerank.engines.ray.settings import RaySettings
from ..terminal.standard_streams import stdout_without
from .command_options import Grouped, WorkerOptions

if TYPE_CHECKING:
    from ...metrics.execution.cache import Cache

RAY_THREADS = "ray_"  # how the names of threads begin in which Ray prints, on stdout, what it has to say of workers


@settings
class EngineSettings:
    """What computes.

    Args:
        workers: which processes.
        ray: how Ray is used.
    """

    workers: Annotated[WorkerOptions, Composed()] = WorkerOptions()
    ray: Annotated[RaySettings, Grouped()] = RaySettings()

    @contextmanager
    def opened(self, cache: Cache | None) -> Iterator[Engine]:
        """The engine, stopped at the end of the block."""
        if self.workers.engine == "ray":
            from ...rerank.engines.ray.engine import RayEngine

            with stdout_without(RAY_THREADS), RayEngine(self.ray, cache) as engine:
                yield engine
        elif self.workers.jobs == 1:
            yield LocalEngine(cache)
        else:
            from ...rerank.engines.processes import ProcessEngine

            with ProcessEngine(self.workers.jobs, cache) as processes:
                yield processes
