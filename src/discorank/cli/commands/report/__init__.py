"""``discorank report``: `command` makes the page; `decided_again` makes the choices of an earlier run again for it."""

from .command import OPTIONS, run

__all__ = ["OPTIONS", "run"]
