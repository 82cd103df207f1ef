"""Files with the outputs of systems, put side by side by segment."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discorank import use_limits
from discorank.integrations.formats.system_texts import OutputFiles, read_outputs, read_system_texts
from discorank.metrics.errors import InputError

TEXTS = ("the cat", "a dog ran", "it slept")


def _lines(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def _json(*rows: dict[str, Any]) -> str:
    return _lines(*map(json.dumps, rows))


FORMS: dict[str, str] = {
    "plain": _lines(*TEXTS),
    "crlf": "".join(f"{text}\r\n" for text in TEXTS),
    "no newline at the end": "\n".join(TEXTS),
    "decoded": _json(*({"id": str(i), "index": 1, "text": t} for i, t in enumerate(TEXTS))),
    "candidates": _json(
        *({"id": str(i), "candidates": [{"text": t}, "no"]} for i, t in enumerate(TEXTS))
    ),
    "moses": _lines(
        *(f"{i} ||| {t} ||| LM0= -1 ||| -1" for i, text in enumerate(TEXTS) for t in (text, "no"))
    ),
    "moses, not in order": _lines(*(f"{i} ||| {TEXTS[i]} ||| LM0= -1 ||| -1" for i in (2, 0, 1))),
    "marian": _lines(*(f"{i} ||| {t} ||| F0= -1 ||| -1" for i, t in enumerate(TEXTS))),
    "fairseq": "".join(
        f"S-{i}\tx\nH-{i}\t-0.5\t{TEXTS[i]}\nD-{i}\t-0.5\t{TEXTS[i]}\nP-{i}\t-0.5 -0.5\n"
        for i in (1, 0, 2)
    ),
    "systems": _json({"id": "d", "systems": {"A": list(TEXTS)}}),
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    def written(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
        return str(path)

    return written


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_file_gives_the_same_texts(
    form: str, write: Callable[[str, str], str]
) -> None:
    (texts,) = read_system_texts(write("file", FORMS[form])).systems.values()
    assert texts == TEXTS


def test_packed_and_empty_lines_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "beam.de.txt.gz"
    path.write_bytes(gzip.compress(b"a\n\nU+2028: \xe2\x80\xa8 is text\n{not JSON\n"))
    outputs = read_outputs(OutputFiles((str(path),)))
    assert [row["systems"]["beam.de"] for row in outputs.rows] == [
        ["a"],
        [""],
        ["U+2028: \u2028 is text"],
        ["{not JSON"],
    ]


def test_documents_sources_and_references_become_rows(write: Callable[[str, str], str]) -> None:
    files = OutputFiles(
        (write("a.txt", FORMS["plain"]), write("b.jsonl", FORMS["decoded"])),
        (write("r.txt", FORMS["plain"]),),
        write("src.txt", "x\ny\nz\n"),
        write("ids.txt", "one\none\ntwo\n"),
    )
    rows, names, has_documents, left_out = read_outputs(files)
    assert left_out == ()
    assert has_documents
    assert list(names.values()) == ["a", "b", "r"]
    first, last = list(TEXTS[:2]), [TEXTS[2]]
    assert rows == [
        {"id": "one", "source": ["x", "y"], "references": {"r": first}, "systems": {"a": first, "b": first}},
        {"id": "two", "source": ["z"], "references": {"r": last}, "systems": {"a": last, "b": last}},
    ]  # fmt: skip


def test_what_is_not_given_is_taken_from_files_that_know_it(
    write: Callable[[str, str], str],
) -> None:
    systems = {
        "id": "d",
        "source": ["x", "y", "z"],
        "references": {"refA": list(TEXTS)},
        "systems": {"A": list(TEXTS), "B": list(TEXTS)},
        "human": {"A": 1, "B": 2},
    }
    text, known = write("mine.txt", FORMS["plain"]), write("systems.jsonl", _json(systems))
    rows, _, has_documents, left_out = read_outputs(OutputFiles((text, known)))
    assert has_documents
    assert left_out == (f"human scores of {known}",)
    del systems["human"]
    systems["systems"] = {"mine": list(TEXTS), "A": list(TEXTS), "B": list(TEXTS)}
    assert rows == [systems]


def test_without_ids_every_segment_is_a_document(write: Callable[[str, str], str]) -> None:
    outputs = read_outputs(OutputFiles((write("a.txt", FORMS["plain"]),)))
    assert [row["id"] for row in outputs.rows] == ["1", "2", "3"]
    assert not outputs.has_documents


def test_names_that_are_alike_are_told_apart(write: Callable[[str, str], str]) -> None:
    by_ending = (write("out.beam", FORMS["plain"]), write("out.mbr", FORMS["plain"]))
    assert list(read_outputs(OutputFiles(by_ending)).rows[0]["systems"]) == ["out.beam", "out.mbr"]
    by_path = (write("beam/out.txt", FORMS["plain"]), write("mbr/out.txt", FORMS["plain"]))
    assert list(read_outputs(OutputFiles(by_path)).rows[0]["systems"]) == list(by_path)


DECODED_IN = [{"document": d, "text": t} for d, t in zip("abb", TEXTS, strict=True)]


OTHERS_IN = [{**row, "document": "a"} for row in DECODED_IN]
SYSTEM_A = {"id": "d", "systems": {"a": ["y"]}}
APART = "0 ||| x ||| LM0= -1 ||| -1\n2 ||| x ||| LM0= -1 ||| -1\n"


@pytest.mark.parametrize(
    ("texts", "fact"),
    [
        ({"a.txt": "x\ny\n", "r.txt": "x\ny\nz\n"}, "a.txt: 2 lines, {}r.txt has 3 lines"),
        ({"a.txt": "x\ny\n\n", "r.txt": "x\ny\n"}, "a.txt: 3 lines, {}r.txt has 2 lines. The last"),
        ({"a.txt": "x\ny\n", "ids": "d\n"}, "ids: 1 lines, {}a.txt has 2 lines"),
        ({"a.txt": "x\ny\nz\n", "ids": "d\ne\nd\n"}, "ids: segment 3: document 'd'"),
        ({"a.txt": "x\ny\n", "ids": "d\n\n"}, "ids:2: an empty line"),
        ({"a.txt": "x\n", "s.jsonl": _json(SYSTEM_A)}, "s.jsonl: the system 'a' is in {}a.txt too"),
        ({"a": _json(*DECODED_IN), "b": _json(*OTHERS_IN)}, "b: segment 2: is of document 'a'"),
        ({"a": APART}, "a: the list 1 is missing between 0 and 2"),
        ({"a": '{"score": 1}\n'}, "a:1: found"),
        ({"a": '{"text": 1}\n'}, "a: segment 1: found 1"),
        ({"a": '{"text": "x"}\n{"id": "y"}\n'}, "a:2: found"),
        ({"a": ""}, "a: no segments"),
    ],
)
def test_what_does_not_fit_is_told(
    texts: dict[str, str], fact: str, write: Callable[[str, str], str], tmp_path: Path
) -> None:
    """``r.txt`` has references, and ``ids`` documents."""
    paths = {name: write(name, text) for name, text in texts.items()}
    references = (paths.pop("r.txt"),) if "r.txt" in paths else ()
    documents = paths.pop("ids", None)
    with pytest.raises(InputError) as caught:
        read_outputs(OutputFiles(tuple(paths.values()), references, None, documents))
    assert f"{tmp_path}/{fact.format(f'{tmp_path}/')}" in str(caught.value)


def test_a_file_is_given_once_and_bounded(write: Callable[[str, str], str]) -> None:
    path = write("a.txt", FORMS["plain"])
    with pytest.raises(InputError, match="is given twice"):
        read_outputs(OutputFiles((path, path)))
    with pytest.raises(InputError, match="is a hypothesis and a reference"):
        read_outputs(OutputFiles((path,), (path,)))
    for form in ("plain", "decoded", "systems"):
        with use_limits(rows=2), pytest.raises(InputError, match="rows"):
            read_system_texts(write(form, FORMS[form]))
