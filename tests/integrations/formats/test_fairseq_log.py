"""Logs of fairseq: real ones read back completely, and everything that can be wrong with one."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.cli.main import main
from discorank.integrations.files import line_spool as blocks
from discorank.integrations.files.entries import ListEntry
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.errors import InputError
from discorank.rerank.lists import CandidateList

GOLDEN = Path(__file__).parents[2] / "golden" / "fairseq"
LN2 = math.log(2)
WHOLE = [
    "generate.nbest.txt",
    "generate.noref.txt",
    "generate.results-path.txt",
    "interactive.nbest.txt",
]


def entries(path: Path, **options: Any) -> list[ListEntry]:
    with open_lists(path, "fairseq", **options) as lists:
        return list(lists)


def read(folder: Path, content: str, **options: Any) -> list[ListEntry]:
    path = folder / "log.txt"
    path.write_text(content, encoding="utf-8", newline="")
    return entries(path, **options)


def good(log_entries: list[ListEntry]) -> list[CandidateList]:
    assert [str(entry.error) for entry in log_entries if entry.error] == []
    return [entry.record for entry in log_entries if entry.record is not None]


def block(
    i: int,
    texts: list[str],
    source: str | None = "s",
    target: str | None = None,
    scores: str = "-1.0000 -2.0000",
) -> str:
    """What fairseq writes of one sentence."""
    lines = [f"S-{i}\t{source}"] * (source is not None) + [f"T-{i}\t{target}"] * (
        target is not None
    )
    for text in texts:
        lines += [f"H-{i}\t-1.5\t{text}", f"D-{i}\t-1.5\t{text}", f"P-{i}\t{scores}"]
    return "".join(line + "\n" for line in lines)


@pytest.mark.parametrize("name", WHOLE)
def test_a_real_log_is_read_back_completely(name: str) -> None:
    log = (GOLDEN / name).read_text(encoding="utf-8")
    records = good(entries(GOLDEN / name))
    assert [record.id for record in records] == [str(i) for i in range(12)]
    for record in records:
        of = {
            kind: re.findall(rf"^{kind}-{record.id}\t(.*)$", log, re.MULTILINE) for kind in "STDHPW"
        }
        assert [record.source] == of["S"]
        assert list(record.references) == of["T"]
        assert [
            f"{score}\t{text}"
            for score, text in zip(
                [line.split("\t")[0] for line in of["D"]],
                [c.text for c in record.candidates],
                strict=True,
            )
        ] == of["D"]
        for candidate, h, p in zip(record.candidates, of["H"], of["P"], strict=True):
            tokens = [float(value) for value in p.split()]
            assert candidate.logprob == pytest.approx(LN2 * sum(tokens), rel=1e-12)
            assert candidate.fields == {
                "score": pytest.approx(LN2 * float(h.split("\t")[0]), rel=1e-12),
                "token_scores": p,
            }
            assert candidate.fields["score"] * len(tokens) == pytest.approx(
                candidate.logprob, abs=2e-3
            )
        assert list(record.extra.items()) == [("seconds", float(w.split("\t")[0])) for w in of["W"]]


def test_the_tail_that_fairseq_drops_is_an_error_that_names_it() -> None:
    log_entries = entries(GOLDEN / "generate.nbest.tail-dropped.txt")
    assert [entry.id for entry in log_entries] == [
        "0",
        "1",
        "2",
        "3",
        "4-6",
        *map(str, range(7, 12)),
    ]
    lost = [entry for entry in log_entries if entry.error]
    assert [entry.raw for entry in lost] == [b"", b""]
    for entry in lost:
        message = r"txt:\d+: id (2|4-6): 4 of 12 sentences are missing\. .*--required-batch-size-multiple 1"
        with pytest.raises(InputError, match=message):
            raise entry.error or AssertionError
    whole = {record.id: record for record in good(entries(GOLDEN / "generate.nbest.txt"))}
    assert [entry.record for entry in log_entries if entry.record] == [
        whole[entry.id] for entry in log_entries if entry.record and entry.id
    ]


def test_the_tail_that_fairseq_drops_stops_a_conversion(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lists.jsonl"
    command = [
        "convert",
        str(GOLDEN / "generate.nbest.tail-dropped.txt"),
        "--from",
        "fairseq",
        "-o",
        str(out),
    ]
    assert main(command) == 3
    assert not out.exists()
    *_, message = capsys.readouterr().err.splitlines()
    assert re.match(
        r"discorank: .*dropped\.txt:\d+: stopped at an error record: id 2: 4 of 12 sentences",
        message,
    )
    assert "--required-batch-size-multiple 1" in message
    assert main(["decode", *command[1:-1], str(tmp_path / "chosen"), "-u", "chrf"]) == 3
    assert main([*command, "--max-errors", "2"]) == 3
    assert len(out.read_text().splitlines()) == 8


def test_a_dropped_end_is_seen_with_the_sources(tmp_path: Path) -> None:
    log = block(1, ["b"]) + block(0, ["a"])
    (tmp_path / "src").write_text("x\ny\nz\nw\n")
    assert len(good(read(tmp_path, log))) == 2
    log_entries = read(tmp_path, log, sources=tmp_path / "src")
    assert [entry.record and entry.record.source for entry in log_entries] == ["x", "y", None]
    assert "id 2-3: 2 of 4 sentences are missing" in str(log_entries[2].error)
    (tmp_path / "src").write_text("x\n")
    with pytest.raises(InputError, match="a sentence with id 1, but there are 1 sources"):
        read(tmp_path, log, sources=tmp_path / "src")


def test_every_kind_of_line_and_every_copy_is_kept(tmp_path: Path) -> None:
    log = (
        "2024-01-02 10:00:00 | INFO | fairseq_cli.generate | {'_name': None}\n"
        "S-0\tein\tTab\nW-0\t0.010\tseconds\nC-0\tmust\nC-0\t\nT-0\tr\n"
        "H-0\t-0.5\ta@@ b\tc\nD-0\t-0.5\tab\tc\nP-0\t-0.5000 -0.5000\nA-0\t0-0 1-1\nI-0\t3\nE-0_0\tx\nE-0_1\ty\n"
        "2024-01-02 10:00:01 | WARNING | fairseq | slow\n"
        "H-0\t-9.25\t\nD-0\t-9.25\t\nP-0\t-inf -9.2500\nA-0\t\n"
        "H-0\t-0.5\ta@@ b\tc\nD-0\t-0.5\tab\tc\nP-0\t-1.0000 -1.0000\n"
        "Generate test with beam=5: BLEU4 = 100.00\n"
    )
    (record,) = good(read(tmp_path, log))
    assert (record.source, record.references) == ("ein\tTab", ("r",))
    assert record.extra == {"seconds": 0.01, "constraints": ["must", ""]}
    one, two, three = record.candidates
    assert (one.text, one.logprob) == ("ab\tc", -LN2)
    assert one.fields == {
        **{"score": -0.5 * LN2, "tokenized": "a@@ b\tc", "alignment": "0-0 1-1"},
        **{"steps": 3, "history": ["x", "y"], "token_scores": "-0.5000 -0.5000"},
    }
    assert (two.text, two.logprob, two.fields) == (
        "",
        -math.inf,
        {"score": -9.25 * LN2, "alignment": "", "token_scores": "-inf -9.2500"},
    )
    assert (three.text, three.logprob) == (one.text, -2 * LN2)


def test_infinitely_bad_hypotheses_are_kept_without_their_score(tmp_path: Path) -> None:
    log = block(0, ["a", "b"], scores="-3.0000").replace(
        "H-0\t-1.5\tb\nD-0\t-1.5", "H-0\t-inf\tb\nD-0\t-inf"
    )
    (record,) = good(read(tmp_path, log))
    assert [(one.text, one.fields) for one in record.candidates] == [
        ("a", {"score": -1.5 * LN2}),
        ("b", {}),
    ]
    assert (
        main(
            [
                "convert",
                str(tmp_path / "log.txt"),
                "--from",
                "fairseq",
                "-o",
                str(tmp_path / "out"),
                "--quiet",
            ]
        )
        == 0
    )


def test_the_tab_of_an_empty_text_may_be_missing(tmp_path: Path) -> None:
    log = block(0, [""], "", "") + "A-0\t\nE-0_0\t\n" + block(1, ["b"], "s", "t")
    whole = read(tmp_path, log)
    stripped = read(tmp_path, "".join(f"{line.rstrip()}\n" for line in log.splitlines()))
    assert [entry.record for entry in stripped] == good(whole)
    assert (good(whole)[0].source, good(whole)[0].candidates[0].text) == ("", "")


def test_logs_without_sources_or_detokenised_text_are_read(tmp_path: Path) -> None:
    (zero, one) = good(read(tmp_path, "H-1\t-1\tb\nH-1\t-2\tb\nH-0\t-1\ta\nH-0\t-2\t\n"))
    assert (zero.source, zero.candidates[0].text, zero.candidates[0].logprob) == (None, "a", None)
    assert [candidate.text for candidate in one.candidates] == ["b", "b"]


def test_logs_of_shards_belong_together(tmp_path: Path) -> None:
    shards = (
        block(0, ["a"])
        + block(2, ["c"])
        + "Generate test with beam=1: BLEU4 = 1\n"
        + block(3, ["d"])
        + block(1, ["b"])
    )
    assert [record.candidates[0].text for record in good(read(tmp_path, shards))] == [
        "a",
        "b",
        "c",
        "d",
    ]
    twice = read(tmp_path, block(0, ["a"]) + block(0, ["b"]))
    assert "id: '0' was there before" in str(twice[1].error)


BAD_LINES = r"""
H-1 -0.5 text => found 'H-1 -0.5 text'
H-1\tx y => H-: found 'x y'
H-1 => found 'H-1'
H-1\t-1\tx\nP-1 => found 'P-1'
H-1\tinf\tx => H-: found 'inf'
H-1\tnan\tx => H-: found 'nan'
P-1\t-1 => P-: a P- line that belongs to no H- line
H-1\t-1\tx\nP-1\t-1 x => P-: found 'x'
H-1\t-1\tx\nP-1\t-1 inf => P-: found 'inf'
H-1\t-1\tx\nD-1\t-1\tx => log.txt:5: hypothesis 1 has no P- line
H-1\t-1\tx\nP-1\t-1 => hypothesis 1 has no D- line
H-1\t-1\tx\nwrapped\nD-1\t-1\tx\nP-1\t-1 => log.txt:10: found 'wrapped'
H-1\t-1\tx\nD-1\t-1\tx\nD-1\t-1\tx\nP-1\t-1 => a D- line that belongs to no H- line
W-1\t1\nW-1\t1 => W-: a W- line
W-1\tx => W-: found 'x'
I-1\t1.5 => I-: found '1.5'
"""


@pytest.mark.parametrize("case", BAD_LINES.strip().split("\n"))
def test_a_bad_line_spoils_the_list_of_its_id(tmp_path: Path, case: str) -> None:
    line, fact = case.replace(r"\t", "\t").replace(r"\n", "\n").split(" => ")
    log_entries = read(tmp_path, block(0, ["a"]) + block(1, ["b"]) + line + "\n" + block(2, ["c"]))
    assert [entry.id for entry in log_entries] == ["0", "1", "2"]
    assert [entry.error is None for entry in log_entries] == [True, False, True]
    assert log_entries[1].line == 5
    assert fact in str(log_entries[1].error)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (
            block(0, ["a", "b"]) + block(1, ["c", "d"])[:-2],
            r"log.txt:8: no newline ends the log\. Was it cut off\? If not, add the newline",
        ),
        (
            block(0, ["a", "b"]) + block(1, ["c", "d"])[:-20],
            "log.txt:8: hypothesis 1 has no P- line",
        ),
        (
            block(0, ["a"]) + "S-1\ts\n",
            r"log.txt:5: no H- line\. Was the log cut off, or written with --quiet",
        ),
        (
            block(0, ["a"]) + "  0%| | 0/2" + block(1, ["b"]),
            r"log.txt:6: no S- line, which others have\. Was stderr",
        ),
    ],
)
def test_a_log_that_is_cut_off_or_mixed_is_an_error(tmp_path: Path, log: str, message: str) -> None:
    zero, one = read(tmp_path, log)
    assert zero.record is not None
    with pytest.raises(InputError, match=message):
        raise one.error or AssertionError


@pytest.mark.parametrize(
    "end", ["", "Generate test with beam=2: BLEU4 = 1", "2024-01-02 10:00:00 | INFO | x", "\n "]
)
@pytest.mark.parametrize("sizes", [[1, 2, 1], [2, 2, 1], [1, 1, 2]])
def test_lists_of_different_sizes_are_no_error(tmp_path: Path, sizes: list[int], end: str) -> None:
    log = "".join(block(i, ["a", "b"][:size]) for i, size in enumerate(sizes)) + end
    assert [len(record.candidates) for record in good(read(tmp_path, log))] == sizes


@pytest.mark.parametrize(
    "text", ['{"id": "a", "candidates": ["x"]}\n', "one\ntwo\n", "S-x\ttext\n", "\n \nx\n"]
)
def test_what_is_no_log_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        InputError, match=r"log\.txt:[13]: no line of a fairseq log .*--results-path"
    ):
        read(tmp_path, text)
    assert read(tmp_path, "") == read(tmp_path, "\n\n") == []


def test_a_damaged_first_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"log\.txt:1: found b'S-0 source', expected <letter>-<id>, a tab"
    ):
        read(tmp_path, "S-0 source\n" + block(0, ["a"])[4:])


def test_large_ids_make_one_gap_and_no_large_memory(tmp_path: Path) -> None:
    log_entries = read(tmp_path, block(10**17, ["a"]) + block(0, ["b"]))
    assert [entry.id for entry in log_entries] == ["0", f"1-{10**17 - 1}", str(10**17)]
    scattered = read(tmp_path, "".join(block(2 * i + 1, ["a"]) for i in range(30)))
    assert "id 0: 30 of 60 sentences are missing" in str(scattered[0].error)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=12)
hypotheses = st.lists(st.tuples(texts, st.floats(-99, 0)), min_size=1, max_size=4)


@given(st.lists(st.tuples(texts, hypotheses), min_size=1, max_size=6), st.randoms(), st.booleans())
def test_whatever_was_generated_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[Any], draw: Random, spooled: bool
) -> None:
    order = list(range(len(sentences)))
    draw.shuffle(order)
    log = ""
    for i in order:
        source, nbest = sentences[i]
        log += f"S-{i}\t{source}\n" + "".join(
            f"H-{i}\t{score}\t{text}\nD-{i}\t{score}\t{text}\nP-{i}\t{score:.4f} -1.0000\n"
            for text, score in nbest
        )
    path = tmp_path_factory.mktemp("log") / "log.txt"
    path.write_text(log, encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SPOOL_BYTES", 10 if spooled else 1 << 20)
        records = good(entries(path))
    assert [record.source for record in records] == [source for source, _ in sentences]
    for record, (_, nbest) in zip(records, sentences, strict=True):
        assert [candidate.text for candidate in record.candidates] == [text for text, _ in nbest]
        for candidate, (_, score) in zip(record.candidates, nbest, strict=True):
            assert candidate.logprob == pytest.approx(LN2 * (score - 1), abs=1e-4)


def test_a_log_decodes_with_a_document_metric(tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    documents.write_text("".join(f"d{i // 4}\n" for i in range(12)))
    log, out = str(GOLDEN / "generate.nbest.txt"), tmp_path / "out.jsonl"
    command = [
        "decode",
        log,
        "--from",
        "fairseq",
        "--documents",
        str(documents),
        "-u",
        "chrf",
        "-o",
        str(out),
    ]
    assert main([*command, "--weights", "logprob", "--quiet"]) == 0
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [
        str(i) for i in range(12)
    ]
    before = out.read_bytes()
    assert (
        main([*command, "--weights", "logprob", "--quiet"]) == 0
    )  # a finished run has nothing left to do
    assert out.read_bytes() == before
    documents.write_text("".join(f"d{i // 3}\n" for i in range(12)))
    assert main([*command, "--weights", "logprob", "--quiet"]) == 4
