"""Reads ``commands.txt``: the commands that both versions run, each behind what it needs.

Some run with every subcommand, or with every metric of a kind. Both versions must know all of SUBCOMMANDS and METRICS;
a name that only one knows shows as a difference.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from string import Template
from typing import Any

COMMANDS = Path(__file__).parent / "commands.txt"
SWITCH = re.compile(r"alone|killed")
SETTING = re.compile(r"(stdin|takes|equals)=(.+)")
ABBREVIATION = re.compile(r"\$(\w+) = (.+)")
SUBCOMMANDS = (
    "decode",
    "rerank",
    "explain",
    "score",
    "compare",
    "report",
    "check",
    "convert",
    "generate",
    "logprobs",
    "cite",
    "metrics",
    "train",
    "train rst",
    "train roles",
    "train sescore2",
    "train combination",
    "train prior",
)
METRICS = (
    "bartscore",
    "bartscore-faithfulness",
    "bertscore",
    "bleu",
    "chrf",
    "chrf++",
    "combination",
    "comet",
    "comet-qe",
    "discotk-light",
    "doc-bertscore",
    "doc-comet",
    "doc-comet-qe",
    "doc-prism",
    "dr",
    "dr-lex",
    "dr-nolex",
    "ds-focus",
    "ds-sent",
    "entity-graph",
    "lexical-chain",
    "meteor",
    "nist",
    "pdd",
    "prism",
    "role-match",
    "rouge-l",
    "rouge-w",
    "sescore2",
    "ter",
)
# metrics of words, of discourse trees, and of nouns
LEXICAL = ("chrf", "chrf++", "bleu", "ter", "rouge-l", "rouge-w", "meteor")
TREES = ("dr", "dr-nolex", "dr-lex", "discotk-light")
NOUNS = ("cohesion", "lexical-chain", "entity-graph")
# subcommands that refuse to run without input
NEED_INPUT = ("decode", "rerank", "explain", "check", "convert", "score", "compare")
# names, and the lines that each of them makes; {dashed} is the name without spaces
FAMILIES = (
    (SUBCOMMANDS, ("help-{dashed}: alone {name} --help",)),
    (METRICS, ("metric-{name}: metrics {name}", "cite-{name}: cite {name}")),
    (LEXICAL, ("decode-{name}: decode lists.jsonl -u {name} --nbest 3 -o @/out.jsonl",)),
    (TREES, ("decode-{name}: decode summaries.jsonl -u {name} --nbest 2 -o @/out.jsonl",)),
    (NOUNS, ("decode-{name}: decode summaries.jsonl -u {name} -o @/out.jsonl",)),
    (NEED_INPUT, ("no-input-{name}: {name}",)),
)


@dataclass(frozen=True)
class Command:
    """A command line.

    Args:
        name: of the command, and of its folder ``out/NAME``.
        words: what comes after ``python -m discorank``.
        alone: whether it runs in a process of its own.
        killed: whether it is killed after its first checkpoint.
        stdin: a file that it reads from standard input.
        takes: whose outputs before are first copied to its folder.
        equals: whose out.jsonl before must be the same as its own.
    """

    name: str
    words: tuple[str, ...]
    alone: bool = False
    killed: bool = False
    stdin: str | None = None
    takes: str | None = None
    equals: str | None = None

    @property
    def needs(self) -> frozenset[str]:
        """The names of commands that must have run before."""
        read = re.findall(r"out/([\w+.-]+)/", " ".join(self.words))
        others = {*read, self.takes, self.equals} - {self.name}
        return frozenset(name for name in others if name)


def all_commands(server: str) -> list[Command]:
    """Every command, behind what it needs; `server` is where texts are generated."""
    abbreviations, own_lines = read_commands_file({"SERVER": server})
    lines = [*family_lines(), *own_lines]
    commands = [read_command(line, abbreviations) for line in lines]
    if len({command.name for command in commands}) < len(commands):
        raise ValueError("two commands have one name")
    return in_order(commands)


def read_commands_file(given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What $NAME stands for in ``commands.txt``, beside what is given; and its commands, a line each."""
    text = COMMANDS.read_text(encoding="utf-8")
    unbroken = re.sub(r"\n +", " ", text)
    abbreviations, lines = dict(given), []
    for line in unbroken.splitlines():
        if match := ABBREVIATION.fullmatch(line):
            abbreviations[match[1]] = Template(match[2]).substitute(abbreviations)
        elif line and not line.startswith("#"):
            lines.append(line)
    return abbreviations, lines


def read_command(line: str, abbreviations: Mapping[str, str]) -> Command:
    """The command of a line."""
    name, _, rest = line.partition(":")
    placed = rest.replace("@/", f"out/{name}/")
    words = shlex.split(Template(placed).substitute(abbreviations))
    how: dict[str, Any] = {}
    while words:
        if SWITCH.fullmatch(words[0]):
            how[words[0]] = True
        elif match := SETTING.fullmatch(words[0]):
            how[match[1]] = match[2]
        else:
            break
        words.pop(0)
    return Command(name, tuple(words), **how)


def in_order(commands: Iterable[Command]) -> list[Command]:
    """The commands, each behind what it needs."""
    waiting = {command.name: command for command in commands}
    ordered: dict[str, Command] = {}

    def add(command: Command) -> None:
        if command.name not in ordered:
            for name in sorted(command.needs):
                add(waiting[name])
            ordered[command.name] = command

    for command in waiting.values():
        add(command)
    return list(ordered.values())


def chosen(commands: Sequence[Command], patterns: Sequence[str]) -> list[Command]:
    """The commands that a pattern names, and what these need; all without patterns."""
    if not patterns:
        return list(commands)
    names = [command.name for command in commands]
    wanted = {name for name in names if any(fnmatch(name, pattern) for pattern in patterns)}
    # from the end, so that what is needed by what is needed comes too
    for command in reversed(commands):
        if command.name in wanted:
            wanted |= command.needs
    return [command for command in commands if command.name in wanted]


def family_lines() -> list[str]:
    """The lines of all families, written as in ``commands.txt``."""
    lines = []
    for names, templates in FAMILIES:
        for name in names:
            dashed = name.replace(" ", "-")
            lines += [template.format(name=name, dashed=dashed) for template in templates]
    return lines
