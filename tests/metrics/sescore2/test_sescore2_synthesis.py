"""Words, edits, sampling, neighbours and severity of SEScore2: golden values, plain paths, invariants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.metrics.errors import InputError, MetricError, ModelLoadError
from discorank.metrics.sescore2.training.edits import (
    MAX_DROP_WORDS,
    MAX_MISTAKES,
    Edit,
    Words,
    applied,
    edits_between,
    is_punctuation,
    joined,
    mined,
    sampled,
    split_words,
    stop_words,
)
from discorank.metrics.sescore2.training.severity import (
    Judge,
    MaskedLM,
    Masking,
    Severity,
    by_rule,
    inverse_frequencies,
)
from discorank.metrics.sescore2.training.synthesis import margins, means, nearest, unit

from ...support.examples import examples

GOLDEN = Path(__file__).parents[2] / "golden" / "sescore2"
MLM = str(GOLDEN / "tiny_mlm")
BOUNDED = examples(8)
SENTENCES = st.lists(st.sampled_from("abcde"), max_size=14)


@cache
def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}_cases.json").read_text(encoding="utf-8"))


def words(text: str) -> Words:
    return tuple(f" {word}" for word in text.split())


def plain_distance(a: Sequence[str], b: Sequence[str]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


# words


@given(st.text(max_size=40))
@BOUNDED
def test_words_join_to_their_text(text: str) -> None:
    plain = " ".join(text.split())
    assert joined(split_words(plain)) == plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's well-known, isn't it?", ["It's", "well-known", ",", "isn't", "it", "?"]),
        ("costs 2,000.50 dollars.", ["costs", "2,000.50", "dollars", "."]),
        ("我有猫。", ["我", "有", "猫", "。"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ราคา", ["ร", "า", "ค", "า"]),
        ("Größe über 3D", ["Größe", "über", "3D"]),
        ("می\u200cروم خانه", ["می\u200cروم", "خانه"]),
        ("क्\u200dष एक", ["क्\u200dष", "एक"]),
        ("Donau\u00addampf\u00adschiff.", ["Donau\u00addampf\u00adschiff", "."]),
        ("a\u2060b", ["a\u2060b"]),
        (
            "ok👨‍👩‍👧!❤️🇩🇪🇫🇷👍🏽 5€",
            ["ok", "👨‍👩‍👧", "!", "❤️", "🇩🇪", "🇫🇷", "👍🏽", "5", "€"],
        ),
    ],
)
def test_words_of_many_languages(text: str, expected: list[str]) -> None:
    assert [word.strip() for word in split_words(text)] == expected


def test_emoji_count_as_punctuation() -> None:
    assert [
        is_punctuation(word)
        for word in split_words("👨\u200d👩\u200d👧 ❤\ufe0f 🇩🇪 ok ... 1\ufe0f\u20e3 7")
    ] == ([True, True, True, False, True, True, True, False, False])


def test_edited_words_join_with_their_own_spaces() -> None:
    assert joined(
        applied(split_words("(A cat) sat."), [Edit(0, 0, (" Then",)), Edit(4, 5, (" ran", ","))])
    ) == ("Then (A cat) ran,.")
    assert joined(applied(split_words("Cats sat."), [Edit(0, 0, (" Two",))])) == "Two Cats sat."


# edits


@pytest.mark.parametrize("case", golden("edit")["cases"], ids=lambda case: case["neighbour"])
def test_golden_edits(case: dict[str, Any]) -> None:
    anchor, neighbour = case["anchor"].split(), case["neighbour"].split()
    edits = edits_between(anchor, neighbour)
    assert sum(edit.operations for edit in edits) == case["distance"]
    assert [(e.kind, e.start, e.end, " ".join(e.words), e.operations) for e in edits] == [
        (span["kind"], span["start"], span["end"], span["content"], span["ops"])
        for span in case["spans"]
    ]
    assert [edit in mined(edits) for edit in edits] == [span["kept"] for span in case["spans"]]
    proposals = [
        f"{e.start}-{e.end}-{' '.join(e.words)}"
        for e in mined(edits)
        if e.words and e.start < len(anchor)
    ]
    assert proposals == case["proposals_from_correct_backtrace"]


@given(SENTENCES, SENTENCES)
@BOUNDED
def test_edits_make_the_neighbour_of_the_anchor(anchor: list[str], neighbour: list[str]) -> None:
    edits = edits_between(anchor, neighbour)
    assert list(applied(anchor, edits)) == neighbour
    assert sum(edit.operations for edit in edits) == plain_distance(anchor, neighbour)
    # disjoint, sorted, and maximal: a match stands between
    assert all(a.end < b.start for a, b in pairwise(edits))
    assert all(edit.words or edit.end > edit.start for edit in edits)


# sampling


@given(SENTENCES, SENTENCES, st.integers(0, 999), st.booleans())
@BOUNDED
def test_sampled_edits(anchor: list[str], neighbour: list[str], seed: int, many: bool) -> None:
    random = np.random.default_rng(seed)
    proposals = mined(edits_between(anchor, neighbour))
    edits = sampled(proposals, len(anchor), random, 0.9 if many else 0.3)
    assert edits == sorted(edits)
    assert len(edits) <= MAX_MISTAKES
    for a, b in pairwise(edits):
        assert a.end <= b.start
        assert a.start < b.start
    for edit in edits:
        assert 0 <= edit.start <= edit.end <= len(anchor)
        if edit not in proposals:
            assert edit.kind == "delete"
            assert 1 <= edit.end - edit.start <= MAX_DROP_WORDS
    if not any(edit.kind == "delete" and edit in proposals for edit in edits):
        assert sum(edit.end - edit.start for edit in edits if edit.kind == "delete") < max(
            1, len(anchor)
        )
    assert len({edit for edit in edits if edit in proposals}) == sum(
        edit in proposals for edit in edits
    )


# neighbours


def all_margins(ids: Any, cosines: Any) -> Any:
    mean = means(ids, cosines)
    return margins(ids, cosines, mean[:, None], mean)


@pytest.mark.parametrize(
    ("convention", "count_self"), [("normalised", True), ("self_excluded", False)]
)
def test_golden_margins(convention: str, count_self: bool) -> None:
    case = golden("margin")
    expected = case[convention]
    vectors = unit(np.array(case["vectors"]))
    texts = [] if count_self else [str(row) for row in range(len(vectors))]
    neighbours, cosines = nearest(vectors, texts, case["k"])
    values = all_margins(neighbours, cosines)
    assert neighbours.tolist() == expected["top_ids"]
    if count_self:
        np.testing.assert_allclose(cosines, expected["similarities"], atol=1e-6)
        order = np.argsort(-values, axis=1, kind="stable")
        assert np.take_along_axis(neighbours, order, 1).tolist() == expected["sorted_ids"]
        np.testing.assert_allclose(
            np.take_along_axis(values, order, 1), expected["sorted_margins"], atol=1e-6
        )
    else:
        np.testing.assert_allclose(values, expected["margins"], atol=1e-6)
    kept = [
        [
            int(i)
            for i, m in sorted(zip(ids, ms, strict=True), key=lambda p: -p[1])
            if m >= case["threshold"] and i != row
        ]
        for row, (ids, ms) in enumerate(zip(neighbours, values, strict=True))
    ]
    assert list(map(sorted, kept)) == list(map(sorted, expected["kept_ids"]))


def plain_nearest(
    vectors: Any, texts: Sequence[str], rows: Sequence[int], k: int
) -> list[list[tuple[float, float]]]:
    """Cosine and margin of every neighbour, by the equation."""

    def best(row: int) -> list[tuple[float, int]]:
        others = [i for i, text in enumerate(texts) if text.strip() != texts[row].strip()]
        return sorted(((float(vectors[row] @ vectors[i]), i) for i in others), reverse=True)[:k]

    def mean(row: int) -> float:
        return float(np.mean([cosine for cosine, _ in best(row)]))

    return [
        [(cosine, cosine / ((mean(row) + mean(i)) / 2)) for cosine, i in best(row)] for row in rows
    ]


@given(st.integers(3, 14), st.integers(1, 20), st.integers(0, 99))
@examples(4)
def test_neighbours_are_those_of_a_double_loop(n: int, k: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = unit(np.abs(random.normal(size=(n, 5))).astype(np.float32) + 0.1)
    texts = [f" {i}" if i % 4 else "same " for i in range(n)]
    neighbours, cosines = nearest(vectors, texts, k)
    values = all_margins(neighbours, cosines)
    for row, expected in enumerate(plain_nearest(vectors, texts, range(n), min(k, n - 1))):
        there = neighbours[row] >= 0
        assert there.sum() == len(expected)
        np.testing.assert_allclose(cosines[row][there], [c for c, _ in expected], atol=1e-5)
        np.testing.assert_allclose(values[row][there], [m for _, m in expected], atol=1e-4)
        assert all(texts[i].strip() != texts[row].strip() for i in neighbours[row][there])


def test_vectors_without_direction_are_refused() -> None:
    with pytest.raises(InputError, match="text 1"):
        unit(np.array([[1.0, 0.0], [0.0, 0.0]], np.float32))


# severity


@cache
def model() -> MaskedLM:
    return MaskedLM(MLM, "cpu")


def mistakes() -> list[tuple[Words, Edit, str]]:
    cases = golden("severity")["insert_replace"]
    return [
        (words(c["anchor"]), Edit(c["start"], c["end"], words(c["content"])), c["source"])
        for c in cases
    ]


def test_golden_probabilities() -> None:
    asked = [Masking(applied(a, [e]), e.start, e.start + len(e.words), s) for a, e, s in mistakes()]
    for probabilities, case in zip(
        model().probabilities(asked), golden("severity")["insert_replace"], strict=True
    ):
        assert [len(word) for word in probabilities] == [
            len(word) for word in case["subtoken_probabilities"]
        ]
        flat, expected = (
            np.concatenate(probabilities),
            np.concatenate(case["subtoken_probabilities"]),
        )
        np.testing.assert_allclose(flat, expected, atol=1e-6)


def random_maskings(number: int) -> list[Masking]:
    """Texts of 2 to 30 words, with 1 to 4 words masked, some behind a source."""
    random = np.random.default_rng(0)
    text = "the a dog security plan committee approved for in May of house small 5 , ."
    vocabulary = text.split()
    maskings = []
    for _ in range(number):
        shown = words(" ".join(random.choice(vocabulary, random.integers(2, 30))))
        start = int(random.integers(len(shown)))
        end = min(len(shown), start + int(random.integers(1, 5)))
        source = " ".join(random.choice(vocabulary, random.integers(0, 12)))
        maskings.append(Masking(shown, start, end, source))
    return maskings


def test_probabilities_do_not_depend_on_the_batch() -> None:
    asked = random_maskings(60)
    alone = [model().probabilities([masking])[0] for masking in asked]
    for size in (2, 7, 60):
        together = []
        for start in range(0, len(asked), size):
            together += model().probabilities(asked[start : start + size])
        assert together == alone
    assert model().probabilities(asked[::-1])[::-1] == alone


@pytest.mark.parametrize("mode", ["code", "paper"])
def test_golden_severities(mode: Any) -> None:
    data = golden("severity")
    stops = frozenset(data["stopwords"])
    scores = Judge(Severity(severity=mode, mlm=MLM), stops, (), model()).scores(mistakes())
    for value, case in zip(scores, data["insert_replace"], strict=True):
        if mode == "paper" or not case["code_skipped"]:
            assert value == case[f"{mode}_label"]
        else:
            assert value is None
    if mode == "code":
        for case in data["delete"]:
            edit = Edit(case["start"], case["end"], ())
            assert Judge(Severity(), stops).scores([(words(case["anchor"]), edit, "")]) == [
                case["code_label"]
            ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", ",", -0.1),
        (".", ";", -0.1),
        (".", "the", -1.0),
        ("5", "7", -5.0),
        ("2,000", "3.5", -5.0),
        ("5 men", "7", "likelihood"),
        ("a", "the", -1.0),
        ("dog", "the", -5.0),
        ("the", "dog", "likelihood"),
        ("planned", "plan", None),
        ("the old dog", "old", None),
        ("the", "", -1.0),
        ("the dog", "", -5.0),
        (", .", "", -0.1),
        (", the", "", -1.0),
    ],
)
def test_rules(old: str, new: str, expected: Any) -> None:
    assert by_rule(words(old), words(new), frozenset({"a", "the"})) == expected


def test_severity_without_a_model() -> None:
    anchor = words("the dog saw a cat")
    edits = [Edit(1, 2, (" cow",)), Edit(0, 1, (" a",)), Edit(3, 5, ()), Edit(0, 0, (" ,",))]
    every = [(anchor, edit, "") for edit in edits]
    assert Judge(Severity(), stop_words("en", ())).scores(every) == [-5.0, -1.0, -5.0, -0.1]
    assert Judge(Severity(severity="off"), frozenset()).scores(every) == [-1.0] * 4


def test_deletions_by_tf_idf() -> None:
    texts = [words("the the dog ."), words("The cat ."), words("the cow .")]
    idf = inverse_frequencies(texts)
    assert idf[" dog".strip()] == pytest.approx(log(3))
    assert idf["the"] == 0
    judge = Judge(Severity(severity="paper", mlm=MLM), frozenset(), texts, model())
    anchor = words("the cat , dog")
    assert judge.scores([(anchor, Edit(0, 1, ()), ""), (anchor, Edit(0, 2, ()), "")]) == [
        -1.0,
        -5.0,
    ]
    lax = Judge(Severity(severity="paper", mlm=MLM, salience=1.2), frozenset(), texts, model())
    assert lax.scores([(anchor, Edit(0, 2, ()), "")]) == [-1.0]


def test_gamma_decides_between_minor_and_major() -> None:
    for gamma, expected in ((0.0, -1.0), (1.0, -5.0)):
        how = Severity(severity="paper", mlm=MLM, gamma=gamma)
        assert set(Judge(how, frozenset(), (), model()).scores(mistakes())) == {expected}


def test_what_is_too_long_for_the_masked_model_keeps_its_masks() -> None:
    short = MaskedLM(MLM, "cpu", max_tokens=12)
    anchor = words("the old man saw the security plan for the committee of the north in May")
    long_source = "ehto dloo namo waso ehto ytiruceso nalpo " * 4
    for place in (0, 7, 14):
        for source in ("", long_source):
            (probabilities,) = short.probabilities([Masking(anchor, place, place + 1, source)])
            assert len(probabilities[0]) >= 1
            assert all(0 <= p <= 1 for p in probabilities[0])


def test_a_masked_model_of_nan_is_an_error() -> None:
    broken = MaskedLM(MLM, "cpu")
    next(broken.head.parameters()).data.fill_(float("nan"))
    with pytest.raises(MetricError, match="tiny_mlm"):
        broken.probabilities(random_maskings(1))


def test_stop_words(tmp_path: Path) -> None:
    texts = [words("The dog ."), words("the cat . the ."), words("a cow .")]
    assert stop_words("frequent:1", texts) == {"the"}
    (tmp_path / "own.txt").write_text("Der\n\ndie \n")
    assert stop_words(str(tmp_path / "own.txt"), ()) == {"der", "die"}
    assert "not" not in stop_words("en", ())
    for name in ("frequent:many", "nowhere.txt"):
        with pytest.raises(InputError, match="stop_words"):
            stop_words(name, ())
    for values in ({"severity": "code"}, {"mlm": "x"}, {"severity": "off", "mlm": "x"}):
        with pytest.raises(InputError):
            Severity(**values)  # type: ignore[arg-type]
    with pytest.raises(ModelLoadError):
        MaskedLM(str(GOLDEN / "tiny_encoder"), "cpu")
