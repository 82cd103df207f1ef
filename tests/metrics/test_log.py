"""The logger ``discorank``: silent by itself, and what it tells a program that listens."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from discorank import MBRDecoder, load_metric
from discorank.integrations.generation.generator import Prompt
from discorank.integrations.server import Connection, ServerGenerator, ServerSettings

from ..support.serving import Reply, Seen, completion, serving

SCRIPT = """
import discorank, logging
discorank.decode(["a cat sat", "the cat sat"], utility="chrf")
from discorank.metrics.errors import LOG
LOG.warning("nobody listens")
assert [type(one) for one in logging.getLogger("discorank").handlers] == [logging.NullHandler]
"""


def test_nothing_is_printed_where_nobody_listens() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_loading_and_progress_are_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="discorank")
    lists = [["a cat", "the cat"]] * 1001
    assert len(list(MBRDecoder(load_metric("chrf", beta=1.5)).decode(lists))) == 1001
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["loading chrf", "1000 lists decided", "all 1001 lists decided"]
    assert {record.name for record in caplog.records} == {"discorank"}


def test_a_request_that_is_made_again_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def answer(seen: Seen, number: int) -> Reply:
        return Reply({}, 503) if number == 0 else Reply(completion(["x"]))

    with serving(answer) as server:
        generator = ServerGenerator(
            ServerSettings(model="m", num_candidates=1),
            Connection(server.url, retries=1, backoff_seconds=0.001),
        )
        list(generator.generate([Prompt("a", "b")]))
    (record,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert record.name == "discorank"
    assert "attempt 1 failed: " in record.getMessage()
    assert "503" in record.getMessage()
