"""What people do to a command by mistake: closed streams, outputs and inputs that cannot be.

It is never an internal error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from discorank.cli.main import main

from ..support.command_lines import COMMAND_LINES
from ..support.lists import made_lists, write_lists

EXAMPLES = Path(__file__).parents[2] / "examples"
DOCUMENTED = frozenset({0, 2, 3, 4, 5, 129, 130, 143})
DEMO, SYSTEMS = str(EXAMPLES / "demo.jsonl"), str(EXAMPLES / "systems.jsonl")
# beside those of all tests; WHERE stands for a second output
COMMANDS = {
    **COMMAND_LINES,
    "saved": ("decode", "IN", "-u", "chrf", "-o", "WHERE", "--save-utilities", "OUT"),
    "score": ("score", "IN", "-m", "chrf", "--segment-scores", "OUT"),
    "scores": ("compare", "IN", "-m", "chrf", "--draws", "10", "--segment-scores", "OUT"),
    "convert": ("convert", "IN", "-o", "OUT"),
    "cite": ("cite", "IN"),
    "metrics": ("metrics", "IN"),
}
SOURCES = {
    "score": "scored",
    "compare": SYSTEMS,
    "compare --save": SYSTEMS,
    "scores": SYSTEMS,
    "metrics": "chrf",
    "cite": "chrf",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what makes files impossible."""
    folder = tmp_path_factory.mktemp("doings")
    (folder / "loop").symlink_to(folder / "other")
    (folder / "other").symlink_to(folder / "loop")
    write_lists(folder / "lists.jsonl", made_lists(3))
    (folder / "closed").mkdir()
    (folder / "closed").chmod(0o555)
    (folder / "unreadable.jsonl").write_bytes(Path(DEMO).read_bytes())
    (folder / "unreadable.jsonl").chmod(0)
    row = {"hypothesis": "a b", "references": ["a c"]}
    (folder / "scored").write_text(json.dumps(row) + "\n")
    yield folder
    (folder / "closed").chmod(0o755)


LONG = "a name of 250 letters"
CLOSED = "a folder that cannot be written to"
OUTPUTS = {
    LONG: "{folder}/" + "o" * 250,
    "a name of 300 letters": "{folder}/" + "o" * 300,
    "a loop of links": "{folder}/loop",
    "a folder in a loop of links": "{folder}/loop/x",
    "/proc": "/proc/x.jsonl",
    CLOSED: "{folder}/closed/x",
    "/sys": "/sys/x.jsonl",
    "a full disk": "/dev/full",
    "no file": "/dev/null",
    "nothing": "",
    "a folder": "{folder}",
    "beneath a file": "{folder}/lists.jsonl/x",
    "in no folder": "{folder}/no/folder",
    "a folder that is not there": "{folder}/new/",
    "here": ".",
    "the root": "/",
    "bytes": "{folder}/\udcff",
    "a line": "{folder}/a\nb",
}
INPUTS = {
    "a folder": "{folder}",
    "nothing there": "{folder}/gone",
    "no right to read": "{folder}/unreadable.jsonl",
    "a loop of links": "{folder}/loop",
    "a name of 300 letters": "i" * 300,
    "nothing": "",
    "bytes": "/tmp/\udcff",
    "no file": "/dev/null",
    "beneath a file": "{folder}/lists.jsonl/x",
    "memory": "/proc/self/mem",
    "an option": "--",
}


def words(name: str, folder: Path, source: str | None, out: str | None) -> list[str]:
    """The command line with its files; good ones where none is given."""
    good = SOURCES.get(name, DEMO)
    places = {
        "IN": (str(folder / good) if good == "scored" else good) if source is None else source,
        "OUT": str(folder / f"{name}.out") if out is None else out,
        "WHERE": str(folder / f"{name}.rows"),
    }
    return [places.get(word, word) for word in COMMANDS[name]]


@pytest.mark.parametrize("name", [name for name, line in COMMANDS.items() if "OUT" in line])
def test_an_output_that_cannot_be_is_refused(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, out in OUTPUTS.items():
        code = main(words(name, folder, None, out.format(folder=folder)))
        err = capsys.readouterr().err
        assert code in DOCUMENTED, (kind, err)
        assert "internal error" not in err
        is_possible = kind in ("a line", LONG) or (kind == CLOSED and os.geteuid() == 0)
        if name in ("decode", "rerank", "convert") and not is_possible:
            assert code == 2, (kind, err)
        assert "another process" not in err, kind
    assert not (folder / "new").is_file()


@pytest.mark.parametrize("name", COMMANDS)
def test_an_input_that_cannot_be_is_refused(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, source in INPUTS.items():
        code = main(words(name, folder, source.format(folder=folder), None))
        err = capsys.readouterr().err
        assert code in DOCUMENTED, (kind, err)
        assert "internal error" not in err


def in_shell(line: str, words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command in a shell, with what the shell does to its streams."""
    command = [sys.executable, "-m", "discorank", *words]
    return subprocess.run(
        ["/bin/sh", "-c", line, "sh", *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        # absolute: Python itself does not start where a relative one is looked up in a folder that is gone
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )


STREAMS = {
    "stdin": '"$@" <&-',
    "stdout": '"$@" >&-',
    "stderr": '"$@" 2>&-',
    "all": '"$@" <&- >&- 2>&-',
    "a full stdout": '"$@" > /dev/full',
    "a full stderr": '"$@" 2> /dev/full',
    "no folder": 'mkdir gone && cd gone && rmdir ../gone && "$@"',
    "an ASCII terminal": 'PYTHONIOENCODING=ascii "$@"',
}


def check_streams(name: str, kind: str, source: str | None, folder: Path) -> int:
    """Runs a command with such streams; returns its exit code."""
    done = in_shell(STREAMS[kind], words(name, folder, source, None), folder)
    assert done.returncode in DOCUMENTED, (name, kind, done.stderr)
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode


@pytest.mark.parametrize(
    ("name", "kind", "source", "code"),
    [
        ("check", "stdin", "-", 2),
        ("explain", "stdout", None, 2),
        ("explain", "a full stdout", None, 5),
        ("convert", "a full stderr", None, 0),
        ("convert", "all", None, 0),
    ],
)
def test_streams_that_are_closed_or_full(
    name: str, kind: str, source: str | None, code: int, folder: Path
) -> None:
    assert check_streams(name, kind, source, folder) == code


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_with_all_streams(name: str, folder: Path) -> None:
    for kind in STREAMS:
        check_streams(name, kind, None, folder)
        check_streams(name, kind, "-", folder)


def test_rows_to_a_closed_stdout_are_not_lost_in_silence(folder: Path) -> None:
    done = in_shell('"$@" >&-', ["decode", DEMO, "-u", "chrf", "--quiet"], folder)
    assert done.returncode == 2
    assert "Bad file descriptor" in done.stderr


@pytest.mark.parametrize(
    ("line", "code", "problem"),
    [('"$@" >&-', 2, "Bad file descriptor"), ('"$@" > /dev/full', 5, "No space left on device")],
)
def test_help_that_cannot_be_printed_is_one_message(
    line: str, code: int, problem: str, folder: Path
) -> None:
    done = in_shell(line, ["decode", "--help"], folder)
    assert done.returncode == code
    (message,) = done.stderr.splitlines()
    assert message.startswith(f"discorank: {problem}")
