"""A simulated cluster of Ray on this machine, whose nodes come and go, and the processes on it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from .waiting import wait_until

STORE_BYTES = 100 << 20


class Nodes:
    """A simulated cluster: a head without cores, and nodes that come and go."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster: Any = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "object_store_memory": STORE_BYTES,
                "include_dashboard": False,
            },
        )

    def add(self, cores: int, gpus: int = 0) -> Any:
        """A node that is ready; it declares GPUs that it does not have."""
        return self.cluster.add_node(num_cpus=cores, num_gpus=gpus, object_store_memory=STORE_BYTES)

    def kill(self, node: Any) -> None:
        """The node and all on it die at once."""
        self.cluster.remove_node(node, allow_graceful=False)

    def options(self, **settings: object) -> list[str]:
        """Options of a command for this cluster."""
        given = {"address": self.cluster.address, **settings}
        return [
            "--engine",
            "ray",
            *(word for name, value in given.items() for word in ("--set", f"ray.{name}={value}")),
        ]

    def close(self) -> None:
        """Ends all its processes, and waits until they are gone."""
        self.cluster.shutdown()
        wait_until(
            lambda: not descendants(os.getpid(), "ray::", "raylet", "gcs_server"),
            "a process of Ray was left behind",
        )


def descendants(process: int, *names: str) -> list[int]:
    """Processes that a process started, and what these started, whose command begins with or is one of the names."""
    parents, commands = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(folder.name)] = int(parent)
                commands[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().split(b"\0")[0].decode()
                )
    processes = {process}
    while more := {
        child for child, parent in parents.items() if parent in processes and child not in processes
    }:
        processes |= more
    return sorted(
        pid for pid in processes - {process} if commands[pid].rpartition("/")[2].startswith(names)
    )


def actors() -> list[int]:
    """Processes of our actors on all nodes that this process started."""
    return descendants(os.getpid(), "ray::Worker")
