"""DS-FOCUS and DS-SENT: golden values, the equations pair by pair, degenerate texts, and long ones."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from functools import cache
from itertools import combinations, permutations, product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import (
    Document,
    InputError,
    MetricError,
    ModelLoadError,
    load_metric,
)
from discorank.metrics.discourse.coherence.foci import FocusReader
from discorank.metrics.discourse.coherence.focus_scorer import TokenReader, lowered
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.execution.store import Store
from discorank.metrics.neural.models.pretrained import tokenizer_of
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import NO_CONTEXT, Item

from ...support.examples import examples

GOLDEN = Path(__file__).parents[2] / "golden" / "discoscore"
CASES = json.loads((GOLDEN / "cases.json").read_text(encoding="utf-8"))
VECTORS = str(GOLDEN / "deps.words.bz2")
TINY = str(GOLDEN / "models" / "tiny2")


@cache
def tiny(name: str, **settings: Any) -> Any:
    """A metric on a tiny model, loaded once."""
    return load_metric(name, **{"model": TINY, **settings})


WORD = re.compile(r"\w[\w\-]*|'s|[^\w\s]")
BOUNDED = examples(4)


def annotated(name: str) -> Document:
    """A golden text with the occurrences of its nouns, by the lexicon."""
    sentences = CASES["annotation"][name]["sentences"]
    foci = []
    for sentence in sentences:
        never = {
            *CASES["not_a_noun_in_text"].get(name, ()),
            *CASES["not_a_noun_in_sentence"].get(sentence, ()),
        }
        words = [
            word for word in WORD.finditer(sentence) if word[0] in CASES["nouns"].keys() - never
        ]
        foci.append([(CASES["nouns"][word[0]], *word.span()) for word in words])
    return Document(sentences, foci=foci)


DOCUMENTS = {name: annotated(name) for name in CASES["texts"]}
COMPAT: dict[str, dict[str, Any]] = {
    "DS_FOCUS_NN": {"name": "ds-focus"},
    "DS_FOCUS_NN_R": {"name": "ds-focus", "aggregate": "R"},
    "DS_FOCUS_NN_F": {"name": "ds-focus", "aggregate": "F"},
    "DS_FOCUS_ENTITY": {"name": "ds-focus", "focus": "entity", "vectors": VECTORS},
    "DS_SENT_U_NN": {"name": "ds-sent"},
    "DS_SENT_W_NN": {"name": "ds-sent", "weighted": True},
    "DS_SENT_U_ENTITY_t0.5": {"name": "ds-sent", "focus": "entity", "vectors": VECTORS},
    "DS_SENT_U_ENTITY_t0.8": {
        "name": "ds-sent",
        "focus": "entity",
        "vectors": VECTORS,
        "threshold": 0.8,
    },
    "DS_SENT_W_ENTITY_t0.5": {
        "name": "ds-sent",
        "focus": "entity",
        "vectors": VECTORS,
        "weighted": True,
    },
}


@pytest.mark.parametrize("model", ["tiny2", "tiny10"])
@pytest.mark.parametrize("case", COMPAT)
def test_golden_pairs(case: str, model: str) -> None:
    metric = tiny(
        **{**COMPAT[case], "model": str(GOLDEN / "models" / model), "compat": "reference"}
    )
    expected = CASES["expected"][model]["ones"]["pairs"][case]
    values = metric.utility_sign * metric.pairwise(
        list(DOCUMENTS.values()), list(DOCUMENTS.values())
    )
    for i, h in enumerate(DOCUMENTS):
        for j, r in enumerate(DOCUMENTS):
            assert values[i, j] == pytest.approx(expected[h][r], abs=1e-5), (h, r)


@pytest.mark.parametrize("model", ["tiny2", "tiny10"])
def test_golden_several_references(model: str) -> None:
    for case in CASES["expected"][model]["ones"]["multi"]:
        for name, settings in COMPAT.items():
            metric = tiny(
                **{**settings, "model": str(GOLDEN / "models" / model), "compat": "reference"}
            )
            scores = metric.score([DOCUMENTS[case["hyp"]]], [[DOCUMENTS[r] for r in case["refs"]]])
            assert scores[0] == pytest.approx(case["scores"][name], abs=1e-5)


def test_plain_texts_are_split_and_tagged_by_own_functions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "golden_nouns.py").write_text(
        f"NOUNS = {CASES['nouns']!r}\ndef find(w): return [NOUNS.get(x) for x in w]"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    metric = tiny("ds-focus", compat="reference", nouns="golden_nouns:find")
    names = [name for name in DOCUMENTS if name not in CASES["not_a_noun_in_text"]]
    plain = metric.pairwise(
        [CASES["texts"][name] for name in names], [CASES["texts"][name] for name in names]
    )
    documents = metric.pairwise(
        [DOCUMENTS[name] for name in names], [DOCUMENTS[name] for name in names]
    )
    np.testing.assert_array_equal(plain, documents)


def test_words_with_a_glued_mark_and_inflected_nouns_are_no_foci_of_the_reference() -> None:
    metric = tiny("ds-focus", compat="reference")
    sentences = ["the players play .", "a boat, a player plays ."]
    foci = [[("player", 4, 11)], [("boat", 2, 6), ("player", 10, 16)]]
    other = Document(sentences, foci=foci)
    shown = described(metric, other, Document(["the player ."], foci=[[("player", 4, 10)]]))
    assert list(shown["shared"]) == ["player"]
    assert (shown["missed"], shown["added"]) == ({}, {})
    ours = described(load_metric("ds-focus", model=TINY), other, other)
    assert sorted(ours["shared"]) == ["boat", "player"]


def described(metric: Any, h: Any, r: Any) -> dict[str, Any]:
    """What a metric says of a pair."""
    store = Store(metric.scorer)
    block = store.add([metric.comparison([h], [r], None, NO_CONTEXT)])[0]
    description: dict[str, Any] = metric.scorer.describe(store.reps, block, 0, 0)
    return description


# --- the equations, pair by pair

KEYS = ["boat", "car", "sea", "town", "café"]
words = st.lists(st.sampled_from([*KEYS, *KEYS, "the", "is", "."]), min_size=1, max_size=7)


@st.composite
def documents(draw: st.DrawFn, least: int = 0) -> Document:
    """Sentences of known words, annotated."""
    sentences, foci = [], []
    for some in draw(st.lists(words, min_size=least, max_size=4)):
        sentence = " ".join(some)
        sentences.append(sentence)
        known = [word for word in WORD.finditer(sentence) if word[0] in KEYS]
        foci.append([(word[0], *word.span()) for word in known])
    return Document(sentences, foci=foci)


@cache
def plain_model() -> tuple[Any, Any]:
    import transformers

    return transformers.AutoModel.from_pretrained(TINY).eval(), tokenizer_of(Path(TINY))


def states_by_hand(document: Document) -> tuple[Any, list[tuple[int, str]]]:
    """Token vectors of a whole text in one forward pass, and (sentence, word) of every token but the first."""
    import torch

    model, tokenizer = plain_model()
    ids, of = [tokenizer.cls_token_id], []
    for i, sentence in enumerate(document.sentences):
        for word in sentence.split():
            pieces = tokenizer(word, add_special_tokens=False).input_ids
            ids += pieces
            of += [(i, "")] * (len(pieces) - 1) + [(i, word)]
    with torch.inference_mode():
        return model(torch.tensor([ids])).last_hidden_state[0].double().numpy(), of


Table = dict[str, Any]


@cache
def focus_table(document: Document) -> Table:
    states, of = states_by_hand(document)
    sums: Table = {}
    for state, (_, word) in zip(states[1:], of, strict=True):
        if word in KEYS:
            sums[word] = sums.get(word, 0) + state / np.linalg.norm(state)
    return sums


def focus_distance(a: Table, b: Table, missing: str, norm: str, aggregate: str | None) -> float:
    """Of the foci of a hypothesis and a reference."""

    def size(x: Any) -> float:
        return float(np.linalg.norm(x))

    def apart(x: Any, y: Any) -> float:
        divisor = size(x) + size(y) if norm == "relative" else 1.0
        return float((size(x - y) / divisor) ** (2 if norm == "squared" else 1))

    nothing = np.zeros(1)
    shared = sum(apart(a[k], b[k]) for k in a.keys() & b.keys())
    only_a = sum(apart(a[k], nothing) for k in a.keys() - b.keys())
    only_b = sum(apart(b[k], nothing) for k in b.keys() - a.keys())
    if missing == "union":
        return (shared + only_a + only_b) / max(1, len(a.keys() | b.keys()))
    if not a.keys() & b.keys():
        return (only_a + only_b) / max(1, len(a) + len(b))
    if missing == "ignore":
        only_a = only_b = 0
    p, q = (shared + only_a) / len(a), (shared + only_b) / len(b)
    return {"P": p, "R": q, "F": (p + q) / 2}[aggregate or "F"]


AGGREGATES = [("union", None), *((m, a) for m in ("ignore", "penalise") for a in "PRF")]


@given(texts=st.lists(documents(), min_size=2, max_size=4))
@BOUNDED
def test_ds_focus_is_its_equation(texts: list[Document]) -> None:
    tables = [focus_table(text) for text in texts]
    for norm, (missing, aggregate) in product(("relative", "l2", "squared"), AGGREGATES):
        metric = tiny("ds-focus", missing=missing, aggregate=aggregate, norm=norm)
        matrix = -metric.pairwise(texts, texts)
        expected = [
            [focus_distance(h, r, missing, norm, aggregate) for r in tables] for h in tables
        ]
        np.testing.assert_allclose(matrix, expected, rtol=1e-5, atol=2e-5)
    assert metric.score(texts[:1], [texts])[0] == pytest.approx(matrix[0].mean())


def graph_vector(document: Document, weighted: bool) -> Any:
    states, of = states_by_hand(document)
    n = len(document.sentences)
    sentence = np.array([0, *(i for i, _ in of)])
    s = np.array([states[sentence == i].mean(axis=0) for i in range(n)])
    foci = [{word for i, word in of if i == at and word in KEYS} for at in range(n)]
    x = s.copy()
    for i in range(n):
        for j in range(i + 1, n):
            count = len(foci[i] & foci[j])
            x[i] += (count if weighted else min(1, count)) / (j - i) * s[j]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.concatenate([x.min(axis=0), x.mean(axis=0), x.max(axis=0), x.sum(axis=0)])


@pytest.mark.parametrize("weighted", [False, True])
@given(texts=st.lists(documents(least=1), min_size=2, max_size=4))
@BOUNDED
def test_ds_sent_is_its_equation(weighted: bool, texts: list[Document]) -> None:
    metric = tiny("ds-sent", weighted=weighted)
    matrix = metric.pairwise(texts, texts)
    vectors = [graph_vector(text, weighted) for text in texts]
    for i, a in enumerate(vectors):
        for j, b in enumerate(vectors):
            assert matrix[i, j] == pytest.approx(
                a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-5
            )


def sentence_rows(document: Document, summed: bool) -> FloatArray:
    """The rows x_i, [sentences, d], from the parts of the vector that the equation gives of one sentence alone."""
    metric = tiny("ds-sent", align="greedy", adjacency=summed)
    reps, _ = metric.scorer.prepare([Item(document)])
    rows: FloatArray = metric.scorer.represent(reps)["rows"].values
    return rows


def transported(cosines: FloatArray) -> float:
    """The best plan by trying all: every row m times against every column n times, one to one."""
    n, m = cosines.shape
    size = math.lcm(n, m)
    of_h, of_r = np.arange(size) // (size // n), np.arange(size) // (size // m)
    return max(
        float(cosines[of_h, of_r[list(order)]].sum()) / size
        for order in set(permutations(range(size)))
    )


@pytest.mark.parametrize("summed", [True, False])
@given(texts=st.lists(documents(least=1), min_size=2, max_size=3))
@examples(3)
def test_aligned_sentences_are_their_equations(summed: bool, texts: list[Document]) -> None:
    texts = [Document(t.sentences[:3], foci=t.foci[:3] if t.foci else None) for t in texts]
    greedy = tiny("ds-sent", align="greedy", adjacency=summed).pairwise(texts, texts)
    optimal = tiny("ds-sent", align="optimal", adjacency=summed).pairwise(texts, texts)
    rows = [sentence_rows(text, summed) for text in texts]
    for i, x in enumerate(rows):
        for j, y in enumerate(rows):
            cosines = x @ y.T
            p, r = cosines.max(axis=1).mean(), cosines.max(axis=0).mean()
            assert greedy[i, j] == pytest.approx(2 * p * r / (p + r), abs=1e-9)
            assert optimal[i, j] == pytest.approx(transported(cosines), abs=1e-9)


def test_without_adjacency_a_row_is_its_sentence() -> None:
    text = Document(
        ["the boat .", "a car .", "a boat ."], foci=[[("boat", 4, 8)], [], [("boat", 2, 6)]]
    )
    summed, plain = sentence_rows(text, True), sentence_rows(text, False)
    assert not np.allclose(summed[0], plain[0])
    np.testing.assert_allclose(summed[1:], plain[1:], atol=1e-12)
    alone = tiny("ds-sent", adjacency=False)
    assert alone.pairwise([text], [text])[0, 0] == pytest.approx(1)
    assert alone.pairwise([text], [BOAT])[0, 0] != tiny("ds-sent").pairwise([text], [BOAT])[0, 0]
    empty = Document([" "])
    for align in ("greedy", "optimal"):
        values = tiny("ds-sent", align=align).pairwise([empty, BOAT], [empty, BOAT])
        np.testing.assert_allclose(values, [[1, 0], [0, 1]], atol=1e-12)


BARE = Document(["the boat ."], foci=[[("boat",)]])


def test_sentence_graphs_need_no_spans() -> None:
    assert tiny("ds-sent").score([BARE], [BARE])[0] == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "settings", "found"),
    [
        ("ds-sent", {"adjacency": False, "weighted": True}, "weighted"),
        ("ds-sent", {"adjacency": False, "compat": "reference"}, "compat"),
        ("ds-sent", {"align": "greedy", "compat": "reference"}, "compat"),
        ("ds-sent", {"focus": "entity", "compat": "reference"}, "vectors"),
        ("ds-focus", {"threshold": 0.5}, "threshold"),
        ("ds-focus", {"vectors": VECTORS}, "vectors"),
        ("ds-focus", {"focus": "entity", "vectors": "nowhere.txt"}, "nowhere.txt"),
        ("ds-focus", {"aggregate": "P"}, "aggregate"),
        ("ds-focus", {"nouns": "hanta:xx"}, "hanta:xx"),
        ("ds-focus", {"layer": 9}, "layer 9"),
    ],
)
def test_settings_that_are_refused(name: str, settings: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError, match=found):
        tiny(name, **settings).scorer  # noqa: B018


@pytest.mark.parametrize(
    ("name", "settings", "foci"),
    [
        ("ds-focus", {}, [("boat",)]),
        ("ds-sent", {"focus": "entity"}, [("boat",)]),
        ("ds-focus", {}, [("boat", 4, 99)]),
        ("ds-focus", {}, [("", 0, 1)]),
        ("ds-focus", {}, [("boat", False, True)]),
        ("ds-focus", {}, [("b", 3, 4)]),
    ],
)
def test_foci_that_are_refused(
    name: str, settings: dict[str, Any], foci: list[tuple[Any, ...]]
) -> None:
    with pytest.raises(InputError, match=r"foci\[0\]|has letters"):
        tiny(name, **settings).score([Document(["the boat ."], foci=[foci])], [BOAT])


# --- degenerate texts

EMPTY, NO_NOUNS = Document([], foci=[]), Document(["it is ."], foci=[[]])
BOAT = Document(["the boat ."], foci=[[("boat", 4, 8)]])
CAR = Document(["a car ."], foci=[[("car", 2, 5)]])


@pytest.mark.parametrize(
    "settings", [{}, {"missing": "ignore"}, {"missing": "penalise", "aggregate": "F"}]
)
def test_sharing_nothing_is_never_the_best(settings: dict[str, Any]) -> None:
    metric = tiny("ds-focus", **settings)
    u = metric.pairwise([EMPTY, NO_NOUNS, BOAT, CAR], [EMPTY, NO_NOUNS, BOAT, CAR])
    assert (np.diag(u) == 0).all()
    assert u[0, 1] == 0
    # one focus, met once, is of length 1
    np.testing.assert_allclose([u[2, 3], u[0, 2], u[2, 0], u[1, 3]], -1, atol=1e-6)
    assert (metric.score(["", "the boat ."], ["", "a car ."]) >= 0).all()


def test_the_released_code_rewards_sharing_nothing() -> None:
    metric = tiny("ds-focus", compat="reference")
    assert metric.pairwise([BOAT, EMPTY], [CAR]).tolist() == [[0], [0]]


def test_texts_without_sentences_have_no_graph() -> None:
    for compat in (None, "reference"):
        metric = tiny("ds-sent", compat=compat)
        u = metric.pairwise([EMPTY, "", BOAT], [EMPTY, "", BOAT])
        np.testing.assert_allclose(u, [[1, 1, 0], [1, 1, 0], [0, 0, 1]], atol=1e-6)


def test_blank_sentences_are_none() -> None:
    empties = Document(["", " "], foci=[[], []])
    spaced = Document(["", "the boat .", " "], foci=[[], [("boat", 4, 8)], []])
    for name in ("ds-sent", "ds-focus"):
        metric = tiny(name)
        u = metric.pairwise([empties, spaced], [EMPTY, BOAT])
        np.testing.assert_array_equal(u, metric.pairwise([EMPTY, BOAT], [EMPTY, BOAT]))
    assert tiny("ds-sent").score([empties], [BOAT]).tolist() == [0]


def test_a_reference_of_one_sentence_counts_twice_under_compat() -> None:
    metric = tiny("ds-sent", compat="reference")
    two = Document(["a car .", "the boat ."], foci=[[("car", 2, 5)], [("boat", 4, 8)]])
    (one, other), h = metric.score([two, two], [BOAT, two]), two
    assert metric.score([h], [[BOAT, two]])[0] == pytest.approx((2 * one + other) / 3)
    plain = tiny("ds-sent")
    assert plain.score([h], [[BOAT, two]])[0] == pytest.approx(
        plain.score([h, h], [BOAT, two]).mean()
    )


def test_the_best_of_several_references() -> None:
    for name in ("ds-focus", "ds-sent"):
        metric = tiny(name, several="max")
        singles = metric.score([BOAT, BOAT], [CAR, BOAT])
        best = singles.max() if metric.info.higher_is_better else singles.min()
        assert metric.score([BOAT], [[CAR, BOAT]])[0] == best


def test_a_text_that_repeats_itself_weighs_no_more_than_another() -> None:
    """Values of a sentence that stands sixty times lie within 1; squared, they outweigh all others."""
    candidates = [
        Document([f"{a} .", f"{b} ."], foci=[_spans(a), _spans(b)])
        for a, b in combinations(("the boat", "a car", "the sea", "an old boat in the sea"), 2)
    ]
    looping = Document(["a car ."] * 60, foci=[[("car", 2, 5)]] * 60)
    chosen = {}
    for norm, low, high in (("relative", 0, 1), ("squared", 100, 3600)):
        metric = tiny("ds-focus", norm=norm)
        of_loop = metric.pairwise(candidates, [looping])
        assert low < np.ptp(of_loop) <= high
        alone = metric.pairwise(candidates, candidates)
        chosen[norm] = {
            alone.mean(axis=1).argmax(),
            np.hstack([alone, of_loop]).mean(axis=1).argmax(),
        }
    assert len(chosen["relative"]) == 1


def _spans(sentence: str) -> list[tuple[str, int, int]]:
    """Where the nouns of a sentence stand."""
    nouns = [noun for noun in ("boat", "car", "sea") if noun in sentence]
    return [(noun, sentence.index(noun), sentence.index(noun) + len(noun)) for noun in nouns]


def test_rare_foci_can_be_left_out() -> None:
    metric = tiny("ds-focus", min_count=2)
    twice = Document(
        ["the boat boat car ."], foci=[[("boat", 4, 8), ("boat", 9, 13), ("car", 14, 17)]]
    )
    assert described(metric, twice, BOAT) == {
        "shared": {},
        "missed": {},
        "added": {"boat": 1},
    }
    assert metric.pairwise([BOAT], [CAR])[0, 0] == 0


# --- foci and tokens


def test_the_released_code_needs_no_spans() -> None:
    bare = Document(["the boat is in the sea ."], foci=[[("boat",), ("sea",)]])
    placed = Document(bare.sentences, foci=[[("boat", 4, 8), ("sea", 19, 22)]])
    metric = tiny("ds-focus", compat="reference")
    assert metric.pairwise([bare], [BOAT]).tobytes() == metric.pairwise([placed], [BOAT]).tobytes()


def test_capitals_and_accents_stay_under_compat(tmp_path: Path) -> None:
    shutil.copytree(TINY, tmp_path / "uncased")
    settings = json.loads((tmp_path / "uncased" / "tokenizer_config.json").read_text())
    (tmp_path / "uncased" / "tokenizer_config.json").write_text(
        json.dumps({**settings, "do_lower_case": True})
    )
    pair = (
        Document(["the café ."], foci=[[("café", 4, 8)]]),
        Document(["a café is ."], foci=[[("café", 2, 6)]]),
    )
    values = {
        (model, compat): tiny("ds-focus", model=model, compat=compat).score(pair[:1], pair[1:])[0]
        for model in (TINY, str(tmp_path / "uncased"))
        for compat in (None, "reference")
    }
    assert values[str(tmp_path / "uncased"), "reference"] == values[TINY, "reference"]
    assert values[str(tmp_path / "uncased"), None] != values[TINY, None]


def test_a_cache_knows_what_found_the_foci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_finder.py").write_text("def find(w): return w")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = {"nouns": "own_finder:find", "model": TINY}
    first, second = (load_metric("ds-focus", **settings).scorer.identity for _ in "ab")  # type: ignore[union-attr]
    assert first == second
    (tmp_path / "own_finder.py").write_text("def find(w): return w  # mended")
    assert load_metric("ds-focus", **settings).scorer.identity != first  # type: ignore[union-attr]
    plain = load_metric("ds-focus", model=TINY).scorer.identity  # type: ignore[union-attr]
    assert "hanta 1." in plain


def test_a_language_brings_its_finder() -> None:
    metric = tiny("ds-focus")
    assert metric.for_language("de-AT").nouns == "hanta:de"
    french = metric.for_language("fr")
    assert french.nouns == "none"
    assert french.score([BOAT], [BOAT]).tolist() == [0]
    with pytest.raises(InputError, match="a text without foci"):
        french.score(["le bateau"], ["le bateau"])


def test_long_texts_are_read_in_windows() -> None:
    tokenizer = tokenizer_of(Path(TINY))
    reader = TokenReader(tokenizer, 8)
    sentences = ["the boat is .", "", "the car car car car car car car car car .", "the sea"]
    tokens = reader.read(sentences)
    first = tokenizer.cls_token_id
    assert tokens.windows.sum() == len(tokens.ids)
    starts = np.concatenate([[0], tokens.windows.cumsum()[:-1]])
    assert (tokens.ids[starts] == first).all()
    assert tokens.sentence[starts].tolist() == [0] + [-1] * (len(starts) - 1)
    assert tokens.windows.max() <= 8
    own = np.delete(tokens.ids, starts)
    plain = [token for s in sentences for token in tokenizer(s, add_special_tokens=False).input_ids]
    assert own.tolist() == plain


def test_windows_do_not_lose_foci() -> None:
    metric = tiny("ds-focus", max_tokens=16, norm="l2")
    sentences = ["the boat is in the sea ."] * 40
    long = Document(sentences, foci=[[("boat", 4, 8), ("sea", 19, 22)]] * 40)
    added = described(metric, long, EMPTY)["added"]
    assert 32 < added["boat"] <= 40 + 1e-6  # 40 unit vectors that are much alike
    assert metric.pairwise([long], [long])[0, 0] == 0


@pytest.mark.parametrize("model", ["tiny-roberta", "tiny-xlmr", "tiny-bert"])
@given(text=st.text(st.sampled_from("ab é</s>[SEP]<s>İ \u2028的🐈"), min_size=1, max_size=30))
@BOUNDED
def test_spans_lie_in_the_sentence_and_special_tokens_are_none(model: str, text: str) -> None:
    reader = TokenReader(
        tokenizer_of(Path(__file__).parents[2] / "golden" / "docmetrics" / "models" / model), 64
    )
    low = lowered(text)
    assert len(low) == len(text)
    tokens = reader.read([low, "a b"])
    kept = tokens.ids != reader.first
    assert np.isin(tokens.ids[kept], reader.special).sum() == 0
    spans = tokens.spans[kept & (tokens.sentence == 0)]
    assert (spans[:, 0] >= 0).all()
    assert (spans[:, 1] <= len(text)).all()
    assert tokens.spans[tokens.sentence == 1].min() >= -1


def test_entities_of_the_encoder_are_shared_by_their_longest_member() -> None:
    metric = tiny("ds-focus", focus="entity", threshold=-1.0)
    both = Document(
        ["the boat and the boat and the car ."],
        foci=[[("boat", 4, 8), ("boat", 17, 21), ("car", 30, 33)]],
    )
    foci = described(metric, both, BOAT)
    assert list(foci["shared"]) == ["boat"]
    assert foci["added"] == {}


def test_a_finder_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bad_nouns.py").write_text(
        "def short(w): return []\ndef odd(w): return 3\ndef falls(w): raise OSError('x')"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("short", "odd", "falls"):
        with pytest.raises(MetricError, match=f"bad_nouns:{name}"):
            load_metric("cohesion", nouns=f"bad_nouns:{name}").score(["a boat"])
    with pytest.raises(ModelLoadError, match="spacy"):
        load_metric("cohesion", nouns="spacy:no_such_model").score(["a boat"])


@pytest.mark.parametrize(
    ("nouns", "text", "expected"),
    [
        (
            "hanta:en",
            "The players met Paul in Turin. They play.",
            [["player", "paul", "turin"], []],
        ),
        ("hanta:de", "Die Kinder sehen alte Häuser.", [["kind", "haus"]]),
        pytest.param(
            "hanta:nl",
            "De kinderen spelen in Amsterdam.",
            [["kinder", "amsterdam"]],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_hanta_finds_nouns(nouns: str, text: str, expected: list[list[str]]) -> None:
    pytest.importorskip("HanTa")
    metric: Any = load_metric("cohesion", nouns=nouns)
    read = FocusReader(metric).read(text)
    assert read.keys_by_sentence() == expected
    first = read.occurrences[0][0]
    word = text[first.start : first.end].lower()
    assert word.startswith(expected[0][0][:4])


def nouns_in_capitals(words: list[str]) -> list[str | None]:
    """A finder: words in capitals."""
    return [word if word.isupper() else None for word in words]


def test_a_function_itself_may_be_the_finder() -> None:
    metric: Any = load_metric("cohesion", nouns=nouns_in_capitals)
    assert metric.signature() == f'cohesion(nouns="{__name__}:nouns_in_capitals")'
    assert load_metric(metric.signature()) == metric
    assert metric.score(["A BOAT and a BOAT"])[0] == 0.5
    for odd in (lambda words: words, metric.score, 3):
        with pytest.raises(InputError, match="nouns"):
            load_metric("cohesion", nouns=odd)


def test_spacy_is_asked_for_tags_and_lemmas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the package: only what its documentation promises of Doc and of a pipeline is used."""
    spacy, tokens = ModuleType("spacy"), ModuleType("spacy.tokens")

    def tagged(words: list[str]) -> list[SimpleNamespace]:
        kinds = {"boats": ("NOUN", "boat"), "Turin": ("PROPN", "")}
        return [
            SimpleNamespace(text=w, pos_=kinds.get(w, ("X", w))[0], lemma_=kinds.get(w, ("", w))[1])
            for w in words
        ]

    class Pipeline:
        vocab: ClassVar[None] = None

        def __call__(self, words: list[str]) -> list[SimpleNamespace]:
            return tagged(words)

    vars(tokens)["Doc"] = lambda vocab, words: words
    vars(spacy)["load"] = lambda name: Pipeline()
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    monkeypatch.setitem(sys.modules, "spacy.tokens", tokens)
    metric: Any = load_metric("cohesion", nouns="spacy:made_up")
    nouns = FocusReader(metric).read("The boats of Turin.").occurrences[0]
    assert [noun.key for noun in nouns] == ["boat", "turin"]


