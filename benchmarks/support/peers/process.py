"""Timed calls in a process of another interpreter, so that two environments take turns in one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Calls = Mapping[str, Callable[..., Any]]


class Timed(NamedTuple):
    """How long a call took, and what it returned."""

    wall_seconds: float
    cpu_seconds: float  # of all threads
    value: Any


def timed(call: Callable[..., Any], **arguments: Any) -> Timed:
    """Calls it."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = call(**arguments)
    return Timed(time.perf_counter() - wall, time.process_time() - cpu, value)


class Peer:
    """A module whose `calls` are made in a process of its own."""

    def __init__(self, python: str, module: str, *arguments: str) -> None:
        root = Path(__file__).resolve().parents[3]
        environment = {
            **os.environ,
            "PYTHONWARNINGS": "ignore",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self.process = subprocess.Popen(
            [python, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env=environment,
        )

    def __call__(self, name: str, **arguments: Any) -> Timed:
        """Times a call; values are JSON data."""
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("no pipes")
        stdin.write(json.dumps([name, arguments]) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise SystemExit(f"the peer ended with {self.process.wait()}")
        return Timed(*json.loads(answer))

    def close(self) -> None:
        """Ends the process."""
        self.process.communicate()


def serve(calls: Calls) -> None:
    """Answers until the input ends; whatever is printed meanwhile goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(json.dumps(timed(calls[name], **arguments)), file=answers, flush=True)


def weights_under(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The weights of a checkpoint whose names begin with a prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }
