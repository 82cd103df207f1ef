"""What docs/serve.md shows is what happens, before the server of examples/."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def lines(block: str) -> list[list[str]]:
    return [shlex.split(line) for line in block.replace("\\\n", "").splitlines() if line]


@contextlib.contextmanager
def started(words: list[str], stream: str) -> Iterator[str]:
    """The address that a process says it serves at."""
    pipe: dict[str, Any] = {stream: subprocess.PIPE}
    process = subprocess.Popen(words, cwd=ROOT, text=True, **pipe)
    try:
        line = getattr(process, stream).readline()
        address = re.search(r"http://[\w.:]+/v1", line)
        assert address, line
        yield address[0]
    finally:
        process.kill()
        process.wait()
        getattr(process, stream).close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the second and third commands of the quickstart serve, on free ports."""
    _, fake, serve = lines(blocks("sh")[0])
    assert (fake[:2], serve[:2]) == (
        ["python", "examples/fake_upstream.py"],
        ["discorank", "serve"],
    )
    with started([sys.executable, fake[1], "0"], "stdout") as upstream:
        words = [upstream if word == "http://localhost:8000/v1" else word for word in serve[1:]]
        words[words.index("--port") + 1] = "0"
        with started([sys.executable, "-m", "discorank", *words], "stderr") as url:
            yield url


def test_python(address: str) -> None:
    code = "".join(blocks("python")).replace("http://localhost:8484/v1", address)
    assert code.count(address) == 1
    shown = io.StringIO()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(shown):
        exec(code, names)
    assert shown.getvalue() == blocks("text")[0]
    assert names["reply"].discorank["n"] == 16
    names["client"].close()


def test_commands_of_serve_have_these_options(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [words for block in blocks("sh") for words in lines(block)]
    ours = [words[1:] for words in commands if words[0] == "discorank"]
    assert ours
    for words in ours:
        assert main([*words, "--print-config"]) == 0
        assert re.search("upstream:\n- (a=)?http://localhost:", capsys.readouterr().out)


def test_options_that_are_named_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help-all"]) == 0
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    text = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    named = set(re.findall(r"`(--[a-z-]+)", text))
    assert named - known == {"--parallel"}


def test_fields_are_those_of_requests() -> None:
    from discorank.integrations.proxy.questions import OwnFields

    table = PAGE.split("## Fields")[1].split("\n\n")[2]
    first_cells = "".join(row.split("|")[1] for row in table.splitlines())
    assert set(re.findall(r"`([a-z]+)`", first_cells)) == set(OwnFields.__annotations__)
