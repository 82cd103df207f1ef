"""What the command says where people stumble: one line, the nearest match, and a fix that works as it stands."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from discorank.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO, SYSTEMS = str(EXAMPLES / "demo.jsonl"), str(EXAMPLES / "systems.jsonl")


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """What a command line says on stderr."""
    assert main(list(arguments)) == code
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["decode", "--utilty", "chrf", DEMO],
            "discorank: unknown option --utilty; did you mean --utility? discorank decode --help lists all\n",
        ),
        (
            ["decode", DEMO, "--utilty=chrf"],
            "discorank: unknown option --utilty; did you mean --utility? discorank decode --help lists all\n",
        ),
        (
            ["decode", DEMO, "--qqqqqq"],
            "discorank: unknown option --qqqqqq; discorank decode --help lists all\n",
        ),
        (
            ["decode", DEMO, "more.jsonl"],
            "discorank: unexpected argument more.jsonl; discorank decode --help lists all\n",
        ),
        (
            ["decode", DEMO, "--nbest"],
            "discorank: argument --nbest: expected one argument; discorank decode --help lists all\n",
        ),
        (
            ["--verson"],
            "discorank: unknown option --verson; did you mean --version? discorank --help lists all\n",
        ),
        (["train", "--foo"], "discorank: unknown option --foo; discorank train --help lists all\n"),
    ],
)
def test_unknown_options_get_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert said(capsys, *arguments) == message
