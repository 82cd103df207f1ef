"""The report: what it says, that nothing from outside can become part of the page, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import sys
from base64 import b64encode
from dataclasses import asdict, replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank.cli.main import main
from discorank.metrics.errors import ResourceError
from discorank.metrics.storage.checksums import UncheckedWarning, with_checksum
from discorank.report.choices import read_run
from discorank.report.page import rendered
from discorank.report.summary_text import believed, summary
from discorank.rerank.selection import saved_comparison
from discorank.rerank.selection.agreement import SegmentAgreement, SystemAgreement
from discorank.rerank.selection.comparison import SystemComparison
from discorank.rerank.selection.saved_comparison import DOCUMENTS, FILES, HEAD, load, save

from ..cli.test_compare import document, write
from ..support.bit_flips import NUM_FLIPS, refused_flips
from ..support.comparisons import EVIL, LISTS, comparison, large, run_of
from ..support.run_files import run_file, write_run_file_for

MEGABYTE = 10**6


class Parsed(HTMLParser):
    """The elements of a page, and the text of those that hold code or data."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": [], "h3": [], "title": []}
        self._open: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in self.texts:
            self._open = tag
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._open:
            self._open = None

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open][-1] += data

    def island(self, name: str) -> Any:
        scripts = [attributes for tag, attributes in self.elements if tag == "script"]
        at = next(i for i, attributes in enumerate(scripts) if attributes.get("id") == name)
        return json.loads(self.texts["script"][at])

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def small() -> SystemComparison:
    return comparison()


@pytest.fixture(scope="module")
def page(small: SystemComparison) -> str:
    return rendered(small, None)


def test_a_comparison_is_kept_whole(small: SystemComparison, tmp_path: Path) -> None:
    save(small, tmp_path / "run")
    assert load(tmp_path / "run") == small
    save(small, tmp_path / "run")  # again, over the first
    assert load(tmp_path / "run") == small
    assert small.metrics[0].order == [0, 1, 2]
    assert small.metrics[1].order == [0, 1, 2]  # ter, lower is better
    assert small.scores.segments[0, 1, 0] < 100


def changed(path: Path, **parts: Any) -> None:
    row = {**json.loads(path.read_text(encoding="utf-8")), **parts}
    path.write_text(json.dumps(with_checksum(row)), encoding="utf-8")


def test_a_flipped_bit_of_a_comparison_is_refused_or_changes_nothing(
    small: SystemComparison, tmp_path: Path
) -> None:
    save(small, tmp_path)
    for name in FILES:
        assert refused_flips(tmp_path / name, lambda: load(tmp_path), small, NUM_FLIPS // 3)


@pytest.mark.slow
def test_no_flipped_bit_of_hundreds_changes_a_comparison(
    small: SystemComparison, tmp_path: Path
) -> None:
    save(small, tmp_path)
    for name in FILES:
        assert refused_flips(tmp_path / name, lambda: load(tmp_path), small, 300)


def test_an_edited_comparison_is_refused_and_one_without_checksum_read(
    small: SystemComparison, tmp_path: Path
) -> None:
    save(small, tmp_path)
    text = (tmp_path / HEAD).read_text(encoding="utf-8")
    (tmp_path / HEAD).write_text(text.replace('"draws": 300', '"draws": 301'), encoding="utf-8")
    match = r'comparison.json: is damaged or was edited: .*with --save; .* take "checksum" out'
    with pytest.raises(ValueError, match=match):
        load(tmp_path)
    row = {name: value for name, value in json.loads(text).items() if name != "checksum"}
    (tmp_path / HEAD).write_text(json.dumps(row), encoding="utf-8")
    with pytest.warns(UncheckedWarning, match=r'comparison.json: has no "checksum"'):
        assert load(tmp_path) == small


@pytest.mark.parametrize("name", FILES)
def test_a_file_beyond_its_bound_is_refused_unread(
    name: str, small: SystemComparison, tmp_path: Path
) -> None:
    save(small, tmp_path)
    with open(tmp_path / name, "ab") as file:
        file.truncate(3 << 30)  # of which the disk holds nothing
    with pytest.raises(ValueError, match=rf"{name}: larger than \d+ bytes"):
        load(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=rf"{name}: is a device or a pipe"):
        load(tmp_path)


def test_a_damaged_comparison_is_refused(small: SystemComparison, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"comparison\.json: cannot be read.*compare --save"):
        load(tmp_path)
    head, documents = tmp_path / HEAD, tmp_path / DOCUMENTS
    for parts, message in (
        ({"kind": "other"}, "not a saved comparison"),
        ({"version": 1}, "is of version 1, expected 4"),
        ({"metrics": []}, "no metrics, documents or level"),
        ({"settings": {}}, "no metrics, documents or level"),
        ({"metrics": 3}, "metrics: "),
        ({"people": {"raters": [{"human": "mqm"}]}}, "people"),
    ):
        save(small, tmp_path)
        changed(head, **parts)
        with pytest.raises(ValueError, match=message):
            load(tmp_path)
    save(small, tmp_path)
    documents.write_text(
        documents.read_text(encoding="utf-8").replace("cat", "dog"), encoding="utf-8"
    )
    with pytest.raises(ValueError, match="is not the file that was saved with it"):
        load(tmp_path)
    head.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="not JSON"):
        load(tmp_path)


