"""Commands over human evaluations as released: a ranking with intervals, annotators, spans, and logs of Pearmut."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.metrics.errors import InputError
from discorank.rerank.selection.saved_comparison import load, save
from discorank.rerank.selection.system_scores import RatedSpan
from tests.support.human_files import (
    SYSTEMS,
    errors_of,
    pearmut_record,
    wmt25_segments,
    write_lines,
)

EXAMPLES = "examples/systems.jsonl"
COMPARE = ("compare", "-m", "chrf", "--draws", "200")
LEFT_OUT = "ignore::discorank.integrations.formats.wmt.rated_rows.LeftOutWarning"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("wmt") / "wmt25.jsonl", wmt25_segments(documents=24))


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    """What a command prints, on stderr if it fails."""
    assert main([str(argument) for argument in arguments]) == code
    said = capsys.readouterr()
    return said.err if code else said.out


def tables(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    return dict(json.loads(run(capsys, *arguments, "--format", "json")))


def test_a_released_file_is_ranked_by_document(
    capsys: pytest.CaptureFixture[str], released: Path
) -> None:
    told = run(capsys, *COMPARE, released, "--human", "esa")
    assert "Ship D: by people's esa it is better than every other system" in told
    assert "200 draws of 24 documents" in told


def test_annotators(capsys: pytest.CaptureFixture[str], released: Path) -> None:
    found = tables(capsys, *COMPARE, released, "--raters")
    assert len(found["raters"]) == 6
    assert {row["systems"] for row in found["raters"]} == {5}
    everyone, *pairs = found["rater_agreement"]
    assert everyone["texts"] == sum(row["texts"] for row in pairs)
    assert 0 < everyone["pearson"] < 1
    assert "esa: agreement of annotators" in run(capsys, *COMPARE, released, "--raters")


def test_annotators_who_saw_one_system_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = list(wmt25_segments())
    lines[0]["scores"]["A"]["annotator0"] = "lone"
    path = write_lines(tmp_path / "x.jsonl", lines)
    assert main([*COMPARE, str(path)]) == 0
    assert "warning: esa: lone rated one system only" in capsys.readouterr().err


def test_people_are_saved_and_shown_on_the_page(
    capsys: pytest.CaptureFixture[str], released: Path, tmp_path: Path
) -> None:
    folder, page = tmp_path / "saved", tmp_path / "page.html"
    run(capsys, *COMPARE, released, "--raters", "--save", folder)
    run(capsys, "report", folder, "-o", page)
    text = page.read_text("utf-8")
    assert "Those who judged" in text
    data = json.loads(text.split('id="documents-data">')[1].split("</script>")[0])
    assert len(data["raters"]) == 6
    first = data["documents"][0]["marks"][0][0]
    assert {rater for rater, _ in first} <= set(data["raters"])


@pytest.mark.filterwarnings(LEFT_OUT)
def test_priors_and_choices_are_made_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [*wmt25_segments(documents=24), *wmt25_segments("en-ko_KR", is_mqm=True)]
    path, prior, chosen = (
        write_lines(tmp_path / "x.jsonl", rows),
        tmp_path / "p.json",
        tmp_path / "o",
    )
    error = run(capsys, "train", "prior", path, "--human", "esa", "-o", prior, code=2)
    assert "Name one, such as --language-pair en-cs_CZ" in error
    pair = ("--language-pair", "en-cs")
    told = run(capsys, "train", "prior", path, "--human", "esa", "-o", prior, *pair)
    assert told.splitlines()[2].split()[0] == "D"
    decode = ("decode", path, "--from", "wmt-jsonl", "-u", "chrf", "-o", chosen, *pair)
    run(capsys, *decode, "--prior", prior)
    ids = [json.loads(line)["id"] for line in chosen.read_text("utf-8").splitlines()]
    assert ids[1] == "en-cs_CZ_#_social_#_doc1:0"
    page = tmp_path / "page.html"
    # the run says which pair it was
    run(capsys, "report", chosen, "--prior", prior, "-o", page)
    assert "en-cs_CZ_#_" in page.read_text("utf-8")
    both = ("--language-pair", "en-cs_CZ", "en-ko_KR")
    told = run(capsys, *COMPARE, path, *both)
    assert "x en-ko_KR" in told
    assert "Ship D: by people's mqm" in told


def test_what_a_form_has_no_place_for_is_said(
    capsys: pytest.CaptureFixture[str], released: Path, tmp_path: Path
) -> None:
    arguments = ["convert", str(released), "--from", "wmt-jsonl", "-o", str(tmp_path / "o")]
    mtme = ["--to", "mtme", "--language-pair", "en-cs_CZ", "--human", "esa"]
    assert main([*arguments[:-1], str(tmp_path / "folder"), *mtme]) == 0
    said = capsys.readouterr().err
    assert "mtme has no place for ratings, left out of 18 documents" in said
    assert "mtme has no place for metrics, left out of 18 documents" in said
    assert (tmp_path / "folder/human-scores/en-cs_CZ.esa.seg.score").exists()


def test_convert_sees_what_the_file_is(
    capsys: pytest.CaptureFixture[str], released: Path, tmp_path: Path
) -> None:
    shown, named = tmp_path / "shown.jsonl", tmp_path / "named.jsonl"
    arguments = ("convert", released, "--to", "systems", "-o")
    run(capsys, *arguments, shown)
    run(capsys, *arguments, named, "--from", "wmt-jsonl")
    assert shown.read_bytes() == named.read_bytes()
    no_documents = run(capsys, "convert", "examples/demo.jsonl", "--to", "systems", code=2)
    assert "systems" in no_documents


def said_of(texts: dict[str, str], user: str) -> dict[str, Any]:
    """Annotations of texts: longer ones are better."""
    span = {"start_i": 0, "end_i": 2, "severity": "minor", "category": None}
    return {
        name: {"score": min(100, len(text)) - 5 * (user == "v"), "error_spans": [span]}
        for name, text in texts.items()
    }


def test_a_log_of_pearmut_is_judgements(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [json.loads(line) for line in Path(EXAMPLES).read_text("utf-8").splitlines()]
    log = []
    for user in "uv":
        for row in rows[:5]:
            texts = {name: own[0] for name, own in row["systems"].items()}
            log.append(pearmut_record(user, f"{row['id']}:0", said_of(texts, user), texts))
    judged = ("--human", "esa", "--judged", write_lines(tmp_path / "c.jsonl", log))
    found = tables(capsys, *COMPARE, EXAMPLES, *judged, "--raters")
    assert [(row["rater"], row["ratings"]) for row in found["raters"]] == [("u", 50), ("v", 50)]
    assert found["rater_agreement"][1]["pearson"] == pytest.approx(1)
    assert "v" in run(capsys, "train", "prior", EXAMPLES, *judged, "-o", tmp_path / "p.json")


def test_a_table_of_ratings_is_an_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = tmp_path / "mqm.tsv"
    head = "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity"
    table.write_text(f"{head}\nA\td\t1\t1\tr\ts\tt\tAccuracy\tMajor\n")
    judged = ("--human", "mqm", "--judged", table)
    said = run(capsys, *COMPARE, EXAMPLES, *judged, code=2)
    assert "is a table of ratings. Give it as the input" in said


def test_made_up_errors_are_inside_their_texts() -> None:
    import random

    for error in errors_of("text", 0, random.Random(0), with_category=False):
        assert error["start_i"] == "missing" or error["end_i"] < 4
    assert len(SYSTEMS) == 4


def test_saved_spans_must_be_inside_their_texts(
    capsys: pytest.CaptureFixture[str], released: Path, tmp_path: Path
) -> None:
    run(capsys, *COMPARE, released, "--save", tmp_path / "saved")
    kept = load(tmp_path / "saved")
    first, *rest = kept.documents
    rating = first.ratings["esa"]["A"][0][0]
    assert rating is not None
    outside = replace(rating, spans=(RatedSpan(0, 10**6, "minor"),))
    damaged = replace(first, ratings={"esa": {"A": ((outside,),)}})
    save(replace(kept, documents=(damaged, *rest)), tmp_path / "damaged")
    with pytest.raises(InputError, match="its texts and ratings do not fit together"):
        load(tmp_path / "damaged")
