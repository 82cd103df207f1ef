"""``discorank score``: `command` scores segments, `other_inputs` lists, contrastive items and test sets."""

from .command import OPTIONS, run

__all__ = ["OPTIONS", "run"]
