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
