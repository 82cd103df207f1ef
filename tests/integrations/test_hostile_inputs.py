"""Hostile input: bombs, endless lines and broken data end in our error, in bounded work and memory, and nothing else.

The hostile files run in a process of their own, which may use so many seconds of CPU, whatever else the machine does,
and measures its peak memory. The fuzzing is seeded: a
failure names the case, and `broken_file(form, case)` makes it again.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from discorank.integrations.files.entries import ListEntry
from discorank.integrations.formats.open_lists import open_lists
from discorank.integrations.formats.readers.fairseq_log import RECORD
from discorank.metrics.errors import DiscorankError, InputError
from discorank.metrics.storage.json_and_yaml import parse_yaml
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.lists import read_list, write_list

LIMIT_CPU_SECONDS = 10  # a fifth of it is enough; what is quadratic needs minutes
LIMIT_MB = 300
MB = 1 << 20

READER = """
import json, os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[4]),) * 2)
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.errors import InputError
path, form, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
entries, message = 0, ""
try:
    with open_lists(path, form, **options) as lists:
        for entry in lists:
            entries += 1
            message = str(entry.error)
        message = "end: " + message
except InputError as error:
    message = "refused: " + str(error)
status = "/proc/self/status"
if os.path.exists(status):  # ru_maxrss begins at the size of the process that forked
    peak_mb = int(next(line.split()[1] for line in open(status) if line.startswith("VmHWM"))) / 1024
else:
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"message": message, "peak_mb": peak_mb, "entries": entries}))
"""


def read_apart(path: Path, form: str, **options: Any) -> dict[str, Any]:
    """What a process of its own says of a file, after the bounds are asserted."""
    command = [
        sys.executable,
        "-c",
        READER,
        str(path),
        form,
        json.dumps(options),
        str(LIMIT_CPU_SECONDS),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]  # -SIGXCPU or -SIGKILL: too much work
    reading: dict[str, Any] = json.loads(done.stdout)
    assert reading["peak_mb"] < LIMIT_MB, reading
    return reading


def bomb(
    path: Path, text: bytes, size_bytes: int, *, members: bool = False, start: bytes = b""
) -> Path:
    """A gzip file of `start` and then `text` again and again, made without compressing it all."""
    chunk = text * (8 * MB // len(text))
    times = size_bytes // len(chunk)
    if members:
        path.write_bytes(gzip.compress(start) + gzip.compress(chunk, 9) * times)
        return path
    engine = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = engine.compress(start) + engine.flush(zlib.Z_FULL_FLUSH)
    body = engine.compress(chunk) + engine.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(head + body * times)
    return path


FORMS: dict[str, dict[str, Any]] = {
    "jsonl": {},
    "flat": {"num_candidates": 4},
    "moses": {},
    "systems": {},
    "fairseq": {},
    "wmt-xml": {},
    "wmt-jsonl": {},
    "summeval": {},
    "batch": {},
    "lm-eval": {},
}
TINY = {
    "jsonl": b'{"id":"a","candidates":["a"]}\n',
    "flat": b"a\n",
    "moses": b"0 ||| a |||\n",
    "systems": b'{"id":"a","systems":{"A":"a"}}\n',
    "fairseq": b"H-0\t-1\ta\n",
    "batch": b'{"custom_id":"a"}\n',
    "lm-eval": b'{"doc_id":"a"}\n',
}


@pytest.mark.parametrize(
    ("form", "members"),
    [
        ("jsonl", False),
        ("jsonl", True),
        ("flat", False),
        ("moses", False),
        ("systems", True),
        ("fairseq", True),
        ("batch", False),
        ("lm-eval", False),
    ],
    ids=lambda value: value if isinstance(value, str) else ("one member", "many members")[value],
)
@pytest.mark.parametrize("kind", ["zeros", "newlines", "tiny lines"])
def test_a_gzip_bomb_is_refused(tmp_path: Path, form: str, members: bool, kind: str) -> None:
    text = {"zeros": b"\0", "newlines": b"\n", "tiny lines": TINY[form]}[kind]
    if kind == "tiny lines" and form not in ("jsonl", "flat"):
        text = text.rstrip(b"\n").ljust(29) + b"\n"  # what zlib packs more than 400 times
    path = bomb(tmp_path / "lists.jsonl.gz", text, 4 << 30, members=members)
    reading = read_apart(path, form, **FORMS[form])
    assert "refused: " in reading["message"]
    assert "expands more than 400 times" in reading["message"]
    assert reading["entries"] == 0


def test_a_bomb_behind_good_lists_is_refused(tmp_path: Path) -> None:
    draw = random.Random(1)
    start = b"".join(
        b'{"id":"%d","candidates":["%x"]}\n' % (i, draw.getrandbits(400)) for i in range(10_000)
    )
    path = bomb(tmp_path / "x.gz", b"\n", 4 << 30, start=start)
    reading = read_apart(path, "jsonl")
    assert "refused: " in reading["message"]
    assert reading["entries"] == 10_000


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of one line of 200 MB, of characters that take the most memory."""
    path = tmp_path_factory.mktemp("endless") / "line"
    path.write_bytes(b'{"id": "' + "🚀".encode() * (50 * MB))
    return path


