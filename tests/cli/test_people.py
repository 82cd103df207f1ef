"""Commands over human evaluations as released: a ranking with intervals, annotators, organisers, spans, campaigns.

``DISCORANK_PEARMUT`` names the program of Pearmut; without it one on the path is taken, and without any its test is
skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from discorank.cli.main import main
from discorank.integrations.formats.human_scores import blinded
from discorank.metrics.errors import InputError
from discorank.rerank.selection.kept_comparison import load, save
from discorank.rerank.selection.system_scores import RatedSpan
from tests.support.human_files import (
    SYSTEMS,
    errors_of,
    pearmut_record,
    wmt25_segments,
    write_lines,
)
from tests.support.waiting import wait_until

COMPARE = ("compare", "-m", "chrf", "--draws", "200")
LEFT_OUT = "ignore::discorank.integrations.formats.rated_texts.LeftOutWarning"


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


@pytest.mark.parametrize("rule", ["wmt24", "wmt25", "wmt26"])
def test_the_organisers_ranking_stands_beside_ours(
    capsys: pytest.CaptureFixture[str], released: Path, rule: str
) -> None:
    found = tables(capsys, *COMPARE, released, "--organisers", rule)
    rows = found["organisers"]
    assert [row["system"] for row in rows] == ["refA", "D", "C", "B", "A"]
    assert rows[0]["own_best_rank"] is None  # a reference is none of our systems
    assert {"domain:news", "domain:social", "domain:speech"} <= set(rows[0])
    assert rows[0]["error_free"] > rows[-1]["error_free"]
    for row in found.get("organisers_differences", ()):
        assert row["organisers"] != (row["p_documents"] < 0.05)


def test_where_the_organisers_differ_the_reason_is_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # A is better in one long document alone: many segments, few documents
    rows = []
    for number in range(12):
        for i in range(40 if number == 0 else 1):
            line: dict[str, Any] = {"doc_id": f"en-cs_#_news_#_doc{number}_#_{i}", "src_text": "s"}
            line |= {"tgt_text": {"A": "a b c", "B": "a b d"}, "refs": {"refA": "a b c"}}
            better = 10 + i % 3 if number == 0 else (-1) ** number
            line["scores"] = {"A": {"human0": 50 + better}, "B": {"human0": 50}}
            rows.append(line)
    path = write_lines(tmp_path / "x.jsonl", rows)
    (row,) = tables(capsys, *COMPARE, path, "--organisers", "wmt25")["organisers_differences"]
    assert (row["a"], row["organisers"]) == ("A", True)
    assert row["p_documents"] >= 0.05 > row["p_segments"]
    assert row["why"] == "segments of a document count as independent there"


def test_annotators_who_saw_one_system_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = list(wmt25_segments())
    lines[0]["scores"]["A"]["annotator0"] = "lone"
    path = write_lines(tmp_path / "x.jsonl", lines)
    assert main([*COMPARE, str(path)]) == 0
    assert "warning: esa: lone rated one system only" in capsys.readouterr().err


def test_z_scores(capsys: pytest.CaptureFixture[str], released: Path) -> None:
    rows = tables(capsys, *COMPARE, released, "--z-scores")["human"]
    assert all(-2 < row["score"] < 2 for row in rows)
    assert max(rows, key=lambda row: row["score"])["system"] == "D"
    error = run(capsys, *COMPARE, "examples/systems.jsonl", "--z-scores", code=2)
    assert "nobody's single ratings are known" in error


def test_spans_of_people_and_of_a_judge(capsys: pytest.CaptureFixture[str], released: Path) -> None:
    found = tables(capsys, *COMPARE, released, "--spans")
    (row,) = found["spans"]
    assert row["metric"] == "other annotators"
    assert row["precision"] == pytest.approx(row["recall"])
    error = run(
        capsys, *COMPARE, "examples/systems.jsonl", "--human", "mqm:lower", "--spans", code=2
    )
    assert "nobody marked spans in mqm" in error


def test_people_are_saved_and_shown_on_the_page(
    capsys: pytest.CaptureFixture[str], released: Path, tmp_path: Path
) -> None:
    folder, page = tmp_path / "saved", tmp_path / "page.html"
    run(capsys, *COMPARE, released, "--raters", "--organisers", "wmt25", "--save", folder)
    run(capsys, "report", folder, "-o", page)
    text = page.read_text("utf-8")
    assert "Those who judged" in text
    assert "esa: systems as WMT25 ranks them" in text
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
    assert told.splitlines()[1].split()[0] == "D"
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
    assert main([*arguments, "--to", "wmt-xml"]) == 0
    said = capsys.readouterr().err
    assert "wmt-xml has no place for ratings, left out of 18 documents" in said
    assert "wmt-xml has no place for metrics, left out of 18 documents" in said
    mtme = ["--to", "mtme", "--language-pair", "en-cs_CZ", "--human", "esa"]
    assert main([*arguments[:-1], str(tmp_path / "folder"), *mtme]) == 0
    said = capsys.readouterr().err
    assert "mtme has no place for ratings, left out of 18 documents" in said
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


# -- campaigns --

SAMPLE = ("sample", "examples/systems.jsonl", "-n", "5", "--to", "pearmut")


@pytest.mark.parametrize("style", [(), ("--contrastive",), ("--by", "document", "-n", "2")])
def test_a_campaign_keeps_documents_together_and_hides_systems(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, style: tuple[str, ...]
) -> None:
    path = tmp_path / "first-twenty.json"
    run(capsys, *SAMPLE, "--annotators", "2", *style, "-o", path)
    campaign = json.loads(path.read_text("utf-8"))
    assert campaign["campaign_id"] == "first-twenty"
    assert campaign["info"]["protocol"] == ("cESA" if "--contrastive" in style else "ESA")
    one, other = campaign["data"]
    assert sorted(map(json.dumps, one)) == sorted(map(json.dumps, other))
    assert len(campaign["info"]["users"]) == 2
    hidden = {name for document in one for item in document for name in item["tgt"]}
    named = json.loads(Path("examples/systems.jsonl").read_text("utf-8").splitlines()[0])["systems"]
    assert hidden == {blinded(name) for name in named}
    for document in one:
        names = [item["item_id"].rsplit(":", 1) for item in document]
        assert len({name for name, _ in names}) == 1
        numbers = [int(number) for _, number in names]
        assert numbers == sorted(numbers)


def test_options_of_campaigns_are_of_campaigns(capsys: pytest.CaptureFixture[str]) -> None:
    error = run(capsys, "sample", "examples/systems.jsonl", "--contrastive", code=2)
    assert "--contrastive: is of campaigns. Add --to pearmut" in error


def judged_log(campaign: Path, log: Path) -> None:
    """Judges a campaign as Pearmut's log has it: longer texts are better."""
    given = json.loads(campaign.read_text("utf-8"))
    rows = []
    for user, documents in zip(given["info"]["users"], given["data"], strict=True):
        for place, document in enumerate(documents):
            for item in document:
                rows.append(
                    pearmut_record(user, item["item_id"], said_of(item, user), item["tgt"], place)
                )
    write_lines(log, rows)


