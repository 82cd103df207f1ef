"""Waiting for what another thread or process does, as long as a busy machine takes for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 600.0
AGAIN_SECONDS = 0.02


def has_rows(path: Path) -> bool:
    """Whether a file is there and has something in it."""
    return path.exists() and path.stat().st_size > 0


def wait_until(
    condition: Callable[[], Any],
    otherwise: str = "it never held",
    seconds: float = PATIENCE_SECONDS,
) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(AGAIN_SECONDS)
