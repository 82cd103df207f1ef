"""Kernels in C, where the package was built with a compiler; without them numpy computes the same numbers.

`kernels` is the module, or None. Its functions take whole numbers as int64 and results as float64, in arrays of one
piece; the comments in front of them, in the files ending in .c, say what they take. Their callers have the plain path
beside them, and tests hold both to the last bit. With ``DISCORANK_PURE=1`` it is neither built nor used.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

VERSION = 1  # of how the kernels are called, as in `module.c`: those of an earlier checkout are left alone


def _loaded() -> Any:
    if os.environ.get("DISCORANK_PURE"):
        return None
    try:
        module = import_module("._kernels", __name__)
    except ImportError:
        return None
    return module if getattr(module, "VERSION", None) == VERSION else None


kernels: Any = _loaded()
