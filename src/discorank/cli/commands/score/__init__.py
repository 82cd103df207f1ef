"""``discorank score``: `command` scores segments; `score_answers`, `score_contrastive`, `score_eval_set` the rest."""

from .command import OPTIONS, run

__all__ = ["OPTIONS", "run"]
