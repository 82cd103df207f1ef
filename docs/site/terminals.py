"""Recordings of a terminal as SVG: commands and what they print, run here.

    python docs/site/terminals.py [NAME ...]

Each is docs/pictures/terminal-NAME.svg, and its text is text.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from plot import PICTURES, picture

ROOT = Path(__file__).resolve().parents[2]
LETTER, LINE, MARGIN = 7.83, 18, 16
MAX_COLUMNS = 100
DISCORANK = f'#!/bin/sh\nexec "{sys.executable}" -m discorank "$@"\n'
QUESTION = (
    '{"model": "any", "messages": [{"role": "user", "content": "What happened?"}], "discorank": {}}'
)


class Recording(NamedTuple):
    """Commands as they are shown, and how many lines of the terminal are kept."""

    about: str
    commands: tuple[str, ...]
    lines: int


RECORDINGS = {
    "demo": Recording(
        "discorank demo: a text is chosen among ten systems, the choice is explained, the systems are compared",
        ("discorank demo",),
        18,
    ),
    "explain": Recording(
        "discorank explain: the chosen text, its expected utility, and the candidates that it agrees with most",
        ("discorank explain examples:demo.jsonl -u chrf --id ferry:1 --nbest 2",),
        13,
    ),
    "compare": Recording(
        "discorank compare: which of ten systems is best by people, how sure that is, and how two metrics rank them",
        ("discorank compare examples:systems.jsonl -m chrf bleu --human mqm:lower",),
        20,
    ),
    "serve": Recording(
        "discorank serve: a server starts before another one, and its answer is the best of 16",
        (
            "python examples/fake_upstream.py 8000 &",
            "discorank serve --upstream http://localhost:8000/v1 -u chrf -n 16 &",
            "curl -s localhost:8484/v1/chat/completions -d @question.json > answer.json",
            """python -m json.tool answer.json | grep -E '"(content|n|distinct|utility|gap)"'""",
        ),
        20,
    ),
}


def printed(recording: Recording) -> list[str]:
    """The lines of the terminal: commands behind a dollar, and all that they print."""
    steps = []
    for number, command in enumerate(recording.commands, start=1):
        steps += [f"echo {shlex.quote(f'$ {command}')}", command]
        if command.endswith("&"):  # a server, which says where it is
            steps.append(f"until [ $(grep -c ' at http' out) = {number} ]; do sleep 0.1; done")
    steps.append("cp out kept; kill $(jobs -p); wait")
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "discorank").write_text(DISCORANK)
        (folder / "discorank").chmod(0o755)
        path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / "question.json").write_text(QUESTION)
        with open(folder / "out", "w", encoding="utf-8") as out:
            shell = ["/bin/bash", "-c", "\n".join(steps)]
            done = {"stdout": out, "stderr": out, "check": False}
            environment = {**os.environ, "PATH": path}
            subprocess.run(shell, cwd=folder, env=environment, **done)  # type: ignore[call-overload]  # noqa: S603
        return (folder / "kept").read_text(encoding="utf-8").splitlines()


def drawn(recording: Recording, lines: list[str]) -> str:
    """The lines as an SVG; what is left out behind the last of them is an ellipsis.

    Raises:
        ValueError: a line is wider than the terminal.
    """
    if len(lines) > recording.lines:
        lines = [*lines[: recording.lines], "…"]
    width = max(map(len, lines))
    if width > MAX_COLUMNS:
        raise ValueError(f"found a line of {width} letters, expected at most {MAX_COLUMNS}")
    parts = [
        '<g font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13">'
    ]
    for number, line in enumerate(lines):
        colour = "a" if line.startswith("$ ") else "ink"
        y = MARGIN + 12 + number * LINE
        parts.append(
            f'<text class="{colour}" xml:space="preserve" x="{MARGIN}" y="{y}">{escape(line)}</text>'
        )
    height = 2 * MARGIN + len(lines) * LINE
    return picture(
        f"A terminal. {recording.about}",
        height,
        [*parts, "</g>"],
        round(2 * MARGIN + width * LETTER),
    )


def main(names: list[str]) -> None:
    """Records."""
    for name in names or RECORDINGS:
        recording = RECORDINGS[name]
        svg = drawn(recording, printed(recording))
        (PICTURES / f"terminal-{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
