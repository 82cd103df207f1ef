"""Reading candidate lists: worked examples of every format, every malformed thing with its message, and the checks."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from discorank.integrations.files.entries import ListEntry, SeenKeys
from discorank.integrations.formats.format_table import formats
from discorank.integrations.formats.open_lists import Lists, open_lists
from discorank.integrations.formats.readers.flat import read_flat
from discorank.metrics.errors import InputError
from discorank.metrics.storage import bounded_inflation as inflate
from discorank.metrics.storage import line_source as source
from discorank.metrics.storage.limits import limits, use_limits
from discorank.metrics.storage.line_source import LineSource
from discorank.metrics.text.texts import Document
from discorank.rerank.lists import CandidateList

TRICKY = "a\u2028b\x0bc\x85d\x1ce\u200d👩\u200d🚀 é\ufeffß\ttab"


def write(folder: Path, content: str | bytes, name: str = "in.txt") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(*values: Any) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def entries(path: Path | str, form: str = "jsonl", **options: Any) -> list[ListEntry]:
    with open_lists(path, form, **options) as lists:
        return list(lists)


def good(path: Path | str, form: str = "jsonl", **options: Any) -> list[CandidateList]:
    all_entries = entries(path, form, **options)
    assert [str(entry.error) for entry in all_entries if entry.error] == []
    return [entry.record for entry in all_entries if entry.record is not None]


def texts(record: CandidateList) -> list[Any]:
    return [candidate.text for candidate in record.candidates]


def only_error(line_entries: Sequence[ListEntry]) -> str:
    errors = [str(entry.error) for entry in line_entries if entry.error]
    assert len(errors) == 1
    return errors[0]


# JSON lines


def test_jsonl_reads_ragged_lists_arrays_and_tricky_unicode(tmp_path: Path) -> None:
    first = {
        "id": "d7:3",
        "document": "d7",
        "position": 3,
        "source": "s",
        "candidates": [TRICKY, {"text": "b", "n": 1}],
    }
    second = {
        "id": "ü",
        "candidates": [["One.", TRICKY]],
        "references": ["r"],
        "kept": {"a": [1, None]},
    }
    path = write(tmp_path, rows(first, second))
    one, two = good(path)
    assert texts(one) == [TRICKY, "b"]
    assert one.candidates[1].fields == {"n": 1}
    assert (one.document, one.position, one.source) == ("d7", 3, "s")
    assert two.candidates[0].text == Document(("One.", TRICKY))
    assert two.extra == {"kept": {"a": [1, None]}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "x", "candidates": ["a"]', "not JSON: .* at column 32"),
        ("", "empty line"),
        (
            '{"id": "x", "candidates": ["", {"text": "a", "logprob": 1e999}]}',
            r"candidates\[1\]\.logprob: ",
        ),
        ('{"id": "x", "candidates": ["a"], "k": [-Infinity]}', r"k\[0\]: "),
        ('{"id": "x", "candidates": [{"text": "a", "f": 1e999}]}', r"candidates\[0\]\.f: "),
        ('{"id": "x", "candidates": []}', "candidates: "),
        ('{"id": "x", "candidates": "a"}', "candidates: "),
        ('{"id": "x", "candidates": [null]}', r"candidates\[0\]: "),
        ('{"id": 3.5, "candidates": ["a"]}', "id: "),
        ('{"id": "", "candidates": ["a"]}', "id: "),
        ('{"id": "x", "candidates": ["a"], "position": 1.5}', "position: "),
        ('{"outs": ["a"]}', "--columns candidates=outs"),
        ('{"id": "x", "systems": {"A": ["a"]}}', "--from systems"),
        ('{"doc_id": 1, "resps": [["a"]]}', "--from lm-eval"),
    ],
)
def test_a_bad_line_is_an_error_entry_and_the_next_is_read(
    tmp_path: Path, line: str, message: str
) -> None:
    one, two = (rows({"id": name, "candidates": ["1"]}) for name in "ab")
    first, bad, last = entries(write(tmp_path, f"{one}{line}\n{two}"))
    assert (first.id, bad.line, bad.record, last.id) == ("a", 2, None, "b")
    assert bad.raw == line.encode() + b"\n"
    with pytest.raises(InputError, match=rf"in\.txt:2: .*{message}"):
        raise bad.error or AssertionError


def test_the_id_of_a_bad_record_is_kept(tmp_path: Path) -> None:
    line_entries = entries(
        write(tmp_path, '{"id": "x", "candidates": []}\n{"id": "y"\n{"id": 3}\n')
    )
    assert [entry.id for entry in line_entries] == ["x", None, "3"]


def test_minus_infinity_is_a_logprob_and_whole_pairs_are_characters(tmp_path: Path) -> None:
    line = r'{"id": "\ud83d\ude80", "candidates": [{"text": "\\ud83d", "logprob": -Infinity}]}'
    (record,) = good(write(tmp_path, line))
    assert record.id == "🚀"
    assert record.candidates[0].text == r"\ud83d"
    assert record.candidates[0].logprob == float("-inf")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "A sentence.\nAnother.\n",
            r"in\.txt:1: found flat text \('A sentence\.'\).*Use --from flat",
        ),
        ("\n\n0 ||| a ||| LM0= -1 ||| -1\n", r"in\.txt:3: found a Moses n-best list.*--from moses"),
        ("S-0\tHallo\nH-0\t-0.3\tHello\n", r"in\.txt:1: found a fairseq log.*Use --from fairseq"),
        ("2024-01-02 10:00:00 | INFO | fairseq_cli.generate | {}\n", "found a fairseq log"),
        ('[{"id": "a"}]', r"found a JSON array.*jq -c '\.\[\]'"),
        ('{\n  "id": "a"\n}\n', r"found JSON over several lines.*jq -c \."),
    ],
)
def test_another_format_is_refused_whole_with_its_name(
    tmp_path: Path, content: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        entries(write(tmp_path, content))


def test_an_empty_file_has_no_lists(tmp_path: Path) -> None:
    assert entries(write(tmp_path, "")) == []
    assert entries(write(tmp_path, "\n \n")) == []
    assert entries(write(tmp_path, gzip.compress(b""))) == []


def test_endless_empty_lines_are_refused(tmp_path: Path) -> None:
    line = rows({"id": "a", "candidates": ["x"]})
    assert len(good(write(tmp_path, line + "\n" * source.BLANK_LINES))) == 1
    with pytest.raises(InputError, match=r"in\.txt:2: more than 100000 empty lines"):
        entries(write(tmp_path, line + "\n" * (source.BLANK_LINES + 1)))


# the file itself


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"id": "a"}\n{"id": "é"}'.encode("latin-1"),
            r"in\.txt:2: not UTF-8 at byte offset 20 of the text",
        ),
        (b'{"id": "a"}\n\xe2\x82', r"in\.txt:2: not UTF-8 at byte offset 12"),
        (rows({"id": "a"}).encode("utf-16"), r"in\.txt:1: .*found UTF-16 text\), expected UTF-8"),
        (
            rows({"id": "a"}).encode("utf-16-le"),
            r"in\.txt:1: a NUL byte at offset 1 .*found UTF-16 text",
        ),
        (rows({"id": "a"}).encode("utf-16-be"), "found UTF-16 text"),
        (rows({"id": "a"}).encode("utf-32"), "found UTF-32 text"),
        (
            b'{"id": "a"}\n' + b"\0" * 4096,
            r"in\.txt:2: a NUL byte at offset 12 .*found binary data",
        ),
        (bytes(range(256)) * 4, "found binary data"),
        (b"PK\x03\x04\x14\0\0\0", "found a zip archive or a model checkpoint"),
        (gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0), "found gzip data inside gzip data"),
        (
            gzip.compress(b'{"id": 1}\n' * 99, mtime=0)[:-9],
            r"in\.txt: gzip data ends early",
        ),
        (b"\x1f\x8b", "gzip data ends early"),
        (
            gzip.compress(b'{"id": 1}\n' * 99, mtime=0)[:-8] + b"12345678",
            "corrupt gzip data",
        ),
        (gzip.compress(b"{}", mtime=0) + b"garbage", "corrupt gzip data"),
        (b"\x1f\x8b" + b"x" * 100, "corrupt gzip data"),
    ],
)
def test_what_is_no_text_is_refused_whole(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path, content)
    for form, options in (("jsonl", {}), ("flat", {"num_candidates": 1}), ("systems", {})):
        with pytest.raises(InputError, match=message):
            entries(path, form, **options)


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_characters_across_blocks_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    monkeypatch.setattr(source, "BLOCK_BYTES", cut)
    monkeypatch.setattr(inflate, "PIECE_BYTES", cut)
    content = "\ufeff" + TRICKY + "\r\n\n" + TRICKY * 3 + "\n🚀"
    for data in (
        content.encode(),
        gzip.compress(content[:5].encode()) + gzip.compress(content[5:].encode()),
    ):
        lines = [line.decode() for _, line in LineSource(write(tmp_path, data))]
        assert lines == [TRICKY, "", TRICKY * 3, "🚀"]
    with pytest.raises(InputError, match=r"in\.txt:2: not UTF-8 at byte offset 6"):
        list(LineSource(write(tmp_path, b"\xef\xbb\xbfa\nb\xf0\x9f\x9a")))


def test_a_file_that_cannot_be_opened_is_refused_at_once(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path, "directory"),
        (tmp_path / "no", "No such file"),
        ("a\0b", "null byte"),
    ):
        with pytest.raises(InputError, match=f"cannot be opened: .*{reason}"):
            open_lists(path)


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (
        rows({"id": "a", "candidates": ["x"]}).encode(),
        gzip.compress(rows({"id": 3}).encode()),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with open_lists("-") as lists:
            assert lists.name == "stdin"
            assert lists.fraction() is None
            assert [entry.line for entry in lists] == [1]
        assert not sys.stdin.buffer.closed


def test_the_fraction_grows_to_one(tmp_path: Path) -> None:
    draw = Random(1)
    content = rows(
        *(
            {"id": str(i), "candidates": [f"{draw.random()}" for j in range(40)]}
            for i in range(4000)
        )
    ).encode()
    for data in (content, gzip.compress(content, 1)):
        with open_lists(write(tmp_path, data)) as lists:
            seen = [lists.fraction() for _ in lists]
            assert seen == sorted(seen, key=lambda value: value or 0)
            assert 0 < (seen[0] or 0) < 1 == lists.fraction()


def test_a_bomb_is_told_from_text_that_repeats_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflate, "FREE_BYTES", 1 << 20)
    monkeypatch.setattr(inflate, "BLOCK_BYTES", (1 << 20) // 400)
    monkeypatch.setattr(inflate, "PIECE_BYTES", 1 << 14)
    draw = Random(1)
    line = b'{"id":"a","candidates":["a"]}\n'  # zlib finds a ratio of 409
    assert len(list(LineSource(write(tmp_path, gzip.compress(line * 30_000))))) == 30_000
    text = "".join(
        chr(draw.randrange(97, 123)) if i % 61 else "\n" for i in range(400_000)
    ).encode()
    late = gzip.compress(text) + gzip.compress(line * 250_000)
    for data in (
        gzip.compress(line * 50_000),
        gzip.compress(b"\n" * 2_000_000),
        late,
        late + gzip.compress(text),
    ):
        with pytest.raises(
            InputError,
            match=r"in\.txt: gzip data that expands more than 400 times.*decompress it first",
        ):
            list(LineSource(write(tmp_path, data)))


# the checks


def listed(
    identity: str, document: str | None = None, position: int | None = None
) -> dict[str, Any]:
    row = {"id": identity, "candidates": ["x"], "document": document, "position": position}
    return {key: value for key, value in row.items() if value is not None}


@pytest.mark.parametrize(
    ("lines", "at", "message"),
    [
        ([listed("a"), listed("b"), listed("a")], 2, r"in\.txt:3: id: 'a' was there before"),
        (
            [listed("a", "d"), listed("b", "e"), listed("c", "d")],
            2,
            r"in\.txt:3: document: 'd' comes back after another",
        ),
        ([listed("a", "d"), listed("b"), listed("c", "d")], 2, "document: 'd' comes back"),
        (
            [listed("a", "d", 1), listed("b", "d", 1)],
            1,
            r"position: 1 after 1 in document 'd', expected a larger",
        ),
        (
            [listed("a", "d", 5), listed("b", "d"), listed("c", "d", 4), listed("e", "d", 6)],
            2,
            "position: 4 after 5",
        ),
    ],
)
def test_lists_out_of_order_are_error_entries(
    tmp_path: Path, lines: list[Any], at: int, message: str
) -> None:
    line_entries = entries(write(tmp_path, rows(*lines)))
    assert [entry.error is not None for entry in line_entries] == [
        i == at for i in range(len(lines))
    ]
    assert line_entries[at].id == lines[at]["id"]
    with pytest.raises(InputError, match=message):
        raise line_entries[at].error or AssertionError


def test_a_list_at_fault_does_not_break_the_document_around_it(tmp_path: Path) -> None:
    lines = [listed("a", "d", 0), listed("b", "e", 0), listed("c", "d", 1), listed("f", "e", 1)]
    assert [entry.error is None for entry in entries(write(tmp_path, rows(*lines)))] == [
        True,
        True,
        False,
        True,
    ]
    lines = [listed("a", "d", 0), listed("b", "d", 4), listed("c", "e", 0)]
    assert len(good(write(tmp_path, rows(*lines)))) == 3


def test_seen_keys_are_exact() -> None:
    seen = SeenKeys(recent=8)
    known: set[str] = set()
    for i in range(3000):
        key = str(i * i % 1999)
        assert seen.add(key) == (key not in known)
        known.add(key)
    assert len(seen) == len(known)
    assert len(seen._levels) <= 8  # or every look-up would slow down


def test_a_seen_key_takes_16_bytes() -> None:
    tracemalloc.start()
    seen = SeenKeys(recent=1 << 9)
    count = 1 << 13
    for i in range(count):
        seen.add(f"document{i}")
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(seen) == count
    assert held < 18 * count
    assert peak < 60 * count


# flat text


def test_flat_text_is_cut_in_lists(tmp_path: Path) -> None:
    path = write(tmp_path, f"a\n\n{TRICKY}\nd\n")
    sources = write(tmp_path, f"{TRICKY}\r\ns2", "src")
    for options in (
        {"num_candidates": 2},
        {"sources": sources},
        {"num_candidates": 2, "sources": sources},
    ):
        records = good(path, "flat", **options)
        assert [record.id for record in records] == ["0", "1"]
        assert [texts(record) for record in records] == [["a", ""], [TRICKY, "d"]]
        assert [record.source for record in records] == (
            [TRICKY, "s2"] if "sources" in options else [None, None]
        )
    raw = [entry.raw for entry in entries(path, "flat", sources=sources)]
    assert raw[1] == f"{TRICKY}\nd\ns2\n".encode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "as --num-candidates N, or --sources FILE"),
        ({"num_candidates": 0}, "num_candidates: found 0, expected at least 1"),
        ({"num_candidates": True}, "num_candidates: found True"),
        (
            {"num_candidates": 3},
            r"in\.txt: 5 lines are not a multiple of 3 candidates: 2 left over",
        ),
        ({"sources": 2}, r"in\.txt: 5 candidates for 2 sources in .*src, expected a multiple"),
        ({"sources": 0}, "5 candidates for 0 sources"),
        ({"sources": 3, "num_candidates": 1}, "5 lines make 5 lists of 1, but there are 3 sources"),
    ],
)
def test_flat_text_that_does_not_fit_is_refused_before_the_first_list(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    path = write(tmp_path, "a\nb\nc\nd\ne\n")
    if "sources" in options:
        options = {**options, "sources": write(tmp_path, "s\n" * options["sources"], "src")}
    with pytest.raises(InputError, match=message):
        open_lists(path, "flat", **options)


def test_flat_text_from_a_pipe_is_checked_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pipe(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    sources = write(tmp_path, "s\nt\n", "src")
    pipe("a\nb\nc\nd\n")
    assert len(good("-", "flat", num_candidates=2, sources=sources)) == 2
    pipe("a\nb\nc\n")
    list_entries = entries("-", "flat", num_candidates=2)
    assert list_entries[0].error is None
    assert "stdin:3: 3 lines are not a multiple of 2 candidates: 1 left over" in only_error(
        list_entries
    )
    pipe("a\nb\nc\nd\ne\nf\n")
    with pytest.raises(InputError, match=r"stdin:5: more than 2 lists of 2 for 2 sources"):
        entries("-", "flat", num_candidates=2, sources=sources)
    pipe("a\nb\n")
    with pytest.raises(InputError, match=r"src:2: more than 1 sources for 1 lists of 2"):
        entries("-", "flat", num_candidates=2, sources=sources)
    with pytest.raises(InputError, match="a pipe cannot be counted"):
        open_lists("-", "flat", sources=sources)
    with pytest.raises(InputError, match="standard input twice"):
        open_lists("-", "flat", sources="-", num_candidates=1)


def test_a_list_without_end_is_refused(tmp_path: Path) -> None:
    bound = limits().candidates
    lines = LineSource(write(tmp_path, "\n" * (bound + 1)))
    with pytest.raises(InputError, match=rf"in\.txt:1: a list of more than {bound} candidates"):
        list(read_flat(lines, 10**9))
    path = write(tmp_path, "0|||a|||\n" * (bound + 1))
    with pytest.raises(InputError, match=rf"in\.txt:1: a list of more than {bound} candidates"):
        entries(path, "moses")
    with use_limits(candidates=bound + 1):
        (entry,) = entries(path, "moses")
        assert entry.record is not None
        assert len(entry.record.candidates) == bound + 1


# Moses


def test_moses_lists_are_blocks_of_one_id(tmp_path: Path) -> None:
    content = (
        f"0 ||| {TRICKY} ||| LM0= -3.2 TM0= -1 -2.5e-1 sparse=1 ||| -7.5 ||| 0-0 1-1\n"
        "0 |||  ||| LM0: -3 ||| 4 ||| \n"
        "1 ||| only text ||| 1 2 ||| 0 |||\n"
        "a b ||| x ||| ||| .5 ||| \r\n\n\n"
    )
    for data in (content.encode(), gzip.compress(content.encode())):
        one, two, three = good(write(tmp_path, data), "moses")
        assert one.candidates[0].text == TRICKY
        fields = {
            "LM0": -3.2,
            "TM0": [-1.0, -0.25],
            "sparse": 1.0,
            "score": -7.5,
            "columns": ["0-0 1-1"],
        }
        assert one.candidates[0].fields == fields
        assert one.candidates[0].logprob is None
        assert one.candidates[1].text == ""
        assert one.candidates[1].fields == {"LM0": -3.0, "score": 4.0, "columns": [""]}
        assert (two.id, two.candidates[0].fields) == (
            "1",
            {"features": [1.0, 2.0], "score": 0.0, "columns": [""]},
        )
        assert (three.id, three.candidates[0].fields) == ("a b", {"score": 0.5, "columns": [""]})


MOSES = """
1 ||| text => 3: 2 columns
a broken line => 3: 1 columns
1 ||| t ||| LM0= x ||| 1 => LM0: found 'x'
1 ||| t ||| LM0= nan ||| 1 => LM0: found 'nan'
1 ||| t ||| LM0= 1e999 ||| 1 => LM0: found '1e999'
1 ||| t ||| LM0= 1_0 ||| 1 => LM0: found '1_0'
1 ||| t ||| LM0= ||| 1 => LM0: no value
1 ||| t ||| LM0= 1 LM0= 2 ||| 1 => a feature named 'LM0'
1 ||| t ||| text= 1 ||| 1 => a feature named 'text'
1 ||| t ||| score= 1 ||| 1 => score: a feature of this name
1 ||| t ||| ||| NaN => score: found 'NaN'
1 ||| t ||| |||  => score: found ''
"""


@pytest.mark.parametrize("case", MOSES.strip("\n").split("\n"))
def test_a_bad_line_spoils_the_moses_list_of_its_id(tmp_path: Path, case: str) -> None:
    line, fact = case.split(" => ")
    lines = [f"{i} ||| t ||| LM0= 1 ||| 1" for i in (0, 1, 1, 2)]
    lines.insert(2, line)
    path = write(tmp_path, "\n".join(lines) + "\n")
    list_entries = entries(path, "moses")
    assert [(entry.id, entry.line) for entry in list_entries] == [("0", 1), ("1", 2), ("2", 5)]
    assert b"".join(entry.raw for entry in list_entries) == path.read_bytes()
    assert fact in only_error(list_entries)
    assert list_entries[1].error


def test_a_moses_id_that_comes_back_is_an_error_entry(tmp_path: Path) -> None:
    list_entries = entries(
        write(tmp_path, "".join(f"{i} ||| t ||| \n" for i in (0, 1, 0, 2))), "moses"
    )
    assert "in.txt:3: id: '0' was there before" in only_error(list_entries)
    assert "id: found nothing" in only_error(entries(write(tmp_path, " ||| t ||| \n"), "moses"))


def test_what_is_no_moses_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"in\.txt:1: no \|\|\| in .*Is it an n-best list"):
        entries(write(tmp_path, '{"id": "a"}\n'), "moses")


# systems


def document(**keys: Any) -> dict[str, Any]:
    row = {
        "id": "s1",
        "source": ["s", "t"],
        "references": {"refA": ["r", TRICKY]},
        "systems": {"A": ["a", "b"], "B": ["c", ""]},
    }
    return {key: value for key, value in {**row, **keys}.items() if value is not None}


def test_a_systems_document_becomes_a_list_per_segment(tmp_path: Path) -> None:
    row = document(
        human={"coherence": {"A": 4.2, "refA": 5}, "mqm": {"B": [None, 1]}},
        domain="news",
        n=3,
        ids=[1, 2],
    )
    path = write(tmp_path, rows(row, document(id="s2")))
    one, two, *rest = records = good(path, "systems")
    assert [record.id for record in records] == ["s1:0", "s1:1", "s2:0", "s2:1"]
    assert (two.document, two.position, two.source, two.references) == ("s1", 1, "t", (TRICKY,))
    assert texts(one) == ["a", "c"]
    assert [candidate.fields for candidate in one.candidates] == [
        {"system": "A", "coherence": 4.2},
        {"system": "B"},
    ]
    assert two.candidates[1].fields == {"system": "B", "mqm": 1}
    assert one.extra == {"domain": "news", "n": 3}
    assert rest[0].candidates[0].fields == {"system": "A"}
    raws = [entry.raw for entry in entries(path, "systems")]
    assert b"".join(raws) == path.read_bytes()
    assert raws[1] == b""


def test_a_document_of_strings_is_one_list(tmp_path: Path) -> None:
    row = {"id": "x", "source": "s", "references": ["r1", "r2"], "systems": {"A": "a", "B": "b"}}
    row["human"] = {
        "A": {"coherence": 4, "fluency": 5},
        "B": {"coherence": 2},
        "reference2": {"coherence": 1},
    }
    (record,) = good(write(tmp_path, rows(row)), "systems")
    assert (record.id, record.document, record.position, record.source) == ("x", None, None, "s")
    assert record.references == ("r1", "r2")
    assert record.candidates[0].fields == {"system": "A", "coherence": 4, "fluency": 5}
    assert record.candidates[1].fields == {"system": "B", "coherence": 2}


@pytest.mark.parametrize(
    "references",
    [["r", TRICKY], {"x": ["r", TRICKY]}, [["r", TRICKY], ["q", "p"]]],
    ids=["plain", "named", "several"],
)
def test_references_may_be_plain_lists(tmp_path: Path, references: Any) -> None:
    one, two = good(write(tmp_path, rows(document(references=references))), "systems")
    assert one.references[0] == "r"
    assert two.references[0] == TRICKY


def test_options_of_systems(tmp_path: Path) -> None:
    row = document(
        more={"C": ["e", "f"]},
        mqm={"A": [1, 2], "refA": [0, None], "C": [3, 4]},
        human={"x": {"A": 1}},
    )
    path = write(tmp_path, rows(row))
    with open_lists(path, "systems", human="mqm:lower", as_systems="refA", include="more") as lists:
        assert lists.lower == {"mqm"}
        one, two = (entry.record for entry in lists)
    assert one is not None
    assert two is not None
    assert [candidate.fields["system"] for candidate in one.candidates] == ["A", "B", "C", "refA"]
    assert [candidate.fields.get("mqm") for candidate in two.candidates] == [2, None, 4, None]
    assert one.references == ()
    one, _ = good(path, "systems", human=["x"])
    assert one.candidates[0].fields == {"system": "A", "x": 1}


SYSTEMS = """
{"systems": {"A": ["a", "b"], "B": ["c"]}} => document 's1': systems.B: 1 segments, system 'A' has 2
{"references": {"refA": ["r"]}} => references.refA: 1 segments
{"source": ["s"]} => source: 1 segments
{"systems": {"A": "a", "B": ["c"]}} => systems.B: found
{"systems": {}} => systems: no systems
{"systems": ["a"]} => systems: found list
{"id": 4.5} => id: found no id
{"references": {"A": ["r", "s"]}} => references.A: a system has this name
{"human": {"coherence": {"A": 1, "Z": 2}}} => human.coherence: unknown system or reference 'Z'
{"human": {"coherence": {"Y": 1}}} => human: neither ['coherence'] nor ['Y']
{"human": {"c": {"A": [1]}}} => human.c.A: 1 scores
{"human": {"c": {"A": [1, "x"]}}} => human.c.A[1]: found 'x'
{"human": {"c": {"A": [1, NaN]}}} => human.c.A[1]: found nan
{"human": {"text": {"A": 1}}} => human.text: is a key of candidate
{"position": 3} => position: is a key
{"text": "x"} => text: is a key
{"include": "systms"} => unknown key 'systms'
{"more": {"A": ["x", "y"]}, "include": "more"} => more.A: there is a system of this name
{"as_systems": "refB"} => unknown reference to read as a system 'refB'
{"mqm": {"A": [1, 2]}, "of human": "mqn"} => 'mqn'
"""


@pytest.mark.parametrize("case", SYSTEMS.strip().split("\n"))
def test_a_bad_systems_document_is_an_error_entry(tmp_path: Path, case: str) -> None:
    text, fact = case.split(" => ")
    keys = json.loads(text)
    options = {name: keys.pop(name) for name in ("include", "as_systems") if name in keys}
    if "of human" in keys:
        options["human"] = keys.pop("of human")
    segment_entries = entries(write(tmp_path, rows(document(**keys))), "systems", **options)
    assert all(entry.record is None for entry in segment_entries)
    assert "in.txt:1: " in str(segment_entries[0].error)
    assert fact in str(segment_entries[0].error)


def test_a_missing_segment_costs_only_that_segment(tmp_path: Path) -> None:
    segment_entries = entries(
        write(tmp_path, rows(document(systems={"A": ["a", None], "B": ["c", "d"]}))), "systems"
    )
    assert [entry.id for entry in segment_entries] == ["s1:0", "s1:1"]
    assert segment_entries[0].error is None
    assert "document 's1': systems.A[1]: missing segment (null)" in only_error(segment_entries)


def test_a_document_that_comes_back_is_an_error(tmp_path: Path) -> None:
    segment_entries = entries(
        write(tmp_path, rows(document(), document(id="s2"), document())), "systems"
    )
    assert [entry.error is None for entry in segment_entries] == [True] * 4 + [False] * 2


def test_a_score_key_with_a_wrong_direction_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found 'mqm:down', expected NAME or NAME:lower"):
        open_lists(write(tmp_path, ""), "systems", human=["mqm:down"])


# formats


def test_unknown_formats_and_foreign_options_are_errors(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    assert {"jsonl", "flat", "moses", "systems"} <= set(formats())
    with pytest.raises(InputError, match=r"unknown format 'mose'\. Did you mean 'moses'"):
        open_lists(path, "mose")
    with pytest.raises(
        InputError,
        match=r"num_candidates: not an option of the format 'jsonl'\. Its options: columns",
    ):
        open_lists(path, num_candidates=2)
    with pytest.raises(
        InputError,
        match=r"human: not an option of the format 'flat'\. Its options: documents, num_candidates, sources",
    ):
        open_lists(path, "flat", num_candidates=2, human=["mqm"])


def test_lists_are_a_single_pass_and_close_their_files(tmp_path: Path) -> None:
    path = write(tmp_path, rows(listed("a"), listed("b"), listed("c")))
    lists = open_lists(path)
    assert isinstance(lists, Lists)
    assert lists.name == str(path)
    assert next(iter(lists)).id == "a"
    assert [entry.id for entry in lists] == ["b", "c"]
    assert list(lists) == []
    with open_lists(path):
        pass
