"""``discorank cite``: every built-in metric has its papers, and what is printed is BibTeX."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from discorank.cli.main import main
from discorank.metrics.papers import CONTEXT, KIWI, OF_METRIC, OF_TESTS, PAPERS, bibtex, keys_of
from discorank.metrics.registry import BUILT_IN, metric_class, names


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_metric_cites_the_papers_its_info_names(name: str) -> None:
    keys = keys_of(name, names()[name].settings)
    assert keys is not None
    years = {str(PAPERS[key].year) for key in keys}
    named = metric_class(name).info.paper.partition("; with")[0]
    if not name.startswith(("chrf", "dr")):  # these name both variants
        assert set(re.findall(r"\d{4}", named)) <= years


def test_every_paper_is_used_and_well_formed() -> None:
    used = {key for keys in OF_METRIC.values() for key in keys} | {*OF_TESTS, CONTEXT, KIWI}
    assert used == set(PAPERS)
    text = bibtex(PAPERS)
    assert text.count("{") == text.count("}")
    assert len(re.findall(r"^@(inproceedings|article)\{\w+,$", text, re.MULTILINE)) == len(PAPERS)
    assert all(str(paper.year) in key for key, paper in PAPERS.items())


def test_pages_and_dois_have_their_form() -> None:
    for paper in PAPERS.values():
        assert re.fullmatch(r"(\d+--\d+)?", paper.pages)
        first, _, last = paper.pages.partition("--")
        assert int(first or 0) < int(last or 1)
        assert re.fullmatch(r"(10\.\d+/\S+)?", paper.doi)
    text = bibtex(["popovic2015chrf", "zhang2020bertscore"])
    assert "  pages = {392--395},\n  year = {2015},\n  doi = {10.18653/v1/W15-3049},\n" in text
    assert "{}" not in text


def test_a_model_of_cometkiwi_is_cited_as_such() -> None:
    assert KIWI in (keys_of("comet-qe", {"model": "Unbabel/wmt22-CometKiwi-da"}) or ())
    assert KIWI not in (keys_of("comet-qe", {"model": "wmt20-comet-qe-da"}) or ())
    assert KIWI not in (keys_of("comet-qe", {}) or ())


def test_a_combination_is_cited_with_its_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features = [
        {"metric": name, "weight": 1.0, "min": 0.0, "max": 1.0}
        for name in ("chrf", "bertscore(context=1)")
    ]
    model = tmp_path / "m.json"
    model.write_text(json.dumps({"format": 1, "features": features}))
    assert main(["cite", f"combination(model={json.dumps(str(model))})"]) == 0
    out = capsys.readouterr().out
    assert (
        r"combination \citep{joty2014discotk,joty2017discourse}, chrf \citep{popovic2015chrf,post2018call}"
        in out
    )
    assert "{vernikos2022embarrassingly,\n" in out
    assert main(["cite", 'combination(model="@sha256:0123456789abcdef")']) == 0
    assert "combination: its metrics are not cited" in capsys.readouterr().err


def test_a_sentence_and_each_entry_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "cite",
                "chrf + 0.5*bleu",
                'bertscore(context=2,model="a_b@sha256:0123456789abcdef")',
                "--tests",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    sentence, _, entries = out.partition("\n\n")
    assert sentence.startswith(
        r"We computed chrf \citep{popovic2015chrf,post2018call}, bleu \citep{"
    )
    assert (
        r"and bertscore \citep{zhang2020bertscore,vernikos2022embarrassingly} with discorank"
        in sentence
    )
    assert r"@sha256:0123456789abcdef" in sentence
    assert r"a\_b" not in sentence  # paths say nothing to readers
    assert r"randomisation \citep{riezler2005pitfalls}" in sentence
    assert entries.count("{post2018call,") == 1
    assert set(re.findall(r"\{(\w+),\n", entries)) == {
        key for cited in re.findall(r"citep\{([\w,]+)\}", sentence) for key in cited.split(",")
    }


def test_chrf_with_words_is_chrf_plus_plus() -> None:
    assert keys_of("chrf", {"word_order": 2}) == keys_of("chrf++", {})
    assert keys_of("module:Metric", {}) is None


def test_a_run_cites_its_signature(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    data.write_text('{"id": "a", "candidates": ["x y", "x z"]}\n')
    assert main(["decode", str(data), "-u", "chrf++", "-o", str(out), "--quiet"]) == 0
    assert main(["cite", f"{out}.run.json"]) == 0
    assert "popovic2017chrf" in capsys.readouterr().out


def test_what_cannot_be_cited_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", "module:Class"]) == 0
    assert "module:Class: not one of discorank's metrics" in capsys.readouterr().err
    other = tmp_path / "x.json"
    other.write_text(json.dumps({"a": 1}))
    for given, message in (
        ([], "no metrics"),
        ([str(other)], "no signature in it"),
        ([str(tmp_path / "none.json")], "cannot be read"),
    ):
        assert main(["cite", *given]) == 2
        assert message in capsys.readouterr().err
