"""Runs of tests: signals that are ignored, no terminal, a closed stdin, and workers that die."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
GOOD = """
import signal, subprocess, sys

def test_signals_are_heeded():
    for number in (signal.SIGHUP, signal.SIGQUIT):
        code = f"import os; os.kill(os.getpid(), {int(number)})"
        assert subprocess.run([sys.executable, "-c", code]).returncode == -number
        signal.raise_signal(number)  # a hangup ends no worker under nohup
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
HANGING = """
import ctypes, pytest

@pytest.mark.timeout(1)
def test_hangs():
    ctypes.PyDLL(None).sleep(1000)  # with the interpreter locked
"""


def started_by_nohup() -> None:
    """As in the background of a shell, with a closed stdin."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    os.close(0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (HANGING, r"in test_hangs\n(.*\n)*worker 'gw0' crashed while running '.*::test_hangs"),
        ("import os\nos._exit(0)\n", "no tests ran"),
    ],
)
def test_a_worker_that_dies_ends_the_run(text: str, found: str, tmp_path: Path) -> None:
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_good.py").write_text(GOOD)
    (tmp_path / "test_worse.py").write_text(text)
    settings = ["-c", str(TESTS.parent / "pyproject.toml"), "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *settings, "-p", "no:cacheprovider", "-n", "1"]
    variables = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [*command, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        preexec_fn=started_by_nohup,
        start_new_session=True,
        env=variables,
    )
    assert done.returncode != 0
    assert "worker gw0 crashed and worker restarting disabled" in done.stdout
    assert re.search(found, done.stdout), done.stdout
    assert ("1 passed" in done.stdout) == (text is HANGING)
