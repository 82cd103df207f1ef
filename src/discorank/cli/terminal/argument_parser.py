"""argparse, whose messages repeat what was typed: with nothing in it that moves a terminal's cursor."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from textwrap import wrap
from typing import Any, NoReturn

from ...printable import printable

WIDTH = 98  # of the names of further options
CLOSE = 0.8  # how similar a misspelt option is to the one that was meant


class HelpAll(argparse.Action):
    """Prints the help with rare options in it, and stops."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        """Prints it; raises SystemExit."""
        sys.stdout.write(parser.format_help(rare=True))
        parser.exit()


class PrintableParser(argparse.ArgumentParser):
    """An argument parser with printable messages of one line, and options that its help hides at first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rare: list[argparse.Action] = []
        self._headings: list[tuple[Any, str]] = []  # groups of options, and what is said of them
        self.first: list[str] = []  # the options that the short help explains, by their names
        self.examples: list[str] = []  # command lines
        self.elsewhere: Callable[[str], str] = lambda option: ""  # which other commands have it

    def add_heading(self, title: str, about: str) -> Any:
        """A group of options; where none is shown, its title is not either."""
        group = self.add_argument_group(title)
        self._headings.append((group, about))
        return group

    def hide(self, action: argparse.Action) -> None:
        """Leaves an option to the help with rare ones."""
        self._rare.append(action)

    def parse_known(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The options; ends with exit code 2, and the nearest match, where there is one that does not exist."""
        options, rest = self.parse_known_args(list(arguments))
        if rest:
            self.error(self._unknown(rest))
        return options

    def _unknown(self, rest: Sequence[str]) -> str:
        """The error of arguments that nothing takes."""
        wrong = [text.partition("=")[0] for text in rest if text.startswith("-") and text != "-"]
        if not wrong:
            return f"unexpected argument {rest[0]}"
        name = wrong[0]
        near = self._nearest(name, CLOSE)
        hint = "" if near else next(filter(None, map(self.elsewhere, wrong)), "")
        if not hint and (near := near or self._nearest(name)):
            hint = f"did you mean {near}?"
        return f"unknown option {name}; {hint}" if hint else f"unknown option {name}"

    def _nearest(self, name: str, cutoff: float = 0.6) -> str | None:
        """The option that `name` resembles, or the only one that begins with its letter."""
        options = list(self._option_string_actions)
        if len(name) == 2:
            near = [option for option in options if option.startswith(f"-{name}")]
            return near[0] if len(near) == 1 else None
        return next(iter(get_close_matches(name, options, n=1, cutoff=cutoff)), None)

    def error(self, message: str) -> NoReturn:
        """Says what is wrong and who knows more, in one line, and ends with exit code 2."""
        end = "" if message.endswith((";", "?")) else ";"
        names = self._option_string_actions
        helps = "--help-all" if "--help-all" in names else "--help"
        line = f"discorank: {message}{end} {self.prog} {helps} lists all"
        self.exit(2, f"{printable(line)}\n")

    def format_help(self, rare: bool = False) -> str:
        """The help, in which names of formats stand that are asked for by ``{formats}``.

        Args:
            rare: whether rare options stand in it too.
        """
        for action in self._actions:
            if action.help and "{formats" in action.help:
                from ...integrations.formats.format_table import with_format_names

                action.help = with_format_names(action.help)
        if not rare and self.examples:
            return self._short_help()
        abouts = [(action, action.help) for action in self._rare]
        try:
            for action, about in abouts:
                action.help = about if rare else argparse.SUPPRESS
            for group, about in self._headings:
                shown = any(action.help != argparse.SUPPRESS for action in group._group_actions)
                group.description = about if shown else None
            return super().format_help() + self._examples()
        finally:
            for action, about in abouts:
                action.help = about

    def _short_help(self) -> str:
        """What the command does, the options that one needs first, examples, and the names of the other options."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        formatter.start_section("first")
        by_name = {action.dest: action for action in reversed(self._actions)}
        formatter.add_arguments([by_name[name] for name in self.first])
        formatter.end_section()
        return f"{formatter.format_help()}{self._examples()}\n{self._other_options()}"

    def _examples(self) -> str:
        """The examples, each on a line."""
        if not self.examples:
            return ""
        return "\nexamples:\n" + "".join(f"  {line}\n" for line in self.examples)

    def _other_options(self) -> str:
        """The names of the options that the short help leaves out, by their headings, but for rare ones."""
        lines = []
        for group, _ in self._headings:
            flags = [
                next(flag for flag in action.option_strings if flag.startswith("--"))
                for action in group._group_actions
                if action.option_strings
                and action.help != argparse.SUPPRESS
                and action not in self._rare
                and action.dest not in self.first
            ]
            lines += wrap(
                " ".join(flags),
                WIDTH,
                initial_indent=f"  {group.title:<11} ",
                subsequent_indent=" " * 14,
                break_on_hyphens=False,
            )
        return f"more options, which {self.prog} --help-all explains:\n" + "".join(
            f"{line}\n" for line in lines if "--" in line
        )

    def print_help(self, file: Any = None) -> None:
        """Prints the help; raises OSError where argparse says nothing of it: the stream takes nothing."""
        (file or sys.stdout).write(self.format_help())
