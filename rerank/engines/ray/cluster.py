"""The Ray session that an engine works in: joined or started here, and the workers it has room for.

Signals that ask to stop are kept away from Ray: an exception that a handler raises inside it is turned or lost. Calls
into Ray end within a second or so, and what was put off comes then.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from typing import Any

from ....metrics.errors import DiscorankError, ResourceError
from ....metrics.optional_packages import imported
from ....metrics.storage import stop_signals
from ....metrics.storage.limits import limits
from .settings import RaySettings
from .worker import Worker

# what a run without workers cannot do without; others of Ray's processes may end
VITAL = ("raylet", "gcs_server")
FIX = "The same command resumes from here, with any engine"
_LAST_WORDS = (
    "discorank: engine ray: this process was ended from outside, or by Ray because its raylet on this machine died. "
    + FIX
)
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
        self.ray: Any = imported("ray", "engine ray")
        self.started = False
        self._last_words = LastWords()

    def join(self) -> None:
        """Joins the cluster, or starts Ray here; a session that is there already is used and left as it is.

        Raises:
            ResourceError: there is none.
        """
        if self.ray.is_initialized():
            return
        # errors of actors that died, which nobody waits for any more
        os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
        address = self.settings.address
        options = {"address": address} if address is not None else self._local_options()
        self._last_words.prepare()
        try:
            _reach(address)
            with put_off():  # Ray that is interrupted while it starts leaves processes behind
                self.started = True
                self.ray.init(**options, logging_level="ERROR", log_to_driver=False)
        except DiscorankError:
            raise
        except Exception as error:  # Ray that does not start in time raises a plain one
            raise ResourceError(
                f"Ray cannot be reached: {error}",
                where=f"ray.address {address}",
                fix="Start it, or mend the address",
            ) from error

    def _local_options(self) -> dict[str, Any]:
        """How Ray is started on this machine: with a core for every actor, even where there are fewer."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        settings = self.settings
        cores = None
        if settings.actors is not None:
            actors = settings.actors + settings.compare_actors
            cores = max(os.cpu_count() or 1, ceil(actors * settings.cpus_per_actor))
        return {"address": "local", "num_cpus": cores, "include_dashboard": False}

    def leave(self) -> None:
        """Stops Ray if it was started here."""
        if self.started:
            self.ray.shutdown()
        self.started = False
        self._last_words.drop()

    def has_ended(self) -> str | None:
        """The process of a Ray started here that is dead and that Ray cannot do without; None if there is none."""
        node = self.ray._private.worker._global_node if self.started else None
        dead = () if node is None else node.dead_processes()
        return next((name for name, _ in dead if name in VITAL), None)

    def check(self) -> None:
        """Raises ResourceError if Ray was started here and is dead, so that no worker can come back."""
        name = self.has_ended()
        if name is not None:
            raise ResourceError(
                f"its {name} died, which was started here", where="engine ray", fix=FIX
            )

    def actors(self) -> int:
        """How many workers that hold models there are to be."""
        if self.settings.actors is not None:
            return self.settings.actors
        resources = self.ray.cluster_resources()
        count = resources.get("CPU", 0) / self.settings.cpus_per_actor
        count -= self.settings.compare_actors
        if self.gpus():
            count = min(count, resources.get("GPU", 0) / self.gpus())
        return max(1, int(count))

    def gpus(self) -> float:
        """GPUs of a worker that holds models."""
        if self.settings.gpus_per_actor is not None:
            return self.settings.gpus_per_actor
        return float(self.ray.cluster_resources().get("GPU", 0) > 0)

    def worker(self, compares: bool, cache: tuple[str, int] | None) -> Any:
        """Ray's handle of a new worker; one that only compares has no GPU."""
        cpus = self.settings.cpus_per_actor
        num_threads = str(max(1, int(cpus)))
        remote = self.ray.remote(
            num_cpus=cpus,
            num_gpus=0 if compares else self.gpus(),
            concurrency_groups={"pulse": 1},
            runtime_env={"env_vars": dict.fromkeys(THREADS, num_threads)},
        )
        return remote(Worker).remote(cache, limits())

    def shortage(self) -> str:
        """The resources that the workers need and those of the cluster, for people."""
        cpus = self.settings.cpus_per_actor
        needed = f"{self.actors()} x {cpus:g} CPUs and {self.gpus():g} GPUs"
        if self.settings.compare_actors:
            needed += f", {self.settings.compare_actors} x {cpus:g} CPUs"
        resources = self.ray.cluster_resources()
        present = {name: n for name, n in resources.items() if name in ("CPU", "GPU")}
        return f"wanted {needed}, the cluster has {present}"


class LastWords:
    """A message on standard error if this process ends without having dropped it.

    Ray ends the process that uses it, with no exception and no handler run, where a call finds that the raylet is dead.
    So a shell waits for a line from here, and speaks if the pipe is closed before.
    """

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Has the shell wait."""
        if os.name != "posix" or self._shell is not None:
            return
        script = 'trap "" INT TERM HUP; read dropped || printf "%s\\n" "$1" >&2'
        self._shell = subprocess.Popen(  # noqa: S603 - a constant script
            ["/bin/sh", "-c", script, "sh", _LAST_WORDS],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        atexit.register(self.drop)

    def drop(self) -> None:
        """Has the shell end without a word."""
        if self._shell is not None:
            self._shell.communicate(b"dropped\n")
            self._shell = None
            atexit.unregister(self.drop)


def _reach(address: str | None) -> None:
    """Raises OSError if nothing listens at a host:port; Ray itself would try for minutes."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdigit() and "/" not in host:
        connection = socket.create_connection((host, int(port)), 10)
        connection.close()


def reason(error: Exception) -> str:
    """The first line of Ray's account of a death that says something."""
    cause = getattr(error, "cause", None) or error
    account = " ".join(str(cause).split())
    return f"{type(cause).__name__}: {account[:300]}"


@contextmanager
def put_off() -> Iterator[None]:
    """Signals that have handlers are handled at the end of the block.

    While Ray starts, it has handlers of its own for SIGTERM: one in Python that exits, and one in C++ that prints where
    it came and has the process aborted three seconds later.
    """
    with stop_signals.put_off(_keep_running) as came:
        try:
            yield
        except SystemExit:
            came.append(signal.SIGTERM)
            raise


def _keep_running(came: list[int]) -> None:
    """Takes back the alarm that Ray sets at SIGTERM."""
    if signal.SIGTERM in came:
        signal.alarm(0)
