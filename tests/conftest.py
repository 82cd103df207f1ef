"""What several test files share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import hypothesis
import pytest


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Commands started by the test heed SIGINT, even where the tests run in the background, which ignores it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


# No test is judged by the clock: a busy machine is no fault of the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
