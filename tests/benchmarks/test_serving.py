"""The benchmarks of serve see what they look for."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from benchmarks.serving import faults
from benchmarks.serving.asking import Reply, quantile
from benchmarks.support.scripted_replies import marker


def answer(*texts: str, n: int = 16) -> Reply:
    candidates = [{"text": text, "count": n // len(texts)} for text in texts]
    body = {"choices": [{"text": texts[0]}], "discorank": {"n": n, "candidates": candidates}}
    return Reply(200, body, 0.1)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (answer(f"a {marker('p')}", f"b {marker('p')}"), "chosen of 16"),
        (answer(f"a {marker('p')}", n=3), "chosen of fewer"),
        (answer(f"a {marker('p')}", f"b {marker('q')}"), "WRONG: a candidate of another request"),
        (Reply(200, {"choices": []}, 0.1), "LOST"),
        (Reply(0, None, 0.1), "LOST"),
        (Reply(502, {"error": {"message": "x"}}, 0.1), "LOST"),
        (
            Reply(
                502, {"error": dict.fromkeys(("message", "type", "param"), "") | {"code": "c"}}, 0
            ),
            "error 502 c",
        ),
    ],
)
def test_what_came_of_a_request(reply: Reply, expected: str) -> None:
    assert faults.outcome(reply, "p") == expected


def test_quantiles() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert (quantile(values, 0.5), quantile(values, 0.95), quantile(values, 1.0)) == (51, 96, 100)


def test_faults_upstream_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(faults, "FAULTS", ("status-500", "few", "half-json") * 2)
    monkeypatch.setattr(sys, "argv", ["faults", "--requests", "24"])
    faults.main()
    shown: Any = capsys.readouterr().out
    assert "chosen of 16" in shown
    assert "       0 without any answer" in shown
    assert "WRONG" not in shown
    assert "LOST" not in shown
