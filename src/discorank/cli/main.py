"""The command ``discorank``: finds the subcommand, and turns errors into messages and exit codes.

Exit codes: 0 good, 1 internal error, 2 usage or input refused, 3 finished or stopped with error records, 4 resume
refused, 5 resources gone (resumable), 129, 130 and 143 stopped by SIGHUP, SIGINT and SIGTERM (resumable).
"""

from __future__ import annotations

import argparse
import errno
import gc
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from ..metrics.storage.stop_signals import put_off
from .terminal.argument_parser import PrintableParser
from .terminal.console import own_quiet
from .terminal.standard_streams import (
    Stop,
    repair,
    show_warning,
    silence_stdout,
    stoppable,
    streams_with_bytes,
)

SUBCOMMANDS = {
    "demo": "see it work on bundled data, in one screen",
    "decode": "choose by minimum Bayes risk",
    "rerank": "choose by a weighted sum of features and reference-free metrics",
    "explain": "show why a candidate won",
    "score": "score texts against references",
    "accuracy": "count how often metrics rank a correct text before contrastive ones",
    "pass-at": "pass@k and maj@k of candidate lists with references",
    "compare": "compare whole systems, with significance and human scores",
    "features": "compare discourse features of good, bad and reference texts",
    "report": "write an HTML page on compared systems, or on what was chosen and why",
    "diff": "show the choices in which two runs differ",
    "check": "look at an input without scoring: counts, lengths, duplicates, cost",
    "convert": "turn other formats into candidate lists, and these into other formats",
    "generate": "write candidate lists with a model that generates",
    "logprobs": "write into candidates how likely a model finds them",
    "serve": "answer OpenAI's protocol with the best of many candidates of another server",
    "train": "train a discourse parser, sescore2, a role classifier, combinations of metrics, priors",
    "cite": "write BibTeX of the metrics used, with their signatures",
    "metrics": "list the metrics and their settings",
    "docs": "print the pages of documentation that come with the package",
}


KINDS = {
    "rst": "a discourse parser from a treebank",
    "roles": "a classifier of discourse roles from labelled sentences",
    "sescore2": "the metric sescore2 from texts, without ratings",
    "combination": "a weighted combination of metrics from human preferences",
    "prior": "how many errors each of several systems makes, from human judgements",
}  # what is trained
# of commands, where their modules have other names
MODULES = {
    **dict.fromkeys(("diff", "explain"), "report"),
    **dict.fromkeys(("metrics", "docs", "demo"), "guide"),
    **dict.fromkeys(("accuracy", "pass-at"), "evaluations"),
    **dict.fromkeys(("train rst", "train roles", "train sescore2"), "train_metrics"),
    **dict.fromkeys(("train combination", "train prior"), "train_metrics"),
}
RESUMABLE = (("decode",), ("rerank",), ("generate",), ("logprobs",), ("train", "sescore2"))
# of a disk, a network or memory; what else a system call refuses has to do with what the command line names
GONE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.ESTALE, errno.EMFILE})
# so many objects more are there before garbage is looked for: thousands of lists wait for each other, none is garbage
GARBAGE_OBJECTS = 50_000


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line; returns its exit code."""
    # numpy's products are small: several threads would cost twice the CPU time and save none (torch has its own)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    if argv is None:
        gc.set_threshold(GARBAGE_OBJECTS, 20, 100)
        repair()
        warnings.showwarning = show_warning
    with streams_with_bytes(), stoppable(is_program=argv is None) as stop:
        try:
            code = _ended(arguments, debug, stop)
            stop.ended = True
        except KeyboardInterrupt as error:
            stop.ended = True
            code = _interrupted(arguments, stop.exit_code(error))
    return code


def _ended(arguments: list[str], debug: bool, stop: Stop) -> int:
    """Runs the command line; returns its exit code.

    Raises:
        KeyboardInterrupt: a signal stopped it.
    """
    try:
        code = _run_or_exit(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        silence_stdout()
        return 0
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of a library in Rust is no Exception
        if stop.number is not None:  # what a library made of the signal
            raise KeyboardInterrupt from error
        return _failed(error, debug)


def _run_or_exit(arguments: list[str]) -> int:
    """As `_run`; argparse ends the program where it has printed help or found a mistake."""
    try:
        return _run(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 2


def _interrupted(arguments: list[str], code: int) -> int:
    """Says that the command was stopped by a signal; returns its exit code."""
    advice = "nothing was written"
    if any(tuple(arguments[: len(words)]) == words for words in RESUMABLE):
        advice = "the same command resumes from here"
        if _writes_to_stdout(arguments):
            advice = "what was printed is not all; with -o FILE the same command would resume"
    print(f"discorank: interrupted; {advice}", file=sys.stderr)
    return code


def _writes_to_stdout(arguments: Sequence[str]) -> bool:
    """Whether a command line plainly names no output: what stands in a config file is not looked at."""
    names = ("-o", "--output", "--config", "--set")
    return not any(argument.startswith(names) for argument in arguments)


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage is looked for inside: what is imported stays."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _run(arguments: list[str]) -> int:
    """Runs the command that the first words name, or says which there are."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    is_training = arguments[:1] == ["train"]
    names, num_words = (KINDS, 2) if is_training else (SUBCOMMANDS, 1)
    words, rest = arguments[:num_words], arguments[num_words:]
    if len(words) < num_words or words[-1] not in names:
        return _overview(words[num_words - 1 :] + rest, names, is_training)
    # there are libraries that panic when they are half imported
    with put_off(), _uncollected():
        from ..metrics.execution.close_at_end import close_all_at_end
        from ..metrics.storage.limits import use_limits

        command = command_of(" ".join(words))
    command.parser.elsewhere = elsewhere
    # this command's limits, caches and quiet end with it
    with use_limits(), close_all_at_end(), own_quiet():
        return int(command.run(rest))