def test_parts_that_do_not_fit_together_are_refused(
    small: SystemComparison, tmp_path: Path
) -> None:
    first, metric, people = small.documents[0], small.metrics[0], small.human[0]
    short = {name: texts[:1] for name, texts in first.systems.items()}
    strange = replace(people.scores, systems=("A", "B", "D"))
    uneven = "document 'd0': its texts and ratings do not fit together"
    infinite = replace(small.scores, values=np.full_like(small.scores.values, np.inf))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"documents": (replace(first, systems=short),)}, uneven),
        ({"documents": (replace(first, systems={}),)}, "no metrics, documents or level"),
        ({"documents": (first,)}, "scores.npy: does not fit"),
        ({"scores": infinite}, "scores.npy: does not fit"),
        (
            {"metrics": (replace(metric, clusters=(1,)), small.metrics[1])},
            "3 systems, and other numbers of 'chrf'",
        ),
        ({"human": (replace(people, scores=strange),)}, "'mqm' is of 'D'"),
        ({"human": (replace(people, agreement=()),)}, "of different systems or metrics"),
    ]
    for parts, message in cases:
        save(replace(small, **parts), tmp_path)
        with pytest.raises(ValueError, match=message):
            load(tmp_path)
    save(small, tmp_path)
    none = [{**asdict(one), "scores": [float("nan"), 1.0, 2.0]} for one in small.metrics]
    changed(tmp_path / HEAD, metrics=none)
    with pytest.raises(ValueError, match=r"metrics\.0\.scores\.0: should be a finite number"):
        load(tmp_path)


