"""The command line: options, configuration, messages and exit codes."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml

from discorank.cli import main as command
from discorank.cli.commands.check import check
from discorank.cli.commands.decode import decode
from discorank.cli.main import command_of, main

from ..support.lists import made_lists, write_lists

Captured = pytest.CaptureFixture[str]
DEMO = str(Path(__file__).parents[2] / "examples" / "demo.jsonl")
CONFIGS = Path(__file__).parents[2] / "configs"


def printed_config(arguments: list[str], capsys: Captured) -> dict[str, object]:
    assert main([*arguments, "--print-config"]) == 0
    config: dict[str, object] = yaml.safe_load(capsys.readouterr().out)
    return config


def test_later_wins(tmp_path: Path, capsys: Captured) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("utility: bleu\nnbest: 2\nself-pair: false\ninput: a.jsonl\nfrom: moses\n")
    values = printed_config(
        [
            "decode",
            "b.jsonl",
            "--config",
            str(config),
            "--nbest",
            "3",
            "--set",
            "nbest=4",
            "-u",
            "chrf",
        ],
        capsys,
    )
    assert values["utility"] == "chrf"
    assert values["nbest"] == 4
    assert values["self_pair"] is False
    assert values["input"] == "b.jsonl"
    assert values["from"] == "moses"
    assert values["weights"] == "uniform"


def test_printed_config_is_a_config(tmp_path: Path, capsys: Captured) -> None:
    config = printed_config(["decode", DEMO, "-u", "chrf", "--temperature", "2"], capsys)
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(config))
    assert printed_config(["decode", "--config", str(tmp_path / "again.yaml")], capsys) == config


def test_numpy_takes_one_thread_unless_it_is_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert main(["metrics"]) == 0
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    assert main(["metrics"]) == 0
    assert os.environ["OPENBLAS_NUM_THREADS"] == "4"


def test_a_file_of_the_working_directory_does_not_stand_in_for_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mbr-chrf").write_text("utility: canary:utility\n")
    write_lists(tmp_path / "in.jsonl", made_lists(3))
    assert main(["decode", "in.jsonl", "--config", "mbr-chrf", "-o", "out.jsonl", "--quiet"]) == 0


VALUES = [None, -1, "x", [1], {"a": 1}]
MORE_VALUES = [True, 0, 3, 1e300, "", "1e-1", [], ["a"], {}, "all", "-", "field:", "\0"]


@pytest.mark.parametrize("everything", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_config_raises_anything_but_our_errors(
    everything: bool, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options given values of every kind: refused or done, never an internal error.

    Each option in the first subcommand that has it; with -m slow in every one, and with more values.
    """
    monkeypatch.chdir(tmp_path)
    tried: set[str] = set()
    for name in ("decode", "rerank", "explain", "score", "check", "convert", "metrics"):
        options = command_of(name)
        writes = ["--set", f"output={tmp_path}/out"] * (name not in ("explain", "check", "metrics"))
        for key in options.types if everything else options.types.keys() - tried:
            tried.add(key)
            for value in [*VALUES, *MORE_VALUES] if everything else VALUES:
                if key == "input" and value == "-":
                    continue
                given = {"input": DEMO, "utility": "chrf", "quiet": True}
                config = {key: value} if name == "metrics" else {**given, key: value}
                Path("c.yaml").write_text(yaml.safe_dump(config))
                code = main([name, "--config", "c.yaml", *writes])
                assert code in (0, 2, 3, 4), (name, key, value, capsys.readouterr().err)
                for path in tmp_path.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
    capsys.readouterr()


def test_a_warning_is_a_line_without_its_place_in_the_code(tmp_path: Path) -> None:
    path = tmp_path / "metric.json"
    features = [{"metric": "chrf", "weight": 1, "min": 0, "max": 1}]
    path.write_text(json.dumps({"format": 1, "features": features}))
    command = ["explain", DEMO, "-u", f"combination(model={json.dumps(str(path))})", "--quiet"]
    ended = subprocess.run(
        [sys.executable, "-m", "discorank", *command], capture_output=True, text=True, check=True
    )
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f'discorank: warning: {path}: has no "checksum"')


