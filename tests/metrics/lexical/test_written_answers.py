r"""Answers as models write them: the table of cases, one rule per list, and texts that cost no more for their form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.choice_quality.answer_cases import CASES, wrong
from discorank import InputError, MBRDecoder, load_metric
from discorank.cli.main import main
from discorank.metrics.lexical.answers import KEYS, bare, letter_of, value_key
from discorank.metrics.lexical.vote import Vote
from discorank.metrics.lexical.written_answers import RULES, rule_of, written

KNOWN_WRONG = {
    "word problems": {
        "The answer is one half, or 1/2.",
        "The final answer is: 1.000,50 euros",
        "So there are 3 of 10 left, and that is what was asked.",
        "The answer is twelve.",
    },
    "mathematics": {r"\boxed{3\frac{1}{2}}", r"\boxed{2^{10}}"},
    "free questions": {"The capital of France is Paris."},
}


@pytest.mark.parametrize("kind", CASES)
def test_cases(kind: str) -> None:
    missed = {text for text, _, _ in wrong(kind)}
    assert missed == KNOWN_WRONG.get(kind, set())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("42 apples", "42"),
        ("$18.50 per day", "18.5"),
        ("1 000", "1,000"),
        ("1\u202f000", "1000"),
        ("(B) Paris", "b"),
        ("Yes, it is", "yes"),
        ("x = 5", "5"),
        ("**Paris**.", "paris"),
        ("x^2 + 1", "x^2+1"),
        (r"\text{Paris}", "Paris"),
    ],
)
def test_answers_that_agree(first: str, second: str) -> None:
    assert value_key(first) == value_key(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("50%", "50"),
        ("5 May 2024", "5"),
        ("14:10", "14"),
        ("3 hours 15 minutes", "3"),
        ("A cat", "A"),
        ("no one", "no"),
        ("-3", "3"),
    ],
)
def test_answers_that_do_not(first: str, second: str) -> None:
    assert value_key(first) != value_key(second)


@pytest.mark.parametrize(
    ("texts", "rule", "answers"),
    [
        (["So the answer is 42.", "I get 42", "It is 42 apples", "Final: 41"], "number", "42 41"),
        ([r"\boxed{1}", r"so \boxed{2}", r"\boxed{1} of 3", "in 1990"], "boxed", "1 2"),
        ([r"\boxed{1}", "Answer: 1", "the answer is 2", "in 1990 of 5"], "marked", "1 2"),
        (["Paris", "Paris, as all know", "paris.", "Rome"], "text", "Paris Rome"),
        (["B", "(B)", "Answer: B", "C"], "text", "B C"),
    ],
)
def test_a_list_is_read_by_one_rule(texts: list[str], rule: str, answers: str) -> None:
    (ranking,) = MBRDecoder("vote").decode([texts])
    row = ranking.to_dict()
    assert rule_of(texts) == row["answer_rule"] == rule
    assert [vote["answer"] for vote in row["votes"]] == answers.split()
    assert row["answer"] == ranking.answer == answers.split()[0]


def test_the_rule_of_a_list_stands_in_every_engine(tmp_path: Any) -> None:
    source = tmp_path / "in.jsonl"
    rows = [
        {"id": "a", "candidates": ["the answer is 42", "42 apples of 100", "I get 42.0", "41"]},
        {"id": "b", "candidates": [r"\boxed{7}", r"\boxed{8}", r"\boxed{7}", "8 8 8"]},
    ]
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    written_rows = []
    for jobs in ("1", "2"):
        out = tmp_path / f"{jobs}.jsonl"
        assert main(["decode", str(source), "-u", "vote", "--jobs", jobs, "-o", str(out)]) == 0
        written_rows.append(out.read_text())
    assert written_rows[0] == written_rows[1]
    assert [json.loads(line)["answer"] for line in written_rows[0].splitlines()] == ["42", "7"]


def test_votes_have_shares_counts_and_a_gap_between_answers() -> None:
    candidates = [
        {"text": "the answer is 5", "w": 1.0},
        {"text": "the answer is 5.0", "w": 1.0},
        {"text": "the answer is 6", "w": 3.0},
        {"text": "the answer is 7", "w": 0.0},
    ]
    record = {"id": "x", "candidates": candidates}
    (plain,) = MBRDecoder("vote").decode([record])
    (weighted,) = MBRDecoder("vote", weights="field:w").decode([record])
    assert plain.to_dict()["votes"] == [
        {"answer": "5", "share": 0.5, "count": 2},
        {"answer": "6", "share": 0.25, "count": 1},
        {"answer": "7", "share": 0.25, "count": 1},
    ]
    assert (plain.answer, plain.gap) == ("5", 0.25)
    assert weighted.answer == "6"
    assert weighted.gap == pytest.approx(0.2)
    (sure,) = MBRDecoder("vote").decode([["it is 3", "3", "3"]])
    assert (sure.gap, sure.flags) == (1.0, ())


def test_what_no_two_agree_on_is_flagged(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (apart,) = MBRDecoder("vote").decode([["1", "2", "3"]])
    (alone,) = MBRDecoder("vote").decode([["1"]])
    (copies,) = MBRDecoder("vote").decode([["1", "2", "2"]])
    assert (apart.flags, apart.gap) == (("no-agreement",), 0)
    assert alone.flags == copies.flags == ()
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": "a", "candidates": ["1", "2"]}\n')
    assert main(["decode", str(source), "-u", "vote", "-o", str(tmp_path / "out.jsonl")]) == 0
    assert "1 no-agreement" in capsys.readouterr().err


def test_a_key_that_a_vote_writes_is_refused() -> None:
    record = {"id": "x", "candidates": ["1", "1"], "answer": "1"}
    with pytest.raises(InputError, match=r"answer: is a key that a vote writes.*another name"):
        list(MBRDecoder("vote").decode([record]))
    assert next(MBRDecoder("chrf").decode([record])).to_dict()["answer"] == "1"


def test_a_sum_shows_answers_and_keeps_its_own_gap() -> None:
    texts = ["the answer is 5", "it is 5", "the answer is 6"]
    (ranking,) = MBRDecoder("vote + 0.001*chrf").decode([texts])
    assert ranking.answer == "5"
    second = ranking.gap
    assert second is not None
    assert second < 0.1
    assert MBRDecoder("chrf").decode([texts]).__next__().votes is None


def test_answers_alone_are_lines(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.jsonl"
    rows = [
        {"id": "a", "candidates": ["so\nthe answer is 5", "first 2,\nthen 3: 5"]},
        {"id": "b", "candidates": ["words that say nothing of what was asked, at all, to anybody"]},
    ]
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    out = tmp_path / "out.txt"
    arguments = ["decode", str(source), "--format", "answers", "-o", str(out)]
    assert main([*arguments, "-u", "vote"]) == 0
    assert out.read_text() == "5\n\n"
    other = tmp_path / "other.txt"
    assert main([*arguments[:-1], str(other), "-u", "chrf"]) == 2
    assert "--format: the utility compares no answers" in capsys.readouterr().err
    assert not other.exists()


def test_explain_and_report_show_answers_and_votes(
    tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "in.jsonl"
    texts = ["the answer is 5", "the answer is 5", "the answer is 6", "the answer is 7"]
    source.write_text(json.dumps({"id": "a", "candidates": texts}) + "\n")
    assert main(["explain", str(source), "-u", "vote"]) == 0
    said = capsys.readouterr().out
    assert "answer   5, of the votes by marked: 5 0.50 (x2), 6 0.25 (x1), 7 0.25 (x1)" in said
    assert "0.25 ahead of the next answer" in said
    assert main(["decode", str(source), "-u", "vote", "-o", "out.jsonl"]) == 0
    assert main(["report", "out.jsonl", "-o", "page.html"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert '"answer":"5","votes":[{"answer":"5","share":0.5,"count":2}' in page


@given(st.text(max_size=80) | st.text("0123456789.,()ABC$\\{}boxed answer is:#\n", max_size=80))
def test_any_text_is_read(text: str) -> None:
    for rule in RULES:
        answer = written(rule, text)
        assert answer is None or (answer.strip() and value_key(answer)[0] in "#'")
    assert bare(bare(text)) == bare(text)


@pytest.mark.parametrize(
    "text",
    [
        "final " * 10_000,
        "<answer>" * 10_000,
        "answer: " * 10_000,
        "answer" + " " * 100_000,
        "1," * 50_000,
        "\\frac{1}{" * 10_000,
        "(A" * 30_000,
        "\\text{" * 10_000,
        "(" * 50_000 + ")" * 50_000,
        r"\boxed{" + "$" * 100_000 + "}",
    ],
)
def test_no_form_of_a_text_makes_it_costly(text: str) -> None:
    """A search that is not bounded would not end before the test is stopped."""
    assert len(written("text", text) or "") <= 1_000


def test_settings() -> None:
    assert Vote().agreement == "value"
    assert Vote(answer="boxed").agreement == "exact"
    assert Vote(agree="exact").in_list(["the answer is 5"]) == Vote(answer="marked", agree="exact")
    assert Vote(answer="text").variants == ()
    assert load_metric("vote").signature() == "vote"
    assert set(KEYS) == {"exact", "casefold", "number", "value"}
    assert letter_of("(J) last") == "J"
