"""Decisions that become one more system: texts, human scores, and what is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import InputError
from discorank.integrations.formats.selection_files import with_chosen
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.selection.judged_systems import human_layer
from discorank.rerank.selection.system_scores import DocumentOutputs

TEXTS: dict[str, dict[str, tuple[str, ...]]] = {
    "d1": {"A": ("the same", "a1", "a2"), "B": ("the same", "b1", "b2"), "C": ("c0", "c1", "c2")},
    "d2": {"A": ("x", "a4"), "B": ("y", "b4"), "C": ("z", "c4")},
}
MQM: dict[str, dict[str, Any]] = {
    "d1": {"A": (2.0, 1.0, 5.0), "B": (4.0, 0.0, 1.0), "C": (0.0, 6.0, 1.0)},
    "d2": {"A": (3.0, 0.0), "B": (1.0, 9.0), "C": (2.0, None)},
}
WHOLE = {"d1": {"A": 2.0, "B": 1.0}, "d2": {"A": 3.0, "B": 4.0}}
CHOSEN = [{"id": "d1:0", "text": "c0"}, {"id": "d1:1", "system": "C"}, {"id": "d2:1", "text": "b4"}]
REST = [{"id": "d2:0", "text": "x"}, {"id": "d1:2", "text": "b2"}]


def outputs(human: dict[str, dict[str, Any]]) -> list[DocumentOutputs]:
    """Two documents; no system has text c4 judged, and A and B share a text in the first."""
    return [
        DocumentOutputs(name, False, None, systems, {}, {"mqm": human[name]})
        for name, systems in TEXTS.items()
    ]


def source(path: Path, rows: list[Any]) -> LineSource:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return LineSource(path)


def test_rows_name_segments_in_any_order(tmp_path: Path) -> None:
    first, second = with_chosen(source(tmp_path / "o", [*CHOSEN, *REST]), outputs(MQM), "mine")
    assert first.systems["mine"] == ("c0", "c1", "b2")
    assert second.systems["mine"] == ("x", "b4")
    assert first.human["mqm"]["mine"] == (0.0, 6.0, 1.0)
    assert second.human["mqm"]["mine"] == (3.0, 9.0)


def test_rows_name_whole_documents(tmp_path: Path) -> None:
    rows = [{"id": "d1", "text": ["c0", "b1", "new"]}, {"id": "d2", "system": "C"}]
    first, second = with_chosen(source(tmp_path / "o", rows), outputs(MQM), "mine")
    assert first.human["mqm"]["mine"] == (0.0, 0.0, None)
    assert second.systems["mine"] == ("z", "c4")
    assert second.human["mqm"]["mine"] == (2.0, None)


def test_scores_of_whole_documents_are_of_whole_choices(tmp_path: Path) -> None:
    rows = [{"id": "d1", "text": ["the same", "b1", "b2"]}, {"id": "d2", "text": ["x", "b4"]}]
    first, second = with_chosen(source(tmp_path / "o", rows), outputs(WHOLE), "mine")
    assert first.human["mqm"]["mine"] == 1.0
    assert "mine" not in second.human["mqm"]


def test_a_file_without_a_known_text_has_no_score(tmp_path: Path) -> None:
    rows = [{"id": "d1", "text": ["1", "2", "3"]}, {"id": "d2", "text": ["4", "5"]}]
    documents = with_chosen(source(tmp_path / "o", rows), outputs(MQM), "mine")
    assert human_layer("mqm", True, documents).systems == ("A", "B", "C")


@given(st.data())
def test_scores_are_those_of_a_plain_loop(data: st.DataObject) -> None:
    texts = {s: data.draw(st.tuples(*[st.sampled_from("pqr")] * 4)) for s in "ABC"}
    scores = {s: data.draw(st.tuples(*[st.none() | st.integers(0, 3)] * 4)) for s in "ABC"}
    picks = data.draw(st.tuples(*[st.sampled_from("pqr")] * 4))
    document = DocumentOutputs("d", False, None, texts, {}, {"mqm": scores})
    rows = [{"id": f"d:{i}", "text": text} for i, text in enumerate(picks)]
    lines = LineSource(
        "o", file=io.BytesIO(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    )
    (found,) = with_chosen(lines, [document], "mine")
    expected = []
    for i, pick in enumerate(picks):
        same = [scores[s][i] for s in "ABC" if texts[s][i] == pick and scores[s][i] is not None]
        expected.append(sum(same) / len(same) if same else None)
    assert found.human["mqm"].get("mine", (None,) * 4) == tuple(expected)


WRONG = {
    "lacking": (CHOSEN, r"o: nothing chosen for 'd1', segment 2"),
    "twice": ([*CHOSEN, *REST, CHOSEN[0]], r"o:6: id: 'd1:0'"),
    "document and segment": ([*CHOSEN, {"id": "d1", "system": "A"}], r"o:4: id: 'd1'"),
    "unknown list": ([{"id": "d9:0", "text": "c"}], r"o:1: id: .*'d9:0'"),
    "no id": ([{"text": "c"}], r"o:1: id: "),
    "sentences for a segment": ([{"id": "d1:0", "text": ["c", "d"]}], r"o:1: text: "),
    "too few sentences": (
        [{"id": "d1", "text": ["c0", "c1"]}],
        r"o:1: text: found 2 sentences, expected 3",
    ),
    "no sentence": ([{"id": "d1", "text": ["c0", "c1", 2]}], r"o:1: text\[2\]: found 2"),
    "unknown system": ([{"id": "d1:0", "system": "Q"}], r"o:1: system: .*'Q'"),
    "no text": ([{"id": "d1:0"}], r"o:1: text: "),
}


@pytest.mark.parametrize(("rows", "message"), WRONG.values(), ids=WRONG)
def test_other_files_are_refused(rows: list[Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        with_chosen(source(tmp_path / "o", rows), outputs(MQM), "mine")


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"o: .*'B'"):
        with_chosen(source(tmp_path / "o", [*CHOSEN, *REST]), outputs(MQM), "B")
