r"""Answers as models write them: the table of cases, one rule per list, and texts that cost no more for their form."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discorank
from benchmarks.choice_quality.answer_cases import CASES, wrong
from discorank import InputError, MBRDecoder, load_metric
from discorank.cli.main import main
from discorank.metrics.errors import ModelLoadError
from discorank.metrics.lexical import answers, vote
from discorank.metrics.lexical.answers import bare, letter_of, math_version, value_key
from discorank.metrics.lexical.vote import Vote
from discorank.metrics.lexical.written_answers import RULES, of_label, rule_of, written
from discorank.rerank.lists import read_list
from discorank.rerank.selection.answer_accuracy import answers_of

from ...support.examples import examples

KNOWN_WRONG = {
    "word problems": {
        "The answer is one half, or 1/2.",
        "So there are 3 of 10 left, and that is what was asked.",
        "The answer is twelve.",
    },
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
        ("x^2 + 1", "x^{2}+1"),
        (r"\dfrac{\sqrt{3}}{2}", r"\frac{\sqrt3}{2}"),
        (r"\tfrac12", "0.5"),
        (r"\left( 3,\dfrac{\pi}{2} \right)", r"(3,\frac{\pi}{2})"),
        ("(x-2)(x+2)", "x^2 - 4"),
        (r"x \ge 5", "5 <= x"),
        ("2x + 4 = 0", "x + 2 = 0"),
        (r"1 \pm \sqrt{2}", r"1 - \sqrt{2}, 1 + \sqrt 2"),
        (r"[0,1) \cup (2,\frac{5}{2})", r"(2,2.5)\cup[0,1)"),
        ("x = 2 or x = 3", "3, 2"),
        (r"3\frac{1}{2}", "3 1/2"),
        ("25 percent", r"25\%"),
        (r"25 \text{ percent}", "0.25"),
        ("25퍼센트", "25 Prozent"),
        ("3 × 4 = 12", "12"),
        ("3 x 4 = 12 apples", "12"),
        ("approximately 3.14", "≈ 3.14"),
        ("5 (since 2+3=5)", "5"),
        ("20 (twenty)", "20"),
        ("10^6", "1 million"),
        (r"3 \times 10^8", "3e8"),
        ("1.000,50", "1,000.5"),
        ("3万", "30000"),
        ("2/3", "0.666667"),
        ("42", "\uff14\uff12"),
        ("-1/2", "-\u0967/\u0968"),
        ("1{,}000", r"1\,000"),
        ("$$ 5 $$", "5."),
        ("\u22124", "-4."),
        ("0.1", "1e-1"),
        ("5 km/h", "5"),
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
        ("25 percent", "25"),
        ("iPhone 11", "Windows 11"),
        ("(1,5)", "(2,5)"),
        ("(1,5)", "(5,1)"),
        ("(1,5)", "[1,5]"),
        ("3y", "3x"),
        (r"2\sqrt{5}", r"3\sqrt{5}"),
        (r"2\sqrt{5}", "5"),
        ("Article 5 of the NATO treaty", "Article 5 of the GDPR"),
        ("x > 5", "x < 5"),
        ("x = 1, y = 2", "x = 2, y = 1"),
        ("3 apples and 5 oranges", "5 apples and 3 oranges"),
        ("Paris", "Pairs"),
        ("1,5", "1.5"),
        ("5!", "5"),
        ("1/0", "0"),
        ("#2", "2"),
        ("1e500", "1e501"),
        ("1" * 500, "1" * 499),
        ("12345678901234567890.5", "12345678901234567891"),
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
@examples(20)
def test_any_text_is_read_and_an_answer_that_is_read_again_is_the_same(text: str) -> None:
    for rule in RULES:
        answer = written(rule, text)
        assert answer is None or (answer.strip() and value_key(answer))
        assert answer is None or of_label(answer) == answer
    label = of_label(text)
    assert label is None or of_label(label) == label
    assert bare(bare(text)) == bare(text)


SIGNS = r"\frac \sqrt \sin \pi \left( \right) \cup \pm \in \{ \} { } ( ) [ ] ^ _ + - * / = < ! % , 2 10 0.5 x y e"


@given(st.lists(st.sampled_from(SIGNS.split()), max_size=24).map("".join))
def test_any_formula_has_a_key_that_blanks_do_not_change(text: str) -> None:
    assert value_key(text) == value_key(f" {text} ") == value_key(f"${text}$")


@pytest.mark.parametrize(
    "formula",
    [
        "5!",
        r"32,\! 349",
        "(4, 0, 6), (4, -2, 6), (0, 0, 6), (0, -2, 6), (4, 0, 0), (4, -2, 0), (0, 0, 0)",
        r"\begin{pmatrix} 0 & 3 \\ 0 & -1 \end{pmatrix}",
        r"[-1, -\tfrac12) \cup (-\tfrac12, 0) \cup (0, 1) \cup (1, \infty)",
        r"-2(x - 1)^2 + 5, 3(x + 2)^2 - 2",
    ],
)
def test_a_formula_that_is_read_again_as_a_reply_is_the_same(formula: str) -> None:
    assert written("text", rf"so \boxed{{{formula}}}.") == written("text", formula) == formula


WRITTEN_LABELS = r"""
2\sqrt{5} | 3+4i | y=2x+3 | 7 and 8 | x \in [-2,7] | (4,5) | x^2+1 | -3 | 25% | f(B) | Henry 8 | iPhone 11
Article 5 of the NATO treaty | H2O | R2-D2 | 12:30 | 7:32 | (D) | Route 66 | \frac{3}{4}\pi | \{1,2\} | 1 < x < 5
\text{Monday} | 1984 by George Orwell | 3y | 2x + 3y = 6 | Paris, Texas | 42 apples | 5人と3人 | all n with n > 5
\begin{pmatrix}1\\2\end{pmatrix} | 10,000
"""
LABELS = [label.strip() for label in re.split(r"[|\n]", WRITTEN_LABELS.strip())]
REPLIES = [
    "{}",
    r"So we get \boxed{{{}}}.",
    "Answer: {}",
    "**{}**",
    "The answer is {}.",
    "#### {}",
    "答案是{}。",
]


@pytest.mark.parametrize("label", LABELS)
def test_a_right_answer_is_never_reduced(label: str) -> None:
    """Alone, boxed or marked, a reply is right, in every place where labels are compared, and no other label's is."""
    replies = [form.format(label) for form in REPLIES]
    assert discorank.score(replies, [label] * len(replies), "vote").segments.tolist() == [1] * len(
        replies
    )
    columns = {"prompts": ["p"] * len(replies), "gold": [label] * len(replies)}
    assert discorank.reward("vote", reference="gold")(replies, **columns) == [1] * len(replies)
    record = read_list({"id": "x", "candidates": replies, "references": [label]})
    assert (answers_of(record, Vote()).right, answers_of(record, Vote()).wrong) == (
        (len(replies),),
        (),
    )
    others = [other for other in LABELS if other != label]
    assert not discorank.score([rf"\boxed{{{label}}}"] * len(others), others, "vote").segments.any()


