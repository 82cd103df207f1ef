"""``discorank score``: `command` scores segments; `score_answers`, `score_contrastive` and `score_eval_set` have its other tasks."""

from .command import OPTIONS, run

__all__ = ["OPTIONS", "run"]
