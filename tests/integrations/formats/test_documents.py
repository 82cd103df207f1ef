"""Test sets of WMT, sacrebleu and SummEval: what is read, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.integrations.formats.document_outputs import read_documents
from discorank.integrations.formats.open_lists import open_documents, open_lists
from discorank.integrations.formats.readers.systems import SystemsOptions
from discorank.integrations.formats.wmt.evaluation_sets import (
    read_sacrebleu,
    read_summeval,
)
from discorank.integrations.formats.wmt.rated_rows import LeftOutWarning
from discorank.integrations.formats.wmt.wmt_jsonl import read_wmt_jsonl
from discorank.integrations.formats.wmt.wmt_xml import read_wmt_xml
from discorank.metrics.errors import InputError
from discorank.metrics.storage.limits import use_limits

XML = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="wmttest">
  <collection id="general">
    <doc origlang="en" domain="news" id="d1">
      <src lang="en">
        <p>
          <seg id="1">One &amp; two.</seg>
          <seg id="2">Three.</seg>
        </p>
        <p><seg id="3">Four.</seg></p>
      </src>
      <ref lang="de" translator="A"><p>
        <seg id="1">Eins &lt; zwei.</seg><seg id="2">Drei.</seg><seg id="3">Vier.</seg>
      </p></ref>
      <hyp system="S-1" language="de"><p>
        <seg id="3">Vier!</seg><seg id="1">Eins.</seg><seg id="2"/>
      </p></hyp>
    </doc>
  </collection>
  <doc id="d2" testsuite="ts"><src lang="en"><seg id="1">Five.</seg></src></doc>
</dataset>
"""


def test_an_xml_file(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text(XML, encoding="utf-8")
    first, second = read_wmt_xml(str(path))
    assert first == {
        "id": "d1",
        "domain": "news",
        "origlang": "en",
        "collection": "general",
        "test_set": "wmttest",
        "source_language": "en",
        "target_language": "de",
        "paragraphs": [2, 1],
        "source": ["One & two.", "Three.", "Four."],
        "references": {"refA": ["Eins < zwei.", "Drei.", "Vier."]},
        "systems": {"S-1": ["Eins.", "", "Vier!"]},
    }
    assert (second["id"], second["testsuite"], second["systems"]) == ("d2", "ts", {})
    packed = tmp_path / "x.xml.gz"
    packed.write_bytes(gzip.compress(XML.encode()))
    assert list(read_wmt_xml(str(packed))) == [first, second]


def edited(old: str, new: str) -> str:
    assert old in XML
    return XML.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<corpus/>", "x.xml:1: found <corpus>, expected a <dataset>"),
        ("", "no XML: no element found"),
        (edited('<seg id="2">Drei.</seg>', ""), "<ref> 'A' lacks segment 2"),
        (
            edited('<seg id="3">Vier!</seg>', '<seg id="3"/><seg id="4">x</seg>'),
            "has, and the source not, segment 4",
        ),
        (
            edited('<seg id="2">Three.', '<seg id="1">Three.'),
            "x.xml:18: .*a segment with the id '1'",
        ),
        (edited('system="S-1" ', ""), "without the name of its system"),
        (edited(' id="d2"', ""), "a document without an id"),
        (edited('<src lang="en"><seg id="1">Five.</seg></src>', ""), "'d2': has no source"),
        (edited("</collection>", "</collection><seg id='1'/>"), "<seg> outside a document"),
        (edited("&amp;", "&boom;"), "no XML: undefined entity"),
        (edited("<p>", "<p>" * 40), "nested too deeply"),
    ],
    ids=range(11),
)
def test_what_is_no_test_set_in_xml(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.xml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        list(read_wmt_xml(str(path)))


def test_a_document_without_a_segment_is_left_out(tmp_path: Path) -> None:
    """A released file has one."""
    path = tmp_path / "x.xml"
    empty = '<doc id="empty"><src lang="en"/><hyp system="S-1"/></doc>'
    path.write_text(edited('<doc id="d2"', f'{empty}<doc id="d2"'), encoding="utf-8")
    with pytest.warns(LeftOutWarning, match=r"x\.xml: 1 document"):
        assert [row["id"] for row in read_wmt_xml(str(path))] == ["d1", "d2"]


def test_entities_are_neither_expanded_nor_fetched(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret", encoding="utf-8")
    laughs = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 30))
    path = tmp_path / "x.xml"
    for declared in (
        f'<!ENTITY a0 "ha">{laughs}',
        f'<!ENTITY a29 SYSTEM "file://{secret}">',
        '<!ENTITY % p SYSTEM "http://127.0.0.1:9/x.dtd"> %p;',
    ):
        path.write_text(
            f'<!DOCTYPE dataset [{declared}]><dataset><doc id="d"><src><seg id="1">&a29;</seg>'
            "</src></doc></dataset>",
            encoding="utf-8",
        )
        with pytest.raises(InputError, match="a document type, expected none"):
            list(read_wmt_xml(str(path)))