@pytest.mark.parametrize(
    "spec",
    [
        'vote(answer="boxed")',
        'vote(answer="pattern",pattern="= (.*)")',
        'vote(answer="json",path="a")',
    ],
)
def test_a_bare_label_is_the_answer_wherever_replies_have_theirs(spec: str) -> None:
    replies = [r'{"a": "2 m"} = 2 m', r"\boxed{2 m}", '{"a": "2 m"}']
    assert discorank.score(replies, ["2 m"] * 3, spec).segments.max() == 1


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("所以答案是5。另外还有3种情况。", "5"),
        ("正确答案是B，而不是A。", "B"),
        ("综上所述，正确答案为C。选项A错误。", "C"),
        ("所以答案是 C 。", "C"),
        ("答案选B。", "B"),
        ("选项A错误，所以应选（C）。", "C"),
        ("答案不是3，答案是4", "4"),
        ("よって答えは5です。残りは3個です。", "5"),
        ("よって正解は「B」です。Aは誤り。", "B"),
        ("ดังนั้นคำตอบคือ 5 เพราะ 2+3", "5"),
        ("คำตอบที่ถูกต้องคือ ข้อ B", "B"),
        ("따라서정답은 5입니다. 나머지는 3개입니다.", "5"),
        ("فالإجابة الصحيحة هي ب، لأن 3 أكبر", "ب"),
        ("والجواب: ٤٢", "42"),
        ("इसलिए सही उत्तर B है।", "B"),
        ("उत्तर 5 है क्योंकि 2+3", "5"),
        ("সুতরাং উত্তর 12", "12"),
        ("Đáp án là 12. Còn 3.", "12"),
        ("উত্তর কোরিয়া", "উত্তর কোরিয়া"),
        ("उत्तर प्रदेश", "उत्तर प्रदेश"),
        ("Answer: I think it is C", "C"),
        ("b. 4", "b"),
        ("I get 42", "42"),
        (r"\boxed{3} The final answer is $5$. I hope it is correct.", "5"),
        ("Jane began 3 hours ago", "3"),
        ("It is 1 million dollars", "1000000"),
        ("so $x = 2\\sqrt{5}$ is the root", r"2\sqrt{5}"),
        ("The roots are $2$ and $3$.", "2, 3"),
        ("She pays $3 and $4.", "4"),
        ("<think>The answer is 6?</think>The answer is 5.", "5"),
        ("<think>The answer is 6", "6"),
    ],
)
def test_answers_of_replies(text: str, answer: str) -> None:
    (ranking,) = MBRDecoder("vote").decode([[text] * 3])
    assert ranking.answer is not None
    assert value_key(ranking.answer) == value_key(answer)
    assert discorank.score([text], [answer], "vote").segments[0] == 1


