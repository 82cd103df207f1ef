"""Errors that a metric marks: read from what it says, as pieces of a text, in the terminal, and in the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as few
from hypothesis import strategies as st

from discorank import Document, load_metric
from discorank.cli.main import main
from discorank.metrics.neural.xcomet import XCometMetric
from discorank.report.choices import MarkedError, in_words, marked_errors, pieces

from ..support.comparisons import EVIL, run_of
from ..support.learned_golden import GOLDEN
from .test_report import reported

MODELS = GOLDEN / "xcomet" / "models"
XCOMET = f'model="{MODELS}/tiny-xcomet",encoder_path="{MODELS}/tiny-xlmr-xl"'
Captured = pytest.CaptureFixture[str]
pytestmark = [
    pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning"),
    pytest.mark.filterwarnings("ignore:xcomet. .* tokens are read together"),
]


def error(start: Any, end: Any, severity: Any = "minor", **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "severity": severity, **more}


def test_errors_of_a_text_and_of_a_document() -> None:
    text = "a cat sat"
    assert marked_errors(text, {"errors": []}) == []
    # In order, and without the blanks around them.
    entries = [error(5, 9, "critical"), error(1, 5, confidence=0.25)]
    expected = [MarkedError(2, 5, "minor", 0.25), MarkedError(6, 9, "critical", None)]
    assert marked_errors(text, {"errors": entries}) == expected
    document = Document(["a cat.", "It sat."])
    reason = {"sentences": [{"errors": [error(2, 5)]}, {"errors": [error(3, 6, "major")]}]}
    in_document = marked_errors(document, reason) or []
    assert [str(document)[e.start : e.end] for e in in_document] == ["cat", "sat"]


@pytest.mark.parametrize(
    "reason",
    [
        {},
        {"errors": 3},
        {"errors": ["a"]},
        {"errors": [error(0, 99)]},
        {"errors": [error(3, 2)]},
        {"errors": [error(-1, 2)]},
        {"errors": [error("0", 2)]},
        {"errors": [error(0, 2, "bad")]},
        {"errors": [error(0, 2, ["minor"])]},
        {"sentences": [{"errors": []}]},
        {"shared": {"cat": 1}},
    ],
)
def test_what_marks_no_errors_is_left_as_it_is(reason: dict[str, Any]) -> None:
    assert marked_errors("a cat", reason) is None
    assert marked_errors(Document(["a", "cat"]), reason) is None


@few(max_examples=15)
@given(
    st.text(max_size=12),
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 12), st.sampled_from(["minor", "major"]))
    ),
)
def test_pieces_are_the_text(text: str, places: list[tuple[int, int, str]]) -> None:
    entries = [error(min(a, b), max(a, b), s) for a, b, s in places if max(a, b) <= len(text)]
    errors = marked_errors(text, {"errors": entries}) or []
    assert len(errors) == len(entries)
    assert "".join(piece for piece, _ in pieces(text, errors)) == text
    assert in_words(text, errors)


LISTS: list[dict[str, Any]] = [
    {"id": "one", "source": "die Katze sass", "candidates": ["🎉 the cat sat", "a cat sat there"]},
    {"id": "two", "candidates": [EVIL + "\x1b[2J\u202e cat", "<b>cats</b> & \u2028 dogs"]},
]


def test_explain_shows_errors_of_the_chosen_text_and_of_its_rivals(
    tmp_path: Path, capsys: Captured
) -> None:
    lists = tmp_path / "lists.jsonl"
    lists.write_text("".join(json.dumps(one) + "\n" for one in LISTS), encoding="utf-8")
    command = ["explain", str(lists), "-u", f"xcomet({XCOMET})", "--quiet"]
    assert main([*command, "--format", "json"]) == 0
    explained = [json.loads(line) for line in capsys.readouterr().out.strip().split("\n")]
    metric = load_metric(f"xcomet({XCOMET})")
    assert isinstance(metric, XCometMetric)
    assert main(command) == 0
    printed = capsys.readouterr().out
    num_errors = 0
    for one in explained:
        for place in one["ranking"]:
            text, nearest = place["text"], place["agreeing"][0]["text"]
            source = None if one["source"] is None else [one["source"]]
            (spans,) = metric.spans([text], [nearest], source)
            (marked,) = place["errors"].values()
            assert [text[e["start"] : e["end"]] for e in marked] == [span.text for span in spans]
            assert [e["severity"] for e in marked] == [span.severity for span in spans]
            num_errors += len(spans)
            if text.isprintable() and spans:
                first = f'errors: {spans[0].severity} "{spans[0].text}" {spans[0].confidence:.2f}'
                assert first in printed
    assert num_errors > 3
    assert printed.partition("what the numbers mean")[0].count("errors: ") == 4
    assert "\x1b" not in printed
    assert "\u202e" not in printed


@pytest.mark.parametrize("decode", ["reference", "clean"])
def test_the_page_underlines_errors_by_severity(decode: str, tmp_path: Path) -> None:
    utility = f'xcomet({XCOMET},decode="{decode}",decoding_threshold=0.6)'
    run = run_of(tmp_path, LISTS, "-u", utility)
    page = reported(str(run))
    for one in page.island("lists-data")["lists"]:
        for place in one["ranking"]:
            (made,) = place["marked"].values()
            assert "".join(text for text, _ in made) == one["texts"][place["text"]]
            assert {severity for _, severity in made} <= {None, "minor", "major", "critical"}
    # The legend, in three styles that differ without colour.
    assert [u["class"] for u in page.named("u")] == ["minor", "major", "critical"]
    (style,) = page.texts["style"]
    for severity, line in (("minor", "dotted"), ("major", "solid"), ("critical", "double")):
        assert f"u.{severity} {{ text-decoration-style: {line};" in style
    assert "nearest pseudo-reference" in (tmp_path / "report.html").read_text(encoding="utf-8")
    other = tmp_path / "other"
    other.mkdir()
    assert reported(str(run_of(other, LISTS, "-u", "chrf"))).named("u") == []


def test_documents_and_reference_free_metrics_mark_too(tmp_path: Path) -> None:
    sentences = [["The cat sat.", "It slept."], ["A cat was sitting.", "It slept well."]]
    lists = [{"id": "d", "source": ["Die Katze sass.", "Sie schlief."], "candidates": sentences}]
    for command in (("-u", f"xcomet({XCOMET})"), ("rerank", "-m", f"xcomet-qe({XCOMET})")):
        run_folder = tmp_path / command[0].strip("-")
        run_folder.mkdir()
        (one,) = reported(str(run_of(run_folder, lists, *command))).island("lists-data")["lists"]
        for place in one["ranking"]:
            (made,) = place["marked"].values()
            assert "".join(text for text, _ in made) == one["texts"][place["text"]]
            assert any(severity for _, severity in made)
