"""Files of JSON lines and of plain lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path


def json_line(value: object) -> str:
    """A value as a line of JSON."""
    return json.dumps(value, ensure_ascii=False) + "\n"


def write_rows(path: Path, rows: Iterable[object]) -> None:
    """Writes JSON lines."""
    write_text(path, "".join(json_line(row) for row in rows))


def write_lines(path: Path, texts: Iterable[str]) -> None:
    """Writes lines."""
    write_text(path, "".join(f"{text}\n" for text in texts))


def write_text(path: Path, text: str) -> None:
    """Writes a text."""
    path.write_text(text, encoding="utf-8")