@pytest.mark.parametrize("form", FORMS)
def test_an_endless_line_is_refused(endless: Path, form: str) -> None:
    reading = read_apart(endless, form, **FORMS[form])
    assert "line:1: line longer than 33554432 bytes" in reading["message"]


@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_zeros_is_refused(tmp_path: Path, form: str) -> None:
    path = tmp_path / "zeros"
    with path.open("wb") as file:
        file.truncate(8 << 30)
    assert "zeros:1: a NUL byte at offset 0" in read_apart(path, form, **FORMS[form])["message"]


@pytest.mark.parametrize("form", ["jsonl", "systems"])
@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (lambda: b"[" * (20 * MB), "more than 1000000 values in one line"),
        (lambda: b"[" * 999_000, "nested too deeply"),
        (lambda: b'{"a":' * (20 * MB // 5), "more than 1000000 values"),
        (lambda: b'{"a":' * 190_000, "nested too deeply"),
        (lambda: b"[{}" + b",{}" * (6 * MB) + b"]", "more than 1000000 values"),
        (lambda: b"9" * (20 * MB), "a whole number with too many digits"),
        (lambda: b"0." + b"9" * (20 * MB), "expected"),
        (lambda: b'"' + b"\\ud800" * (4 * MB) + b'"', "half of a surrogate pair"),
        (lambda: b'{"a":1' + b',"a":1' * 900_000 + b"}", "key 'a' stands twice"),
    ],
    ids=[
        "lists",
        "fewer lists",
        "objects",
        "fewer objects",
        "values",
        "digits",
        "fraction",
        "surrogates",
        "keys",
    ],
)
def test_json_made_to_hurt_is_an_error_entry(
    tmp_path: Path, form: str, inner: Callable[[], bytes], message: str
) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_bytes(b'{"id": "a", "candidates": ["x"], "k": {"y": ' + inner() + b"}}\n")
    reading = read_apart(path, form)
    assert reading["entries"] == 1
    assert reading["message"].startswith("end: ")
    if message == "expected":
        return  # a fraction of many digits is a plain number
    assert f"deep.jsonl:1: {message}" in reading["message"]


def test_a_moses_list_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(b"0|||a|||\n" * (20 * MB))
    assert "list:1: a list of more than 32768 candidates" in read_apart(path, "moses")["message"]


# fuzzing

