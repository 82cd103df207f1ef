"""What several test files share."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator

import hypothesis
import pytest

from discorank.cli.terminal import console, watching
from discorank.metrics.storage import checksums


@pytest.fixture(autouse=True)
def nothing_warned_about_yet() -> None:
    """Every test sees the warnings that a process gives once."""
    checksums.warn_once.cache_clear()


@pytest.fixture(autouse=True)
def every_run_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command says no more where the machine is busy: progress and tables are shown where a test asks for them."""
    monkeypatch.setattr(console, "DELAY_SECONDS", math.inf)
    monkeypatch.setattr(watching, "TABLE_SECONDS", math.inf)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Commands started by the test heed SIGINT, even where the tests run in the background, which ignores it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes run the tests, those of a file stay together, and so do all that need Ray's workers."""
    for item in items:
        group = "ray" if item.path.name.startswith("test_ray") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


# No test is judged by the clock: a busy machine is no fault of the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
