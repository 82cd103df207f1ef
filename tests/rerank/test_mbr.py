"""Minimum Bayes risk decoding, against plain double loops over sacrebleu and toy utilities."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, isclose
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

import discorank
from discorank import (
    Candidate,
    CandidateList,
    Choice,
    Document,
    InputError,
    MBRDecoder,
    MetricError,
    Ranking,
    load_metric,
)
from discorank.rerank import scheduler
from discorank.rerank.engines.local import LocalEngine

BOUNDED = bounded(max_examples=15, deadline=None, database=None, print_blob=True)

WORDS = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "mats."]), max_size=6).map(
    " ".join
)
candidates = st.lists(WORDS, min_size=1, max_size=7)

chrf, bleu, ter = CHRF(), BLEU(effective_order=True), TER()
PEERS = {
    "chrf": lambda h, r: chrf.sentence_score(h, [r]).score,
    "bleu": lambda h, r: bleu.sentence_score(h, [r]).score,
    "ter": lambda h, r: -ter.sentence_score(h, [r]).score,
    "chrf - 0.5*bleu": lambda h, r: (
        chrf.sentence_score(h, [r]).score - 0.5 * bleu.sentence_score(h, [r]).score
    ),
    "2*chrf + ter": lambda h, r: (
        2 * chrf.sentence_score(h, [r]).score - ter.sentence_score(h, [r]).score
    ),
}


def plain(
    texts: Sequence[str],
    references: Sequence[str],
    weights: Sequence[float],
    utility: Any,
    leave_out_self: bool = False,
) -> list[float | None]:
    """Expected utility of every candidate, by two loops; None where nothing is left."""
    values: list[float | None] = []
    for i, h in enumerate(texts):
        left = [w * (not (leave_out_self and i == j)) for j, w in enumerate(weights)]
        total = sum(left)
        values.append(
            sum(w * utility(h, r) for w, r in zip(left, references, strict=True)) / total
            if total
            else None
        )
    return values


def best(values: Sequence[float | None], texts: Sequence[str]) -> int:
    """The lowest index within 1e-9 (relative) of the best; of an empty text only where all are empty."""
    choosable = [i for i, text in enumerate(texts) if text.strip()] or list(range(len(texts)))
    numbers = [value for i in choosable if (value := values[i]) is not None]
    if not numbers:
        return choosable[0]
    limit = max(numbers) - 1e-9 * abs(max(numbers))
    return next(i for i in choosable if (value := values[i]) is not None and value >= limit)


def decoded(
    texts: Sequence[Any], utility: Any = "chrf", more: Any = None, **settings: Any
) -> Ranking:
    decoder = MBRDecoder(utility, **{"nbest": None, **settings})
    return next(decoder.decode([{"id": "x", "candidates": list(texts), **(more or {})}]))


def same_choice(found: Ranking, texts: Sequence[str], values: Sequence[float | None]) -> None:
    """The pick of a plain computation, or a tie that rounding alone decides."""
    at = best(values, texts)
    pick, top = values[found.index], values[at]
    assert found.index == at or (
        pick is not None and top is not None and isclose(pick, top, rel_tol=3e-9)
    )
    assert found.text == texts[found.index]
    if pick is None:
        assert found.utility is None
    else:
        assert found.utility == pytest.approx(pick, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("utility", PEERS)
@given(texts=candidates)
@BOUNDED
def test_picks_equal_a_double_loop(utility: str, texts: list[str]) -> None:
    values = plain(texts, texts, [1] * len(texts), PEERS[utility])
    found = decoded(texts, utility)
    same_choice(found, texts, values)
    for place in found.ranking:
        assert place.utility == pytest.approx(values[place.index], rel=1e-9, abs=1e-9)
        assert isinstance(place.text, str)
        assert place.index == texts.index(place.text)
        assert place.count == texts.count(place.text)
    assert len(found.ranking) == len(set(texts))


@pytest.mark.parametrize("utility", ["chrf", "2*chrf + ter"])
@given(texts=candidates, references=candidates)
@BOUNDED
def test_separate_pseudo_references(utility: str, texts: list[str], references: list[str]) -> None:
    values = plain(texts, references, [1] * len(references), PEERS[utility])
    # only candidates that are their own pseudo-references have a self pair
    for self_pair in (
        True,
        False,
    ):
        found = decoded(texts, utility, {"pseudo_references": references}, self_pair=self_pair)
        same_choice(found, texts, values)


@given(texts=candidates)
@BOUNDED
def test_without_the_self_pair(texts: list[str]) -> None:
    values = plain(texts, texts, [1] * len(texts), PEERS["chrf"], leave_out_self=True)
    found = decoded(texts, self_pair=False)
    same_choice(found, texts, values)
    for i, text in enumerate(texts):  # copies leave one copy out each, and score alike
        first = values[texts.index(text)]
        assert values[i] == (None if first is None else pytest.approx(first, rel=1e-12))


def test_without_the_self_pair_a_list_of_one_is_not_valued() -> None:
    found = decoded(["a b"], self_pair=False)
    assert (found.index, found.utility, found.gap) == (0, None, None)
    found = decoded(["a b", "a b"], self_pair=False)
    assert (found.index, found.utility, found.ranking[0].count) == (0, 100, 2)
    assert decoded(["a b"]).utility == 100


LOGPROBS = st.sampled_from([-1.0, -2.0, -2.5, -30.0])


@given(
    rows=st.lists(st.tuples(WORDS, LOGPROBS), min_size=1, max_size=7),
    temperature=st.sampled_from([0.5, 1.0, 4.0]),
)
@BOUNDED
def test_logprob_weights(rows: list[tuple[str, float]], temperature: float) -> None:
    texts = [text for text, _ in rows]
    weights = [
        exp(p / temperature) if (t, p) not in rows[:i] else 0.0 for i, (t, p) in enumerate(rows)
    ]
    values = plain(texts, texts, weights, PEERS["chrf"])
    made = [{"text": text, "logprob": p} for text, p in rows]
    same_choice(decoded(made, weights="logprob", temperature=temperature), texts, values)
    more = {"pseudo_references": made}
    same_choice(
        decoded(texts, more=more, weights="logprob", temperature=temperature), texts, values
    )


def test_logprob_weights_without_the_self_pair() -> None:
    """u is how many letters are shared: a is left with b and c alone."""
    made = [{"text": t, "logprob": p} for t, p in [("ab", -1.0), ("bc", -2.0), ("c", -3.0)]]
    found = decoded(made, lambda h, r: len(set(h) & set(r)), weights="logprob", self_pair=False)
    utilities = {place.text: place.utility for place in found.ranking}
    a, b, c = exp(-1), exp(-2), exp(-3)
    assert utilities == pytest.approx(
        {"ab": b / (b + c), "bc": (a + c) / (a + c), "c": b / (a + b)}
    )
    assert found.text == "bc"


@given(rows=st.lists(st.tuples(WORDS, st.integers(1, 4)), min_size=1, max_size=6))
@example(rows=[("the cat", 1), ("the cat", 2), ("a cat", 3), ("mat", 4)])
@BOUNDED
def test_without_the_self_pair_the_first_copy_is_left_out(rows: list[tuple[str, int]]) -> None:
    """The weight of the copy that a place names, by position."""
    texts, weights = [text for text, _ in rows], [weight for _, weight in rows]
    values = plain(texts, texts, weights, PEERS["chrf"], leave_out_self=True)
    found = decoded([{"text": t, "w": w} for t, w in rows], weights="field:w", self_pair=False)
    for place in found.ranking:
        value = values[place.index]
        assert place.index == texts.index(str(place.text))
        assert place.utility == (
            None if value is None else pytest.approx(value, rel=1e-9, abs=1e-9)
        )


def test_oracle() -> None:
    texts, references = ["the cat", "a cat sat", "dogs"], ["a cat sat", "dogs"]
    values = plain(texts, references, [1, 1], PEERS["chrf"])
    found = decoded(
        texts, more={"references": references, "pseudo_references": ["the cat"]}, oracle=True
    )
    same_choice(found, texts, values)
    twice = decoded(texts, more={"references": [*references, "dogs"]}, oracle=True)  # counts twice
    same_choice(twice, texts, plain(texts, references, [1, 2], PEERS["chrf"]))
    with pytest.raises(InputError, match="list 'x': references: no references"):
        decoded(texts, oracle=True)
    without = decoded(texts, more={"references": ["zzz"]})
    assert without.utility == decoded(texts).utility  # references never decode


@given(
    texts=st.lists(WORDS, min_size=1, max_size=8), top_k=st.integers(1, 4), self_pair=st.booleans()
)
@BOUNDED
def test_shortlist_equals_two_stages(texts: list[str], top_k: int, self_pair: bool) -> None:
    def first(h: str, r: str) -> float:  # whole numbers, so that no tie hangs on rounding
        return len(set(h) & set(r)) - len(h)

    distinct = list(dict.fromkeys(texts))
    found = decoded(texts, "chrf", shortlist=first, top_k=top_k, self_pair=self_pair)
    flags = tuple(flag for flag in found.flags if flag != "empty")
    if len(distinct) <= top_k:
        assert flags == ()
        assert found.ranking == decoded(texts, self_pair=self_pair).ranking
        return
    values = plain(texts, texts, [1] * len(texts), first, not self_pair)
    order = sorted(
        distinct,
        key=lambda t: (not t, -round(values[texts.index(t)] or 0, 9), distinct.index(t)),
    )
    kept = [text for text in distinct if text in order[:top_k]]
    left = [text for text in texts if text in kept]
    assert flags == ("shortlisted",)
    second = plain(left, left, [1] * len(left), PEERS["chrf"], not self_pair)
    if all(value is None for value in second):  # see the test below
        return
    assert found.text in kept
    by_text = {place.text: place.utility for place in found.ranking}
    for text, value in zip(left, second, strict=True):
        assert by_text[text] == (
            None if value is None else pytest.approx(value, rel=1e-9, abs=1e-9)
        )
    assert set(by_text) == set(kept)  # what the first stage drops has no place
    pick = second[left.index(str(found.text))]
    at = best(second, left)
    assert left[at] == found.text or isclose(pick or 0, second[at] or 0, rel_tol=3e-9)


def test_distances_are_negated() -> None:
    found = decoded(["the cat sat", "the cat sat", "a dog"], "ter")
    assert found.text == "the cat sat"
    assert found.utility == pytest.approx(-TER().sentence_score("the cat sat", ["a dog"]).score / 3)


def test_keep_matrix() -> None:
    texts = ["the cat", "a mat", "the cat", "cat"]
    distinct = ["the cat", "a mat", "cat"]
    for utility in ("chrf", "ter", "chrf - 0.5*bleu"):
        found = decoded(texts, utility, keep_matrix=True)
        assert found.matrix is not None
        assert found.matrix == pytest.approx(load_metric(utility).pairwise(distinct, distinct))
        assert found.ranking == decoded(texts, utility).ranking
    found = decoded(texts, more={"pseudo_references": ["a", "cat", "a"]}, keep_matrix=True)
    assert found.matrix is not None
    assert found.matrix == pytest.approx(load_metric("chrf").pairwise(distinct, ["a", "cat"]))
    assert decoded(texts).matrix is None


def shared(h: str, r: str) -> float:
    if "!" in h:
        raise ZeroDivisionError("a bang")
    return len(set(h) & set(r))


LISTS = [
    {"id": "p", "candidates": ["ab", "b"]},
    {"id": "q", "candidates": ["a!", "b"]},
    {"id": "r", "candidates": ["cd", "d"]},
]


def test_a_function_is_a_utility() -> None:
    found = decoded(["b", "ab", "abc"], shared)
    assert (found.text, found.utility) == ("abc", 2)
    assert MBRDecoder(shared).identity["utility"] == f"{__name__}:shared"


def test_a_function_that_raises_on_one_list() -> None:
    found = MBRDecoder(shared).decode(LISTS)
    assert next(found).text == "ab"
    with pytest.raises(
        MetricError, match=f"list 'q': {__name__}:shared: ZeroDivisionError: a bang"
    ):
        next(found)
    lists = [
        CandidateList(str(row["id"]), tuple(map(Candidate, row["candidates"]))) for row in LISTS
    ]
    records = ((record.id, record) for record in lists)
    outcomes = dict(MBRDecoder(shared).outcomes(records, LocalEngine()))
    assert [type(outcomes[name]) for name in "pqr"] == [Ranking, MetricError, Ranking]
    assert isinstance(outcomes["r"], Ranking)
    assert outcomes["r"].text == "cd"


def test_errors_name_the_list() -> None:
    decode = MBRDecoder("chrf").decode
    cases: list[tuple[Any, str]] = [
        (
            {"id": 3.5, "candidates": ["a"]},
            r"list number 2: id: found a number \(3.5\), expected a text or a whole number",
        ),
        ({"id": "y", "candidates": []}, "list 'y': candidates: no candidates"),
        ({"id": "y", "candidates": ["a", 3]}, r"list 'y': candidates\[1\]: found a number"),
        ({"id": "y", "candidates": [{"txt": "a"}]}, r"list 'y': candidates\[0\]: no text"),
        (
            {"id": "y", "candidates": ["a"], "utility": 3},
            "list 'y': utility: is a key that decoding writes",
        ),
        ("ab", "list number 2: candidates: found 'ab'. Give a list of texts"),
        (
            {"id": "y", "candidates": [{"text": "a", "logprob": "x"}]},
            r"list 'y': candidates\[0\].logprob",
        ),
    ]
    for bad, message in cases:
        found = decode([{"id": "x", "candidates": ["a"]}, bad])
        assert next(found).id == "x"
        with pytest.raises(InputError, match=message):
            next(found)


@pytest.mark.parametrize("made", [("x", ("a", "b")), ("x", ())], ids=["strings", "none"])
def test_a_candidate_list_made_by_hand_is_checked(made: Any) -> None:
    with pytest.raises(InputError, match="candidates"):
        next(MBRDecoder("chrf").decode([CandidateList(*made)]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"utility": "chfr"}, "Did you mean 'chrf'"),
        (
            {"utility": "chrf", "weights": "unifrm"},
            r'weights: found \'unifrm\'. "uniform", "logprob", "mean-logprob", "certainty"',
        ),
        ({"utility": "chrf", "weights": "field:"}, "weights: found 'field:'"),
        ({"utility": "chrf", "temperature": 0.0}, "temperature = 0.0"),
        ({"utility": "chrf", "nbest": 0}, "nbest = 0"),
        ({"utility": "chrf", "top_k": 0}, "top_k = 0"),
        ({"utility": "chrf", "strategy": "greedy"}, "strategy = 'greedy'"),
        (
            {"utility": "chrf", "selfpair": False},
            "unknown setting 'selfpair'. Did you mean 'self_pair'",
        ),
        ({"utility": 3}, "found 3, expected a metric"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MBRDecoder(**settings)


def test_a_decoder_is_a_value() -> None:
    decoder = MBRDecoder("chrf", nbest=3)
    assert decoder == MBRDecoder(load_metric("chrf"), nbest=3)
    assert decoder == MBRDecoder("chrf", choice=Choice(nbest=3))
    assert decoder == MBRDecoder("chrf").with_settings(nbest=3) == replace(decoder)
    assert hash(pickle.loads(pickle.dumps(decoder))) == hash(decoder)
    assert decoder.identity == {
        "decoder": "mbr",
        "utility": "chrf",
        "weights": "uniform",
        "temperature": 1.0,
        "self_pair": True,
        "nbest": 3,
        "strategy": "independent",
        "shortlist": None,
        "oracle": False,
    }
    assert MBRDecoder("chrf", shortlist="bleu", top_k=4).identity["shortlist"] == "bleu, top 4"


def test_decode_one_list() -> None:
    found = discorank.decode(["a cat sat", "the cat sat", "a dog", "the cat sat"], utility="chrf")
    assert found.text == "the cat sat"
    assert found.index == 1
    assert [place.count for place in found.ranking] == [2, 1, 1]
    assert len(found.candidates) == 4
    assert found.utility == found.ranking[0].utility
    found = discorank.decode(["a", "b"], utility="chrf", pseudo_references=["b"], nbest=1)
    assert (found.text, len(found.ranking)) == ("b", 1)
    weighted = discorank.decode(
        [Candidate("a", -9.0), {"text": "b", "logprob": -1}], utility="chrf", weights="logprob"
    )
    assert weighted.text == "b"
    found = discorank.decode(["a", "b"], utility="chrf", references=["b"], oracle=True)
    assert found.text == "b"
    documents = [
        Document(["a cat", "sat"]),
        Document(["the cat", "sat"]),
        Document(["the cat", "sat"]),
    ]
    assert discorank.decode(documents, utility="chrf").text == documents[1]


def test_json_arrays_are_documents() -> None:
    found = decoded([["a cat", "sat"], ["the cat", "sat"], ["the cat", "sat"]])
    assert found.text == Document(["the cat", "sat"])
    assert found.flags == ()
    metric = load_metric("chrf")
    u = [metric.pairwise(side, side) for side in (["a cat", "the cat", "the cat"], ["sat"] * 3)]
    assert found.utility == pytest.approx(((u[0] + u[1]) / 2).mean(axis=1).max())


def test_documents_of_unequal_length_are_joined_and_flagged() -> None:
    found = decoded([["a cat", "sat"], ["the cat sat"], ["the cat", "sat"]])
    assert found.flags == ("joined",)
    assert found.utility == decoded(["a cat sat", "the cat sat", "the cat sat"]).utility
    assert len(found.ranking) == 3


def endless(read: list[int]) -> Iterator[dict[str, Any]]:
    for i in range(1_000_000):
        read[0] += 1
        yield {"id": str(i), "candidates": ["a cat", f"cat {i % 7}", "a"]}


def test_a_million_lists_are_read_as_they_are_needed() -> None:
    read = [0]
    found = MBRDecoder("chrf").decode(endless(read))
    assert read == [0]
    for i in range(100):
        assert next(found).id == str(i)
    assert read[0] <= scheduler.WINDOW_RECORDS + 100


@given(lists=st.lists(candidates, min_size=1, max_size=6), data=st.data())
@BOUNDED
def test_lists_together_are_as_alone(lists: list[list[str]], data: st.DataObject) -> None:
    """Byte for byte, whichever lists are in flight."""
    utility = data.draw(st.sampled_from(["chrf", "bleu", "ter", "chrf++ - 0.25*bleu"]))
    decoder = MBRDecoder(utility, nbest=None, self_pair=data.draw(st.booleans()))
    records = [{"id": str(i), "candidates": texts} for i, texts in enumerate(lists)]
    alone = [(found.ranking, found.gap) for record in records for found in decoder.decode([record])]
    order = data.draw(st.permutations(range(len(lists))))
    together = [(found.ranking, found.gap) for found in decoder.decode([records[i] for i in order])]
    assert together == [alone[i] for i in order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "WINDOW_RECORDS", 2)
        assert [(found.ranking, found.gap) for found in decoder.decode(records)] == alone


def test_numbers_of_a_small_case_by_hand() -> None:
    """u(h, r) = shared letters; abc: 3 + 2 + 1, ab: 2 + 2 + 1, a: 1 + 1 + 1."""
    found = decoded(["a", "ab", "abc"], shared)
    assert [(place.index, place.utility) for place in found.ranking] == [
        (2, 2),
        (1, pytest.approx(5 / 3)),
        (0, 1),
    ]
    assert found.gap == pytest.approx(1 / 3)
    assert np.isfinite(
        [place.utility for place in found.ranking if place.utility is not None]
    ).all()


def test_a_list_too_large_for_the_memory_costs_only_itself() -> None:
    def hungry(hypothesis: str, reference: str) -> float:
        return float(np.zeros(1 << 60)[0]) if "huge" in (hypothesis, reference) else 1.0

    lists = [CandidateList(str(i), (Candidate(text),)) for i, text in enumerate(["a", "huge", "b"])]
    found = [o for _, o in MBRDecoder(hungry).outcomes(enumerate(lists), LocalEngine())]
    assert [isinstance(outcome, MetricError) for outcome in found] == [False, True, False]