def test_no_traceback_without_debug(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def broken(arguments: list[str]) -> int:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(command, "_run", broken)
    assert main(["decode"]) == 1
    message = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: boom" in message
    assert "Traceback" not in message
    assert main(["decode", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_help_may_stand_before_a_subcommand(capsys: Captured) -> None:
    for words in (["help"], ["help", "decode"]):
        assert main(words) == 0
        asked = capsys.readouterr().out
        assert main([*words[1:], "--help"]) == 0
        assert capsys.readouterr().out == asked


def test_check(tmp_path: Path, capsys: Captured) -> None:
    lists = [*made_lists(10), {"id": "bad", "candidates": []}]
    source = write_lists(tmp_path / "in.jsonl", lists)
    own = ["check", str(source), "-u", "chrf + contextual:Echo", "--format", "json", "--quiet"]
    assert main(own) == 3
    problems = json.loads(capsys.readouterr().out)["utility"]["problems"]
    assert "not shown: check imports no code" in problems[0]
    assert main(["check", str(source), "-u", "chrf + bleu", "--format", "json", "--quiet"]) == 3
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    texts = [[c["text"] for c in row["candidates"]] for row in lists[:10]]
    assert report["lists"] == 10
    assert report["errors"] == 1
    assert report["candidates"] == sum(map(len, texts))
    assert report["distinct"] == sum(len(set(t)) for t in texts)
    assert report["utility"]["pairs_to_compare"] == 2 * sum(len(set(t)) ** 2 for t in texts)
    assert "no candidates" in captured.err


@pytest.mark.parametrize("preset", sorted(path.stem for path in CONFIGS.glob("mbr-*.yaml")))
def test_check_takes_the_presets_of_decode(preset: str) -> None:
    values = check.given_in([DEMO, "--config", preset]).values
    of_decode = decode.given_in([DEMO, "--config", preset]).values
    assert values["utility"] == of_decode["utility"]


def test_check_counts_lists_by_what_they_have(tmp_path: Path, capsys: Captured) -> None:
    whole = {"id": "a", "candidates": [["One.", "Two."], ["One."]]}
    placed = {"id": "b", "document": "d", "position": 0, "candidates": ["One."]}
    source = write_lists(
        tmp_path / "in.jsonl", [whole, placed, {**placed, "id": "c", "position": 1}]
    )
    assert main(["check", str(source), "--format", "json", "--quiet"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["lists"], report["whole_documents"]) == (3, 1)
    assert (report["with_document_id"], report["documents"]) == (2, 1)


def test_convert_leaves_nothing_half_written(tmp_path: Path, capsys: Captured) -> None:
    source = write_lists(tmp_path / "in.jsonl", [*made_lists(3), {"id": 7}])
    assert main(["convert", str(source), "-o", str(tmp_path / "out"), "--quiet"]) == 3
    assert "in.jsonl:4: stopped at an error record: candidates: " in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl"]
    assert (
        main(["convert", str(source), "-o", str(tmp_path / "out"), "--quiet", "--max-errors", "1"])
        == 3
    )
    assert len((tmp_path / "out").read_text().splitlines()) == 3


def test_score_jsonl(tmp_path: Path, capsys: Captured) -> None:
    rows = [
        {"hypothesis": {"A": "x y", "B": "x"}, "references": ["x y", "z"]},
        {"hypothesis": {"A": "u", "B": "v"}, "references": "u"},
    ]
    source = write_lists(tmp_path / "in.jsonl", rows)
    assert main(["score", str(source), "-m", "chrf", "--format", "json"]) == 0
    by_system = {
        row["system"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())
    }
    assert by_system["A"]["mean"] == 100
    assert by_system["B"]["segments"] == 2
    source = write_lists(tmp_path / "in.jsonl", [rows[0], {"hypothesis": "x", "references": []}])
    assert main(["score", str(source), "-m", "chrf"]) == 2
    assert "the first line has A, B" in capsys.readouterr().err


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(3000))
    line = f"{sys.executable} -m discorank decode {source} -u chrf --quiet | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_streams_of_text_take_rows(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    """As in a notebook, or in a program that collects what a command prints; they stay open and in place."""
    lists = tmp_path / "lists.jsonl"
    lists.write_text(
        '{"id": "a", "candidates": ["é b", "é b", "c"]}\n{"id": "b", "candidates": []}\n',
        encoding="utf-8",
    )
    decode = ["decode", str(lists), "-u", "chrf", "--max-errors", "1"]
    commands = [[*decode, "--format", "text"], decode, ["convert", str(lists), "--max-errors", "1"]]
    for arguments in commands:
        assert main(arguments) == 3
        out, err = capfdbinary.readouterr()
        said, warned = io.StringIO(), io.StringIO()
        with redirect_stdout(said), redirect_stderr(warned):
            assert main(arguments) == 3
            assert (sys.stdout, sys.stderr) == (said, warned)
        assert said.getvalue() == out.decode()
        assert "é" in said.getvalue()
        assert warned.getvalue() == err.decode()
