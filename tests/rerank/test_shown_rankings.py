"""How rankings print, what they are as values of JSON and as data frames, and lists given as texts alone."""

from __future__ import annotations

import json
import pickle
from html.parser import HTMLParser
from typing import Any

import pytest

import discorank
from discorank import Candidate, CandidateList, Document, MBRDecoder
from discorank.rerank.choice import Ranking
from discorank.rerank.runs.run import json_row

TEXTS = ["a cat sat", "the cat sat", "a dog"]


def decoded(texts: list[str]) -> Ranking[str]:
    return discorank.decode(texts, utility="chrf")


def test_nothing_long_is_printed() -> None:
    long = "word " * 10_000
    ranking = decoded([long + "a", long + "b", "\x1b[2J"])
    given = CandidateList("x" * 5000, ranking.candidates, source=long)
    for value in (ranking, ranking.ranking[0], ranking.candidates[0], given):
        assert len(repr(value)) < 250
        assert "\n" not in repr(value)
    assert "\x1b" not in repr(ranking.candidates[2])
    sentences = Document(["One sentence."] * 1000)
    assert len(repr(discorank.decode([sentences, sentences], utility="chrf"))) < 250


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"dir"}

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_a_notebook_shows_ranks_as_an_escaped_table() -> None:
    hostile = "<script>alert(1)</script>"
    lists = [{"id": "<b>&", "candidates": [hostile, '"><img src=x onerror=y>', "plain"]}]
    (ranking,) = MBRDecoder("chrf", nbest=None).decode(lists)
    page = Tags()
    page.feed(ranking._repr_html_())
    assert page.tags == {"table", "caption", "tr", "th", "td"}
    assert hostile in page.cells
    assert page.cells[0] == "<b>&"


def test_to_dict_is_the_row_of_a_run() -> None:
    lists = [{"id": "a", "candidates": [["One.", "Two."], ["One."]], "mine": {"x": 1}}]
    (ranking,) = MBRDecoder("chrf", nbest=None).decode(lists)
    row = ranking.to_dict()
    assert json.loads(json_row(ranking)) == row
    assert row["mine"] == {"x": 1}
    assert row["text"] in (["One.", "Two."], ["One."])
    assert list(row)[:5] == ["id", "index", "text", "utility", "gap"]


def test_rankings_are_pickled() -> None:
    ranking = decoded(TEXTS)
    assert pickle.loads(pickle.dumps(ranking)).to_dict() == ranking.to_dict()


def test_a_data_frame_of_choices() -> None:
    pytest.importorskip("pandas")
    lists: list[dict[str, Any]] = [
        {"id": "a", "candidates": TEXTS, "topic": "cats"},
        {"id": "b", "candidates": ["x"], "words": 1},
    ]
    rankings = list(MBRDecoder("chrf", nbest=None).decode(lists))
    frame = discorank.to_pandas(iter(rankings))
    expected = ["id", "index", "text", "utility", "gap", "flags", "topic", "words"]
    assert list(frame.columns) == expected
    assert frame["text"].tolist() == ["the cat sat", "x"]
    assert frame["utility"].tolist() == [ranking.utility for ranking in rankings]
    assert frame["topic"].isna().tolist() == [False, True]
    assert frame["gap"].isna().tolist() == [False, True]


def test_a_data_frame_of_ranks() -> None:
    pytest.importorskip("pandas")
    rankings = list(MBRDecoder("chrf", nbest=None).decode([TEXTS, ["x", "x"]]))
    frame = discorank.to_pandas(rankings, ranks=True)
    assert frame["id"].tolist() == ["0", "0", "0", "1"]
    assert frame["rank"].tolist() == [1, 2, 3, 1]
    assert frame["count"].tolist() == [1, 1, 1, 2]
    assert frame["text"].tolist()[0] == "the cat sat"
    assert discorank.to_pandas(rankings[0], ranks=True)["id"].tolist() == ["0"] * 3


def test_data_frames_of_nothing_have_columns() -> None:
    pytest.importorskip("pandas")
    assert discorank.to_pandas([]).columns.tolist()[:3] == ["id", "index", "text"]
    assert discorank.to_pandas([], ranks=True).columns.tolist()[:2] == ["id", "rank"]


def test_lists_of_texts_are_decoded_as_by_decode() -> None:
    decoder = MBRDecoder("chrf", nbest=None)
    others = ["one two", "one three"]
    lists: list[Any] = [TEXTS, tuple(others), [Candidate(text) for text in others]]
    plain = list(decoder.decode(lists))
    assert [ranking.id for ranking in plain] == ["0", "1", "2"]
    for texts, ranking in zip((TEXTS, others, others), plain, strict=True):
        assert {**ranking.to_dict(), "id": "list"} == decoded(texts).to_dict()


def test_lists_without_ids_have_their_numbers() -> None:
    lists: list[Any] = [
        {"id": "a", "candidates": ["x"]},
        {"candidates": ["y"], "source": "s"},
        ["z"],
    ]
    rankings = list(MBRDecoder("chrf").decode(lists))
    assert [ranking.id for ranking in rankings] == ["a", "1", "2"]
    assert [ranking.text for ranking in rankings] == ["x", "y", "z"]
    assert rankings[1].source == "s"
