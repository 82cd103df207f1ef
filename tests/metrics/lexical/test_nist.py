"""NIST: hand-worked information, nltk and a plain count on any text, several references, fitting."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from math import exp, log, log2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.nist_score import corpus_nist  # type: ignore[import-untyped]

from discorank import Document, InputError, MBRDecoder, load_metric
from discorank.cli.main import main
from discorank.metrics.lexical import ngrams as weighted
from discorank.metrics.lexical.nist import BETA, NIST, Information

TEXTS = ["a b a", "a c"]  # 5 words: a 3, b 1, c 1; a b, b a, a c and a b a once
INFORMATION = {
    "a": log2(5 / 3),
    "b": log2(5),
    "c": log2(5),
    "a b": log2(3),
    "b a": 0.0,
    "a c": log2(3),
    "a b a": 0.0,
}
UNSEEN = {"z": log2(5), "b z": 0.0, "a z": log2(3), "z a": 0.0, "a b z": 0.0}
words = st.lists(st.sampled_from("abcde"), max_size=15).map(" ".join)
texts = st.lists(words, min_size=1, max_size=5)
# nltk divides by 0 below
long_enough = st.lists(st.sampled_from("abcde"), min_size=5, max_size=15).map(" ".join)


def grams(text: str, n: int) -> Counter[tuple[str, ...]]:
    split = text.split()
    return Counter(tuple(split[i : i + n]) for i in range(len(split) - n + 1))


def plain(seen: Sequence[str], hypothesis: str, references: Sequence[str]) -> float:
    """NIST as mteval-v13a counts it, n-grams unseen once."""
    counts = sum((grams(text, n) for text in seen for n in range(1, 6)), Counter[tuple[str, ...]]())
    total = max(1, sum(len(text.split()) for text in seen))
    value = 0.0
    for n in range(1, 6):
        own = grams(hypothesis, n)
        pooled: Counter[tuple[str, ...]] = Counter()
        for reference in references:
            pooled |= grams(reference, n)
        for gram, count in (own & pooled).items():
            before = max(counts[gram[:-1]], 1) if n > 1 else total
            value += count * log2(before / max(counts[gram], 1)) / own.total()
    length = sum(len(reference.split()) for reference in references) / len(references)
    if not value or not length:
        return 0.0
    return float(value * exp(BETA * log(min(1, len(hypothesis.split()) / length)) ** 2))


@pytest.mark.parametrize(("gram", "bits"), [*INFORMATION.items(), *UNSEEN.items()])
def test_information_by_hand(gram: str, bits: float) -> None:
    split = gram.split()
    information = Information.of([text.split() for text in TEXTS], 3).bits([["c"], split])
    assert information.shape == (1 + len(split), 3)
    assert information[1, len(split) - 1] == pytest.approx(bits, abs=1e-12)
    assert information[-1, 1:].tolist() == [0, 0]  # nothing starts there


def test_worked() -> None:
    metric = NIST(order=2).fit(TEXTS)
    # a, b and "a b" are shared; 3 of 3 words; 2 bigrams, of which "b z" is not shared
    expected = (INFORMATION["a"] + INFORMATION["b"]) / 3 + INFORMATION["a b"] / 2
    assert metric.score(["a b z"], ["a b c"]) == pytest.approx([expected], abs=1e-7)
    # two words of three: the penalty is one half
    expected = (INFORMATION["a"] + INFORMATION["b"]) / 2 + INFORMATION["a b"]
    assert metric.score(["a b"], ["a b c"]) == pytest.approx([expected / 2], abs=1e-7)
    assert metric.score(["A B"], ["a b c"]) == pytest.approx([expected / 2], abs=1e-7)
    # the second "a" of the hypothesis has no partner in either reference; |r| is 2.5
    expected = (INFORMATION["a"] + INFORMATION["c"]) / 3 + INFORMATION["a c"] / 2
    assert metric.score(["a c a"], [["a b", "b a c"]]) == pytest.approx([expected], abs=1e-7)
    cased = NIST(lowercase=False).fit(TEXTS)
    assert cased.score(["A"], ["a"]).tolist() == [0]


def test_empty_texts_score_0() -> None:
    assert NIST().fit(TEXTS).pairwise(["", "a"], ["", "b"]).tolist() == [[0, 0], [0, 0]]
    assert NIST().fit([]).pairwise(["a b"], ["a b"]).tolist() == [[0]]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(long_enough, long_enough), min_size=1, max_size=6))
def test_equals_nltk_over_a_corpus(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = (list(side) for side in zip(*pairs, strict=True))
    expected = corpus_nist([[r.split()] for r in references], [h.split() for h in hypotheses], 5)
    metric = NIST().fit(references)
    assert metric.corpus(hypotheses, references) == pytest.approx(expected, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(texts, texts, texts)
def test_equals_the_plain_count(
    seen: list[str], hypotheses: list[str], references: list[str]
) -> None:
    metric = NIST().fit(seen)
    for columns in (references, hypotheses):
        expected = [[plain(seen, h, [r]) for r in columns] for h in hypotheses]
        np.testing.assert_allclose(metric.pairwise(hypotheses, columns), expected, atol=1e-6)
    together = metric.score(hypotheses, [references] * len(hypotheses))
    np.testing.assert_allclose(
        together, [plain(seen, h, references) for h in hypotheses], atol=1e-6
    )


def test_small_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    lists = [" ".join(random.choice(list("abcdefgh"), 12 + i)) for i in range(9)]
    metric = NIST().fit(lists[:5])
    expected = metric.pairwise(lists, lists).tobytes(), metric.pairwise(lists[:4], lists).tobytes()
    monkeypatch.setattr(weighted, "CELLS", 16)
    assert (
        metric.pairwise(lists, lists).tobytes(),
        metric.pairwise(lists[:4], lists).tobytes(),
    ) == expected


def test_a_file_and_fitting_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    named, fitted = NIST(information=str(path)), NIST().fit([Document(TEXTS)])
    assert not named.unfitted
    assert named.fit(["x"]) is named
    hypotheses = ["a c", "b a b z"]
    assert (
        named.pairwise(hypotheses, TEXTS).tobytes() == fitted.pairwise(hypotheses, TEXTS).tobytes()
    )
    assert load_metric(named.signature()) == named
    assert fitted == NIST().fit(TEXTS[::-1])
    assert fitted != NIST().fit(TEXTS[:1])
    assert fitted.with_defaults(tokenize="zh") is fitted
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy == fitted
    assert copy.score(hypotheses, TEXTS).tobytes() == fitted.score(hypotheses, TEXTS).tobytes()
    chosen = next(
        MBRDecoder(utility=fitted).decode([{"id": "x", "candidates": ["a c", "a b", "a b"]}])
    )
    assert chosen.text == "a b"
    path.write_text("x\n", encoding="utf-8")
    with pytest.raises(InputError, match="not the file that was used"):
        load_metric(named.signature())
    with pytest.raises(InputError, match="not the file that was used"):
        pickle.loads(pickle.dumps(named)).score(["a"], ["a"])
    path.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match=r"texts.txt"):
        NIST(information=str(path)).score(["a"], ["a"])


def test_scores_with_counts_of_their_references() -> None:
    hypotheses = TEXTS[::-1]
    assert (
        NIST().score(hypotheses, TEXTS).tobytes()
        == NIST().fit(TEXTS).score(hypotheses, TEXTS).tobytes()
    )


def test_what_is_missing_is_told() -> None:
    assert NIST().unfitted
    for metric in (NIST(), load_metric(NIST().fit(TEXTS).signature())):
        with pytest.raises(InputError, match="information="):
            metric.pairwise(["a"], ["a"])
    with pytest.raises(InputError, match=r"nowhere\.txt"):
        NIST(information="nowhere.txt")
    with pytest.raises(InputError, match="tokenizer"):
        NIST(tokenize="13b").fit(TEXTS)


def test_the_command_fits_to_all_references(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    h, r = tmp_path / "h.txt", tmp_path / "r.txt"
    h.write_text("a b z\na c\n", encoding="utf-8")
    r.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    files = ["--hypotheses", str(h), "--references", str(r)]
    assert main(["score", "-m", "nist", *files, "--format", "json", "--quiet"]) == 0
    expected = NIST().fit(TEXTS).corpus(["a b z", "a c"], TEXTS)
    assert f"{expected:.6f}"[:6] in capsys.readouterr().out
