"""Parquet and Arrow files that are damaged or made to hurt: refused with their place, and before they cost anything."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discorank.integrations.arrow.arrow_source import ArrowSource
from discorank.integrations.arrow.open_rows import open_rows
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.errors import InputError
from discorank.metrics.storage.limits import use_limits
from tests.support.tables import read_tables_here

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
encryption = pytest.importorskip("pyarrow.parquet.encryption")

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def read_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that end no process are read in this one."""
    if "apart" not in request.fixturenames:
        read_tables_here(monkeypatch)


@pytest.fixture
def apart() -> None:
    """Tables are read by a process of their own, as they are for users."""


def read(path: Path) -> list[Any]:
    with open_lists(path) as lists:
        return list(lists)


def refusal(path: Path) -> InputError | None:
    """Why a file is refused, None where it is read to its end."""
    try:
        read(path)
    except InputError as error:
        return error
    return None


def lists_table(count: int = 9) -> Any:
    candidates = [{"text": f"é🚀 {k}", "logprob": -1.5 * k, "m": {"a": [1, None]}} for k in (1, 2)]
    rows = [{"id": f"l{i}", "candidates": candidates, "source": "s"} for i in range(count)]
    human = pa.array([{"A": [1.0, None]}] * count)
    return pa.Table.from_pylist(rows).append_column("human", human)


def as_parquet(draw: random.Random) -> bytes:
    file = io.BytesIO()
    parquet.write_table(
        lists_table(),
        file,
        row_group_size=4,
        compression=draw.choice(["zstd", "snappy", "none", "gzip"]),
        use_dictionary=draw.random() < 0.5,
        data_page_version=draw.choice(["1.0", "2.0"]),
    )
    return file.getvalue()


def as_ipc(draw: random.Random, open_writer: Callable[..., Any]) -> bytes:
    file = io.BytesIO()
    table = lists_table()
    options = pa.ipc.IpcWriteOptions(compression=draw.choice([None, "lz4", "zstd"]))
    with open_writer(file, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=4)
    return file.getvalue()


WHOLE: dict[str, Callable[[random.Random], bytes]] = {
    ".parquet": as_parquet,
    ".arrow": lambda draw: as_ipc(draw, pa.ipc.new_file),
    ".arrows": lambda draw: as_ipc(draw, pa.ipc.new_stream),
}


