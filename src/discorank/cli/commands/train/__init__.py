"""``discorank train``: one module per kind of model."""

from .command import run

__all__ = ["run"]
