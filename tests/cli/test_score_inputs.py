"""score reads runs, candidate lists and JSON with texts as compare does; text files of JSON objects are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.integrations.files.entries import JSON_LINES, TextLines
from discorank.metrics.errors import InputError

HYPOTHESES = ["The ferry will not leave before noon.", "All wait in the café.", ""]
REFERENCES = ["The ferry leaves at noon.", "Everyone waits in a café.", "Then they go."]


def lines(rows: Sequence[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


FORMS: dict[str, Callable[[list[str]], str]] = {
    "plain": lambda texts: "".join(text + "\n" for text in texts),
    "texts": lambda texts: lines([{"id": str(i), "text": text} for i, text in enumerate(texts)]),
    "lists": lambda texts: lines(
        [{"id": str(i), "candidates": [text, "another text"]} for i, text in enumerate(texts)]
    ),
    "spaced": lambda texts: "".join('{ "text": ' + json.dumps(text) + "}\n" for text in texts),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reference_form", ["plain", "texts"])
def test_every_form_has_the_scores_of_plain_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, reference_form: str
) -> None:
    hypotheses, references = tmp_path / "hypotheses", tmp_path / "references"
    found = []
    for one, other in (("plain", "plain"), (form, reference_form)):
        hypotheses.write_text(FORMS[one](HYPOTHESES))
        references.write_text(FORMS[other](REFERENCES))
        words = ["--hypotheses", str(hypotheses), "--references", str(references), "--quiet"]
        assert main(["score", *words, "-m", "rouge-1", "chrf", "--format", "json"]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]


def test_a_run_is_scored_by_its_chosen_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, references = tmp_path / "run.jsonl", tmp_path / "ref.txt"
    assert main(["decode", "examples:demo.jsonl", "-u", "chrf", "-o", str(run), "--quiet"]) == 0
    chosen = [json.loads(line)["text"] for line in run.read_text().splitlines()]
    references.write_text("".join(text + "\n" for text in chosen))
    words = ["--hypotheses", str(run), "--references", str(references), "-m", "chrf", "--quiet"]
    assert main(["score", *words, "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (row["corpus"], row["segments"]) == (100, len(chosen))


@pytest.mark.parametrize("option", ["--hypotheses", "--references", "--sources"])
def test_json_without_texts_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    files = {name: tmp_path / name for name in ("--hypotheses", "--references", "--sources")}
    for path in files.values():
        path.write_text(FORMS["plain"](HYPOTHESES))
    files[option].write_text(lines([{"answer": text} for text in HYPOTHESES]))
    words = [word for name, path in files.items() for word in (name, str(path))]
    assert main(["score", *words, "-m", "chrf"]) == 2
    assert f"{files[option]}:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "is_json"),
    [
        ("a\nb\n", False),
        ('{"a": 1}\n', True),
        ('{"a": 1}\n\n', True),
        ('{"a": 1}\nplain\n', False),
        ('{"a": 1}\n' * JSON_LINES + "plain\n", True),
        ("{not JSON}\n", False),
        ("[1]\n", False),
        ("\n\n", False),
        ("", False),
    ],
)
def test_lines_of_text(tmp_path: Path, text: str, is_json: bool) -> None:
    path = tmp_path / "texts"
    path.write_text(text)
    if is_json:
        with pytest.raises(InputError, match="texts:1"):
            list(TextLines(path))
    else:
        expected = [line.encode() for line in text.split("\n")[:-1]]
        assert [line for _, line in TextLines(path)] == expected


def test_sources_of_lists_are_not_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    candidates, sources = tmp_path / "flat.txt", tmp_path / "sources"
    candidates.write_text("a\nb\nc\nd\n")
    sources.write_text(lines([{"x": 1}, {"x": 2}]))
    words = ["--from", "flat", "--sources", str(sources), "-n", "2", "-u", "chrf"]
    assert main(["decode", str(candidates), *words]) == 2
    assert "sources:1" in capsys.readouterr().err


WMT = ["--draws", "--unit", "--correction", "--baseline", "--save", "--details", "--judged"]
WMT += ["--segment-scores", "--document-scores", "--columns", "--include", "--as-systems"]
TASK = ["--human-scores", "--outliers", "--close-references", "--primary", "--missing"]
TASK += ["--every-task", "--task-draws", "--with-human", "--with-outliers"]
FILES = ["--hypotheses", "--references", "--sources", "--documents"]
SET = ["--language-pair", "--main-reference", "--mqm-weights"]
UNREAD = {
    "score x": FILES,
    "score --hypotheses x": ["--columns"],
    "compare x --tasks wmt23": [*WMT, "--with-human", "--raters", "--human", "--from"],
    "compare x --statistics wmt": [*WMT, "--every-task", "--raters", "--mqm-weights"],
    "compare --hypotheses x": [*TASK, *SET, "--columns", "--include"],
    "compare x": [*TASK, "--main-reference", "--sources", "--documents"],
}
VALUES = {"--draws": "7", "--task-draws": "7", "--correction": "holm"}
VALUES |= {"--missing": "zeros", "--unit": "segment", "--from": "mtme"}
SWITCHES = ("--details", "--raters", "--with-outliers", "--every-task", "--with-human")


@pytest.mark.parametrize("command", UNREAD)
def test_options_that_a_mode_does_not_read_are_refused_by_name(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    for flag in UNREAD[command]:
        value = [] if flag in SWITCHES else [VALUES.get(flag, "y")]
        assert main([*command.split(), "-m", "chrf", flag, *value]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"discorank: {flag}"), (flag, error)
        assert "effect" in error or "alone" in error or "go with" in error, (flag, error)


def test_lists_are_read_in_the_format_that_from_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "samples.jsonl"
    answers = [f"The answer is {number}" for number in (4, 5, 4)]
    path.write_text(lines([{"doc_id": 0, "target": "4", "resps": [answers]}]))
    command = ["pass-at", str(path), "--from", "lm-eval", "-m", "vote", "--at", "1", "3"]
    assert main([*command, "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["pass"] for row in rows] == pytest.approx([2 / 3, 1])
    assert [row["majority"] for row in rows] == pytest.approx([2 / 3, 1])
