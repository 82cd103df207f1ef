"""Help: a text for every option, what is needed first, and examples that run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import split
from typing import Any, NoReturn

import pytest

from discorank.cli.main import KINDS, SUBCOMMANDS, main
from discorank.cli.options import Command

COMMANDS = [[name] for name in SUBCOMMANDS if name != "train"] + [["train", kind] for kind in KINDS]
FIRST, LINES = 6, 45  # options that a command's --help explains at most, beside --help; lines


def test_every_option_has_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(self: Command, arguments: Sequence[str]) -> NoReturn:
        parsed.append(self)
        raise SystemExit(0)

    monkeypatch.setattr(Command, "given_in", parse)
    for command in COMMANDS:
        parsed: list[Command] = []
        assert main(command) == 0
        actions: list[Any] = parsed[0].parser._actions  # argparse has no other list of them
        assert len(actions) > 5
        for action in actions:
            about = str(action.help).partition("(default")[0].strip()
            assert about, f"{' '.join(command)} {action.dest} has no text"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_explains_what_is_needed_first(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    short = capsys.readouterr().out.splitlines()
    assert main([*command, "--help-all"]) == 0
    whole = capsys.readouterr().out
    first = [line for line in short if line.startswith("  -")]
    assert len(first) <= FIRST + 1 <= whole.count("\n  -")
    assert len(short) <= LINES
    assert "--config" in whole or command == ["demo"]
    named = {word for line in short for word in line.split() if word.startswith("--")}
    assert [flag for flag in named if flag.rstrip(",.") not in whole] == []
    assert "docs/" not in whole, "pages are not installed"


@pytest.mark.parametrize(
    "options",
    [["--lang", "de"], ["--dtype", "float16"], ["--max-calls", "3"], ["--strategy", "one-best"]],
)
def test_an_option_without_effect_on_the_metric_is_warned_about_once(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decode", "examples:demo.jsonl", "-u", "chrf", *options]) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if options[0] in line]
    assert len(warned) == 1


# examples that need a model or a server, or take seconds
NEEDS = (
    *("smollm2", "Helsinki-NLP", "--backend server", "discorank serve", "train rst", "train roles"),
    *("doc-lm", "sescore2", "-u dr", "discorank demo"),
)
# what stands in the folder when they run, each made by an earlier example
ORDER = ("decode", "rerank", "compare", "train", "convert", "report", "diff")


def test_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def rank(command: list[str]) -> int:
        return ORDER.index(command[0]) if command[0] in ORDER else len(ORDER)

    for name, metric in (("first", "chrf"), ("second", "ter")):
        decode = ["decode", "examples:demo.jsonl", "-u", metric, "-o", f"{name}.jsonl", "--quiet"]
        assert main(decode) == 0
    done = 0
    for command in sorted(COMMANDS, key=rank):
        capsys.readouterr()
        assert main([*command, "--help"]) == 0
        shown = capsys.readouterr().out.partition("examples:\n")[2].partition("\nmore options")[0]
        for line in shown.splitlines():
            if "discorank " not in line or any(word in line for word in NEEDS):
                continue
            Path("lists.jsonl").unlink(missing_ok=True)
            quiet = [] if command == ["docs"] else ["--quiet"]
            assert main([*split(line)[1:], *quiet]) == 0, f"{line}\n{capsys.readouterr().err}"
            done += 1
    assert done > len(COMMANDS)


def test_pages_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "runs.md"
    assert main(["docs", "runs"]) == 0
    assert capsys.readouterr().out == page.read_text(encoding="utf-8")
    assert main(["docs"]) == 0
    assert "quick-start" in capsys.readouterr().out
