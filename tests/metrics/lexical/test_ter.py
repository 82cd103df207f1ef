"""TER beside the table of cases: how far and how many words a shift moves."""

from __future__ import annotations

import numpy as np
import pytest

from discorank.metrics.lexical.ter import TER


def test_a_shift_reaches_over_fifty_words_and_no_farther() -> None:
    tail = [f"w{i}" for i in range(60)]
    texts = [" ".join([*tail[:n], "x", "y", *tail[n:]]) for n in (0, 48, 50, 51, 60)]
    u = TER().pairwise(texts, texts)
    np.testing.assert_allclose(u[0] * -0.62, [0, 1, 1, 4, 4], atol=1e-9)


@pytest.mark.parametrize(("size", "edits"), [(10, 1), (20, 2), (21, 3)])
def test_a_shift_moves_ten_words_at_most(size: int, edits: int) -> None:
    block, rest = [f"b{i}" for i in range(size)], [f"r{i}" for i in range(30)]
    score = TER().score([" ".join(block + rest)], [" ".join(rest + block)])
    assert score == [100 * (edits / (size + 30))]
