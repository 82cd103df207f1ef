"""A process that imports what takes long, and then runs commands in children, each of which imports discorank afresh.

`running` starts it by its text (``python -c``), so that nothing of these benchmarks can be imported. Its arguments are
modules to import. A line that it reads is a JSON array: the words of a command, and the paths of stdin, stdout and
stderr. It answers each with a line, the exit code.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn


def serve() -> None:
    """Imports, and runs a command for every line of standard input."""
    for name in sys.argv[1:]:
        with suppress(ImportError):
            import_module(name)
    gc.freeze()
    for line in sys.stdin:
        words, *streams = json.loads(line)
        child = os.fork()
        if not child:
            run(words, streams)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def run(words: Sequence[str], streams: Sequence[str]) -> NoReturn:
    """Runs a command and ends this process."""
    for number, path in enumerate(streams):
        flags = os.O_WRONLY if number else os.O_RDONLY
        os.dup2(os.open(path, flags), number)
    sys.argv = ["discorank", *words]
    code = exit_code()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def exit_code() -> int:
    """Runs discorank as a program."""
    try:
        runpy.run_module("discorank", run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
            return 1
        return stop.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    serve()