def said_of(item: dict[str, Any], user: str) -> dict[str, Any]:
    """Annotations of an item."""
    return {
        name: {
            "score": min(100, len(text)) - 5 * user.endswith("2"),
            "error_spans": [{"start_i": 0, "end_i": 2, "severity": "minor", "category": None}],
        }
        for name, text in item["tgt"].items()
    }


def test_annotations_come_back(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    campaign, log = tmp_path / "c.json", tmp_path / "c.jsonl"
    run(capsys, *SAMPLE, "--annotators", "2", "--contrastive", "-o", campaign)
    judged_log(campaign, log)
    judged = ("--human", "esa", "--judged", log)
    found = tables(capsys, *COMPARE, "examples/systems.jsonl", *judged, "--raters", "--spans")
    assert [row["rater"] for row in found["raters"]] == ["annotator-1", "annotator-2"]
    assert found["rater_agreement"][1]["pearson"] == pytest.approx(1)
    assert found["spans"][0]["f1"] == 1.0
    told = run(
        capsys, "train", "prior", "examples/systems.jsonl", *judged, "-o", tmp_path / "p.json"
    )
    assert "annotator-2" in told
    again = run(capsys, *SAMPLE[:2], "-n", "1", *judged)
    assert json.loads(again)["id"] not in log.read_text("utf-8")


PEARMUT = os.environ.get("DISCORANK_PEARMUT") or shutil.which("pearmut")


def post(address: str, **values: Any) -> Any:
    """The answer of the server."""
    body = json.dumps(values).encode()
    request = Request(address, body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


@pytest.mark.skipif(PEARMUT is None, reason="pearmut is not installed")
def test_pearmut_loads_a_campaign_and_its_annotations_come_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    campaign = tmp_path / "twenty.json"
    run(capsys, *SAMPLE, "-o", campaign)
    command = [str(PEARMUT)]
    subprocess.run([*command, "add", str(campaign)], cwd=tmp_path, check=True, timeout=60)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([*command, "run", "--port", str(port)], cwd=tmp_path)
    try:

        def answers() -> bool:
            try:
                return bool(urlopen(address, timeout=1).status == 200)
            except (URLError, OSError):
                return False

        wait_until(answers, seconds=60)
        who = {"campaign_id": "twenty", "user_id": "annotator-1"}
        shown = post(f"{address}/get-next-item", **who)
        while shown["status"] == "ok":
            items, place = shown["payload"], shown["info"]["item_i"]
            payload = {
                "annotation": [said_of(item, "annotator-1") for item in items],
                "item": items,
                "actions": [{"time": 1.0, "action": "load"}, {"time": 9.0, "action": "submit"}],
            }
            assert post(f"{address}/log-response", **who, item_i=place, payload=payload) == "ok"
            shown = post(f"{address}/get-next-item", **who)
        with urlopen(f"{address}/download-annotations?campaign_id=twenty", timeout=10) as answer:
            (tmp_path / "annotations.json").write_bytes(answer.read())
    finally:
        server.terminate()
        server.wait(30)
    for log in ("data/annotations/twenty.jsonl", "annotations.json"):
        arguments = ("--human", "esa", "--judged", tmp_path / log, "--raters")
        found = tables(capsys, *COMPARE, "examples/systems.jsonl", *arguments)
        (rater,) = found["raters"]
        assert (rater["rater"], rater["ratings"]) == ("annotator-1", 5 * len(SYSTEMS_SHOWN))


def test_a_table_of_ratings_is_an_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = tmp_path / "mqm.tsv"
    head = "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity"
    table.write_text(f"{head}\nA\td\t1\t1\tr\ts\tt\tAccuracy\tMajor\n")
    judged = ("--human", "mqm", "--judged", table)
    said = run(capsys, *COMPARE, "examples/systems.jsonl", *judged, code=2)
    assert "is a table of ratings. Give it as the input" in said


SYSTEMS_SHOWN = tuple(
    json.loads(Path("examples/systems.jsonl").read_text("utf-8").splitlines()[0])["systems"]
)


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
