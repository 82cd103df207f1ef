"""The benchmark commands of the documentation are taken by the benchmarks that they name; none of them is run."""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import shlex
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "results").glob("*.md")),
    *sorted((ROOT / "benchmarks" / "results").glob("*.md")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
)
TABLES = sorted((ROOT / "benchmarks" / "results").glob("*.tsv"))
BLOCK = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"python -m (benchmarks\.\S+)(.*)")
NAMED_ALONE = "the following arguments are required"  # the text says what the benchmark prints, not how it is called


class ParsedError(BaseException):
    """The arguments were taken."""


def lines(page: str) -> Iterator[str]:
    """The lines of code in blocks, long ones whole, and the code in running text."""
    for block in BLOCK.findall(page):
        yield from block.replace("\\\n", " ").splitlines()
    for code in re.findall(r"`([^`]+)`", BLOCK.sub("", page)):
        yield " ".join(code.split())


def commands() -> list[str]:
    """Every benchmark command of the documentation and of its data that says more than a name, once."""
    shown = [line for page in PAGES for line in lines(page.read_text(encoding="utf-8"))]
    for table in TABLES:
        rows = table.read_text(encoding="utf-8").splitlines()
        shown += [command for row in rows for command in row.split("\t")[-1].split("; ")]
    found: dict[str, None] = {}
    for line in shown:
        for module, arguments in COMMAND.findall(line.split("#")[0].split(" > ")[0]):
            # what may be left out, and what stands for more of the same
            given = re.sub(r"\[[^]]*\]|(?<= )\.\.\.", "", arguments)
            found[" ".join([module, *given.split()])] = None
    return [command for command in found if takes_options(command.split()[0])]


def takes_options(module: str) -> bool:
    """Whether a benchmark reads its arguments by argparse; others would be run."""
    spec = find_spec(module)
    assert spec is not None, module
    if spec.submodule_search_locations is not None:
        spec = find_spec(f"{module}.__main__")
    assert spec is not None, module
    assert spec.origin is not None, module
    return "argparse" in Path(spec.origin).read_text(encoding="utf-8")


def begin(module: str) -> None:
    """Runs a module as a command."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it may be imported already
        runpy.run_module(module, run_name="__main__")


@pytest.mark.parametrize("command", commands())
def test_a_documented_command_is_taken(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = argparse.ArgumentParser.parse_args

    def parse(parser: argparse.ArgumentParser, *given: Any, **more: Any) -> None:
        original(parser, *given, **more)
        raise ParsedError

    module, *arguments = shlex.split(command)
    # a number of the reader's own
    arguments = ["1" if word == "N" else word for word in arguments]
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    monkeypatch.delitem(sys.modules, module, raising=False)  # where it runs these tests
    with pytest.raises((ParsedError, SystemExit)) as stopped:
        begin(module)
    if stopped.type is SystemExit:
        assert NAMED_ALONE in capsys.readouterr().err


def is_main_block(node: ast.stmt) -> bool:
    """Whether a statement is ``if __name__ == "__main__":``."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def below_main_block(source: str) -> list[str]:
    """The statements of a module below the block that runs it: it runs before they are defined."""
    body = ast.parse(source).body
    starts = [i for i, node in enumerate(body) if is_main_block(node)]
    return [ast.unparse(node).splitlines()[0] for node in body[starts[0] + 1 :]] if starts else []


def test_nothing_stands_below_what_runs_a_module() -> None:
    """Options are read all the same, and the benchmark ends in a NameError behind them."""
    modules = [*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "docs" / "site").rglob("*.py")]
    assert len(modules) > 50
    found = {str(path): below_main_block(path.read_text(encoding="utf-8")) for path in modules}
    assert {path: rest for path, rest in found.items() if rest} == {}
    assert below_main_block('if __name__ == "__main__":\n    f()\ndef f(): ...') == ["def f():"]
