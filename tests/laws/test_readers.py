"""The law of all readers: a damaged file is read right, or an InputError names it; nothing is lost without a word.

It runs over every format of the table and over all other files that commands read. A format of the table is under it by
its example; `tests/support/reader_samples.py` may have richer parts.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import tracemalloc
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from discorank.integrations.formats.readers.fairseq_log import RECORD
from discorank.metrics.errors import DiscorankError, InputError
from discorank.metrics.storage import bounded_inflation as inflate
from discorank.metrics.storage import line_source
from discorank.metrics.storage.json_and_yaml import parse_yaml
from discorank.metrics.storage.limits import use_limits
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.lists import read_list, write_list
from tests.support.damage import Damaged, changed_json, damages, mutated, nested, spoiled
from tests.support.examples import THOROUGH
from tests.support.reader_samples import FOLDER_FILES, LISTS, SAMPLES, Read, Sample
from tests.support.tables import read_tables_here

RANDOM_CASES = 20 * THOROUGH
DAMAGE_SHARE = 1.0 if THOROUGH > 1 else 0.4  # of all that is tried, drawn anew for every format
# a part more or less moves the others, which have numbers of lines for ids
COUNTED = {
    *("flat", "sacrebleu documents", "sacrebleu", "plain outputs", "decoded outputs"),
    *("judgements", "score columns"),
}
ALONE = {name: sample for name, sample in SAMPLES.items() if name not in FOLDER_FILES}


class Reading(NamedTuple):
    """The result of reading a file: records by key, errors, and the lines of both.

    Args:
        is_refused: the file was not read to its end.
        is_reported: an error or a warning was given.
    """

    records: dict[Any, Any]
    errors: list[InputError]
    items: list[Read]
    is_refused: bool
    is_reported: bool


def read(sample: Sample, path: Path, data: bytes | None = None) -> Reading:
    """Reads a file, with these bytes if given; fails for an error that does not name it."""
    if data is not None:
        path.unlink()  # to write over a file takes longer
        path.write_bytes(data)
    items: list[Read] = []
    errors: list[InputError] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for item in sample.read(path):
                items.append(item)  # those before an error are kept
        except InputError as error:
            errors.append(error)
    is_refused = bool(errors)
    assert all(str(path.parent) in error.where for error in errors), errors
    records: dict[Any, Any] = {}
    for item in items:
        if isinstance(item.value, InputError):
            assert item.value.where.startswith(f"{path}:"), item.value
            errors.append(item.value)
        else:
            assert item.key not in records, f"{item.key!r} twice"
            records[item.key] = item.value
    return Reading(records, errors, items, is_refused, bool(errors or caught))


@pytest.fixture(params=SAMPLES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sample(name: str) -> Sample:
    return SAMPLES[name]


def records_of_parts(sample: Sample, path: Path) -> list[dict[Any, Any]]:
    """The records of each part of a file, by reading it without the parts behind."""
    before: dict[Any, Any] = {}
    of_parts = []
    for i in range(len(sample.parts)):
        text = sample.head + "".join(sample.parts[: i + 1]) + sample.tail
        now = read(sample, path, text.encode()).records
        of_parts.append({key: now[key] for key in now if before.get(key) != now[key]})
        before = now
    return of_parts


def test_a_valid_file_is_read_whole(name: str, sample: Sample, tmp_path: Path) -> None:
    reading = read(sample, sample.written(tmp_path))
    assert not reading.errors
    assert reading.records or name in FOLDER_FILES
    if name not in FOLDER_FILES and name not in COUNTED and "score" not in name:
        assert len(reading.records) >= len(sample.parts)


def test_damage_is_reported_or_costs_nothing(name: str, sample: Sample, tmp_path: Path) -> None:
    path = sample.written(tmp_path)
    of_parts = records_of_parts(sample, path)
    refused = good = 0
    draw = random.Random(name)
    for damaged in damages(sample.head, sample.parts, sample.tail, sample.separator):
        if name in FOLDER_FILES and refused + good > 120 * DAMAGE_SHARE:
            break
        if refused > 5 and good > 5 and draw.random() >= DAMAGE_SHARE:
            continue
        try:
            reading = read(sample, path, damaged.data)
            if damaged.bad_line and name != "decoded outputs":  # which is plain text then
                # a file of Pearmut may be one JSON object over several lines
                place = str(path) if "pearmut" in name else f"{path}:{damaged.bad_line}:"
                found = [f"{error.where}:" for error in reading.errors]
                assert any(where.startswith(place) for where in found), found
            if not reading.is_reported and name not in COUNTED:
                check_parts(reading, damaged, of_parts, name)
            if sample.covers_lines:
                check_lines(reading, path, name)
        except Exception as error:
            raise AssertionError(f"{name}: {damaged.name}: {damaged.data[:300]!r}") from error
        refused += bool(reading.errors)
        good += bool(reading.records)
    assert refused > 5 or name in ("flat", "plain outputs")
    assert good > 5 or name in FOLDER_FILES


def check_parts(
    reading: Reading, damaged: Damaged, of_parts: list[dict[Any, Any]], name: str
) -> None:
    """Without a report, the intact parts are read as before."""
    for i in damaged.intact:
        for key, record in of_parts[i].items():
            assert key in reading.records, f"{key!r} is lost"
            # one score below 0 makes all scores of a file of WMT those of MQM
            assert "wmt-jsonl" in name or reading.records[key] == record, f"{key!r} is changed"


def check_lines(reading: Reading, path: Path, name: str) -> None:
    """Every line of a file of lists is in one entry, if it is read to its end."""
    used = [line for item in reading.items for line in item.raw.split(b"\n")[:-1]]
    there = list(lines_of(path))
    assert not Counter(used) - Counter(there)
    if not reading.is_refused:
        missing = Counter(there) - Counter(used)
        lost = [line for line in missing if RECORD.match(line) or name != "fairseq"]
        assert not b"".join(lost).strip(), lost
    if name != "fairseq":
        numbers = [item.line for item in reading.items]
        assert numbers == sorted(numbers)


def lines_of(path: Path) -> Iterator[bytes]:
    try:
        for _, line in LineSource(path):
            yield line
    except InputError:
        return


def test_random_damage_raises_nothing_but_input_errors(
    name: str, sample: Sample, tmp_path: Path
) -> None:
    path = sample.written(tmp_path)
    data = path.read_bytes()
    for case in range(RANDOM_CASES if name in ALONE else 8 * THOROUGH):
        draw = random.Random(f"{name} {case}")
        made = mutated(data, draw)
        if draw.random() < 0.2:
            made = gzip.compress(made, 1)
            made = mutated(made, draw) if draw.random() < 0.5 else made
        try:
            reading = read(sample, path, made)
            if sample.covers_lines:
                check_lines(reading, path, name)
        except Exception as error:
            raise AssertionError(f"{name} {case}: {made[:300]!r}") from error


def stored(data: bytes) -> dict[str, bytes]:
    """Other ways to store the same lines."""
    middle = len(data) // 2
    return {
        "CRLF": data.replace(b"\n", b"\r\n"),
        "a mark at the start": b"\xef\xbb\xbf" + data,
        "no newline at the end": data[:-1],
        "gzip": gzip.compress(data),
        "two members": gzip.compress(data[:middle]) + gzip.compress(data[middle:]) + b"\0" * 9,
    }


@pytest.mark.parametrize("name", ALONE)
def test_how_lines_are_stored_does_not_matter(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    path = sample.written(tmp_path)
    expected = read(sample, path).records
    for way, data in stored(sample.text.encode()).items():
        reading = read(sample, path, data)
        is_cut = name == "fairseq" and way == "no newline at the end"
        assert (reading.records == expected) != is_cut, way
        assert bool(reading.errors) == is_cut, (way, reading.errors)


BAD_BYTES = {"not UTF-8": b"\xff", "a NUL byte": b"\0"}


@pytest.mark.parametrize("problem", BAD_BYTES)
@pytest.mark.parametrize("name", ALONE)
def test_bytes_that_are_no_text_are_refused_with_their_line(
    name: str, problem: str, tmp_path: Path
) -> None:
    sample = SAMPLES[name]
    path = sample.written(tmp_path)
    data = path.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 6)):
        if data[at : at + 1].isascii():
            error = read(sample, path, data[:at] + BAD_BYTES[problem] + data[at:]).errors[0]
            if "pearmut" in name:  # which may be one JSON object over several lines
                assert error.where.startswith(str(path))
                continue
            line = data[:at].count(b"\n") + 1
            assert error.where.startswith(f"{path}:{line}"), (at, error)
            assert problem in error.problem


@pytest.mark.parametrize("name", ALONE)
def test_a_line_too_long_is_refused_in_bounded_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_source, "BLOCK_BYTES", 1 << 16)
    sample = SAMPLES[name]
    path = sample.written(tmp_path)
    path.write_bytes(path.read_bytes().rstrip(b"\n") + b" 9" * (2 << 20))
    line = sample.text.count("\n")
    with use_limits(line_bytes=1 << 16):
        tracemalloc.start()
        try:
            error = read(sample, path).errors[0]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 2 << 20, peak
    assert str(path) in error.where
    assert error.where.startswith(f"{path}:{line}"), error


@pytest.mark.parametrize("text", [b"\0", b"\n"], ids=["NUL", "empty"])
@pytest.mark.parametrize("name", ALONE)
def test_a_gzip_bomb_is_refused(
    name: str, text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflate, "FREE_BYTES", 1 << 20)
    monkeypatch.setattr(inflate, "BLOCK_BYTES", (1 << 20) // 400)
    monkeypatch.setattr(inflate, "PIECE_BYTES", 1 << 14)
    sample = SAMPLES[name]
    path = sample.written(tmp_path)
    path.write_bytes(gzip.compress(sample.text.encode() + text * (4 << 20)))
    assert "expands more than 400 times" in read(sample, path).errors[0].problem


# records and settings that come without a file


def test_no_malformed_record_raises_anything_but_our_errors() -> None:
    draw = random.Random(5)
    good = bad = 0
    for case in range(600):
        value: Any = draw.choice(LISTS)
        for _ in range(draw.randrange(1, 4)):
            value = spoiled(value, draw)
        try:
            write_list(read_list(value))
            good += 1
        except DiscorankError:
            bad += 1
        except Exception as error:
            raise AssertionError(f"case {case}: {value!r:.200}") from error
    assert good > 50
    assert bad > 50


@pytest.mark.parametrize("key", ["id", "k", "candidates", "source"])
def test_a_record_nested_without_end_is_our_error(key: str) -> None:
    with pytest.raises(InputError):
        read_list({"id": "a", "candidates": ["x"], key: nested(3000)})


def test_a_record_with_an_endless_number_is_our_error() -> None:
    with pytest.raises(InputError, match="id"):
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
YAML_PIECES = r"""
&a |*a|<<: *a|!!python/object/apply:os.system ['true']|!!set {a, b}|!!omap [a: 1]|!!pairs [a: 1]|!!timestamp 2001-99-99
!!int x|!!float 'y'|!!bool z|!!binary '='|!x y|---|...|{[1]: 2}|"\ud800"|"\U00110000"|1e99999|!!int 0b|!!int ''|0o9|_|+
-.|=|<<: 1|<<: [1]|? |!<|!!|!!map 1|!!seq {}|'|"|: |- |>+
"""
YAML_LONG = ("%YAML 9.9\n---\n", "? [a, b]\n: c\n", "\t", "\x00", "\x85", "\ufeff", "\u2028", "|9")
YAML_DEEP = ("[" * 400, "{a: " * 300, "- " * 500, "9" * 5000, "1:" * 200 + "1")
YAML_ALL = (*YAML_PIECES.strip().replace("\n", "|").split("|"), *YAML_LONG, *YAML_DEEP)


def broken_yaml(case: int) -> str:
    """One malformed YAML text."""
    draw = random.Random(f"yaml {case}")
    text = YAML
    for _ in range(draw.randrange(1, 4)):
        start = draw.randrange(len(text) + 1)
        end = min(len(text), start + draw.choice([0, 0, 1, 5, 40]))
        choices = ("", text[start:end] * 2, draw.choice(YAML_ALL), chr(draw.randrange(1, 0x3000)))
        text = text[:start] + draw.choice(choices) + text[end:]
    return text if draw.random() < 0.8 else draw.choice(YAML_ALL)


def test_no_malformed_yaml_raises_anything_but_our_errors() -> None:
    good = bad = 0
    for case in range(400):
        try:
            settings = parse_yaml(broken_yaml(case))
            assert all(isinstance(key, str) for key in settings)
            good += 1
        except DiscorankError:
            bad += 1
        except Exception as error:
            raise AssertionError(f"broken_yaml({case})") from error
    assert good > 20
    assert bad > 100


@pytest.mark.parametrize("text", ["0x" + "f" * 5000, "? 0x" + "f" * 5000, "[0x" + "f" * 5000 + "]"])
def test_yaml_with_an_endless_number_is_our_error(text: str) -> None:
    with pytest.raises(InputError, match="mapping"):
        parse_yaml(text)


# tables


def test_wrong_types_in_a_table_are_reported_or_cost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    read_tables_here(monkeypatch)
    sample = SAMPLES["jsonl"]
    path = tmp_path / "table.parquet"
    rows = [
        {"id": name, "candidates": [{"text": "é🚀", "logprob": -1.0}], "source": "s", "n": [1]}
        for name in "abc"
    ]
    good = errors = 0
    for name, line in changed_json(rows[1], set()):
        try:
            row = json.loads(line)
            table = pa.Table.from_pylist([rows[0], row, rows[2]])
        except (ValueError, RecursionError, pa.ArrowException, OverflowError):
            continue  # what no table can hold
        parquet.write_table(table, path)
        reading = read(sample, path)
        if not reading.is_reported:
            assert {"a", "c"} <= set(reading.records), name
            assert len(reading.records) == 3, name
        good += not reading.errors
        errors += bool(reading.errors)
    assert good > 5
    assert errors > 5


# files of their true size, in a process with bounds of its own

LIMIT_CPU_SECONDS = 10  # a fifth of it is enough; what is quadratic needs minutes
LIMIT_MB = 300
MB = 1 << 20
READER = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.errors import InputError
try:
    with open_lists(sys.argv[1]) as lists:
        for entry in lists:
            print(entry.error)
except InputError as error:
    print(error)
status = open("/proc/self/status").read()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""


def read_apart(path: Path) -> str:
    """The result of reading a file of lists in a process of its own, after its bounds are asserted."""
    command = [sys.executable, "-c", READER, str(path), str(LIMIT_CPU_SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]  # -SIGXCPU or -SIGKILL: too much work
    *found, peak_mb = done.stdout.splitlines()
    assert int(peak_mb) < LIMIT_MB
    return "\n".join(found)


HURTING: dict[str, Callable[[], bytes]] = {
    "a value that is a fraction": lambda: b"0." + b"9" * (20 * MB),
    "more than 1000000 values": lambda: b"[" * (20 * MB),
    "nested too deeply": lambda: b"[" * 999_000,
    "more than 1000000 values in objects": lambda: b'{"a":' * (20 * MB // 5),
    "more than 1000000 values in one": lambda: b"[{}" + b",{}" * (6 * MB) + b"]",
    "too many digits": lambda: b"9" * (20 * MB),
    "half of a surrogate pair": lambda: b'"' + b"\\ud800" * (4 * MB) + b'"',
    "key 'a'": lambda: b'{"a":1' + b',"a":1' * 900_000 + b"}",
    "longer than": lambda: b'"' + "🚀".encode() * (50 * MB),
}
FAST = {"key 'a'"}  # the others take as long, and are alike


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured by /proc")
@pytest.mark.parametrize(
    "fact",
    [pytest.param(fact, marks=() if fact in FAST else pytest.mark.slow) for fact in HURTING],
)
def test_json_made_to_hurt_is_an_error_in_bounded_work(tmp_path: Path, fact: str) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_bytes(b'{"id": "a", "candidates": ["x"], "k": {"y": ' + HURTING[fact]() + b"}}\n")
    found = read_apart(path)
    if "fraction" in fact:  # of many digits, a plain number
        assert found == "None"
    else:
        assert f"{path}:1: " in found
        assert fact.removesuffix(" in objects") in found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured by /proc")
@pytest.mark.parametrize("text", [b"\0", b"\n", b'{"id":"a","candidates":["a"]}\n'])
def test_a_gzip_bomb_of_4_gib_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "lists.jsonl.gz"
    chunk = text * (8 * MB // len(text))
    engine = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = engine.compress(b"") + engine.flush(zlib.Z_FULL_FLUSH)
    body = engine.compress(chunk) + engine.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(head + body * 512)
    assert "expands more than 400 times" in read_apart(path)