def spoiled(data: bytes, draw: random.Random) -> bytes:
    """The bytes after one to three accidents, half of them near the end, where a footer stands."""
    made = bytearray(data)
    for _ in range(draw.randrange(1, 4)):
        near_end = draw.random() < 0.5
        at = len(made) - 1 - draw.randrange(min(len(made), 3000 if near_end else len(made)))
        length = draw.choice([1, 4, 8])
        made[at : at + length] = draw.choice(
            [
                draw.randbytes(length),
                b"",
                made[at : at + length] * 2,
                b"\xff" * length,
                b"\xff\xff\xff\x7f" * (length // 4),
                bytes([made[at] ^ 1 << draw.randrange(8)]) + made[at + 1 : at + length],
            ]
        )
        made = made or bytearray(b"x")
    return bytes(made)


CASES = 100
READ_DAMAGED = """
import random, sys
from pathlib import Path
from discorank.metrics.errors import InputError
from tests.integrations.arrow.test_hostile_tables import WHOLE, spoiled
from tests.support.tables import read_tables_here
import pytest
from discorank.integrations.formats.open_lists import open_lists
read_tables_here(pytest.MonkeyPatch())
path, cases = Path(sys.argv[1]), map(int, sys.argv[2:])
for case in cases:
    draw = random.Random(f"{path.suffix} {case}")
    path.write_bytes(spoiled(WHOLE[path.suffix](draw), draw))
    print(case, end=" ", flush=True)
    try:
        with open_lists(path) as lists:
            print("read", len(list(lists)))
    except InputError as error:
        print("refused" if str(path) in error.where else error)
"""


@pytest.mark.parametrize("ending", WHOLE)
def test_no_damage_raises_anything_but_our_errors(tmp_path: Path, ending: str) -> None:
    """In few processes, of which one goes on behind the file that ended another."""
    outcomes: dict[str, str] = {}
    signals = []
    while len(outcomes) < CASES:
        cases = map(str, range(len(outcomes), CASES))
        command = [sys.executable, "-c", READ_DAMAGED, str(tmp_path / f"a{ending}"), *cases]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        for line in ended.stdout.splitlines():
            case, _, outcomes[case] = line.partition(" ")
        if ended.returncode:
            assert ended.returncode < 0, ended.stderr
            signals.append(ended.returncode)
    assert {text.partition(" ")[0] for text in outcomes.values()} <= {"read", "refused", ""}
    assert sum(text == "refused" for text in outcomes.values()) > CASES * 3 / 4
    assert len(signals) < 4


@pytest.mark.parametrize("ending", WHOLE)
def test_no_start_of_a_file_is_taken_for_the_whole(tmp_path: Path, ending: str) -> None:
    data = WHOLE[ending](random.Random(1))
    path = tmp_path / f"part{ending}"
    for length in range(0, len(data) - 8, max(97, len(data) // 30)):
        path.write_bytes(data[:length])
        error = refusal(path)
        if error is not None:
            assert str(path) in error.where
        else:  # a stream may end between two of its messages
            assert ending == ".arrows"
            assert len(read(path)) % 4 == 0


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.parquet", b"", "found '' at its start, expected a Parquet file"),
        ("a.parquet", b"PAR1", r"cannot be read \(Parquet file size is 4 bytes"),
        ("a.parquet", b"PARE" + b"\0" * 20, "found 'PARE.*expected a Parquet file"),
        ("a.parquet", b'{"id": "a"}\n', r"found '\{\"id\":' at its start"),
        ("a.parquet", b"PAR1\xff\xff\xff\x7fPAR1", r"cannot be read \(Parquet file size is 12"),
        ("a.arrow", b"PAR1" * 4, "found 'PAR1PA' at its start, expected an Arrow file or stream"),
        ("a.arrow", b"ARROW1\0\0" + b"\0" * 30, r"cannot be read \(Not an Arrow file"),
        ("a.arrows", b"\xff\xff\xff\xff\xff\xff\xff\x7f", "cannot be read"),
    ],
)
def test_files_that_are_something_else(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        read(path)


def test_a_parquet_file_of_another_ending_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lists.jsonl"
    path.write_bytes(as_parquet(random.Random(1)))
    with pytest.raises(InputError, match=r"found a Parquet file.*"):
        read(path)


def footer_of(fields: bytes) -> bytes:
    return b"PAR1" + fields + len(fields).to_bytes(4, "little") + b"PAR1"


def varint(value: int) -> bytes:
    made = b""
    while value >= 0x80:
        made += bytes([value & 0x7F | 0x80])
        value >>= 7
    return made + bytes([value])


@pytest.mark.usefixtures("apart")
def test_footers_made_to_hurt(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    # version 1, and a schema of a hundred thousand structs of one byte
    path.write_bytes(footer_of(b"\x15\x02\x19\xfc" + varint(200_000) + b"\0" * 200_001))
    with pytest.raises(InputError, match=r"cannot be read \(Couldn't deserialize thrift"):
        read(path)
    # each element has one child, so that pyarrow would descend for each
    element = b"\x48\x01a\x15\x02\x00"
    levels = b"\x15\x02\x19\xfc" + varint(50_000) + element * 50_000 + b"\x16\x00\x19\x0c\x00"
    path.write_bytes(footer_of(levels))
    with pytest.raises(InputError, match=r"cannot be read|ended the process"):
        read(path)


class Long(int):
    """A number of 64 bits."""


KINDS = {int: 5, Long: 6, bytes: 8, list: 9, dict: 12}  # of Thrift's compact protocol


def compact(value: Any) -> bytes:
    """A value of Thrift's compact protocol without its kind: of a dictionary by field, a struct."""
    if isinstance(value, int):
        return varint(2 * value)
    if isinstance(value, bytes):
        return varint(len(value)) + value
    if isinstance(value, list):
        return bytes([len(value) << 4 | KINDS[type(value[0])]]) + b"".join(map(compact, value))
    made, before = b"", 0
    for field, inner in value.items():
        made += bytes([field - before << 4 | KINDS[type(inner)]]) + compact(inner)
        before = field
    return made + b"\0"


def test_sizes_that_contradict_the_schema_end_no_process(tmp_path: Path) -> None:
    page = compact({1: 0, 2: 9, 3: 9, 5: {1: 1, 2: 0, 3: 3, 4: 3}}) + b"\0" * 9
    size, one = Long(len(page)), Long(1)
    # an optional text has the levels 0 and 1, and the footer counts three; pyarrow aborts if asked for the column
    schema = [{4: b"root", 5: 1}, {1: 6, 3: 1, 4: b"candidates", 6: 0}]
    said = {1: 6, 2: [0], 3: [b"candidates"], 4: 0, 5: one, 6: size, 7: size, 9: Long(4)}
    column = {2: Long(4), 3: {**said, 16: {3: [one, one, one]}}}
    footer = compact({1: 1, 2: schema, 3: one, 4: [{1: [column], 2: size, 3: one}]})
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1" + page + footer_of(footer)[4:])
    program = "import sys; from discorank.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "convert", str(path), "--columns", "id=#"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "a.parquet: it ended the process that reads it (SIGABRT). Is it whole" in ended.stderr
    assert ended.returncode > 0, "a signal ended it"


def test_a_row_group_without_a_page_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for use_dictionary in (False, True):
        parquet.write_table(lists_table(1).slice(0, 0), path, use_dictionary=use_dictionary)
        assert read(path) == []


def test_a_column_of_another_name_than_in_the_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    # the name stands in the schema, and in what the row group says of the column; pyarrow goes by their order
    parquet.write_table(lists_table(), path, store_schema=False)
    head, in_schema, of_chunk = path.read_bytes().split(b"\x06source")
    path.write_bytes(head + b"\x06source" + in_schema + b"\x06hidden" + of_chunk)
    with pytest.raises(InputError, match="a column 'hidden' where 'source' stands"):
        read(path)


class OpenKeys(encryption.KmsClient):  # type: ignore[misc,name-defined]  # pyarrow has no types
    """Wraps a key as itself."""

    def wrap_key(self, key: bytes, master_key: str) -> bytes:
        return b64encode(key)

    def unwrap_key(self, key: bytes, master_key: str) -> bytes:
        return b64decode(key)


@pytest.mark.usefixtures("apart")
def test_a_column_that_is_encrypted_is_said_to_be(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", "b"], "text": ["x", "y"]})
    keys = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"k": ["text"]}, plaintext_footer=True
    )
    factory = encryption.CryptoFactory(lambda connection: OpenKeys())
    path = tmp_path / "a.parquet"
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), keys)
    with parquet.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    with pytest.raises(InputError, match=r"\(SIGABRT\)\. Is it whole, and not encrypted"):
        read(path)


