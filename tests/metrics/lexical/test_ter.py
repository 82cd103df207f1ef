"""TER: worked examples, sacrebleu's numbers on any text, and pairs that do not know their company."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import ter as sacrebleu

from discorank.metrics.errors import InputError
from discorank.metrics.lexical.ter import TER

WORKED = [  # hypothesis, reference, edits, reference words
    ("a b c d", "a b c d", 0, 4),
    ("a b c d", "a b x d", 1, 4),  # a substitution
    ("a b c", "a b c d", 1, 4),  # an insertion
    ("a b c d e", "a b c d", 1, 4),  # a deletion
    ("c d a b", "a b c d", 1, 4),  # a shift of two words
    ("c d a x", "a b c d", 2, 4),  # a shift and a substitution
    ("a b", "c d e", 3, 3),  # nothing in common
    ("a a a a a", "b", 5, 1),  # more than 100
    # a shift by less than its block's length wins, and leads astray (sacrebleu)
    ("c b a b c", "a a c c b b", 4, 6),
    ("A B", "a b", 0, 2),
    ("", "a b", 2, 2),
]
SETTINGS: list[dict[str, bool]] = [
    {"normalized": True},
    {"no_punct": True, "case_sensitive": True},
    {"normalized": True, "no_punct": True, "asian_support": True},
]
TEXTS = [
    "Don't stop, at 3.5 (or 4-5)!",
    "Do not stop at 3,5 or 4 &amp; 5 .",
    "他说「你好」，走了。",
    "他走了，说:你好.",
    "",
]
words = st.lists(st.sampled_from("abcdef"), max_size=30).map(" ".join)


def peer(hypotheses: list[str], references: list[str], **chosen: Any) -> np.ndarray:
    metric = sacrebleu.TER(**chosen)
    return np.array([[metric.sentence_score(h, [r]).score for r in references] for h in hypotheses])


@pytest.mark.parametrize(("hypothesis", "reference", "edits", "length"), WORKED)
def test_worked(hypothesis: str, reference: str, edits: int, length: int) -> None:
    assert TER().score([hypothesis], [reference]) == [100 * (edits / length)]


@pytest.mark.parametrize(("hypothesis", "expected"), [("a b", 100), ("", 0)])
def test_empty_reference(hypothesis: str, expected: float) -> None:
    assert TER().score([hypothesis], [""]) == [expected]


def test_several_references_share_their_average_length() -> None:
    assert TER().score(["a b"], [["a b c d", "x y"]]) == [100 * (2 / 3)]


def test_pairwise_is_minus_the_rate() -> None:
    assert TER().pairwise(["a b c d", "c d a b"], ["a b c d"]).tolist() == [[0], [-25]]


@settings(max_examples=150, deadline=None)
@given(st.lists(words, min_size=1, max_size=4))
def test_equals_sacrebleu(texts: list[str]) -> None:
    np.testing.assert_allclose(TER().pairwise(texts, texts), -peer(texts, texts), atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from("abcdefghijkl"), min_size=8, max_size=40),
    st.randoms(use_true_random=False),
)
def test_equals_sacrebleu_on_moved_blocks(base: list[str], chance: random.Random) -> None:
    texts = [" ".join(moved(base, chance)) for _ in range(3)]
    np.testing.assert_allclose(TER().pairwise(texts, texts), -peer(texts, texts), atol=1e-9)


def moved(base: list[str], chance: random.Random) -> list[str]:
    out = list(base)
    for _ in range(chance.randint(0, 3)):
        start, size, target = (
            chance.randrange(len(out)),
            chance.randint(1, 12),
            chance.randrange(len(out)),
        )
        block, out = out[start : start + size], out[:start] + out[start + size :]
        out[target:target] = block
    return out


@pytest.mark.parametrize(
    ("lengths", "vocabulary"),
    [
        ((90, 80), 200),  # farther apart than the beam
        ((1, 3, 30, 200), 8),  # a reference so long that the beam widens
        ((26, 25, 24, 70), 40),
        ((55, 60), 2),  # more shifts than are tried
        ((70, 130, 400), 900),  # more words than a byte counts
    ],
)
def test_equals_sacrebleu_at_the_limits(lengths: tuple[int, ...], vocabulary: int) -> None:
    chance = random.Random(7)
    texts = [" ".join(str(chance.randrange(vocabulary)) for _ in range(n)) for n in lengths]
    np.testing.assert_allclose(TER().pairwise(texts, texts), -peer(texts, texts), atol=1e-9)


def test_a_shift_reaches_over_fifty_words_and_no_farther() -> None:
    tail = [f"w{i}" for i in range(60)]
    texts = [" ".join([*tail[:n], "x", "y", *tail[n:]]) for n in (0, 48, 50, 51, 60)]
    u = TER().pairwise(texts, texts)
    np.testing.assert_allclose(u, -peer(texts, texts), atol=1e-9)
    np.testing.assert_allclose(u[0] * -0.62, [0, 1, 1, 4, 4], atol=1e-9)


@pytest.mark.parametrize(("size", "edits"), [(10, 1), (20, 2), (21, 3)])
def test_a_shift_moves_ten_words_at_most(size: int, edits: int) -> None:
    block, rest = [f"b{i}" for i in range(size)], [f"r{i}" for i in range(30)]
    score = TER().score([" ".join(block + rest)], [" ".join(rest + block)])
    assert score == [100 * (edits / (size + 30))]


@pytest.mark.parametrize("chosen", SETTINGS)
def test_settings_are_sacrebleus(chosen: dict[str, Any]) -> None:
    np.testing.assert_allclose(
        TER(**chosen).pairwise(TEXTS, TEXTS), -peer(TEXTS, TEXTS, **chosen), atol=1e-9
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(words, words, words), min_size=1, max_size=4))
def test_several_references_and_corpus_equal_sacrebleu(rows: list[tuple[str, str, str]]) -> None:
    hypotheses, references = [row[0] for row in rows], [list(row[1:]) for row in rows]
    metric = sacrebleu.TER()
    each = [
        metric.sentence_score(h, rs).score for h, rs in zip(hypotheses, references, strict=True)
    ]
    np.testing.assert_allclose(TER().score(hypotheses, references), each, atol=1e-9)
    whole = metric.corpus_score(hypotheses, [[rs[k] for rs in references] for k in (0, 1)]).score
    assert TER().corpus(hypotheses, references) == pytest.approx(whole, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(words, min_size=1, max_size=5), st.lists(words, min_size=1, max_size=5))
def test_a_pair_does_not_know_its_company(hypotheses: list[str], references: list[str]) -> None:
    alone = [[TER().pairwise([h], [r])[0, 0] for r in references] for h in hypotheses]
    assert TER().pairwise(hypotheses, references).tobytes() == np.array(alone).tobytes()


def test_signature() -> None:
    assert TER().signature() == "ter"
    assert TER(normalized=True).signature() == "ter(normalized=true)"


def test_unknown_setting() -> None:
    with pytest.raises(InputError, match="unknown setting 'tokenize'"):
        TER(tokenize="13a")  # type: ignore[call-arg]


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="no_punct"):
        TER(no_punct="yes")  # type: ignore[arg-type]