def command_of(name: str) -> Any:
    """The `Command` of a subcommand, or of a kind of training: ``train rst``."""
    attribute = name.split()[-1].replace("-", "_")
    module = import_module(f".commands.{MODULES.get(name, attribute)}", __package__)
    return getattr(module, attribute)


def elsewhere(option: str) -> str:
    """The commands that have an option, and an example of the first with it; empty where none has it."""
    kinds = [f"train {kind}" for kind in KINDS]
    commands = [command_of(name) for name in [*SUBCOMMANDS, *kinds] if name != "train"]
    having = [command for command in commands if option in command.parser._option_string_actions]
    if not having:
        return ""
    names = ", ".join(f"discorank {command.name}" for command in having)
    for line in having[0].parser.examples:
        if option in line.split():
            return f"{option} is an option of {names}: {line}"
    return f"{option} is an option of {names}"


def _overview(arguments: list[str], names: Mapping[str, str], is_training: bool) -> int:
    """Prints which subcommands, or kinds of training, there are; raises InputError for one that there is not."""
    noun, program, about = "subcommand", "discorank", "Choose the best of many candidate texts."
    hint = "discorank demo shows what it does; discorank SUBCOMMAND --help tells more; --debug shows tracebacks."
    if is_training:
        noun, program, about = "kind", "discorank train", "Make a model from data."
        hint = (
            "discorank train KIND --help tells more; all take --config, --set and --print-config."
        )
    lines = "\n".join(f"  {name:<11}  {text}" for name, text in names.items())
    parser = PrintableParser(
        program,
        description=f"{about}\n\n{noun}s:\n{lines}",
        epilog=hint,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if not is_training:
        parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("name", nargs="?", help=argparse.SUPPRESS)
    known, _ = parser.parse_known_args(arguments)
    if getattr(known, "version", False):
        from discorank import __version__

        print(f"discorank {__version__}")
        return 0
    if known.name:
        from ..metrics.errors import unknown

        raise unknown(noun, known.name, names, where=program if is_training else "")
    parser.parse_known(arguments)
    if is_training:
        return parser.error(f"a kind is needed: {', '.join(names)}")
    parser.print_help()
    return 2


def _failed(error: BaseException, debug: bool) -> int:
    """Prints what went wrong; returns the exit code."""
    from ..metrics.errors import DiscorankError, is_out_of_memory
    from ..metrics.optional_packages import missing_package
    from ..printable import printable

    if debug:
        traceback.print_exc()
    error = missing_package(error) or error
    if isinstance(error, DiscorankError):
        print(printable(f"discorank: {error}", keep="\n"), file=sys.stderr)
        return error.exit_code
    if isinstance(error, OSError) and error.errno:
        return _refused(error)
    if is_out_of_memory(error):
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


def _refused(error: OSError) -> int:
    """Says what the system refused; returns the exit code."""
    from ..printable import printable

    with suppress(OSError, ValueError):
        sys.stdout.flush()
    silence_stdout()  # or Python would complain at the end about what could not be written
    is_gone = error.errno in GONE
    fix = "is what the command line names there, and stdin and stdout open?"
    fix = "free some and run the same command again" if is_gone else fix
    place = "" if error.filename is None else f"{error.filename}: "
    print(printable(f"discorank: {place}{error.strerror}; {fix}"), file=sys.stderr)
    return 5 if is_gone else 2
