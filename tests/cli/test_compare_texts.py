"""``compare`` and ``convert`` with systems' outputs in files of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discorank.cli.main import main

from .test_compare import data_of, document, ran, refused, rows_of, write

EXAMPLES = Path(__file__).parents[2] / "examples"
BEAM, MBR, REF, IDS = (str(EXAMPLES / f"{n}.txt") for n in ("beam", "mbr", "ref", "documents"))
FILES = ["--hypotheses", BEAM, MBR, "--references", REF]
FEW_DRAWS = ["-m", "chrf", "ter", "--draws", "300"]


def test_draws_of_segments_are_called_so_and_not_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compare", *FILES, *FEW_DRAWS]) == 0
    printed = capsys.readouterr()
    assert "300 draws of 40 segments" in printed.out
    said = " ".join(printed.out.split())
    assert "Every segment counts as independent, as no document ids were given" in said
    assert "Give --documents where they share some." in said
    assert "are not independent" not in printed.out + printed.err
    assert "give ids with --documents" in printed.err


@pytest.mark.parametrize("ids", [[], ["--documents", IDS]])
def test_numbers_are_those_of_the_systems_file_that_convert_makes(
    ids: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "systems.jsonl")
    assert main(["convert", *FILES, *ids, "--to", "systems", "-o", path, "--quiet"]) == 0
    by_file = data_of(capsys, path, *FEW_DRAWS)
    by_texts = data_of(capsys, *FILES, *ids, *FEW_DRAWS)
    for key in ("systems", "pairs"):
        assert by_texts[key] == by_file[key], key


def test_convert_makes_documents(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", *FILES, "--to", "systems"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 40
    assert "every segment is a document of its own" in printed.err


def test_the_baseline_has_the_tests_of_its_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    files = [*FILES, "--documents", IDS, *FEW_DRAWS]
    pairs = data_of(capsys, *files)["pairs"]
    assert len(pairs) == 2
    assert {(pair["a"], pair["b"]) for pair in pairs} in ({("beam", "mbr")}, {("mbr", "beam")})
    for baseline, other in ((BEAM, "mbr"), ("mbr", "beam")):
        lines = ran(capsys, "compare", *files, "--baseline", baseline, "--quiet").splitlines()
        name = Path(baseline).stem
        at = lines.index(f"Differences from {name}")
        cells = lines[at + 2].split()
        assert cells[0] == other
        for pair, start in zip(pairs, (1, 6), strict=False):
            sign = 1 if pair["a"] == other else -1
            assert float(cells[start]) == pytest.approx(sign * pair["difference"], rel=1e-3)
            bounds = sorted((sign * pair["low"], sign * pair["high"]))
            assert [float(cells[start + 1]), float(cells[start + 3])] == pytest.approx(
                bounds, rel=1e-3
            )
            assert float(cells[start + 4]) == pytest.approx(pair["p"], rel=0.05)
        assert max(map(len, lines)) <= 100
    for form in ("markdown", "latex"):
        assert "Differences from beam" in ran(
            capsys, "compare", *files, "--baseline", "beam", "--format", form
        )


def test_a_baseline_of_a_systems_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "s.jsonl", *(document(n) for n in range(12)))
    options = [path, "-m", "chrf", "--draws", "300", "--human", "mqm:lower", "--quiet"]
    lines = ran(capsys, "compare", *options, "--baseline", "B").splitlines()
    at = lines.index("Differences from B")
    assert lines[at + 1].split()[:3] == ["system", "mqm", "↓"]
    rows = {line.split()[0]: line.split()[1] for line in lines[at + 2 : at + 4]}
    assert rows["A"].startswith("-")  # fewer errors
    assert rows["C_x"].startswith("+")
    message = refused(capsys, "compare", *options, "--baseline", "C")
    assert "--baseline: unknown system 'C'. Did you mean 'C_x'?" in message


def test_few_segments_are_not_tested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b", "ref"):
        (tmp_path / name).write_text(f"{name} cat\nthe dog\n")
    a, b, ref = (str(tmp_path / name) for name in ("a", "b", "ref"))
    command = ["compare", "--hypotheses", a, b, "--references", ref, "-m", "chrf"]
    assert main([*command, "--baseline", b]) == 0
    printed = capsys.readouterr()
    assert "with 2 segments no difference can be tested: give at least 6." in printed.out
    assert "interval" not in printed.out
    assert "none is significant; give more segments" in printed.err


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("a text\n", "text with a segment per line"),
        ('{"id": "a", "text": "x"}\n', "rows with a text"),
        ("0 ||| x ||| LM0= -1 ||| -1\n", "a Moses n-best list"),
    ],
)
def test_texts_in_place_of_a_systems_file_are_named(
    content: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "texts"
    path.write_text(content)
    message = refused(capsys, "compare", str(path), "-m", "bleu")
    assert f"found {kind}, expected a systems file. " in message
    assert "--hypotheses FILE" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["compare", BEAM, *FILES, "-m", "chrf"], "is given beside --hypotheses"),
        (["compare", BEAM, "--documents", IDS, "-m", "chrf"], "--documents: has no effect"),
        (
            ["compare", *FILES, "-m", "chrf", "--human", "mqm"],
            "mqm: is not a file of human scores. Name a file such as mqm.csv:lower",
        ),
        (["compare", *FILES, "-m", "chrf", "--from", "mtme"], "--from: has no effect"),
        (["compare", *FILES, "--statistics", "wmt"], "--statistics: has no effect"),
        (["compare", *FILES, "-m", "chrf", "--unit", "10"], "Give document ids with --documents"),
        (["compare", *FILES, "-m", "chrf", "--segment-scores", REF], "is an input and an output"),
        (["convert", *FILES], "--hypotheses: becomes documents, not candidate lists. Add --to"),
        (["convert", BEAM, "--references", REF], "--references: requires --hypotheses"),
        (["convert", *FILES, "--to", "systems", "-o", REF], "is an input and an output"),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, *options)


def test_what_decode_wrote_stands_beside_its_lists_in_their_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists, chosen = str(EXAMPLES / "demo.jsonl"), str(tmp_path / "mbr.jsonl")
    assert main(["decode", lists, "-u", "chrf", "-o", chosen, "--quiet"]) == 0
    references = tmp_path / "ref.txt"
    rows = [json.loads(line) for line in Path(chosen).read_text(encoding="utf-8").splitlines()]
    references.write_text("".join(f"{row['text']}\n" for row in rows), encoding="utf-8")
    command = ["--hypotheses", lists, chosen, "--references", str(references), "-m", "chrf"]
    data = data_of(capsys, *command)
    by_system = rows_of(data["systems"], "system")
    assert by_system["mbr"]["score"] == pytest.approx(100)
    assert by_system["demo"]["score"] < 100
    (settings,) = data["settings"]
    assert (settings["documents"], settings["segments"]) == (1, 3)
