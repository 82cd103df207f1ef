"""``discorank score``: `command` scores segments; `score_answers` and `score_contrastive` have its other two tasks."""

from .command import OPTIONS, run

__all__ = ["OPTIONS", "run"]
