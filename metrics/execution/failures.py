"""Errors of any kind in a metric become one that names the metric: none of them ends a command.

A metric of the user's may call `sys.exit`, or raise what passes every `except Exception`. An interrupt stays one:
Ctrl-C, SIGTERM, and the end of a worker that Ray stops. So do errors of this package, and memory that runs out, which
callers answer with smaller batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import DiscorankError, MetricError, is_interrupt, is_out_of_memory
from ..optional_packages import missing_package


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
