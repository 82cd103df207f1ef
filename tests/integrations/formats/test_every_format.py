"""What holds for every format of the table, by the example that it declares."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from discorank.cli.main import main
from discorank.integrations.formats.format_table import Format, format_of_object, formats
from discorank.integrations.formats.open_lists import open_documents, open_lists
from discorank.integrations.formats.system_texts import read_system_texts
from discorank.metrics.errors import InputError

EXAMPLES = [format for format in formats().values() if format.example]


def by_name(format: Format) -> str:
    return format.name


@pytest.fixture
def path(tmp_path: Path, format: Format) -> Path:
    made = tmp_path / "example"
    made.write_text(format.example, encoding="utf-8")
    return made


def refusal(path: Path, format: str) -> InputError | None:
    """The first error of a file, or in it; None where there is none."""
    try:
        with open_lists(path, format) as lists:
            return next((entry.error for entry in lists if entry.error is not None), None)
    except InputError as error:
        return error


@pytest.mark.parametrize("format", EXAMPLES, ids=by_name)
def test_an_example_is_read(path: Path, format: Format) -> None:
    with open_lists(path, format.name) as lists:
        entries = list(lists)
    assert [str(entry.error) for entry in entries if entry.error] == []
    assert any("a text" in str(entry.record.candidates) for entry in entries if entry.record)
    if format.documents is not None:
        assert list(open_documents(path, format.name))


@pytest.mark.parametrize("format", EXAMPLES, ids=by_name)
def test_a_format_is_named_where_another_is_expected(path: Path, format: Format) -> None:
    if format.name == "jsonl" or not (format.keys or format.first_line):
        return
    assert f"se --from {format.name}" in str(refusal(path, "jsonl"))


@pytest.mark.parametrize("format", EXAMPLES, ids=by_name)
def test_texts_of_recognised_files_are_compared(path: Path, format: Format) -> None:
    if format.keys or format.first_line:
        assert read_system_texts(str(path)).segments == 1


def test_keys_show_one_format() -> None:
    keys = [key for format in formats().values() for key in format.keys]
    assert len(keys) == len(set(keys))
    assert format_of_object({"id": "a"}) is None


def test_help_names_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--help-all"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"its format: {', '.join(formats())}." in shown
    written = ", ".join(name for name, format in formats().items() if format.written)
    assert f"{written}; JSON lines if not given" in shown


# a list whose second candidate has a log-probability above 0, and where that stands
ABOVE_0 = {
    "jsonl": (
        '{"id": "a", "candidates": ["x", {"text": "y", "logprob": 1e308}]}',
        "1: candidates[1]",
    ),
    "parquet": ("", "1: candidates[1]"),
    "batch": (
        '{"custom_id": "a", "response": {"body": {"choices": ['
        '{"text": "y", "logprobs": {"token_logprobs": [2.5]}}]}}}',
        "1: response.body.choices[0]",
    ),
    "fairseq": ("S-0\ts\nH-0\t-1\tx\nP-0\t-1\nH-0\t-1\ty\nP-0\t2 2", "5: P-"),
    "marian": ("0 ||| x ||| F0= -1 ||| -1\n0 ||| y ||| F0= 3 ||| 3", "2: logprob"),
    "moses": ("0 ||| x ||| logprob= -1\n0 ||| y ||| logprob= 3", "2: logprob"),
}


@pytest.mark.parametrize("name", ABOVE_0)
def test_a_log_probability_above_0_is_an_error_at_its_line(tmp_path: Path, name: str) -> None:
    text, where = ABOVE_0[name]
    path = tmp_path / f"file.{name}"
    path.write_text(text + "\n", encoding="utf-8")
    if name == "parquet":
        rows = [{"text": "x", "logprob": -1.0}, {"text": "y", "logprob": 1e308}]
        pa_parquet.write_table(pa.table({"id": ["a"], "candidates": [rows]}), path)
    error = refusal(path, "jsonl" if name == "parquet" else name)
    assert error is not None
    assert str(error).startswith(f"{path}:{where}")
    assert "expected a natural log-probability, 0 at most" in error.problem
    assert error.fix
