"""``discorank cite``: every built-in metric has its papers, and what is printed is BibTeX."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from discorank.cli.commands.cite import OF_DIVERSE, OF_TESTS, bibtex, papers
from discorank.cli.main import main
from discorank.metrics.names import BUILT_IN, WRAPPERS
from discorank.metrics.registry import papers_of
from discorank.metrics.storage.checksums import with_checksum

PAPERS = papers()


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_metric_has_papers(name: str) -> None:
    # those of the model that the server runs, which it alone knows
    if name.startswith("score-server"):
        assert papers_of(name, {}) == ()
    else:
        assert papers_of(name, {})


def test_every_paper_is_used_and_well_formed() -> None:
    settings: list[dict[str, object]] = [
        {},
        {"model": "kiwi"},
        {"prompt": "mqm", "logprobs": True},
        {"prompt": "pairwise"},
        {"focus": "entity"},
    ]
    cited = {
        paper
        for name in {**BUILT_IN, **WRAPPERS}
        for given in settings
        for paper in papers_of(name, given) or ()
    }
    assert cited | {*OF_TESTS, *OF_DIVERSE} == set(PAPERS)
    text = bibtex(PAPERS)
    assert text.count("{") == text.count("}")
    assert len(re.findall(r"^@(inproceedings|article)\{\w+,$", text, re.MULTILINE)) == len(PAPERS)
    assert all(paper.fields["year"] in key for key, paper in PAPERS.items())
    assert (files("discorank.metrics") / "papers.bib").read_text() == text


def test_pages_and_dois_have_their_form() -> None:
    for paper in PAPERS.values():
        assert {"author", "title", "year"} < paper.fields.keys()
        pages = paper.fields.get("pages", "")
        assert re.fullmatch(r"(\d+--\d+)?", pages)
        first, _, last = pages.partition("--")
        assert int(first or 0) < int(last or 1)
        assert re.fullmatch(r"(10\.\d+/\S+)?", paper.fields.get("doi", ""))
    text = bibtex(["popovic2015chrf", "zhang2020bertscore"])
    assert "  pages = {392--395},\n  year = {2015},\n  doi = {10.18653/v1/W15-3049},\n" in text
    assert "{}" not in text


def test_a_model_of_cometkiwi_is_cited_as_such() -> None:
    assert "rei2022cometkiwi" in (
        papers_of("comet-qe", {"model": "Unbabel/wmt22-CometKiwi-da"}) or ()
    )
    assert "rei2022cometkiwi" not in (papers_of("comet-qe", {"model": "wmt20-comet-qe-da"}) or ())
    assert "rei2022cometkiwi" not in (papers_of("comet-qe", {}) or ())


def test_a_combination_is_cited_with_its_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features = [
        {"metric": name, "weight": 1.0, "min": 0.0, "max": 1.0}
        for name in ("chrf", "bertscore(context=1)")
    ]
    model = tmp_path / "m.json"
    model.write_text(json.dumps(with_checksum({"format": 1, "features": features})))
    assert main(["cite", f"combination(model={json.dumps(str(model))})"]) == 0
    out = capsys.readouterr().out
    assert (
        "% combination: joty2014discotk, joty2017discourse\n% chrf: popovic2015chrf, post2018call"
        in out
    )
    assert "{vernikos2022embarrassingly,\n" in out
    assert main(["cite", 'combination(model="@sha256:0123456789abcdef")']) == 0
    assert "combination: its metrics are not cited" in capsys.readouterr().err


def test_signatures_and_each_entry_once(capsys: pytest.CaptureFixture[str]) -> None:
    contextual = 'bertscore(context=2,model="a_b@sha256:0123456789abcdef")'
    assert main(["cite", "chrf + 0.5*bleu", contextual, "--tests"]) == 0
    comments, _, entries = capsys.readouterr().out.partition("\n\n")
    assert "% chrf: popovic2015chrf, post2018call\n" in comments
    assert "% bertscore: zhang2020bertscore, vernikos2022embarrassingly\n" in comments
    assert "sha256:0123456789abcdef" in comments
    assert "riezler2005pitfalls" in comments
    assert entries.count("{post2018call,") == 1
    assert all(key in comments for key in re.findall(r"\{(\w+),\n", entries))


def test_chrf_with_words_is_chrf_plus_plus() -> None:
    assert papers_of("chrf", {"word_order": 2}) == papers_of("chrf++", {})
    assert papers_of("module:Metric", {}) is None
