"""What several test files share."""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import gc
import math
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from discorank.cli.terminal import console, watching
from discorank.metrics.discourse.coherence import nouns
from discorank.metrics.storage import checksums

IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}  # which subprocess puts back
STDERR, CRASHED = pytest.StashKey[int](), pytest.StashKey[bool]()
MEMORY = pytest.StashKey[int]()  # bytes, after it was last given back
MUCH_BYTES = 128 << 20
STATM = Path("/proc/self/statm")
RAY = "ray"
CACHED = type(functools.cache(len))


@pytest.fixture(autouse=True)
def nothing_warned_about_yet() -> None:
    """Every test sees the warnings that a process gives once."""
    checksums.warn_once.cache_clear()


@pytest.fixture(autouse=True)
def every_run_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command says no more where the machine is busy: progress and tables are shown where a test asks for them."""
    monkeypatch.setattr(console, "DELAY_SECONDS", math.inf)
    monkeypatch.setattr(watching, "AMOUNTS_SECONDS", math.inf)


def is_worker(config: pytest.Config) -> bool:
    """Whether another process shows what happens here."""
    return hasattr(config, "workerinput")


@pytest.fixture(scope="session", autouse=True)
def signals_are_heeded(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests and what they start heed signals, even where nohup or a background job has them ignored.

    A program inherits what is ignored, and no handler: one that does nothing is enough.
    """
    numbers = signal.valid_signals() - IGNORED_BY_PYTHON
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    if signal.SIGHUP in ignored and is_worker(request.config):
        os.setsid()  # so that the hangup that is awaited does not reach what tests start
    for number in ignored:
        interrupts = number == signal.SIGINT
        signal.signal(number, signal.default_int_handler if interrupts else lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def under_nohup() -> Iterator[None]:
    """Commands started by the test ignore SIGHUP."""
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where several processes run the tests, those of a file stay together, and so do all that need Ray's workers.

    The marks of xdist for it (3.8) do nothing under pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # in the order below
    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = group_of
    return scheduling


def group_of(nodeid: str) -> str:
    """What one process runs: a file of tests, or all that need Ray's workers."""
    path = nodeid.partition("::")[0]
    return RAY if Path(path).name.startswith("test_ray") else path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest group comes first, so that no process waits for it at the end."""
    items.sort(key=lambda item: group_of(item.nodeid) != RAY)


def pytest_configure(config: pytest.Config) -> None:
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        config.stash[STDERR] = os.dup(2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test that hangs ends its worker with the stacks of all threads, be the interpreter locked or not."""
    marker = item.get_closest_marker("timeout")
    seconds = marker.args[0] if marker else float(item.config.getini("timeout"))
    if is_worker(item.config):
        faulthandler.dump_traceback_later(seconds, exit=True, file=item.config.stash[STDERR])
    result = yield
    faulthandler.cancel_dump_traceback_later()
    return result


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is imported by now stays; garbage is looked for among the rest alone."""
    gc.collect()
    gc.freeze()
    session.config.stash[MEMORY] = resident_bytes()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Memory goes back to the system behind a file of tests, and behind a test that took much."""
    yield
    is_last = nextitem is None or nextitem.path != item.path
    if is_last or resident_bytes() > item.config.stash[MEMORY] + MUCH_BYTES:
        forget(item)
        gc.collect()
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # of glibc alone
            trim(0)
        item.config.stash[MEMORY] = resident_bytes()


def resident_bytes() -> int:
    """The memory of this process; 0 where the system does not say."""
    return int(STATM.read_text().split()[1]) * resource.getpagesize() if STATM.exists() else 0


def forget(item: pytest.Item) -> None:
    """Clears the caches of a file's functions, and of taggers, which take up to 700 MB."""
    for value in vars(getattr(item, "module", item)).values():
        if isinstance(value, CACHED):
            value.cache_clear()
    nouns._finder.cache_clear()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Takes note of a worker that crashed: one that does so between tests would leave a run that passes."""
    if error:
        node.config.stash[CRASHED] = True


def pytest_sessionfinish(session: pytest.Session) -> None:
    if CRASHED in session.config.stash:
        session.exitstatus = session.exitstatus or pytest.ExitCode.INTERNAL_ERROR


# No test is judged by the clock: a busy machine is no fault of the code.
hypothesis.settings.register_profile("untimed", deadline=None, max_examples=12)
# every property with as many examples as hypothesis has by default: pytest --hypothesis-profile thorough
hypothesis.settings.register_profile("thorough", deadline=None)
hypothesis.settings.load_profile("untimed")
