"""Lists of Marian, and sources and documents that stand beside a list file line by line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.integrations.files.entries import ListEntry
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.errors import InputError
from discorank.rerank.lists import CandidateList


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def entries(path: Path, form: str, **options: Any) -> list[ListEntry]:
    with open_lists(path, form, **options) as lists:
        return list(lists)


def good(path: Path, form: str, **options: Any) -> list[CandidateList]:
    all_entries = entries(path, form, **options)
    assert [str(entry.error) for entry in all_entries if entry.error] == []
    return [entry.record for entry in all_entries if entry.record is not None]


def test_marian_lists_have_log_probabilities(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "m",
        "1 ||| b ||| 0-0 1-1 ||| WordScores= -0.5 -1 ||| F0= -1.5 ||| -0.5\n"
        "1 ||| c ||| WordCounts=3,2 ||| 0.5,0.5 1,0 ||| F0= -2 ||| -0.5\n",
    )
    (one,) = good(path, "marian")
    (zero,) = good(
        write(
            tmp_path,
            "m0",
            "0 ||| ein Text ||| F0= -3.25 ||| -0.8\n0 |||  ||| F0=-1.5e0 ||| -1\n",
        ),
        "marian",
    )
    (two,) = good(
        write(tmp_path, "m2", "2 ||| d |||  ||| F0= -2 F1= -3 ||| -0.5\n"),
        "marian",
    )
    assert [(c.text, c.logprob, c.fields) for c in zero.candidates] == [
        ("ein Text", -3.25, {"score": -0.8}),
        ("", -1.5, {"score": -1.0}),
    ]
    assert [c.fields for c in one.candidates] == [
        {"score": -0.5, "columns": ["0-0 1-1", "WordScores= -0.5 -1"]},
        {"score": -0.5, "columns": ["WordCounts=3,2", "0.5,0.5 1,0"]},
    ]
    assert (two.candidates[0].logprob, two.candidates[0].fields) == (
        None,
        {"score": -0.5, "F0": -2.0, "F1": -3.0, "columns": [""]},
    )


MARIAN = """
1 ||| t ||| F0= -1 => m:2: 3 columns
1 ||| a ||| b ||| F0= -1 ||| -1 => 5 columns, line 1 has 4
1 ||| t ||| LM0= -1 ||| -1 => F0: found 'LM0= -1'
1 ||| t ||| F0= -1 -2 ||| -1 => F0: found 'F0= -1 -2'
1 ||| t ||| F0= x ||| -1 => F0: found 'x'
1 ||| t ||| F0= -1 score= 2 ||| -1 => score: a feature of this name
1 ||| t ||| F0= -1 ||| nan => score: found 'nan'
"""


@pytest.mark.parametrize("case", MARIAN.strip().split("\n"))
def test_a_bad_line_spoils_the_list_of_its_id(tmp_path: Path, case: str) -> None:
    line, fact = case.split(" => ")
    fine = "{} ||| t ||| F0= -1 ||| -1\n"
    text = f"{fine.format(0)}{line}\n{fine.format(2)}"
    first, bad, last = entries(write(tmp_path, "m", text), "marian")
    assert first.record
    assert last.record
    assert fact in str(bad.error)


def test_what_is_no_marian_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \|\|\| in .*Is it an n-best list"):
        entries(write(tmp_path, "m", "plain\n"), "marian")


# sources and documents by line

MOSES = "".join(f"{i} ||| {i}{c} ||| ||| 1\n" for i in (0, 1, 2) for c in "ab")


def test_sources_and_documents_go_by_the_number_of_the_line(tmp_path: Path) -> None:
    moses = write(tmp_path, "m", MOSES)
    sources = write(tmp_path, "src", "s0\ns1\ns2\n")
    documents = write(tmp_path, "doc", "A\nA\nA\n")
    records = good(moses, "moses", sources=sources, documents=documents)
    assert [(r.source, r.document, r.position) for r in records] == [
        ("s0", "A", 0),
        ("s1", "A", 1),
        ("s2", "A", 2),
    ]
    (entry, *_) = entries(moses, "moses", sources=sources, documents=documents)
    assert entry.raw == b"0 ||| 0a ||| ||| 1\n0 ||| 0b ||| ||| 1\ns0\nA\n"
    flat = write(tmp_path, "f", "a\nb\nc\nd\n")
    (one, two) = good(flat, "flat", num_candidates=2, documents=write(tmp_path, "doc2", "A\nB\n"))
    assert (one.document, two.document, two.position) == ("A", "B", 1)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("A\nA\n", r"doc: no line for the list 2 of .*m\. Is it the right file"),
        (
            "A\nA\nA\nA\n",
            r"doc: more lines than .*m has lists, the last of which is 2\. Is a file cut off",
        ),
    ],
)
def test_a_file_of_documents_that_does_not_fit_is_refused(
    tmp_path: Path, lines: str, message: str
) -> None:
    moses = write(tmp_path, "m", MOSES)
    with pytest.raises(InputError, match=message):
        entries(moses, "moses", documents=write(tmp_path, "doc", lines))


def test_lists_that_no_line_belongs_to_are_error_entries(tmp_path: Path) -> None:
    lists = "".join(f"{name} ||| t ||| \n" for name in ("0", "x", "1", "0", "2"))
    documents = write(tmp_path, "doc", "A\nA\n \n")
    list_entries = entries(write(tmp_path, "m", lists), "moses", documents=documents)
    messages = [str(entry.error) for entry in list_entries if entry.error]
    assert [entry.error is None for entry in list_entries] == [True, False, True, False, False]
    assert "m:2: id: 'x' is no line number" in messages[0]
    assert "m:4: id: 0 after 1, expected a larger one. Sort the lists by id" in messages[1]
    assert "m:5: document: an empty line" in messages[2]


def test_documents_are_no_option_of_json_lines_and_standard_input_is_one_file(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match="documents: not an option of the format 'jsonl'"):
        open_lists(write(tmp_path, "j", "{}"), documents="doc")
    with pytest.raises(InputError, match="standard input twice"):
        open_lists("-", "moses", documents="-")


def test_the_documents_are_not_written_over(tmp_path: Path) -> None:
    moses, documents = write(tmp_path, "m", MOSES), write(tmp_path, "doc", "A\nA\nA\nA\n")
    for command in (["convert"], ["decode", "-u", "chrf"]):
        assert (
            main(
                [
                    *command,
                    str(moses),
                    "--from",
                    "moses",
                    "--documents",
                    str(documents),
                    "-o",
                    str(documents),
                ]
            )
            == 2
        )
    assert documents.read_text() == "A\nA\nA\nA\n"


FINE = "0 ||| a b ||| LM0= -3 ||| -5\n{}\n1 ||| e f ||| LM0= -3 ||| -5\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "0 ||| c d LM0= -4 ||| -6",
            r"m:2: 3 columns, line 1 has 4. Is a separator \|\|\| missing\?",
        ),
        ("0 ||| c d ||| LM0= -4 -6", "m:2: 3 columns, line 1 has 4"),
        ("0 || c d ||| LM0= -4 ||| -6", r"m:2: 3 columns, line 1 has 4.*'\|\|' in its place"),
        ("0 ||| c d || LM0= -4 ||| -6", "m:2: 3 columns, line 1 has 4"),
        ("0 ||| c d ||| LM0= -4 || -6", r"m:2: 3 columns, line 1 has 4.*'\|\|' in its place"),
        ("0 | c d ||| LM0= -4 ||| -6", "m:2: 3 columns, line 1 has 4"),
        ("0 ||| c d ||| LM0= -4 ||| -6 |||", r"m:2: 5 columns, line 1 has 4. Is there \|\|\| in a"),
        ("0 ||| c ||| 1 ||| 2 ||| -6", "m:2: 5 columns, line 1 has 4"),
        ("0 ||| c ||| d ||| LM0= -4 ||| -6", "m:2: 5 columns, line 1 has 4"),
        ("0 |||| c d ||| LM0= -4 ||| -6", r"m:2: found '\|\|\|\|' at character 3, expected \|\|\|"),
        ("0 ||| c d |||| LM0= -4 ||| -6", r"m:2: found '\|\|\|\|' at character 11"),
    ],
)
def test_a_bar_too_few_or_too_many_shifts_nothing(tmp_path: Path, line: str, message: str) -> None:
    list_entries = entries(write(tmp_path, "m", FINE.format(line)), "moses")
    errors = [entry.error for entry in list_entries if entry.error]
    with pytest.raises(InputError, match=message):
        raise errors[0]
    whole = [entry.record for entry in list_entries if entry.record]
    assert [record.id for record in whole if len(record.candidates) == 1][-1] == "1"
    assert all(len(record.candidates) == 1 for record in whole)


def test_bars_in_texts_are_texts(tmp_path: Path) -> None:
    text = FINE.format("0 ||| | c || d | ||| LM0= -4 ||| -6")
    first, _ = good(write(tmp_path, "m", text), "moses")
    assert first.candidates[1].text == "| c || d |"


@pytest.mark.parametrize(
    ("numbers", "files", "message"),
    [
        ((0, 2), False, "m:2: id: found 2, expected 1: the list 1 is missing"),
        ((0, 1, 7), False, "m:3: id: found 7, expected 2: the lists 2 to 6 are missing"),
        ((1, 2), True, "m:1: id: found 1, expected 0: the list 0 is missing"),
    ],
)
def test_a_gap_in_the_numbers_is_an_error_entry(
    tmp_path: Path, numbers: tuple[int, ...], files: bool, message: str
) -> None:
    moses = write(tmp_path, "m", "".join(f"{i} ||| t ||| ||| 1\n" for i in numbers))
    options = {"sources": write(tmp_path, "src", "s0\ns1\ns2\n")} if files else {}
    list_entries = entries(moses, "moses", **options)
    assert [entry.record.id for entry in list_entries if entry.record] == list(map(str, numbers))
    (error,) = [entry.error for entry in list_entries if entry.error]
    assert message in str(error)


def test_a_part_of_a_file_may_begin_at_any_number(tmp_path: Path) -> None:
    moses = write(tmp_path, "m", "100 ||| t ||| ||| 1\n101 ||| t ||| ||| 1\n")
    assert [record.id for record in good(moses, "moses")] == ["100", "101"]
