"""Options of every command that asks a server: what the server does is found out first, and printed on request."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ...integrations.server.server_probe import ServerFacts, table_of
from ...metrics.spec.checked_settings import Rare, settings


@settings
class ProbeOptions:
    """What is asked before anything is paid.

    Args:
        probe: print what the server does (several candidates for one request, real sampling, seeds, log-probabilities),
            by a few small requests, and end.
        skip_probe: begin without asking.
    """

    heading: ClassVar = "server"

    probe: bool = False
    skip_probe: Annotated[bool, Rare()] = False


def print_table(facts: ServerFacts) -> int:
    """Prints what a server does; returns the exit code."""
    print(table_of(facts.rows()))
    return 0
