"""Writes files that are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.same_outputs.files import json_line, write_rows, write_text
from benchmarks.same_outputs.making import Row, made_systems

WRONG = {
    "empty.jsonl": "",
    "nan.jsonl": '{"id": "a", "candidates": [{"text": "x", "logprob": NaN}]}\n',
    "none.jsonl": '{"id": "a", "candidates": []}\n',
    "negative.jsonl": '{"id": "a", "candidates": [{"text": "x", "votes": -1}, {"text": "y", "votes": 2}]}\n',
    "badtree.jsonl": '{"id": "a", "candidates": [{"text": ["x y"], "rst": ["x"]}, "z"]}\n',
    "short.txt": "one line\n",
    "broken.yaml": "nbest: [1\n",
    "unknown.yaml": "nbset: 1\n",
}
NO_JSON = "{broken\n"
NO_UTF8 = '{"id": "a", "candidates": ["café", "x"]}\n'.encode("latin-1")


def write_wrong(folder: Path, lists: Sequence[Row], long: Sequence[Row]) -> None:
    """Writes all of it, some from good lists."""
    for name, text in WRONG.items():
        write_text(folder / name, text)
    (folder / "latin1.jsonl").write_bytes(NO_UTF8)
    lines = [json_line(row) for row in lists]
    long_lines = [json_line(row) for row in long]
    # a broken line between two good ones, and in the place of a good one
    inserted = [lines[0], NO_JSON, *lines[1:]]
    replaced = [*long_lines[:30], NO_JSON, *long_lines[31:]]
    write_text(folder / "notjson.jsonl", "".join(inserted))
    write_text(folder / "long_broken.jsonl", "".join(replaced))
    # one id, twice
    write_text(folder / "twice.jsonl", 2 * lines[0])
    # an archive without its end
    whole = (folder / "lists.jsonl.gz").read_bytes()
    (folder / "truncated.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    # a system that lacks a document
    lacking = made_systems(3, seed=8)
    del lacking[2]["systems"]["B"]
    write_rows(folder / "lacking.jsonl", lacking)