def test_content_words_are_rarer_than_function_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the package: of its two functions only what its documentation promises."""
    zipf = {"loděmi": 3.2, "loď": 4.1, "a": 7.4, "se": 5.5, "praha": 5.49}
    wordfreq = ModuleType("wordfreq")
    vars(wordfreq)["available_languages"] = lambda: {"xa": "", "zh": ""}
    vars(wordfreq)["zipf_frequency"] = lambda word, language: zipf.get(word.lower(), 0.0)
    monkeypatch.setitem(sys.modules, "wordfreq", wordfreq)
    metric: Any = load_metric("cohesion", nouns="wordfreq:xa")
    nouns = FocusReader(metric).read("Praha se loděmi a Xyz-1 12 !").occurrences[0]
    assert [(noun.key, noun.start, noun.end) for noun in nouns] == [
        ("praha", 0, 5),
        ("loděmi", 9, 15),
        ("xyz-1", 18, 23),
    ]
    assert load_metric(metric.signature()) == metric
    for language in ("zh", ""):
        with pytest.raises(InputError, match="wordfreq:"):
            load_metric("cohesion", nouns=f"wordfreq:{language}").score(["a boat"])


@pytest.mark.slow
def test_wordfreq_knows_many_languages() -> None:
    wordfreq = pytest.importorskip("wordfreq")
    texts = {
        "fr": "Le chien de la ferme et les agneaux.",
        "cs": "Pes je na zahradě a jehňata také.",
        "ru": "Собака в саду и ягнята тоже.",
    }
    for language, text in texts.items():
        metric: Any = load_metric("cohesion", nouns=f"wordfreq:{language}")
        (keys,) = FocusReader(metric).read(text).keys_by_sentence()
        assert 2 <= len(keys) < len(text.split()) - 1, language
    wordfreq.get_frequency_dict.cache_clear()  # 200 MB


def test_very_long_words_do_not_hang() -> None:
    pytest.importorskip("HanTa")
    metric: Any = load_metric("cohesion")
    assert np.isfinite(metric.score(["ab" * 50_000, "a-" * 20_000 + " boat boat"])).all()


def test_whole_documents_are_encoded_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    metric: Any = load_metric("ds-focus", model=TINY, batch_tokens=1)
    encoder, sequences = metric.scorer.encoder, []
    plain = encoder.states

    def counted(ids: Any) -> Any:
        sequences.append(len(ids))
        return plain(ids)

    monkeypatch.setattr(encoder, "states", counted)
    texts = list(DOCUMENTS.values())
    matrices(metric, [metric.comparison(texts, texts, None, NO_CONTEXT)])
    assert sum(sequences) == len(texts)