@pytest.mark.usefixtures("apart")
def test_pages_that_unpack_to_too_much(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    ids, texts = [str(i) for i in range(300)], [["y" * 10_000]] * 300
    table = pa.table({"id": ids, "candidates": texts})
    parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    assert len(read(path)) == 300
    with (
        use_limits(memory_bytes=1 << 20),
        pytest.raises(
            InputError, match=r"row group 0, column 'candidates.list.element': .* unpacked"
        ),
    ):
        read(path)
    ipc = tmp_path / "a.arrow"
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(ipc, table.schema, options=options) as writer:
        writer.write_table(table)
    with (
        use_limits(memory_bytes=1 << 20),
        pytest.raises(InputError, match=r"record batch 0: rows of more than 1048576 bytes"),
    ):
        read(ipc)


def test_rows_that_are_large_together_are_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    draw = random.Random(1)
    texts = [[draw.randbytes(50_000).hex()] for _ in range(40)]
    table = pa.table({"id": list(map(str, range(40))), "candidates": texts})
    parquet.write_table(table, path, compression="none", use_dictionary=False, write_batch_size=1)
    with use_limits(memory_bytes=4 << 20):
        assert [entry.id for entry in read(path)] == list(map(str, range(40)))


@pytest.mark.usefixtures("apart")
def test_a_page_that_hides_its_size_is_stopped_by_the_bound_on_memory(tmp_path: Path) -> None:
    packed = pa.compress(b"a" * 100, codec="zstd", asbytes=True)
    # the header of the page says 2 GiB, the footer 100 bytes
    header = compact({1: 0, 2: 2**31 - 1, 3: len(packed), 5: {1: 1, 2: 0, 3: 3, 4: 3}})
    page, one = header + packed, Long(1)
    size = Long(len(page))
    schema = [{4: b"root", 5: 1}, {1: 6, 3: 0, 4: b"candidates", 6: 0}]
    said = {1: 6, 2: [0], 3: [b"candidates"], 4: 6, 5: one, 6: Long(100), 7: size, 9: Long(4)}
    footer = compact({1: 1, 2: schema, 3: one, 4: [{1: [{2: Long(4), 3: said}], 2: size, 3: one}]})
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1" + page + footer_of(footer)[4:])
    with (
        open_lists(path, columns=["id=#"]) as lists,
        pytest.raises(InputError, match=r"row group 0: rows of more than 268435456 bytes"),
    ):
        list(lists)


def test_a_text_that_stands_often_in_one_row(tmp_path: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), ["x" * 1000])
    candidates = pa.ListArray.from_arrays(pa.array([0, 1, 100_000], pa.int32()), texts)
    table = pa.table({"id": ["a", "b"], "candidates": candidates})
    path = tmp_path / "a.parquet"
    parquet.write_table(table, path)
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError, match=r"a.parquet:2: a row of more than 33554432"):
        read(path)