VALID: dict[str, list[Any]] = {
    "jsonl": [
        {
            "id": "a",
            "document": "d",
            "position": 0,
            "source": "s",
            "candidates": ["x", {"text": "y", "logprob": -1.5}],
        },
        {
            "id": "b",
            "document": "d",
            "position": 1,
            "candidates": [{"text": ["A.", "B."], "roles": [1, "x"]}],
        },
        {
            "id": "c",
            "candidates": ["é🚀\u2028", "z"],
            "references": ["r"],
            "pseudo_references": [["p"]],
            "k": {"v": [1]},
        },
        {
            "id": "e",
            "candidates": [
                {
                    "text": ["A b.", "C."],
                    "foci": [[["a", 0, 1], ["b"]], []],
                    "rst": {
                        "nuc": "NS",
                        "rel": "Elaboration",
                        "children": [["A"], {"nuc": "N", "rel": "x", "children": [["C"]]}],
                    },
                }
            ],
            "context_only": True,
        },
    ],
    "systems": [
        {
            "id": "a",
            "source": ["s", "t"],
            "references": {"r": ["r", "q"]},
            "systems": {"A": ["a", "b"], "B": ["c", "é🚀"]},
            "human": {"x": {"A": [1, None]}, "y": {"B": 2.5}},
            "domain": "news",
        },
        {
            "id": "b",
            "source": "s",
            "references": ["r"],
            "systems": {"A": "a"},
            "human": {"A": {"x": 1}},
        },
    ],
    "batch": [
        {
            "custom_id": name,
            "response": {
                "status_code": 200,
                "body": {
                    "choices": [
                        {"index": 1, "text": "é🚀", "logprobs": {"token_logprobs": [-1, -2.5]}},
                        {"index": 0, "message": {"content": "b"}, "finish_reason": "length"},
                    ]
                },
            },
            "error": None,
        }
        for name in ("a", "b", "a")
    ],
    "lm-eval": [
        {
            "doc_id": number,
            "doc": {"k": [1]},
            "target": "t",
            "arguments": {"gen_args_0": {"arg_0": "é🚀", "arg_1": {}}},
            "resps": [["a", "b"]],
            "filter": name,
        }
        for name in ("x", "y")
        for number in (0, 1)
    ],
    "sockeye": [
        {
            "sentence_id": 1,
            "translations": ["a", "é🚀"],
            "scores": [[0.5], [1, 2]],
            "alignments": [[], [[0, 0]]],
        },
        {
            "sentence_id": "2",
            "translation": "b",
            "score": 1.5,
            "text": "s",
            "document": "d",
            "position": 3,
        },
    ],
}
LINES = {
    "flat": "a\nb\né🚀\n\nx\u2028y\nz\n",
    "marian": "0 ||| a ||| F0= -1 ||| -3\n0 ||| é🚀 ||| 0-0 ||| F0= -1 ||| -4\n1 ||| c ||| F0= -2 F1= -1 ||| 1\n",
    "fairseq": "S-1\tb\nW-1\t0.1\tseconds\nH-1\t-1\té🚀\nD-1\t-1\tx\nP-1\t-1.0 -2.0\nA-1\t0-0\n2024-01-01 | INFO |\n"
    "S-0\ta\nT-0\tr\nH-0\t-1\tc\nD-0\t-1\tc\nP-0\t-1 -inf\nI-0\t2\nE-0_0\tc\nGenerate test with beam=1\n",
    "moses": "0 ||| a ||| LM0= -1 TM0= 1 2 ||| -3\n0 ||| é🚀 ||| LM0= 1 ||| -4\n1 ||| c ||| ||| 1 ||| 0-0\n",
}
PIECES = (
    *(
        "\\ud800",
        "\\ud83d\\ude80",
        "\x00",
        "\ufeff",
        " ||| ",
        "|||",
        "NaN",
        "1e999",
        "-Infinity",
        "\r",
        "\r\n",
        "\n\n",
    ),
    *(
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "9" * 5000,
        "[" * 2000,
        '{"a":' * 500,
        '{"id": "a"}',
        "= ",
        "\u2029",
    ),
)
ODD: tuple[Callable[[], Any], ...] = (
    *(
        lambda: None,
        lambda: True,
        lambda: -1,
        lambda: 10**400,
        lambda: 0.5,
        lambda: float("nan"),
        lambda: float("-inf"),
    ),
    *(
        lambda: "",
        lambda: "x" * 2000,
        lambda: "\u2028",
        list,
        dict,
        lambda: [[]],
        lambda: [None],
        lambda: {"text": 1},
    ),
    *(
        lambda: {"text": ["a"], "roles": "x"},
        lambda: {"nuc": "N", "rel": "r", "children": []},
        lambda: [["a", 1]],
    ),
    *(lambda: nested(50), lambda: nested(380), lambda: nested_objects(150)),
)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def nested_objects(depth: int) -> Any:
    value: Any = ["w"]
    for _ in range(depth):
        value = {"nuc": "N", "rel": "r", "children": [value]}
    return value


