"""The rules of proxies by hand, and drawing in rounds from a recorded list."""

from __future__ import annotations

import numpy as np

from benchmarks.choice_quality.adaptive_drawing import (
    Study,
    at_share,
    below,
    in_hindsight,
    replay,
    rounds_to,
    stopped,
)
from benchmarks.choice_quality.proxy_rules import by_clusters, by_vote


def test_voting_takes_the_first_of_the_most_frequent() -> None:
    assert by_vote(["a", "b", "c", "b", "c"]) == 1


def test_clusters_take_the_first_text_of_the_largest() -> None:
    # the third is near the second (.9), the fourth near the third alone: it opens a cluster
    texts = ["zzzzzzzzzz", "abcdefghij", "abcdefghiX", "abcdefXYZX", "abcdefghij"]
    assert by_clusters(texts) == 1
    assert by_clusters(["a", "b"]) == 0


def test_a_replay_draws_in_rounds_and_stops_at_the_cap() -> None:
    u = np.array([[9.0, 1, 2, 2], [1, 9, 6, 6], [2, 6, 9, 7], [2, 6, 7, 9]])
    own = replay(u, np.arange(4.0)[:, None], rounds_to(4, 2, 1))
    assert own.drawn.tolist() == [2, 3, 4]
    # the choices are 0 (a tie), 2 and 2; their losses under all four are 9 less their means
    assert own.loss.tolist() == [9 - 14 / 4, 3, 3]
    assert own.probability[-1] == 0
    study = Study("x", 4, [own], ["a"])
    assert stopped(study, at_share(0.5))[0].tolist() == [0.5, 5.5, 3, -2, 2]
    assert stopped(study, in_hindsight([study]))[0, 0] == 0.75
    assert stopped(study, in_hindsight([study], extra=90))[0, 0] == 0.5
    assert stopped(study, below(0.0))[0, 0] == 1
    assert stopped(study, below(1.1))[0, 0] == 0.5