@pytest.mark.usefixtures("apart")
def test_lists_of_nothing_without_end(tmp_path: Path) -> None:
    width = 50_000_000
    nothing = pa.FixedSizeListArray.from_arrays(pa.nulls(width), width)
    batch = pa.record_batch([pa.array(["a"]), nothing], names=["id", "candidates"])
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(path, batch.schema) as writer:
        writer.write(batch)
    assert path.stat().st_size < 2000
    with pytest.raises(InputError, match="a row of more than"):
        read(path)


@pytest.mark.parametrize("ending", WHOLE)
def test_text_that_is_no_utf8(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    data = bytes.fromhex("ff41")
    texts = pa.StringArray.from_buffers(
        3,
        pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0])),
        pa.py_buffer(b"a" + data + b"b"),
    )
    table = pa.table({"id": ["x", "y", "z"], "source": texts, "candidates": [["t"]] * 3})
    if ending == ".parquet":
        parquet.write_table(table, path)
    else:
        opened = pa.ipc.new_file if ending == ".arrow" else pa.ipc.new_stream
        with opened(path, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(InputError, match=r"a\.\w+:2: cannot be read .*UTF"):
        read(path)


def test_columns_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = [pa.array(["a"]), pa.array(["b"]), pa.array([["x"]])]
    table = pa.Table.from_arrays(columns, names=["id", "id", "candidates"])
    parquet.write_table(table, path)
    with pytest.raises(InputError, match="two columns are called 'id'"):
        read(path)


MAP = pa.map_(pa.string(), pa.string())


def test_types_that_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    deep: Any = pa.string()
    for _ in range(120):
        deep = pa.list_(deep)
    for kind in (pa.binary(), pa.timestamp("s"), pa.decimal128(5), pa.duration("s"), MAP, deep):
        columns = {"id": ["a"], "candidates": [["x"]], "k": pa.nulls(1, kind)}
        parquet.write_table(pa.table(columns), path)
        with pytest.raises(InputError, match=r"found the type|nested"):
            read(path)


def test_values_of_other_types_are_error_entries(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"id": [1.5, None], "candidates": [["x"], None]}), path)
    first, second = read(path)
    assert "a.parquet:1: id: found a number (1.5)" in str(first.error)
    assert "candidates: no candidates" in str(second.error)
    parquet.write_table(pa.table({"id": ["a", "b"], "candidates": [["x", None], None]}), path)
    first, second = read(path)
    assert "candidates[1]: found null" in str(first.error)
    assert "no candidates" in str(second.error)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    import os

    path = tmp_path / "a.parquet"
    os.mkfifo(path)
    with pytest.raises(InputError, match="is a device or a pipe"):
        read(path)


def test_views_of_texts_are_read(tmp_path: Path) -> None:
    """As Polars writes them, packed with zstd."""
    long_text = "longer than twelve bytes " * 3
    views = pa.array(["x", long_text, "z"], pa.string_view())
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), views)
    system = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.uint32()), views.slice(0, 2))
    table = pa.table({"id": views.slice(1), "candidates": lists, "system": system})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    for name, opened in (("a.arrow", pa.ipc.new_file), ("a.arrows", pa.ipc.new_stream)):
        with opened(tmp_path / name, table.schema, options=options) as writer:
            writer.write_table(table)
        first, second = (entry.record for entry in read(tmp_path / name))
        assert [candidate.text for candidate in first.candidates] == ["x", long_text]
        assert (first.id, first.extra) == (long_text, {"system": long_text})
        assert (second.id, second.extra) == ("z", {"system": "x"})


def test_a_file_is_touched_by_a_process_of_its_own_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(as_parquet(random.Random(1)))
    script = (
        "import sys; from discorank.integrations.formats.open_lists import open_lists\n"
        f"with open_lists({str(path)!r}) as lists: assert len(list(lists)) == 9\n"
        "sys.exit('pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.usefixtures("apart")
def test_a_file_that_is_not_read_to_its_end_leaves_no_process(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(lists_table(20_000), path)
    source = open_rows(path)
    assert isinstance(source, ArrowSource)
    assert next(iter(source))[0] == 1
    source.close()
    assert source.is_closed


def test_nothing_is_imported_before_a_table_is_read() -> None:
    modules = "discorank.cli.commands.decode, discorank.cli.commands.convert"
    script = f"import sys, {modules}; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