def spoiled(value: Any, draw: random.Random, depth: int = 0) -> Any:
    """The value with one node exchanged, renamed, doubled or left out."""
    if not isinstance(value, dict | list) or not value or depth > 20 or draw.random() < 0.1:
        return draw.choice(ODD)()
    if isinstance(value, list):
        at, items = draw.randrange(len(value)), list(value)
        other = spoiled(items[at], draw, depth + 1)
        items[at : at + 1] = draw.choice([[], [items[at]] * 2, [other], [other]])
        return items
    key = draw.choice(list(value))
    changed = {**value, key: spoiled(value[key], draw, depth + 1)}
    if draw.random() < 0.2:
        changed[
            draw.choice(["text", "document", "position", "candidates", "id", "logprob", "é"])
        ] = changed.pop(key)
    return changed


def mutated(data: bytes, draw: random.Random) -> bytes:
    """The bytes after one to four accidents."""
    for _ in range(draw.randrange(1, 5)):
        start = draw.randrange(len(data) + 1)
        end = min(len(data), start + draw.choice([0, 1, 1, 8, 100]))
        kind = draw.randrange(6)
        new = {
            0: bytes(draw.randrange(256) for _ in range(end - start)),
            1: b"",
            2: data[start:end] * 2,
            3: draw.choice(PIECES).encode(),
            4: data[: draw.randrange(len(data) + 1)],
        }.get(kind)
        data = data[:start] if new is None else data[:start] + new + data[end:]
    return data


def broken_file(form: str, case: int) -> bytes:
    """The bytes of one malformed file."""
    draw = random.Random(f"{form} {case}")
    if form in VALID:
        values = [spoiled(value, draw) if draw.random() < 0.5 else value for value in VALID[form]]
        draw.shuffle(values)
        data = "".join(dumped(value) + "\n" for value in values).encode(errors="surrogatepass")
    else:
        data = LINES[form].encode() * draw.randrange(1, 3)
    if form not in VALID or draw.random() < 0.6:
        data = mutated(data, draw)
    if draw.random() < 0.2:
        data = gzip.compress(data, 1)
        data = mutated(data, draw) if draw.random() < 0.5 else data
    return data


