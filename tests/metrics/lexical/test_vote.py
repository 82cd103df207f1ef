r"""Votes: where answers stand, when they agree, majority voting against counting, and searches that are bounded."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import Document, InputError, MBRDecoder, load_metric
from discorank.cli.main import main
from discorank.metrics.errors import MetricError
from discorank.metrics.lexical import vote
from discorank.metrics.lexical.vote import Vote
from discorank.metrics.lexical.written_answers import boxed, json_value, steps_of
from discorank.metrics.registry import load_from_data
from discorank.metrics.spec.user_code import AllowedCode, CodeRefusedError
from discorank.metrics.storage.limits import use_limits
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.lists import Candidate, CandidateList

from ...support.examples import examples

BOXES = [
    (r"so \boxed{12}", "12"),
    (r"\boxed{\frac{1}{2}} or rather \boxed{ 3 }", "3"),
    (r"\boxed{\frac{1}{2}}$ and $\boxed{ 3 }", r"\frac{1}{2}, 3"),
    (r"\boxed{\sqrt{x^{2}}}", r"\sqrt{x^{2}}"),
    (r"\boxed {7}", "7"),
    (r"\boxed{\boxed{5}}", "5"),
    (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
    (r"\boxed{1} then \boxed{2", "1"),
    (r"}} \boxed{4}", "4"),
    (r"\boxed{}", None),
    (r"\\boxed{1}", "1"),  # escaped twice
    ("12", None),
]
REPLY = 'Here:\n```json\n{"steps": [{"value": 1.50}, {"value": "x "}], "n": null, "o": {"b": 1, "a": []}}\n```'


@pytest.mark.parametrize(("text", "answer"), BOXES)
def test_the_last_box_that_is_closed(text: str, answer: str | None) -> None:
    assert boxed(text) == answer


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("steps[0].value", "1.50"),
        ("steps[-1].value", "x"),
        ("o", '{"a":[],"b":"1"}'),
        ("n", None),
        ("steps[2].value", None),
        ("steps.value", None),
        ("o[0]", None),
    ],
)
def test_values_of_json(path: str, answer: str | None) -> None:
    assert json_value(steps_of(path), REPLY) == answer
    assert json_value(steps_of(path), REPLY.split("\n")[2]) == answer


@pytest.mark.parametrize("text", ["", "x", "[1", '{"a": NaN}', "[" * 10**5, '{"a":' * 10**5])
def test_what_is_no_json_has_no_answer(text: str) -> None:
    assert json_value(steps_of("a"), text) is None


@pytest.mark.parametrize("path", ["", ".a", "a.", "a..b", "a[", "a[x]", "a[0]b", "a" * 1001])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InputError, match=r"is not a JSON path|without path"):
        Vote(answer="json", path=path)


@pytest.mark.parametrize(
    ("spec", "text", "answer"),
    [
        ('vote(answer="text")', "  Paris \n", "Paris"),
        ('vote(answer="last-line")', "because\n 42 \n\n  \n", "42"),
        ('vote(answer="pattern",pattern="answer is (\\\\w+)|= *(.*)")', "answer is 4\n= 5 ", "5"),
        ('vote(answer="pattern",pattern="[0-9]*")', "a 12 b 34 c", "34"),
        ('vote(answer="pattern",pattern="answer: (.*)")', "answer: ", None),
    ],
)
def test_answers_of_texts(spec: str, text: str, answer: str | None) -> None:
    metric: Any = load_metric(spec)
    assert metric.answer_of(text) == answer
    assert load_metric(metric.signature()) == metric
    assert metric.explain(text, ["x"])[0]["answer"] == answer
    assert metric.pairwise([text], [text])[0, 0] == (answer is not None)


def test_documents_agree_sentence_by_sentence() -> None:
    metric: Any = load_metric('vote(answer="text")')
    documents = [Document(["a", "b"]), Document(["a", "c"]), Document(["a", " "])]
    assert metric.pairwise(documents, documents)[0].tolist() == [1, 0.5, 0.5]
    (ranking,) = MBRDecoder(metric).decode([{"id": "x", "candidates": documents}])
    assert ranking.flags == ("no-answer",)
    assert metric.answer_of(documents[0]) == "a\nb"


def test_case_counts_unless_it_is_folded() -> None:
    exact, folded = Vote(answer="text"), Vote(answer="text", agree="casefold")
    assert exact.pairwise(["Straße"], ["STRASSE"]).item() == 0
    assert folded.pairwise(["Straße"], ["STRASSE"]).item() == 1


answers = st.sampled_from(["1", "1.0", "2", "two", "TWO", "", " 3/3", "\\boxed{2}"])


@given(
    texts=st.lists(answers, min_size=1, max_size=12),
    weights=st.lists(st.floats(0.01, 5), min_size=12, max_size=12),
    agree=st.sampled_from(["exact", "casefold", "value"]),
    self_pair=st.booleans(),
)
@examples(20)
def test_the_choice_is_the_majority(
    texts: list[str], weights: list[float], agree: Any, self_pair: bool
) -> None:
    """The linear form, the plain matrix and counting agree, weighted by a field."""
    metric = Vote(answer="text", agree=agree)
    candidates = tuple(
        Candidate(text, fields={"w": w}) for text, w in zip(texts, weights, strict=False)
    )
    record = CandidateList("x", candidates)
    for keep in (False, True):
        decoder = MBRDecoder(metric, weights="field:w", keep_matrix=keep, nbest=None)
        (ranking,) = decoder.decode([record])
        keys = [answer and answer.key for answer in metric.answers_of(texts) or ()]
        votes: Counter[str | None] = Counter()
        for key, weight in zip(keys, weights, strict=False):
            votes[key] += weight  # type: ignore[assignment]
        votes[None] = 0
        shares = np.array([votes[key] for key in keys]) / sum(weights[: len(texts)])
        best = int(np.flatnonzero(shares >= shares.max() * (1 - 1e-9))[0])
        assert ranking.index == best
        assert ranking.utility == pytest.approx(shares[best])
        assert ("no-answer" in ranking.flags) == (None in keys)
    pair = [MBRDecoder(metric, self_pair=self_pair, keep_matrix=keep) for keep in (False, True)]
    short, plain = (next(decoder.decode([record])) for decoder in pair)
    assert short.index == plain.index


def test_of_equal_shares_the_first_wins_and_no_answer_never() -> None:
    decoder = MBRDecoder('vote(answer="boxed",agree="value")')
    texts = ["no box", "also none", r"\boxed{2}", r"\boxed{3.0}", r"\boxed{3}", r"\boxed{2.0}"]
    (ranking,) = decoder.decode([{"id": "x", "candidates": texts}])
    assert ranking.index == 2
    assert ranking.utility == pytest.approx(2 / 6)
    assert ranking.flags == ("no-answer",)
    (nothing,) = decoder.decode([{"id": "x", "candidates": ["a", "b"]}])
    assert (nothing.index, nothing.utility) == (0, 0)


def test_an_answer_is_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def find(text: str) -> str | None:
        searched.append(text)
        return boxed(text)

    monkeypatch.setattr(vote, "finder", lambda *settings: find)
    long = "x" * vote.REMEMBERED_CHARACTERS + r"\boxed{2}"
    texts = ["none", r"\boxed{1}", r"\boxed{2}", r"so \boxed{1}", long]
    metric = Vote(answer="boxed")
    (ranking,) = MBRDecoder(metric).decode([{"id": "x", "candidates": texts}])
    assert (ranking.index, ranking.flags) == (1, ("no-answer",))
    assert sorted(searched) == sorted([*texts, long])  # for the choice, and for the votes
    assert metric.answer_of(long) == "2"
    assert searched[-1] == long
    assert len(searched) == len(texts) + 2


def test_scores_tell_of_texts_without_an_answer(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.jsonl"
    rows = [{"hypothesis": h, "references": [r]} for h, r in (("1", "1"), (" ", "2"), ("3", ""))]
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert main(["score", str(source), "-m", 'vote(answer="text")']) == 0
    printed = capsys.readouterr()
    assert "1 segments have no-answer\n" in printed.err
    assert "1 segments have no-answer-in-reference" in printed.err
    assert "0.3333" in printed.out


def test_against_references_it_is_accuracy() -> None:
    metric = Vote(answer="text", agree="value")
    hypotheses, references = ["4", "5", "6.0", ""], [["4.0"], ["4"], ["7", "6"], [""]]
    assert metric.score(hypotheses, references).tolist() == [1, 0, 1, 0]
    assert metric.corpus(hypotheses, references) == 0.5


def test_a_pattern_that_explodes_costs_its_list_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discorank.metrics.lexical.written_answers.PATTERN_SECONDS", 0.05)
    decoder = MBRDecoder(Vote(answer="pattern", pattern="(a+)+b"))
    lists = [CandidateList("x", (Candidate("a" * 5000), Candidate("ab")))]
    lists.append(CandidateList("y", (Candidate("aab"), Candidate("c"))))
    outcomes: dict[Any, Any] = dict(
        decoder.outcomes(((record.id, record) for record in lists), LocalEngine())
    )
    assert isinstance(outcomes["x"], MetricError)
    assert "more than 0.05 s on a text of 5000 characters" in str(outcomes["x"])
    assert outcomes["y"].index == 0


@pytest.mark.parametrize("pattern", ["(", r"\L<x>", "(" * 900, "a" * 1001, "*"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InputError, match=r"is not a regular expression|at most 1000"):
        Vote(answer="pattern", pattern=pattern)


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match='answer="pattern" without pattern'):
        Vote(answer="pattern")
    with pytest.raises(InputError, match='path beside answer="auto"'):
        Vote(path="a")


def test_a_file_gives_no_pattern() -> None:
    allowed = AllowedCode()
    assert load_from_data('vote(answer="boxed")', allowed).name == "vote"
    with pytest.raises(CodeRefusedError, match=r"vote\.pattern: is not for a file to say"):
        load_from_data('vote(answer="pattern",pattern="(a+)+b")', allowed)


def test_a_text_too_long_for_json_is_refused() -> None:
    with use_limits(json_bytes=10), pytest.raises(InputError, match="json_bytes"):
        json_value(steps_of("a"), '{"a": 12345678}')
    with use_limits(json_values=10), pytest.raises(InputError, match="json_values"):
        json_value(steps_of("a"), '{"a": [1,2,3,4,5,6,7,8,9,10]}')


def test_the_command_tells_of_texts_without_an_answer(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.jsonl"
    rows: list[dict[str, Any]] = [
        {"id": "a", "candidates": [r"\boxed{1}", r"\boxed{2}", r"\boxed{2.0}"]},
        {"id": "b", "candidates": ["none", r"\boxed{2}"]},
    ]
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    out = tmp_path / "out.jsonl"
    spec = 'vote(answer="boxed",agree="value")'
    assert main(["decode", str(source), "-u", spec, "-o", str(out)]) == 0
    assert "1 no-answer" in capsys.readouterr().err
    chosen = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["index"] for row in chosen] == [1, 1]
    assert main(["explain", str(source), "-u", spec]) == 0
    assert "answer: 2" in capsys.readouterr().out
