"""An output that the system refuses to write is a mistake in the command line: exit 2, with the name of the file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.rerank.runs import resumable


@pytest.mark.parametrize(
    ("number", "code"), [(errno.EPERM, 2), (errno.EROFS, 2), (errno.ENOSPC, 5)]
)
def test_an_output_that_cannot_be_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    code: int,
) -> None:
    out = tmp_path / "out.jsonl"

    def refusing(path: Any, *words: Any, **named: Any) -> Any:
        if Path(path) == out:
            raise OSError(number, os.strerror(number), str(path))
        return open(path, *words, **named)

    monkeypatch.setattr(resumable, "open", refusing, raising=False)
    assert main(["decode", "examples:demo.jsonl", "-u", "chrf", "-o", str(out), "--quiet"]) == code
    error = capsys.readouterr().err
    assert str(out) in error
    assert ("Choose another output" in error) == (code == 2)
