"""What --help says: every option has a text of its own, in words of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import pytest

from discorank.cli.commands.train import KINDS
from discorank.cli.main import SUBCOMMANDS, main
from discorank.cli.options import Options

COMMANDS = [[name] for name in SUBCOMMANDS if name != "train"] + [["train", kind] for kind in KINDS]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """The options of the command that is run, which ends as it parses them."""
    found: list[Options] = []

    def parse(self: Options, arguments: Sequence[str]) -> NoReturn:
        found.append(self)
        raise SystemExit(0)

    monkeypatch.setattr(Options, "parse", parse)
    return found


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_option_says_what_it_is(command: list[str], parsed: list[Options]) -> None:
    assert main(command) == 0
    actions: list[Any] = parsed[0].parser._actions  # argparse has no other list of them
    for action in actions:
        about = str(action.help).partition("(default")[0].strip()
        assert about, f"{' '.join(command)} {action.dest} has no text"
        assert "`" not in about, f"{' '.join(command)} {action.dest}: {about}"
    assert len(actions) > 5


SHOWN = 46  # options of a command's --help at most; rarer ones stand in --help-all
LONG = ["train", "sescore2"]  # a recipe of a paper, all of whose numbers are options


def shown_options(text: str) -> int:
    """How many options a help shows."""
    return sum(line.startswith("  -") for line in text.splitlines())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_short(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    short = capsys.readouterr().out
    assert main([*command, "--help-all"]) == 0
    whole = capsys.readouterr().out
    assert shown_options(short) < shown_options(whole)
    assert shown_options(short) <= SHOWN or command == LONG
    lines = short.splitlines()
    titles = [i for i, line in enumerate(lines) if line.endswith(":") and line[:1].isalpha()]
    for start, end in zip(titles, [*titles[1:], len(lines)], strict=True):
        part = lines[start + 1 : end]
        assert any(line.startswith("  ") and line[2:3] != " " for line in part), lines[start]


def test_help_of_decode_stands_under_the_five_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--help"]) == 0
    text = capsys.readouterr().out
    titles = ["input", "utility", "pool", "estimator", "choice", "order", "output", "engine"]
    places = [text.index(f"\n{title}:\n") for title in titles]
    assert places == sorted(places)
    assert "\noptions:" not in text
    assert text.index("\nchoice:") < text.index("--nbest") < text.index("\norder:")
    assert shown_options(text) <= 42


def test_rare_options_stand_in_help_all_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--help"]) == 0
    assert "--temperature" not in capsys.readouterr().out
    assert main(["decode", "--help-all"]) == 0
    assert "--temperature" in capsys.readouterr().out