@pytest.mark.parametrize(
    ("texts", "answer"),
    [
        (["iPhone 11", "Windows 11", "iPhone 12", "iPhone 12"], "iPhone 12"),
        (["(1,5)", "(2,5)", "(3,5)", "(2,4)", "(2,4)"], "(2,4)"),
        ([r"2\sqrt{5}", r"3\sqrt{5}", r"\sqrt{5}", "7", "7"], "7"),
        (
            [
                r"\boxed{1}",
                r"\boxed{1}",
                r"\boxed{\frac{\sqrt{3}}{2}}",
                r"\boxed{\dfrac{\sqrt{3}}{2}}",
                r"\boxed{\frac{\sqrt3}{2}}",
            ],
            r"\frac{\sqrt{3}}{2}",
        ),
        (
            [
                r"\boxed{\frac12}",
                r"\boxed{3}",
                r"\boxed{\frac{1}{2}}",
                r"\boxed{3}",
                r"\boxed{\tfrac12}",
            ],
            r"\frac12",
        ),
        (
            [
                "The answer is 25.",
                "The answer is 25 percent.",
                "The answer is 25%.",
                "The answer is 0.25.",
                "The answer is 25.",
            ],
            "25 percent",
        ),
    ],
)
def test_votes_do_not_depend_on_notation_or_order(texts: list[str], answer: str) -> None:
    for order in (texts, texts[::-1]):
        (ranking,) = MBRDecoder("vote").decode([order])
        assert ranking.answer is not None
        assert value_key(ranking.answer) == value_key(answer)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('<think>let {x} be</think>{"answer": 5}', "5"),
        ('Here it is: {"answer": 5} Done.', "5"),
        ('{"answer": 4} no, {"answer": 5}, as in [1]', "5"),
        ('{"a": {"answer": 4}} {"answer": "5"}', "5"),
        ("{" * 300 + '{"answer": 5}', "5"),
        ('{"answer": null}', None),
        ('{"answer": 5', None),
    ],
)
def test_json_within_prose(text: str, value: str | None) -> None:
    metric: Any = load_metric('vote(answer="json",path="answer")')
    assert metric.answer_of(text) == value