def test_an_xml_file_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    start = '<dataset><doc id="d"><src><seg id="1">'
    path.write_text(start + "long text\n" * 1000, encoding="utf-8")
    with use_limits(line_bytes=2000), pytest.raises(InputError, match="more than 2000 bytes"):
        list(read_wmt_xml(str(path)))
    # a tag without an end is held by the parser
    path.write_text(start + "<p x='" + "long text\n" * 1000, encoding="utf-8")
    with use_limits(line_bytes=2000), pytest.raises(InputError, match="more than 2000 bytes"):
        list(read_wmt_xml(str(path)))
    hypotheses = "".join(f"<hyp system='{i}'/>" for i in range(30))
    path.write_text(f"<dataset><doc id='d'>{hypotheses}</doc></dataset>", encoding="utf-8")
    with use_limits(systems=20), pytest.raises(InputError, match="21 systems, at most 20"):
        list(read_wmt_xml(str(path)))


def test_an_xml_file_is_read_document_by_document(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text(XML[: XML.index('  <doc id="d2"')] + "<broken", encoding="utf-8")
    rows = read_wmt_xml(str(path))
    assert next(rows)["id"] == "d1"
    with pytest.raises(InputError, match="no XML"):
        next(rows)


# -- texts as they are --

TEXT = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Cn", "Zl", "Zp", "Zs"]), max_size=8
).filter(lambda text: "\ufffe" not in text and "\uffff" not in text)


@given(texts=st.lists(TEXT, min_size=1, max_size=3))
def test_every_text_is_read_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("texts")
    segments = [f'<seg id="{i}">{escape(text)}</seg>' for i, text in enumerate(texts)]
    parts = [f"<{tag}>{''.join(segments)}</{end}>" for tag, end in TAGS.items()]
    xml = folder / "x.xml"
    xml.write_text(f'<dataset><doc id="d">{"".join(parts)}</doc></dataset>', encoding="utf-8")
    for field in ("src", "ref-A", "A"):
        (folder / f"x.en-de.{field}").write_text("".join(f"{text}\n" for text in texts))
    (folder / "x.en-de.docid").write_text("d\n" * len(texts))
    (folder / "x.en-cs.src").write_text("another pair\n")
    lines = [
        {"doc_id": "d", "src_text": t, "refs": {"refA": t}, "tgt_text": {"A": t}} for t in texts
    ]
    for (row,) in (
        read_wmt_xml(str(xml)),
        read_sacrebleu(str(folder / "x.en-de.src")),
        read_wmt_jsonl(write(folder / "x.jsonl", *lines)),
    ):
        found = (row["id"], row["source"], row["references"]["refA"], row["systems"]["A"])
        assert found == ("d", texts, texts, texts)


TAGS = {"src": "src", 'ref translator="A"': "ref", 'hyp system="A"': "hyp"}


# -- JSON lines of others --