def dumped(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return '{"id": "deep", "candidates": ' + "[" * 3000 + "]" * 3000 + "}"


def read_all(path: Path, form: str) -> tuple[list[ListEntry], bool]:
    """The entries of a file until its end, or until it is refused."""
    entries_read: list[ListEntry] = []
    options: dict[str, Any] = {"num_candidates": 2} if form == "flat" else {}
    try:
        with open_lists(path, form, **options) as lists:
            for entry in lists:
                entries_read.append(entry)
    except InputError as error:
        placed = str(path) in error.where
    else:
        return entries_read, True
    assert placed
    return entries_read, False


def lines_of(path: Path) -> Iterator[bytes]:
    try:
        for _, line in LineSource(path):
            yield line + b"\n"
    except InputError:
        return


@pytest.mark.parametrize(
    ("form", "cases"),
    [
        ("jsonl", 3000),
        ("systems", 3000),
        ("flat", 1000),
        ("moses", 2000),
        ("marian", 2000),
        ("sockeye", 2000),
        ("fairseq", 3000),
        ("batch", 1000),
        ("lm-eval", 1000),
    ],
)
def test_no_malformed_file_raises_anything_but_our_errors(
    tmp_path: Path, form: str, cases: int
) -> None:
    records = errors = refused = 0
    for case in range(cases):
        path = tmp_path / f"case{case}"  # writing over a file costs milliseconds
        path.write_bytes(broken_file(form, case))
        try:
            entries_read, whole = read_all(path, form)
            check_entries(entries_read, list(lines_of(path)), form, whole, str(path))
        except Exception as error:
            raise AssertionError(f"broken_file({form!r}, {case})") from error
        records += sum(entry.record is not None for entry in entries_read)
        errors += sum(entry.error is not None for entry in entries_read)
        refused += not whole
        path.unlink()
    assert records > cases / 4
    assert refused > cases / 20
    assert errors > cases / 20 or form == "flat"  # which is refused whole if its lines do not fit


def check_entries(
    entries_read: list[ListEntry], lines: list[bytes], form: str, whole: bool, name: str
) -> None:
    """What holds for the entries of every file, however broken."""
    for entry in entries_read:
        assert (entry.record is None) != (entry.error is None)
        if entry.error is not None:
            assert entry.error.where.startswith(f"{name}:")
        if entry.record is not None:
            assert entry.record.id == entry.id
            written = json.loads(json.dumps(write_list(entry.record), ensure_ascii=False).encode())
            assert read_list(written) == entry.record
    ids = [entry.record.id for entry in entries_read if entry.record is not None]
    assert len(ids) == len(set(ids))
    if form in BY_ID:
        BY_ID[form](entries_read, lines, whole)
        return
    assert [entry.line for entry in entries_read] == sorted(entry.line for entry in entries_read)
    raw = b"".join(entry.raw for entry in entries_read)
    assert b"".join(lines).startswith(raw)
    if whole and form != "flat":
        assert not b"".join(lines)[len(raw) :].strip()
    if whole and form == "jsonl":
        assert len(entries_read) == raw.count(b"\n")
    if whole and form == "flat":
        assert len(entries_read) * 2 == len(lines)


def check_log(entries_read: list[ListEntry], lines: list[bytes], whole: bool) -> None:
    """What holds for the entries of a log, which stand by id and not by line: every line of a record is in one."""
    used = [line + b"\n" for entry in entries_read for line in entry.raw.split(b"\n")[:-1]]
    assert not Counter(used) - Counter(lines)
    assert not whole or [line for line in lines if RECORD.match(line)] == [
        line for line in lines if line in used and RECORD.match(line)
    ]
    good = [entry.record for entry in entries_read if entry.record is not None]
    assert [int(record.id) for record in good] == sorted(int(record.id) for record in good)
    for entry in entries_read:
        if entry.record is not None:
            assert len(entry.record.candidates) == sum(
                line.startswith(b"H-") for line in entry.raw.split(b"\n")
            )


def check_groups(entries_read: list[ListEntry], lines: list[bytes], whole: bool) -> None:
    """What holds for the entries of lines that are grouped by an id: every line is in one, in order."""
    used = [line + b"\n" for entry in entries_read for line in entry.raw.split(b"\n")[:-1]]
    assert not Counter(used) - Counter(lines)
    missing = Counter(lines) - Counter(used)
    assert not whole or not b"".join(missing).strip()
    assert [entry.line for entry in entries_read] == sorted(entry.line for entry in entries_read)


BY_ID = {"fairseq": check_log, "batch": check_groups, "lm-eval": check_groups}


def test_no_malformed_record_raises_anything_but_our_errors() -> None:
    draw = random.Random(5)
    good = bad = 0
    for case in range(4000):
        value = draw.choice(VALID["jsonl"])
        for _ in range(draw.randrange(1, 4)):
            value = spoiled(value, draw)
        try:
            write_list(read_list(value))
            good += 1
        except DiscorankError:
            bad += 1
        except Exception as error:
            raise AssertionError(f"case {case}: {value!r:.200}") from error
    assert good > 300
    assert bad > 300


@pytest.mark.parametrize("key", ["id", "k", "candidates", "source"])
def test_a_record_nested_without_end_is_our_error(key: str) -> None:
    with pytest.raises(InputError):
        read_list({"id": "a", "candidates": ["x"], key: nested(3000)})


def test_a_record_with_an_endless_number_is_our_error() -> None:
    with pytest.raises(InputError, match="expected a text or a whole number"):
        read_list({"id": 10**5000, "candidates": ["x"]})
    assert read_list({"id": 12, "candidates": ["x"]}).id == "12"


YAML = """utility: chrf
decoder: {nbest: 2, weights: uniform, temperature: 1.5e-3}
metrics:
  - name: comet
    model: "a/b"   # said so
    list: [1, 0x1F, 1:30, 2001-12-14t21:59:43.10-05:00, ~, .inf, !!binary aGk=, 'x']
  - |
    text
    more
  - >-
    folded
? key
: value
"""
YAML_PIECES = (
    *(
        "&a ",
        "*a",
        "<<: *a",
        "!!python/object/apply:os.system ['true']",
        "!!set {a, b}",
        "!!omap [a: 1]",
        "!!pairs [a: 1]",
    ),
    *(
        "!!timestamp 2001-99-99",
        "!!int x",
        "!!float 'y'",
        "!!bool z",
        "!!binary '='",
        "!x y",
        "%YAML 9.9\n---\n",
        "---\n",
    ),
    *(
        "...\n",
        "? [a, b]\n: c\n",
        "{[1]: 2}",
        "\t",
        "\x00",
        "\x85",
        "\ufeff",
        "\u2028",
        '"\\ud800"',
        '"\\U00110000"',
    ),
    *(
        "[" * 400,
        "{a: " * 300,
        "- " * 500,
        "9" * 5000,
        "1:" * 200 + "1",
        "'",
        '"',
        ": ",
        "- ",
        "|9",
        ">+",
    ),
    *(
        "1e99999",
        "!!int 0b",
        "!!int ''",
        "0o9",
        "_",
        "+",
        "-.",
        "=",
        "<<: 1",
        "<<: [1]",
        "? ",
        "!<",
        "!!",
        "!!map 1",
        "!!seq {}",
    ),
)


def broken_yaml(case: int) -> str:
    """One malformed YAML text."""
    draw = random.Random(f"yaml {case}")
    text = YAML
    for _ in range(draw.randrange(1, 4)):
        start = draw.randrange(len(text) + 1)
        end = min(len(text), start + draw.choice([0, 0, 1, 5, 40]))
        kind = draw.randrange(4)
        new = {
            0: "",
            1: text[start:end] * 2,
            2: draw.choice(YAML_PIECES),
            3: chr(draw.randrange(1, 0x3000)),
        }[kind]
        text = text[:start] + new + text[end:]
    return text if draw.random() < 0.9 else draw.choice(YAML_PIECES)


def test_no_malformed_yaml_raises_anything_but_our_errors() -> None:
    good = bad = 0
    for case in range(1500):
        try:
            settings = parse_yaml(broken_yaml(case))
            assert all(isinstance(key, str) for key in settings)
            good += 1
        except DiscorankError:
            bad += 1
        except Exception as error:
            raise AssertionError(f"broken_yaml({case})") from error
    assert good > 50
    assert bad > 300


@pytest.mark.parametrize("text", ["0x" + "f" * 5000, "? 0x" + "f" * 5000, "[0x" + "f" * 5000 + "]"])
def test_yaml_with_an_endless_number_is_our_error(text: str) -> None:
    with pytest.raises(InputError, match="expected a mapping"):
        parse_yaml(text)
