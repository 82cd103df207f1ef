"""The Ray session that an engine works in: joined or started here, and what it has."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from typing import Any

from ....metrics.errors import ModelLoadError, ResourceError
from .settings import RaySettings
from .worker import Worker

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Cluster:
    """A Ray session.

    Args:
        settings: where it is and what a worker has.

    Raises:
        ModelLoadError: Ray is not installed.
    """

    def __init__(self, settings: RaySettings) -> None:
        self.settings = settings
        self.ray: Any = _imported()
        self.started = False

    def join(self) -> None:
        """Joins the cluster, or starts Ray here; a session that is there already is used and left as it is.

        Raises:
            ResourceError: there is none.
        """
        if self.ray.is_initialized():
            return
        wanted = self.settings
        os.environ.setdefault(
            "RAY_IGNORE_UNHANDLED_ERRORS", "1"
        )  # what nobody waits for any more, of actors that died
        here: dict[str, Any] = {"address": wanted.address}
        if wanted.address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            actors = wanted.actors and wanted.actors + wanted.compare_actors
            cores = actors and max(os.cpu_count() or 1, ceil(actors * wanted.cpus_per_actor))
            here = {"address": "local", "num_cpus": cores, "include_dashboard": False}
        main = threading.current_thread() is threading.main_thread()
        handler = signal.getsignal(signal.SIGTERM)
        try:
            _reach(wanted.address)
            self.ray.init(**here, logging_level="ERROR", log_to_driver=False)
        except (OSError, RuntimeError, ValueError) as error:
            found = f"Ray cannot be reached: {error}"
            raise ResourceError(
                found, where=f"ray.address {wanted.address}", fix="Start it, or mend the address"
            ) from error
        finally:
            if main and callable(handler):
                signal.signal(signal.SIGTERM, handler)  # Ray puts its own in its place
        self.started = True

    def leave(self) -> None:
        """Stops Ray if it was started here."""
        if self.started and self.ray.is_initialized():
            self.ray.shutdown()
        self.started = False

    def actors(self) -> int:
        """How many workers that hold models are wanted."""
        if self.settings.actors is not None:
            return self.settings.actors
        there = self.ray.cluster_resources()
        count = there.get("CPU", 0) / self.settings.cpus_per_actor - self.settings.compare_actors
        if self.gpus():
            count = min(count, there.get("GPU", 0) / self.gpus())
        return max(1, int(count))

    def gpus(self) -> float:
        """GPUs of a worker that holds models."""
        given = self.settings.gpus_per_actor
        return float(self.ray.cluster_resources().get("GPU", 0) > 0) if given is None else given

    def worker(self, compares: bool, cache: tuple[str, int] | None) -> Any:
        """Ray's handle of a new worker; one that only compares has no GPU."""
        cpus = self.settings.cpus_per_actor
        variables = dict.fromkeys(THREADS, str(max(1, int(cpus))))
        remote = self.ray.remote(
            num_cpus=cpus,
            num_gpus=0 if compares else self.gpus(),
            concurrency_groups={"pulse": 1},
            runtime_env={"env_vars": variables},
        )
        return remote(Worker).remote(cache)

    def shortage(self) -> str:
        """What was wanted and what is there, for people."""
        wanted = f"{self.actors()} x {self.settings.cpus_per_actor:g} CPUs and {self.gpus():g} GPUs"
        if self.settings.compare_actors:
            wanted += f", {self.settings.compare_actors} x {self.settings.cpus_per_actor:g} CPUs"
        there = {
            name: n for name, n in self.ray.cluster_resources().items() if name in ("CPU", "GPU")
        }
        return f"wanted {wanted}, the cluster has {there}"


def _imported() -> Any:
    try:
        import ray
    except ImportError as error:
        fix = "Install it: pip install 'discorank[ray]'"
        raise ModelLoadError("Ray is not installed", where="engine ray", fix=fix) from error
    return ray


@contextmanager
def uninterrupted() -> Iterator[None]:
    """SIGINT and SIGTERM are not heeded: Ray that is interrupted while it stops leaves processes behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None where it was not set in Python


def _reach(address: str | None) -> None:
    """Raises OSError if nothing listens at a host:port; Ray itself would try for minutes."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), 10).close()


def reason(error: Exception) -> str:
    """The first line of Ray's account of a death that says something."""
    cause = getattr(error, "cause", None) or error
    return f"{type(cause).__name__}: {' '.join(str(cause).split())[:300]}"
