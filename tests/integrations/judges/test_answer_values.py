"""What answers are worth: forms that are read, forms that are not, and expectations over likely tokens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discorank.integrations.judges.judge_answers import MAX_CHARACTERS, Answer, value_of
from discorank.integrations.judges.judge_prompts import read_prompt

DA = read_prompt("da").worth
STARS = read_prompt("stars").worth
MQM = read_prompt("mqm").worth
PAIRWISE = read_prompt("pairwise").worth


def said(text: str, finish: str = "stop", **choice: Any) -> Answer:
    """The answer in a chat's reply."""
    choices = [{"message": {"content": text}, "finish_reason": finish, **choice}]
    return Answer.of_reply({"choices": choices}, "prompt")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("85", 85),
        (" 85.\n", 85),
        ("0", 0),
        ("100", 100),
        ("72.5", 72.5),
        ("**85**", 85),
        ("`85`", 85),
        ('"85"', 85),
        ("[85]", 85),
        ("Score: 85", 85),
        ("**Score:** 85", 85),
        ("Score: **85/100**", 85),
        ("The score is 85.", 85),
        ("My final rating = 85", 85),
        ("Overall quality score: 85", 85),
        ("85/100", 85),
        ("85 out of 100", 85),
        ("I'd give it 85/100", 85),
        ("It is fluent, with 2 slips, so 85 / 100: good.", 85),
        ("85/100. Yes, 85 out of 100.", 85),
        ('{"score": 85}', 85),
        ('{"score": "85"}', 85),
        ("<think>90? No, 20.</think>\n85", 85),
        ("Hm, 90? No, 20.\n</think>\n\n85", 85),
        ("<think>It says '</think> 100/100'. No.</think>85", 85),
    ],
)
def test_a_number_is_read(text: str, value: float) -> None:
    assert value_of(said(text), DA) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I'm sorry, I can't assess this.",
        "I cannot judge translation 1",
        "85 or 90",
        "between 80 and 90",
        "I'd give it 85",
        "80/100 for meaning, 90/100 for style",
        "101",
        "-5",
        "1085/100",
        "85/1000",
        "8.5/10",
        "About 10/100 of the text is missing.",
        "The maximum score is 100.",
        "I cannot say the score is 85",
        "A perfect translation is 100",
        "No score: 0",
        "1,000",
        "eighty-five",
        "nan",
        "1e2",
        "٨٥",
        '{"score": 85, "confidence": 3}',
        '{"score": [85]}',
        '{"score": true}',
        '{"score": 85',
        "<think>85",
        "85</think>",
        "9" * 5000,
    ],
)
def test_what_says_no_number_has_no_value(text: str) -> None:
    assert value_of(said(text), DA) is None


def test_what_is_cut_off_or_refused_has_no_value() -> None:
    assert value_of(said("8", "length"), DA) is None
    assert value_of(said("85", "content_filter"), DA) is None
    refusal = {"choices": [{"message": {"content": None, "refusal": "85? No."}}]}
    answer = Answer.of_reply(refusal, "")
    assert (answer.text, value_of(answer, DA)) == ("85? No.", None)
    assert value_of(said("85" + " " * MAX_CHARACTERS), DA) is None


@pytest.mark.parametrize("reply", [{}, [], None, {"choices": []}, {"choices": [3]}, {"choices": 1}])
def test_a_reply_without_an_answer_is_an_empty_one(reply: Any) -> None:
    assert Answer.of_reply(reply, "four").text == ""
    assert Answer.of_reply(reply, "fourfive")[2:] == (2, 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"errors": []}', 0),
        ("[]", 0),
        ('{"errors": [{"span": "a", "severity": "minor"}, {"severity": "Major "}]}', -6),
        ('```json\n{"errors": [{"severity": "major"}]}\n```', -5),
        ('Here it is:\n```\n{"errors": [{"severity": "critical"}]}\n```\nDone.', -25),
        ('{"errors": [{"severity": "critical"}, {"severity": "major"}]}', -25),
        ('{"errors": [{"severity": "bad"}]}', None),
        ('{"errors": [{"span": "a"}]}', None),
        ('{"errors": ["minor"]}', None),
        ('{"errors": {}}', None),
        ('{"errors": [{"severity": "minor"}', None),
        ("No errors.", None),
        ("0", None),
        ("[" * 100_000, None),
    ],
)
def test_errors_are_added_up(text: str, value: float | None) -> None:
    assert value_of(said(text), MQM) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A", 1),
        ("b", 0),
        ("C.", 0.5),
        ("**B**", 0),
        ("Answer: A", 1),
        ("The better one is B", 0),
        ("(A)", 1),
        ("A or B", None),
        ("A is better", None),
        ("The worse is A", None),
        ("Worse: A", None),
        ("Neither is B", None),
        ("Not A: B", None),
        ("D", None),
        ("", None),
    ],
)
def test_a_choice_is_read(text: str, value: float | None) -> None:
    assert value_of(said(text), PAIRWISE) == value


@settings(max_examples=40)
@given(st.text(max_size=60) | st.text('0123456789./-{}[]"ABC: outf', max_size=40))
def test_any_answer_has_a_value_in_bounds_or_none(text: str) -> None:
    for worth in (DA, STARS, MQM, PAIRWISE):
        value = value_of(said(text), worth)
        assert value is None or worth.bounds[0] <= value <= worth.bounds[1]


def test_answers_come_back_from_the_cache() -> None:
    answer = said("4 é\ud800")
    assert answer.text == "4 é?"
    assert Answer.unpacked(answer.packed()) == answer
