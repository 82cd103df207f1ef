"""Packages that not everybody needs: which extra brings each, and what is said where one is missing.

Errors of any kind in a metric become one that names the metric: none of them ends a command.

A metric of the user's may call `sys.exit`, or raise what passes every `except Exception`. An interrupt stays one:
Ctrl-C, SIGTERM, and the end of a worker that Ray stops. So do errors of this package, and memory that runs out, which
callers answer with smaller batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .errors import DiscorankError, MetricError, ModelLoadError, is_interrupt, is_out_of_memory

EXTRA_OF = {
    "torch": "neural",
    "transformers": "neural",
    "tokenizers": "neural",
    "sentencepiece": "neural",
    "safetensors": "neural",
    "huggingface_hub": "neural",
    "gguf": "gguf",
    "accelerate": "gguf",
    "ray": "ray",
    "HanTa": "discourse",
    "pysbd": "discourse",
    "wordfreq": "wordfreq",
    "nltk": "rouge",
    "math_verify": "math",
    "scipy": "statistics",
    "matplotlib": "report",
    "jinja2": "report",
    "pyarrow": "arrow",
    "datasets": "datasets",
    "pandas": "pandas",
    "aiohttp": "server",
    "uvicorn": "server",
    "starlette": "server",
    "prometheus_client": "server",
    "jsonschema": "server",
}


def require(where: str, *names: str) -> None:
    """Raises ModelLoadError unless all these packages are installed; imports none of them."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise _missing(missing, where)


def imported(module: str, where: str) -> Any:
    """A module of an optional package.

    Raises:
        ModelLoadError: the package, or one that it needs itself, is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_package(error, where) or error from error


def missing_package(error: BaseException, where: str = "") -> ModelLoadError | None:
    """The error to show for a package of `EXTRA_OF` that is not installed; None for any other error."""
    if not isinstance(error, ImportError):
        return None
    name = (error.name or "").partition(".")[0]
    is_missing = name in EXTRA_OF and find_spec(name) is None
    return _missing([name], where) if is_missing else None


def _missing(names: list[str], where: str) -> ModelLoadError:
    """The missing package, and how to install it."""
    extras = ",".join(dict.fromkeys(EXTRA_OF[name] for name in names))
    verb = "is" if len(names) == 1 else "are"
    problem = f"{' and '.join(names)} {verb} not installed"
    return ModelLoadError(problem, where=where, fix=f'pip install "discorank[{extras}]"')


@contextmanager
def failures_named(metric: str) -> Iterator[None]:
    """Runs steps of a metric.

    Args:
        metric: its signature.

    Raises:
        MetricError: they raised something; a ModelLoadError for a package that is not installed.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, DiscorankError) or is_interrupt(error) or is_out_of_memory(error):
            raise
        problem = f"{type(error).__name__}: {error}"
        missing = missing_package(error, metric)
        raise missing or MetricError(problem, where=metric) from error
