"""`discorank decode` as a command of a process of its own, on one thread."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def one_thread() -> dict[str, str]:
    """The environment, with one thread for products of matrices."""
    return {**os.environ, **ONE_THREAD}


def decode_command(source: Path, out: Path, utility: str, *options: str) -> list[str]:
    """The words that decide the lists of a file, without progress."""
    words = ("decode", str(source), "-u", utility, "-o", str(out), "--quiet", *options)
    return [sys.executable, "-m", "discorank", *words]