def write(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_lines_of_wmt24pp(tmp_path: Path) -> None:
    line = {"lp": "en-de_DE", "domain": "news", "document_id": "d", "segment_id": 1}
    line |= {"source": "a", "target": "b", "original_target": "c", "is_bad_source": False}
    path = write(tmp_path / "x.jsonl", line, {**line, "source": "x"})
    assert list(read_wmt_jsonl(path)) == [
        {
            "id": "d",
            "domain": "news",
            "language_pair": "en-de_DE",
            "source": ["a", "x"],
            "references": {"refA": ["b", "b"], "original": ["c", "c"]},
            "systems": {},
        }
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["x"], "x.jsonl:1: found 'x', expected an object"),
        ([{"doc_id": "d"}], "x.jsonl:1: no source"),
        ([{"source": "a", "refs": {"refA": 1}}], "refs.refA: found 1"),
    ],
    ids=range(3),
)
def test_what_is_no_segment(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(read_wmt_jsonl(write(tmp_path / "x.jsonl", *rows)))


SUMMARY = {"id": "d", "model_id": "M1", "decoded": "a", "references": ["r", "s"], "text": "t"}


def test_summaries(tmp_path: Path) -> None:
    rated = {**SUMMARY, "expert_annotations": [{"fluency": 5, "relevance": 1}, {"fluency": 4}]}
    other = {**SUMMARY, "model_id": "M2", "turker_annotations": [{"fluency": 3}]}
    path = write(tmp_path / "x.jsonl", rated, {**SUMMARY, "id": "e"}, other)
    first, second = read_summeval(path)
    assert first == {
        "id": "d",
        "source": "t",
        "references": {"reference1": "r", "reference2": "s"},
        "systems": {"M1": "a", "M2": "a"},
        "human": {"fluency": {"M1": 4.5}, "relevance": {"M1": 1}, "turker_fluency": {"M2": 3}},
    }
    assert (second["id"], "human" in second) == ("e", False)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[]], r"x.jsonl:1: found \[\], expected an object"),
        ([{"id": "d"}], "model_id: is missing"),
        ([SUMMARY, SUMMARY], "x.jsonl:2: id 'd': a second summary of 'M1'"),
        ([SUMMARY, {**SUMMARY, "model_id": "M2", "text": "u"}], "another source than"),
        ([{**SUMMARY, "references": [1]}], "references"),
        (
            [{**SUMMARY, "expert_annotations": [{"fluency": "5"}]}],
            r"expert_annotations\[0\].fluency: found '5', expected a number",
        ),
    ],
    ids=range(6),
)
def test_what_is_no_summary(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(read_summeval(write(tmp_path / "x.jsonl", *rows)))


def test_files_of_sacrebleu_are_aligned(tmp_path: Path) -> None:
    (tmp_path / "s.en-de.src").write_text("a\nb\n", encoding="utf-8")
    (tmp_path / "s.en-de.ref").write_text("a\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"s.en-de.ref: 1 lines, .*s.en-de.src has more"):
        list(read_sacrebleu(str(tmp_path / "s.en-de.src")))
    (tmp_path / "s.en-de.ref").write_text("x\ny\n", encoding="utf-8")
    # without ids every segment is a document
    assert [row["id"] for row in read_sacrebleu(str(tmp_path / "s.en-de.src"))] == ["1", "2"]
    for path in ("s.en-de.ref", "t.en-de.src"):
        with pytest.raises(InputError, match=r"Give SET\.PAIR\.src"):
            list(read_sacrebleu(str(tmp_path / path)))


# -- all forms, through the one reader of systems files --


def test_documents_of_any_form_are_candidate_lists_and_documents(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    hypothesis = "<hyp system='S-1'><seg id='1'/></hyp>"
    with_output = edited('testsuite="ts">', f'testsuite="ts">{hypothesis}')
    path.write_text(with_output, encoding="utf-8")
    with open_lists(path, "wmt-xml") as lists:
        records = [entry.record for entry in lists]
    assert [record.id for record in records if record] == ["d1:0", "d1:1", "d1:2", "d2:0"]
    documents = list(read_documents(open_documents(path, "wmt-xml"), SystemsOptions()))
    assert [document.segments for document in documents] == [3, 1]


def test_forms_and_options_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown format of documents 'wmt-xm'"):
        open_documents(tmp_path / "x", "wmt-xm")
    with pytest.raises(InputError, match="not an option of the format 'wmt-xml'"):
        open_documents(tmp_path / "x", "wmt-xml", language_pair="en-de")
    with pytest.raises(InputError, match="language_pair: not an option of the format 'jsonl'"):
        open_lists(tmp_path / "x", "jsonl", language_pair="en-de")
