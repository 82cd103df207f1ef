"""argparse, whose messages repeat what was typed: with nothing in it that moves a terminal's cursor."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from ...printable import printable


class PrintableParser(argparse.ArgumentParser):
    """An argument parser with printable messages."""

    def error(self, message: str) -> NoReturn:
        """Says how the command is used and what is wrong, and ends with exit code 2."""
        super().error(printable(message))

    def print_help(self, file: Any = None) -> None:
        """Prints the help; raises OSError where argparse says nothing of it: the stream takes nothing."""
        (file or sys.stdout).write(self.format_help())
