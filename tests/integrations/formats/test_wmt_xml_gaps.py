"""XML of WMT: a document without a segment, as a released file has one, is left out with a warning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discorank.cli.main import main
from discorank.integrations.formats.wmt.rated_rows import LeftOutWarning
from discorank.integrations.formats.wmt.wmt_xml import read_wmt_xml

DOCUMENT = (
    '<doc id="{id}"><src lang="en"><p>{segments}</p></src>'
    '<ref lang="hr" translator="A"><p>{segments}</p></ref>'
    '<hyp system="S1" lang="hr"><p>{segments}</p></hyp></doc>'
)
SEGMENTS = '<seg id="1">Bok.</seg><seg id="2">Dobro.</seg>'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    documents = [("d1", SEGMENTS), ("empty", ""), ("d2", SEGMENTS)]
    text = "".join(DOCUMENT.format(id=name, segments=segments) for name, segments in documents)
    file = tmp_path / "set.xml"
    file.write_text(f'<dataset id="t">{text}</dataset>\n')
    return file


def test_the_other_documents_are_read(path: Path) -> None:
    with pytest.warns(LeftOutWarning, match=r"set\.xml: 1 document"):
        rows = list(read_wmt_xml(str(path)))
    assert [(row["id"], len(row["source"])) for row in rows] == [("d1", 2), ("d2", 2)]


def test_commands_report_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", str(path), "--from", "wmt-xml", "-m", "chrf", "--format", "json"]
    with pytest.warns(LeftOutWarning, match="1 document"):
        assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["systems"][0]["score"] == 100
