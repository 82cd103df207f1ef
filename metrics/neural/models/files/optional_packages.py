"""Packages that only some models need, asked for before any work is done."""

from __future__ import annotations

from importlib.util import find_spec

from ....errors import ModelLoadError

GGUF_PACKAGES = ("gguf", "accelerate")


def require_gguf(where: str) -> None:
    """Raises ModelLoadError unless the packages are installed with which transformers reads GGUF files."""
    missing = [name for name in GGUF_PACKAGES if find_spec(name) is None]
    if missing:
        problem = f"a GGUF file needs {' and '.join(missing)}"
        raise ModelLoadError(problem, where=where, fix='pip install "discorank[gguf]"')