def test_without_math_verify_the_rules_are_plain_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vote, "math_version", lambda: None)

    def imported(module: str, where: str) -> NoReturn:
        raise ModelLoadError("not installed", where=module, fix='pip install "discorank[math]"')

    monkeypatch.setattr(answers, "imported", imported)
    caches = (answers.math_verify, answers._parsed, answers._is_verified)
    for cache in caches:
        cache.cache_clear()
    metric = Vote()
    assert metric.signature() == "vote"
    with pytest.warns(UserWarning, match=r"plain rules.*discorank\[math\]") as warned:
        groups = metric.pairwise(MATRICES, MATRICES)
    assert groups.tolist() == [[1, 0], [0, 1]]
    assert not metric.is_right(MATRICES[0], [MATRICES[1]])
    assert len(warned) == 1
    assert Vote(agree="math").signature() == 'vote(agree="math")'
    for cache in caches:
        cache.cache_clear()


MATRICES = [rf"\boxed{{\begin{{{kind}}}1 & 2\end{{{kind}}}}}" for kind in ("pmatrix", "bmatrix")]
COSTLY = ["(" * 60 + "1" + ")" * 60, "x^" * 60 + "x", "9^{9^{9^9}}", "9^{99999999}"]


def test_math_verify_is_in_the_signature() -> None:
    pytest.importorskip("math_verify")
    metric: Any = load_metric("vote")
    assert metric.signature() == f'vote(agree="math@{math_version()}")'
    assert load_metric(metric.signature()) == metric
    assert metric.in_list([r"\boxed{1}"]).agreement == "math"


def test_formulas_that_plain_rules_cannot_read_agree_by_math_verify() -> None:
    """Groups do not depend on the order of the answers; a right answer may be of another form than the reply's."""
    pytest.importorskip("math_verify")
    metric = Vote()
    texts = [*MATRICES, r"\boxed{\sin x}", r"\boxed{|-3|}", r"\boxed{\sin(x)}", r"\boxed{3}"]
    same = [[0, 1], [2, 4], [3, 5]]
    for order in (list(range(6)), [5, 4, 3, 2, 1, 0]):
        groups = metric.pairwise([texts[i] for i in order], [texts[i] for i in order])
        found = {frozenset(order[j] for j in np.flatnonzero(row)) for row in groups}
        assert found == set(map(frozenset, same))
    for text, right in [
        (r"(-1, 2]", r"-1 < x \leq 2"),
        ("4, 5", "AB = 4, CD = 5"),
        (r"y = -\frac{1}{2}x + \frac{3}{4}", "2x + 4y - 3 = 0"),
        ("1, 2", r"\boxed{1} papers and \boxed{2} bins"),
    ]:
        assert metric.is_right(rf"\boxed{{{text}}}", [right])
    assert metric.pairwise(COSTLY, COSTLY).tolist() == np.eye(len(COSTLY)).tolist()
    assert not metric.is_right(r"\boxed{\binom{99999}{9999}}", [r"\binom{99999}{9998}"])


@pytest.mark.parametrize(
    ("reply", "right", "is_right"),
    [
        ("28", "28%", True),
        ("28 percent", "28", True),
        ("0.28", r"28\%", True),
        ("28", "0.28", False),
        ("2800%", "28%", False),
        ("x = 2, y = 1", "x = 1, y = 2", False),
    ],
)
def test_a_right_answer_may_lack_its_percent_sign(reply: str, right: str, is_right: bool) -> None:
    assert Vote().is_right(rf"so \boxed{{{reply}}}", [right]) == is_right
    assert Vote().pairwise(["28", "28%"], ["28", "28%"]).tolist() == [[1, 0], [0, 1]]


def test_another_version_of_math_verify_is_refused() -> None:
    with pytest.raises(InputError, match=r"math@0\.0\.1.*math-verify==0\.0\.1"):
        Vote(agree="math@0.0.1")
    with pytest.raises(InputError, match="Did you mean 'value'"):
        Vote(agree="valu")


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
    assert Vote().agreement == Vote(answer="boxed").agreement == "math"
    assert Vote(answer="text").agreement == "exact"
    assert Vote(agree="exact").in_list(["the answer is 5"]) == Vote(answer="marked", agree="exact")
    assert Vote(answer="text").variants == ()
    assert letter_of("(J) last") == "J"
