"""pass@k and maj@k against every order in which k candidates can be drawn."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discorank import InputError, MBRDecoder
from discorank.cli.main import main
from discorank.metrics.lexical.vote import Vote
from discorank.rerank.lists import Candidate, CandidateList
from discorank.rerank.selection.answer_accuracy import (
    MAX_DRAWN,
    Answers,
    answers_of,
    majority_at,
    pass_at,
)

METRIC = Vote(answer="last-line", agree="value")
drawn_answers = st.lists(st.sampled_from(["1", "1.0", "2", "3", "4", ""]), min_size=1, max_size=6)


def of(texts: Sequence[str], right: Sequence[str]) -> CandidateList:
    return CandidateList("x", tuple(map(Candidate, texts)), references=tuple(right))


def key_of(text: str) -> str | None:
    """A key of the answer of a text."""
    (answer,) = METRIC.answers_of([text]) or (None,)
    return answer and answer.key


def majority(texts: Sequence[str]) -> str | None:
    """The answer of most texts; of several the first."""
    keys = list(map(key_of, texts))
    votes = Counter(key for key in keys if key is not None)
    return max(votes, key=lambda key: (votes[key], -keys.index(key)), default=None)


@given(texts=drawn_answers, right=st.sampled_from([("1",), ("2", "3"), ("9",)]), data=st.data())
@settings(deadline=None, database=None, max_examples=20)
def test_both_are_the_share_of_all_orders(
    texts: list[str], right: tuple[str, ...], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(texts)))
    answers = answers_of(of(texts, right), METRIC)
    right_keys = set(map(key_of, right))
    orders = list(permutations(texts, k))
    passed = sum(any(key_of(t) in right_keys for t in order) for order in orders)
    won = sum(majority(order) in right_keys for order in orders)
    assert pass_at(answers, k) == pytest.approx(passed / len(orders))
    assert majority_at(answers, k) == pytest.approx(won / len(orders))


def test_of_all_candidates_the_majority_is_what_voting_chooses() -> None:
    texts = ["1", "2", "2.0", "1", "3", "1.0", ""]
    (ranking,) = MBRDecoder(METRIC).decode([{"id": "x", "candidates": texts}])
    for right in ("1", "2", "3"):
        answers = answers_of(of(texts, [right]), METRIC)
        assert majority_at(answers, len(texts)) == pytest.approx(float(ranking.text == right))


@given(right=st.integers(0, 300), wrong=st.lists(st.integers(1, 120), max_size=4), data=st.data())
@settings(deadline=None, database=None, max_examples=30)
def test_large_lists_are_within_bounds(right: int, wrong: list[int], data: st.DataObject) -> None:
    answers = Answers((right,) if right else (), tuple(wrong), 1)
    k = data.draw(st.integers(1, min(60, answers.candidates)))
    n = answers.candidates
    exact = 1 - comb(n - right, k) / comb(n, k)
    assert pass_at(answers, k) == pytest.approx(exact)
    assert -1e-12 <= majority_at(answers, k) <= exact + 1e-9
    # every candidate alone is its own majority
    assert majority_at(answers, 1) == pytest.approx(right / n)


def test_the_chances_of_all_answers_sum_to_one() -> None:
    sizes = (7, 5, 5, 3, 1, 1)
    for k in (1, 2, 5, 9, 16, 22):
        chances = [
            majority_at(Answers((size,), (*sizes[:i], *sizes[i + 1 :])), k)
            for i, size in enumerate(sizes)
        ]
        assert sum(chances) == pytest.approx(1)


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(InputError, match="no reference has an answer"):
        answers_of(of(["1"], []), METRIC)
    with pytest.raises(InputError, match="no reference has an answer"):
        answers_of(of(["1"], [" "]), METRIC)
    with pytest.raises(InputError, match="2 candidates, fewer than 3"):
        pass_at(Answers((1,), (1,)), 3)
    for k in (0, MAX_DRAWN + 1):
        with pytest.raises(InputError, match=f"found {k}, expected 1 to 256"):
            majority_at(Answers((500,), ()), k)


@pytest.fixture
def lists(tmp_path: Any) -> Any:
    rows: list[dict[str, Any]] = [
        {"id": "a", "candidates": ["4", "5", "4.0", "none"], "references": ["4"]},
        {"id": "b", "candidates": ["7", "8", "9", "8"], "references": ["7"]},
    ]
    path = tmp_path / "lists.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_the_command_prints_both(
    lists: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    spec = 'vote(answer="pattern",pattern="[0-9.]+",agree="value")'
    command = ["pass-at", str(lists), "-m", spec, "--at", "1", "4", "--format", "json"]
    assert main([*command, "-o", str(out)]) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    found = {row["k"]: row for row in rows}
    assert found[1]["pass"] == pytest.approx((2 / 4 + 1 / 4) / 2)
    assert found[1]["majority"] == pytest.approx(found[1]["pass"])
    assert (found[4]["pass"], found[4]["majority"]) == (1, 0.5)
    assert "2 lists" in printed.err
    assert "1 candidates without an answer" in printed.err
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert written[0]["id"] == "a"
    scores = written[1].pop("scores")[spec]
    assert written[1] == {
        "id": "b",
        "candidates": 4,
        "right": 1,
        "without_answer": 0,
        "answers": 3,
    }
    assert scores["1"] == pytest.approx({"pass": 0.25, "majority": 0.25})
    assert scores["4"] == pytest.approx({"pass": 1, "majority": 0})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "chrf", "--at", "1"], "has no answers"),
        (["-m", "vote", "--at", "5"], r"list 'a': candidates: 4 candidates, fewer than 5"),
        (["-m", "vote", "--at", "0"], "expected 1 to 256"),
    ],
)
def test_the_command_refuses(
    lists: Any, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pass-at", str(lists), *arguments]) == 2
    assert message in capsys.readouterr().err
