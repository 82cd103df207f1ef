"""The command ``discorank``: finds the subcommand, and turns errors into messages and exit codes.

Exit codes: 0 good, 1 internal error, 2 usage or input refused, 3 finished or stopped with error records, 4 resume
refused, 5 resources gone (resumable), 130 and 143 interrupted (resumable).
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

SUBCOMMANDS = {
    "decode": "choose by minimum Bayes risk",
    "rerank": "choose by a weighted sum of features and reference-free metrics",
    "explain": "show why a candidate won",
    "score": "score texts against references",
    "compare": "compare whole systems, with significance and human scores",
    "report": "write an HTML page on compared systems, or on what was chosen and why",
    "check": "look at an input without scoring: counts, lengths, duplicates, cost",
    "convert": "turn other formats into candidate lists",
    "generate": "write candidate lists with a model that generates",
    "train": "train a discourse parser, sescore2, a role classifier, a combination of metrics, a prior over systems",
    "cite": "write BibTeX of the metrics used and a sentence for the methods section",
    "metrics": "list the metrics and their settings",
}


class TerminatedError(KeyboardInterrupt):
    """SIGTERM; as an interrupt it passes every `except Exception`, and is no failure of the metric at work."""


RESUMABLE = (("decode",), ("rerank",), ("generate",), ("train", "sescore2"))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except (KeyboardInterrupt, TerminatedError) as stop:
        is_resumable = any(tuple(arguments[: len(words)]) == words for words in RESUMABLE)
        advice = "the same command goes on from here" if is_resumable else "nothing was written"
        print(f"discorank: interrupted; {advice}", file=sys.stderr)
        return 143 if isinstance(stop, TerminatedError) else 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _failed(error, debug)


def _run(arguments: list[str]) -> int:
    """Runs the subcommand's module, or answers what stands without one."""
    if arguments and arguments[0] in SUBCOMMANDS:
        from ..metrics.spec.limits import use_limits

        module: Any = import_module(f".{arguments[0]}", __package__)
        with use_limits():  # those of this command end with it
            return int(module.run(arguments[1:]))
    subcommands = "\n".join(f"  {name:<8}  {about}" for name, about in SUBCOMMANDS.items())
    parser = argparse.ArgumentParser(
        "discorank",
        description=f"Choose the best of many candidate texts.\n\nsubcommands:\n{subcommands}",
        epilog="discorank SUBCOMMAND --help tells more; --debug shows tracebacks.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("subcommand", nargs="?", help=argparse.SUPPRESS)
    known, _ = parser.parse_known_args(arguments)
    if known.version:
        from discorank import __version__

        print(f"discorank {__version__}")
        return 0
    if known.subcommand:
        from ..metrics.errors import unknown

        raise unknown("subcommand", known.subcommand, SUBCOMMANDS)
    return parser.error(f"a subcommand is needed: {', '.join(SUBCOMMANDS)}")


def _failed(error: Exception, debug: bool) -> int:
    """Prints what went wrong; returns the exit code."""
    from ..metrics.errors import DiscorankError
    from ..printable import printable

    if debug:
        traceback.print_exc()
    if isinstance(error, DiscorankError):
        print(printable(f"discorank: {error}", keep="\n"), file=sys.stderr)
        return error.exit_code
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        print(
            f"discorank: {error.strerror}; free some and run the same command again",
            file=sys.stderr,
        )
        return 5
    if isinstance(error, MemoryError):
        print(
            "discorank: out of memory; run the same command again where there is more",
            file=sys.stderr,
        )
        return 5
    print(
        f"discorank: internal error: {type(error).__name__}: {error}. Please report it with the output of --debug",
        file=sys.stderr,
    )
    return 1


def _terminate(number: int, frame: object) -> NoReturn:
    raise TerminatedError