@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_earlier_comparison_stays_until_the_next_is_whole(
    end: BaseException, small: SystemComparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(small, tmp_path / "kept")
    before = {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()}
    lines = iter([b"{}", b"{}"])

    def stopped(row: object) -> bytes:
        for line in lines:
            return line
        raise end

    with monkeypatch.context() as patch:
        patch.setattr(saved_comparison, "as_line", stopped)
        with pytest.raises((KeyboardInterrupt, ResourceError)):
            save(small, tmp_path / "kept")
    assert {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [".kept.lock", "kept"]


def test_a_folder_of_other_things_is_left_alone(small: SystemComparison, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"holds 'thesis.tex'"):
        save(small, tmp_path)
    with pytest.raises(ValueError, match="is a file"):
        save(small, tmp_path / "thesis.tex")


def test_the_summary_says_what_to_ship_and_what_to_believe(small: SystemComparison) -> None:
    said = summary(small)
    assert said.headline == "Ship A: by people's mqm it is better than every other system."
    everything = " ".join(said.sentences)
    assert "the runner-up B" in everything
    assert "p = 0.0078 for the pair" in everything  # 2 of 256
    assert any("8 documents" in warning and "0.0078" in warning for warning in said.warnings)
    assert any("3 systems" in warning for warning in said.warnings)
    best = believed(small.human[0])
    assert best is not None
    assert best.metric in ("chrf", "ter")


def test_no_metric_is_believed_where_measures_disagree(small: SystemComparison) -> None:
    human = small.human[0]
    first, second = human.agreement
    apart = replace(
        first,
        systems=replace(first.systems, pearson=0.2),
        segments=SegmentAgreement(kendall_b=0.5),
    )
    other = replace(
        second,
        systems=replace(second.systems, pearson=0.9),
        segments=SegmentAgreement(kendall_b=0.1),
    )
    against = replace(first, systems=replace(first.systems, pearson=-0.1))
    for agreement in ((apart, other), (against,)):
        assert believed(replace(human, agreement=agreement)) is None


@pytest.mark.parametrize("higher", [True, False])
def test_scores_that_are_read_upside_down_are_noticed(
    higher: bool, small: SystemComparison
) -> None:
    human = small.human[0]
    systems = SystemAgreement(pairwise_accuracy=0.0, pearson=-0.9)
    wrong = [replace(one, systems=systems, segments=SegmentAgreement()) for one in human.agreement]
    scores = replace(human.scores, higher_is_better=higher)
    against = replace(human, scores=scores, agreement=tuple(wrong))
    said = " ".join(summary(replace(small, human=(against,))).warnings)
    assert ("write mqm:lower" if higher else "write mqm without :lower") in said
    one_agrees = replace(against, agreement=(wrong[0], human.agreement[1]))
    said = " ".join(summary(replace(small, human=(one_agrees,))).warnings)
    assert "upside down" not in said


def test_ranks_are_ranges(small: SystemComparison) -> None:
    scores = small.metrics[0]
    assert [scores.ranks(s, small.level) for s in range(3)] == [(1, 1), (2, 2), (3, 3)]
    even = replace(scores, pairs=tuple(replace(pair, p=0.5) for pair in scores.pairs))
    assert [even.ranks(s, small.level) for s in range(3)] == [(1, 3)] * 3
    by_pair = {(pair.a, pair.b): pair for pair in scores.pairs}
    one = replace(even, pairs=(by_pair[0, 2],))  # the first and the last alone are told apart
    assert [one.ranks(s, small.level) for s in range(3)] == [(1, 2), (1, 3), (2, 3)]


def test_the_summary_warns(small: SystemComparison) -> None:
    first = small.documents[0]
    document = replace(first, human={"mqm": {**first.human["mqm"], "B": (1.0, None)}})
    cut = replace(small.metrics[0], cuts=7)
    documents = (document, *small.documents[1:])
    changed = replace(small, documents=documents, metrics=(cut, small.metrics[1]))
    warned = " ".join(summary(changed).warnings)
    assert "1 of 48 scores of mqm are missing" in warned
    assert "chrf did not read all of 7 texts" in warned
    assert "28 pairs of systems were tested" in " ".join(summary(large(8, 6, 1, 1)).warnings)
    few = large(8, 5, 1, 1)  # no p can be below 0.0625
    warned = " ".join(summary(few).warnings)
    assert "pairs of systems were tested" not in warned
    assert "p cannot fall below 0.062." in warned
    by_segment = replace(few, settings={**few.settings, "unit": "segment"})
    assert "cannot fall" not in " ".join(summary(by_segment).warnings)


def test_a_system_that_people_did_not_judge_is_named(small: SystemComparison) -> None:
    judged = small.human[0].scores
    some = replace(
        judged,
        systems=("B", "C"),
        scores=judged.scores[1:],
        low=judged.low[1:],
        high=judged.high[1:],
        clusters=judged.clusters[1:],
        pairs=(replace(judged.pairs[2], a=0, b=1),),
    )
    changed = replace(small, human=(replace(small.human[0], scores=some),))
    said = " ".join(summary(changed).sentences)
    assert "Which metric to believe on mqm cannot be said: two judged systems are one pair" in said
    assert believed(changed.human[0]) is None
    assert "People gave no mqm to A." in said
    assert Parsed(rendered(changed, None)).named("table")
    one = replace(
        some, systems=("B",), scores=(1.0,), low=(None,), high=(None,), clusters=(1,), pairs=()
    )
    alone = replace(small, human=(replace(small.human[0], scores=one),))
    assert summary(alone).headline == "Ship A: by chrf it is better than every other system."
    assert Parsed(rendered(alone, None)).named("table")


def test_the_page_is_complete_in_itself(page: str) -> None:
    parsed = Parsed(page)
    (policy,) = [
        m["content"] or ""
        for m in parsed.named("meta")
        if m.get("http-equiv") == "Content-Security-Policy"
    ]
    (code,) = [
        text
        for text, at in zip(parsed.texts["script"], parsed.named("script"), strict=True)
        if not at
    ]
    (style,) = parsed.texts["style"]
    for text in (code, style):
        assert f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag, attributes in parsed.elements:
        assert tag not in ("link", "iframe", "object", "base", "image", "a:href")
        assert not [
            name for name in attributes if name.startswith("on") or name in ("style", "srcset")
        ]
        assert (attributes.get("src") or "data:image/svg+xml;base64,").startswith("data:image/svg")
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"https?://(?!www\.w3\.org/)", page.partition('id="documents-data"')[0])
    assert parsed.texts["title"] == ["Comparison of 3 systems on 8 documents"]


def test_nothing_from_outside_becomes_markup(page: str) -> None:
    evil = comparison((EVIL, "B <b>", "C $x_{1}$"), 3, names=EVIL)
    metric = replace(evil.metrics[0], name=EVIL)
    documents = tuple(
        replace(
            one,
            systems={**one.systems, EVIL: (EVIL, "\ud800 \x00 \x1b")},
            references={EVIL: one.references["refA"]},
        )
        for one in evil.documents
    )
    human = replace(evil.human[0], scores=replace(evil.human[0].scores, name=EVIL))
    documents = tuple(replace(one, human={EVIL: one.human["mqm"]}) for one in documents)
    changed = replace(evil, metrics=(metric, evil.metrics[1]), documents=documents, human=(human,))
    plain, hostile = Parsed(page), Parsed(rendered(changed, None))
    kinds = {tag for tag, _ in plain.elements}
    assert {tag for tag, _ in hostile.elements} <= kinds
    assert len(hostile.named("script")) == len(plain.named("script")) == 2
    island = hostile.island("documents-data")
    assert island["systems"] == [EVIL, "B <b>", "C $x_{1}$"]
    assert island["documents"][0]["id"] == EVIL + "0"
    assert island["documents"][0]["systems"][0][0] == EVIL
    assert not [a for _, attributes in hostile.elements for a in attributes if a.startswith("on")]
    assert hostile.texts["style"] == plain.texts["style"]


def test_a_large_page_is_small() -> None:
    page = rendered(large(15, 100, 10, 1), None)
    assert len(page.encode()) < 6 * MEGABYTE
    assert len(Parsed(page).island("documents-data")["documents"]) == 100


def test_a_value_that_is_none_is_no_trouble(small: SystemComparison) -> None:
    none = replace(
        small.metrics[0], scores=(None, 1.0, 2.0), low=(None, 0.5, 1.0), high=(None, 2.0, 3.0)
    )
    assert none.order == [2, 1, 0]
    values = small.scores.values.copy()
    values[:, :, len(small.documents) :] = np.nan
    scores = replace(small.scores, values=values)
    changed = replace(small, metrics=(none, small.metrics[1]), scores=scores)
    assert Parsed(rendered(changed, None)).island("documents-data")["documents"][0]["segments"] == [
        None,
        None,
    ]


# from the command line


def reported(*arguments: str) -> Parsed:
    out = (
        Path(arguments[0] if Path(arguments[0]).is_dir() else Path(arguments[0]).parent)
        / "report.html"
    )
    assert main(["report", *arguments, "-o", str(out), "--quiet"]) == 0
    return Parsed(out.read_text(encoding="utf-8"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["report", *arguments, "--quiet"]) == 2
    return capsys.readouterr().err


def test_compare_saves_what_report_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    systems = write(tmp_path / "systems.jsonl", *(document(n) for n in range(4)))
    folder = tmp_path / "run"
    common = ["-m", "chrf", "cohesion", "--human", "mqm:lower", "--draws", "100", "--quiet"]
    assert main(["compare", systems, *common, "--save", str(folder)]) == 0
    Path(systems).unlink()  # the folder alone is enough
    page = tmp_path / "page.html"
    assert main(["report", str(folder), "-o", str(page)]) == 0
    assert "0." in capsys.readouterr().err
    text = page.read_text(encoding="utf-8")
    island = Parsed(text).island("documents-data")
    assert island["documents"][1]["human"][0] == [[0, 1], [2, None], [5, 4]]
    assert island["documents"][0]["segments"][1] is None  # lc scores documents
    assert island["shown"] == ["A", "B"]
    assert main(["report", str(folder), "-o", "-", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


def test_several_sets_are_saved_apart(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{name}.jsonl", *(document(n) for n in range(6)))
        for name in ("news", "talks")
    ]
    common = ["-m", "chrf", "--draws", "100", "--quiet", "--save", str(tmp_path / "run")]
    assert main(["compare", *paths, *common, "--correction", "holm", "--unit", "segment"]) == 0
    folders = [path.name for path in (tmp_path / "run").iterdir() if path.is_dir()]
    assert sorted(folders) == ["news", "talks"]
    with pytest.raises(
        ValueError, match=r"run: holds 2 comparisons: news, talks\. Name one of its folders"
    ):
        load(tmp_path / "run")
    saved = load(tmp_path / "run" / "talks")
    assert (saved.settings["input"], saved.settings["correction"]) == (paths[1], "holm")
    warned = summary(saved).warnings
    assert any(w.startswith("Tests draw by segment") for w in warned)
    assert "holm" in rendered(saved, None)


def test_choices_with_reasons(tmp_path: Path) -> None:
    page = reported(str(run_of(tmp_path, LISTS, "-u", "chrf", "--no-self-pair")))
    lists = page.island("lists-data")["lists"]
    assert [one["id"] for one in lists] == ["one", "two", "three"]
    first = lists[0]
    assert first["chosen"] == first["ranking"][0]["index"]
    assert len(first["ranking"]) == first["distinct"] == 3
    utilities = [place["utility"] for place in first["ranking"]]
    assert utilities == sorted(utilities, reverse=True)
    ran = next(
        place for place in first["ranking"] if first["texts"][place["text"]] == "the cat ran"
    )
    assert ran["beside"] == {"logprob": -1.5}
    assert first["texts"][ran["agreeing"][0][0]] == "the cat sat"
    assert lists[2]["ranking"][0]["utility"] is None


def test_numbers_that_json_cannot_write_are_told(tmp_path: Path) -> None:
    lists, out = tmp_path / "lists.jsonl", tmp_path / "chosen.jsonl"
    lists.write_text('{"id": "x", "candidates": [{"text": "a", "logprob": -1e999}, "b"]}\n')
    assert main(["decode", str(lists), "-u", "chrf", "-o", str(out), "--quiet"]) == 0
    (one,) = reported(str(out)).island("lists-data")["lists"]
    assert {"logprob": "-inf"} in [place["beside"] for place in one["ranking"]]
    lists.unlink()  # without reasons, nothing is decided again
    assert (
        main(["report", str(out), "--limit", "0", "-o", str(tmp_path / "r.html"), "--quiet"]) == 0
    )
    assert "Shown with reasons: 0 of 1 list;" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_reranked_run_by_expected_utility(tmp_path: Path) -> None:
    options = ("-m", "expected", "length*0.1", "-u", "chrf", "--no-self-pair")
    run = run_of(tmp_path, LISTS[:2], "rerank", *options, "--normalize", "minmax")
    lists = reported(str(run)).island("lists-data")["lists"]
    assert [one["id"] for one in lists] == ["one", "two"]
    assert [one["chosen"] for one in lists] == [one["ranking"][0]["index"] for one in lists]
    rows = [json.loads(line) for line in run.read_text(encoding="utf-8").splitlines()]
    utilities = [one["ranking"][0]["utility"] for one in lists]
    assert utilities == pytest.approx([row["utility"] for row in rows], abs=1e-3)


def test_a_run_with_a_prior(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    systems = [
        {
            "id": f"d{i}",
            "systems": {"A": [f"a b {i}"], "B": ["c d"]},
            "human": {"h": {"A": [i], "B": [9]}},
        }
        for i in range(4)
    ]
    file, prior = tmp_path / "systems.jsonl", tmp_path / "prior.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in systems), encoding="utf-8")
    command = ["train", "prior", str(file), "--human", "h", "-o", str(prior), "--quiet"]
    assert main(command) == 0
    out = tmp_path / "chosen.jsonl"
    options = ["--from", "systems", "-u", "chrf", "--prior", str(prior), "-o", str(out), "--quiet"]
    assert main(["decode", str(file), *options]) == 0
    page = tmp_path / "page.html"
    lists = reported(str(out)).island("lists-data")["lists"]  # the run file names the prior
    assert [one["chosen"] for one in lists] == [one["ranking"][0]["index"] for one in lists]
    changed = json.loads(prior.read_text(encoding="utf-8"))
    changed["segments"] += 1
    prior.write_text(json.dumps(with_checksum(changed)), encoding="utf-8")
    assert "expected" in refused(capsys, str(out), "--prior", str(prior))
    prior.unlink()
    assert main(["report", str(out), "-o", str(page)]) == 0
    assert "--prior FILE" in capsys.readouterr().err
    text = page.read_text(encoding="utf-8")
    assert "No list is shown with reasons: the run was decided with a prior." in text


def test_a_metric_of_the_user_s_own_needs_leave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path, LISTS, "-u", "tests.support.contextual:Echo(context=0)")
    page = tmp_path / "page.html"
    assert main(["report", str(run), "-o", str(page)]) == 0
    assert "--allow-code tests.support.contextual" in capsys.readouterr().err
    text = page.read_text(encoding="utf-8")
    assert "No list is shown with reasons: the run names the code" in text
    assert "Shown with reasons: 0 of 3 lists" in text
    allowed = reported(str(run), "--allow-code", "tests.support")
    assert len(allowed.island("lists-data")["lists"]) == 3


def test_an_input_beside_the_run_or_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "run"
    elsewhere.mkdir()
    folder.mkdir()
    run = run_of(folder, LISTS, "-u", "chrf")
    assert len(reported(str(run)).island("lists-data")["lists"]) == 3
    far = (folder / "lists.jsonl").rename(elsewhere / "lists.jsonl")

    def named(name: str) -> None:
        head = json.loads(Path(f"{run}.run.json").read_text(encoding="utf-8"))
        signed = with_checksum({**head, "name": name})
        Path(f"{run}.run.json").write_text(json.dumps(signed), encoding="utf-8")

    for name in (str(far), "/dev/zero", "/dev/stdin", "../elsewhere/lists.jsonl", "//host/x"):
        named(name)
        monkeypatch.chdir(folder)
        message = refused(capsys, str(run))
        assert "--input FILE" in message
        assert "is not the input" not in message
    assert len(reported(str(run), "--input", str(far)).island("lists-data")["lists"]) == 3
    monkeypatch.chdir(tmp_path)
    named("elsewhere/lists.jsonl")
    assert len(reported(str(run)).island("lists-data")["lists"]) == 3
    far.rename(folder / "lists.jsonl")  # the whole folder came from elsewhere
    assert len(reported(str(run)).island("lists-data")["lists"]) == 3
    os.mkfifo(elsewhere / "lists.jsonl")
    assert "elsewhere/lists.jsonl: " in refused(capsys, str(run))


def test_errors_and_both_kinds_together(tmp_path: Path, small: SystemComparison) -> None:
    folder = tmp_path / "systems"
    save(small, folder)
    lists = [*LISTS, {"id": "<i>bad</i>", "candidates": []}]
    run = run_of(
        tmp_path, lists, "-u", "chrf", "--max-errors", "5", "--shortlist", "bleu", "--top-k", "2"
    )
    out = tmp_path / "page.html"
    assert main(["report", str(folder), str(run), "-o", str(out), "--quiet", "--limit", "1"]) == 0
    text = out.read_text(encoding="utf-8")
    assert "&lt;i&gt;bad&lt;/i&gt;" in text
    assert "1 list could not be decided and has no row" in text
    page = Parsed(text)
    assert len(page.island("lists-data")["lists"]) == 1
    assert page.island("lists-data")["lists"][0]["flags"] == ["shortlisted"]
    assert len(page.island("documents-data")["documents"]) == 8


def test_context_comes_from_the_whole_document(tmp_path: Path) -> None:
    lists = [{**one, "document": "d", "position": i} for i, one in enumerate(LISTS)]
    run = run_of(tmp_path, lists, "-u", "tests.support.contextual:Echo(context=1)")
    assert reported(str(run)).island("lists-data")["lists"] == []
    allowed = reported(str(run), "--allow-code", "tests.support.contextual")
    lists = allowed.island("lists-data")["lists"]
    assert len(lists) == len(LISTS)
    assert [one["chosen"] for one in lists] == [one["ranking"][0]["index"] for one in lists]


def test_an_input_that_moved_or_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(tmp_path, LISTS, "-u", "chrf")
    lists = (tmp_path / "lists.jsonl").rename(tmp_path / "moved.jsonl")
    assert (
        "lists.jsonl: is not there. Give the file that the run read, where it is now: --input"
        in refused(capsys, str(run))
    )
    assert (
        main(["report", str(run), "--input", str(lists), "-o", str(tmp_path / "r.html"), "--quiet"])
        == 0
    )
    lists.write_text(lists.read_text(encoding="utf-8").replace("dog", "cow"), encoding="utf-8")
    assert "is not the input that" in refused(capsys, str(run), "--input", str(lists))
    assert "is an input and an output" in refused(
        capsys, str(run), "--input", str(lists), "-o", str(lists)
    )


def test_an_interrupted_report_writes_nothing(
    small: SystemComparison,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: Any) -> str:
        raise KeyboardInterrupt

    save(small, tmp_path / "run")
    monkeypatch.setattr("discorank.cli.commands.report.rendered", interrupt)
    assert main(["report", str(tmp_path / "run"), "-o", str(tmp_path / "page.html")]) == 130
    assert "interrupted; nothing was written" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == [".run.lock", "run"]


def test_no_file_of_a_run_is_written_over(
    small: SystemComparison, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(small, tmp_path / "run")
    chosen = run_of(
        tmp_path, [*LISTS, {"id": "broken", "candidates": []}], "-u", "chrf", "--max-errors", "1"
    )
    beside = [f"{chosen}{end}" for end in ("", ".run.json", ".errors.jsonl")]
    for output in (*beside, *(str(tmp_path / "run" / name) for name in (HEAD, DOCUMENTS))):
        assert "is an input and an output" in refused(
            capsys, str(tmp_path / "run"), str(chosen), "-o", output
        )
    assert "is no plain file" in refused(capsys, str(chosen), "-o", str(tmp_path))
    assert "the output: is empty" in refused(capsys, str(chosen), "-o", "")
    assert "is no folder" in refused(
        capsys, str(chosen), "-o", str(tmp_path / "none" / "page.html")
    )


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "RUN" in refused(capsys)
    assert "there is no" in refused(capsys, str(tmp_path / "chosen.jsonl"))
    run = run_of(tmp_path, LISTS, "-u", "chrf", "--format", "text")
    assert "is no run with a row per list" in refused(capsys, str(run))
    assert "0 comparisons and 2 runs" in refused(capsys, *[str(run)] * 2)
    for path in tmp_path.iterdir():
        path.unlink()
    run = run_of(tmp_path, LISTS, "-u", "chrf")
    rows = run.read_text(encoding="utf-8").splitlines(keepends=True)
    run.write_text("".join(rows[:-1]), encoding="utf-8")
    size, whole = run.stat().st_size, run_file(run)["bytes"]["rows"]
    problem = f"chosen.jsonl: {size} bytes, the run file says {whole}. Restore it, or give a copy"
    assert problem in refused(capsys, str(run))
    run.write_text("".join([*rows[:-1], '{"id": "x"}\n']), encoding="utf-8")
    write_run_file_for(run)
    assert (
        "chosen.jsonl:3: index: is missing, found {'id': 'x'}. Give the output of decode"
        in refused(capsys, str(run))
    )
    run.write_text("".join(rows), encoding="utf-8")
    settings = run_file(run)["settings"]
    without_weights = {key: value for key, value in settings.items() if key != "weights"}
    write_run_file_for(run, settings=without_weights)
    assert "chosen.jsonl.run.json: cannot be read (KeyError('weights'" in refused(capsys, str(run))


def test_a_choice_that_comes_out_otherwise_is_told(tmp_path: Path) -> None:
    run = run_of(tmp_path, LISTS, "-u", "chrf")
    rows = [json.loads(line) for line in run.read_text(encoding="utf-8").splitlines()]
    rows[0]["index"] = 1
    run.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    write_run_file_for(run)
    assert read_run(run).rows["one"].index == 1
    page = reported(str(run))
    assert page.island("lists-data")["lists"][0]["chosen"] == 1
    assert "1 list comes out otherwise" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"counts": {"rows": "many"}}, "counts.rows: should be a valid integer"),
        ({"input": {"digest": ""}}, "input.entries: is missing"),
        ({"signature": [1]}, "signature.0: should be a valid string"),
        ({"settings": {"decoder": "mbr", "format": "jsonl", "human": 5}}, "cannot be read"),
    ],
)
def test_a_damaged_run_file_is_refused(
    part: dict[str, Any], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path, LISTS, "-u", "chrf")
    write_run_file_for(run, **part)
    assert f"chosen.jsonl.run.json: {problem}" in refused(capsys, str(run))


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"gap": "wide"}, "gap: should be a valid number"),
        ({"index": -1}, "index: should be greater than or equal to 0"),
    ],
)
def test_a_damaged_row_is_refused(
    part: dict[str, Any], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path, LISTS, "-u", "chrf")
    first, *rest = run.read_text(encoding="utf-8").splitlines()
    run.write_text(
        "\n".join([json.dumps({**json.loads(first), **part}), *rest]) + "\n", encoding="utf-8"
    )
    write_run_file_for(run)
    assert f"chosen.jsonl:1: {problem}" in refused(capsys, str(run))


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_extra_is_named(
    package: str,
    small: SystemComparison,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    save(small, tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    message = f'report: {package} is not installed. pip install "discorank[report]"'
    assert message in refused(capsys, str(tmp_path))
