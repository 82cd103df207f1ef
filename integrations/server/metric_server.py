"""How a metric of a server finds it: by its settings, or else by the environment.

Addresses and keys are the user's to say: a metric that a file names has its server in environment variables.
"""

from __future__ import annotations

import os
from typing import Protocol

from ...metrics.errors import InputError
from ...metrics.optional_packages import require
from .settings import Connection

DEFAULTS = Connection("http://localhost")


class ServedSettings(Protocol):
    """The settings of such a metric."""

    @property
    def name(self) -> str:
        """Of the metric."""

    @property
    def base_url(self) -> str | None:
        """The address, if it is given."""

    @property
    def key_variable(self) -> str | None:
        """The environment variable that holds the key, if it is given."""

    @property
    def connections(self) -> int:
        """As `Connection`."""

    @property
    def timeout_seconds(self) -> float:
        """As `Connection`."""

    @property
    def retries(self) -> int:
        """As `Connection`."""

    @property
    def backoff_seconds(self) -> float:
        """As `Connection`."""


def connection_at(
    metric: ServedSettings, base_url: str, key_variable: str | None = None
) -> Connection:
    """How the server at an address is reached; raises InputError for what is no address."""
    return Connection(
        base_url,
        key_variable=metric.key_variable or key_variable,
        connections=metric.connections,
        timeout_seconds=metric.timeout_seconds,
        retries=metric.retries,
        backoff_seconds=metric.backoff_seconds,
    )


def check_connection(metric: ServedSettings) -> None:
    """Raises InputError for settings by which no server can be reached."""
    connection_at(metric, DEFAULTS.base_url if metric.base_url is None else metric.base_url)


def connection_of(metric: ServedSettings, address_variable: str, key_variable: str) -> Connection:
    """The server that the settings name, or else the environment.

    Args:
        metric: its settings.
        address_variable: the environment variable that holds the address where the settings have none.
        key_variable: the one that holds the key of the server there.

    Raises:
        InputError: neither names an address.
        ModelLoadError: a package of the extra is not installed.
    """
    require(metric.name, "httpx2", "tenacity")
    if metric.base_url is not None:
        return connection_at(metric, metric.base_url)
    base_url = os.environ.get(address_variable)
    if not base_url:
        fix = f"Give the address of a server, or export it as {address_variable}"
        raise InputError("base_url missing", where=metric.name, fix=fix)
    return connection_at(metric, base_url, key_variable if os.environ.get(key_variable) else None)
