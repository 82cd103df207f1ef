"""The page of the site on the command line: what every subcommand prints with ``--help-all``."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator

from discorank.cli.main import KINDS, SUBCOMMANDS, main

COLUMNS = "100"
HEAD = """# Command line reference

What `discorank SUBCOMMAND --help-all` prints, for every subcommand; `--help` leaves out rare options.
Options stand in YAML too: `--config FILE`, `--print-config` writes one.
"""


def commands_page() -> str:
    """The whole page."""
    parts = [HEAD]
    for words, about in _commands():
        command = " ".join(("discorank", *words))
        parts.append(
            f"## {command}\n\n{about[0].upper()}{about[1:]}.\n\n```text\n{help_of(words)}```\n"
        )
    return "\n".join(parts)


def _commands() -> Iterator[tuple[tuple[str, ...], str]]:
    """Every subcommand as words, and what it does."""
    for name, about in SUBCOMMANDS.items():
        yield (name,), about
        if name == "train":
            yield from ((("train", kind), f"train {what}") for kind, what in KINDS.items())


def help_of(words: tuple[str, ...]) -> str:
    """What ``--help-all`` prints, at a width of its own; of train, which only names kinds, ``--help``.

    Raises:
        RuntimeError: the command fails.
    """
    flag = "--help" if words == ("train",) else "--help-all"
    printed = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = COLUMNS
    try:
        with contextlib.redirect_stdout(printed):
            code = main([*words, flag])
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before
    if code:
        raise RuntimeError(f"discorank {' '.join(words)} {flag} ended with {code}")
    return printed.getvalue()
