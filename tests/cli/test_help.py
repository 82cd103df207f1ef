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


FIRST, LINES = 6, 45  # options that a command's --help explains at most, beside --help; lines


def shown_options(text: str) -> int:
    """How many options a help explains."""
    return sum(line.startswith("  -") for line in text.splitlines())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_explains_what_one_needs_first(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    short = capsys.readouterr().out
    assert main([*command, "--help-all"]) == 0
    whole = capsys.readouterr().out
    assert shown_options(short) <= FIRST + 1 <= shown_options(whole)
    assert len(short.splitlines()) <= LINES
    assert short.count("\n  discorank ") == whole.count("\n  discorank ") == 3
    # every option that is not rare stands in both, explained or named
    lines = short.partition("more options, which")[2].splitlines()[1:]
    named = {word for line in lines for word in line.split() if word.startswith("--")}
    assert named, short
    assert all(f" {flag}" in whole for flag in named)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_all_has_no_empty_heading(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help-all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [i for i, line in enumerate(lines) if line.endswith(":") and line[:1].isalpha()]
    for start, end in zip(titles, [*titles[1:], len(lines)], strict=True):
        part = lines[start + 1 : end]
        assert any(line.startswith("  ") and line[2:3] != " " for line in part), lines[start]


def test_help_of_decode_stands_under_the_five_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--help-all"]) == 0
    text = capsys.readouterr().out
    titles = ["input", "utility", "pool", "estimator", "choice", "order", "output", "engine"]
    places = [text.index(f"\n{title}:\n") for title in titles]
    assert places == sorted(places)
    assert "\noptions:" not in text
    assert text.index("\nchoice:") < text.index("--nbest") < text.index("\norder:")
    assert main(["decode", "--help"]) == 0
    short = capsys.readouterr().out
    assert short.index("--utility") < short.index("--output") < short.index("examples:")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-u", "chrf", "--top-k", "4"], "--top-k: has no effect without --shortlist. Add"),
        (["-u", "chrf", "--temperature", "2"], "--temperature: has no effect without --weights"),
        (["-u", "chrf", "--cache-bytes", "9"], "--cache-bytes: has no effect without --cache"),
        (
            ["-u", "chrf", "--prior-strength", "1"],
            "--prior-strength: has no effect without --prior",
        ),
    ],
)
def test_options_without_effect_are_refused(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decode", "examples:demo.jsonl", *options]) == 2
    assert message in capsys.readouterr().err


def test_options_of_metrics_are_refused_where_none_is_computed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["convert", "examples:demo.jsonl", "--align", "metric"]) == 2
    assert "--align: has no effect: discorank convert computes no metric" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--lang", "de"], "--lang has no effect: chrf reads all languages alike"),
        (["--dtype", "float16"], "--dtype has no effect: chrf runs no model"),
        (["--max-calls", "3"], "--max-calls has no effect: chrf asks no server"),
        (["--strategy", "one-best"], "--strategy has no effect: chrf reads no context"),
    ],
)
def test_options_that_the_metric_does_not_know_are_said_once(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decode", "examples:demo.jsonl", "-u", "chrf", *options]) == 0
    assert capsys.readouterr().err.count(said) == 1


def test_rare_options_stand_in_help_all_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--help"]) == 0
    assert "--temperature" not in capsys.readouterr().out
    assert main(["decode", "--help-all"]) == 0
    assert "--temperature" in capsys.readouterr().out
