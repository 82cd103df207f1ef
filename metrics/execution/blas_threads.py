"""numpy's products on one thread: those of lists are small, and several threads cost several times the CPU for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """numpy multiplies on one thread inside, whatever the environment says."""
    controller = _controller()
    if controller is None:
        yield
        return
    with controller.limit(limits=1):
        yield


@cache
def _controller() -> Any:
    """What sets the threads of numpy's library; None where it has one, as it has in the command, or is unknown."""
    if os.environ.get("OPENBLAS_NUM_THREADS") == "1":
        return None
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:  # the values are the same without it
        return None
    return ThreadpoolController().select(user_api="blas")
