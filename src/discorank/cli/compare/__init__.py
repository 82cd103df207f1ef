"""``discorank compare``: systems, choosers, several sets, and how they are printed."""

from .command import OPTIONS, run

__all__ = ["OPTIONS", "run"]
