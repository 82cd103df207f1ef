"""What docs/training.md shows of rewards is what happens."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main

from .test_serve_docs import started

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
REWARDS = PAGE[PAGE.index("## How do I use a metric as a reward?") :]


def block(beginning: str) -> str:
    blocks = re.findall(r"^```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = [text for text in blocks if text.startswith(beginning)]
    return str(found)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the command of the page serves, with its first metric, on a free port."""
    words = shlex.split(block("discorank serve"))
    metrics, port = words.index("-m") + 1, words.index("--port")
    assert words[metrics] == "chrf"
    words = [sys.executable, "-m", *words[: metrics + 1], "--port", "0", *words[port + 2 :]]
    with started(words, "stderr") as url:
        yield url.removesuffix("/v1")


def test_the_client(address: str) -> None:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(block("from discorank import Scores").replace("http://localhost:8484", address), {})
    assert shown.getvalue().startswith("[53.6")


def test_the_function_of_verl_and_the_environment_of_nemo(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {}
    exec(block("# reward.py").replace("http://localhost:8484", address), names)
    value = names["compute_score"]("data", "a cat sat", "the cat sat", {})
    assert round(value, 1) == 53.6

    interfaces = types.ModuleType("nemo_rl.environments.interfaces")
    interfaces.EnvironmentReturn = lambda *values: values  # type: ignore[attr-defined]
    for name in ("nemo_rl", "nemo_rl.environments"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "nemo_rl.environments.interfaces", interfaces)
    names = {"discorank": __import__("discorank")}
    exec(block("# environment.py").replace("http://nodes:8484", address), names)
    log = [{"role": "user", "content": "p"}, {"role": "assistant", "content": "a cat sat"}]
    returned = names["step"](None, [log], [{"reference": "the cat sat"}])
    assert returned[3].tolist() == [value]


def test_options_that_are_named_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help-all"]) == 0
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    named = set(re.findall(r"`(--[a-z-]+)", REWARDS))
    others = {"--remote", "--rm-type", "--option"}
    assert len(named) > 5
    assert named - known - others == set()


def test_paths_of_the_table_are_answered() -> None:
    from discorank.integrations.proxy.score_endpoints import FORMS

    rows = [line for line in PAGE.splitlines() if line.startswith("| `/")]
    paths = {path for row in rows for path in re.findall(r"`(/[\w/]+)`", row.split("|")[1])}
    assert paths == {*FORMS}
