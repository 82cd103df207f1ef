"""Lists written in the forms of other tools come back as they were, or are refused; decisions go back with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.cli.main import main
from discorank.integrations.formats.format_table import formats
from discorank.integrations.formats.open_lists import open_lists
from discorank.integrations.formats.written_lists import (
    DecidedRows,
    ListWriter,
    decision_values,
)
from discorank.metrics.errors import InputError
from discorank.metrics.text.texts import Document
from discorank.rerank.choice import RankedText, Ranking
from discorank.rerank.lists import Candidate, CandidateList
from tests.support.lists import made_lists, write_lists

FORMS = [format.name for format in formats().values() if format.written]
ODD = [
    "|||",
    " ||| ",
    "|",
    "\t",
    "\u2028",
    "\x85",
    "\r",
    "\n",
    "\0",
    "\ufeff",
    "=",
    " ",
    "é",
    "船",
    "\ud800",
]
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60)
texts = st.lists(st.sampled_from([*ODD, "a", "Haus", "F0=", "-1"]), max_size=5).map("".join)
plain_texts = st.text(st.sampled_from("aé船-0 \u2028|"), max_size=8).map(str.strip)
names = st.sampled_from(["LM0", "TM0", "features", "F1", "n", "3", "a:"])
features = st.dictionaries(names, numbers | st.lists(numbers, min_size=2, max_size=3), max_size=3)
own = st.fixed_dictionaries(
    {}, optional={"score": numbers, "columns": st.lists(plain_texts, min_size=1, max_size=2)}
)


def made(
    identity: str, candidates: list[tuple[str, float | None, dict[str, Any]]]
) -> CandidateList:
    return CandidateList(identity, tuple(Candidate(*values) for values in candidates))


logprobs = st.floats(max_value=0) | st.just(nan)
any_candidate = st.tuples(texts, st.none() | logprobs, st.builds(lambda a, b: a | b, features, own))
any_list = st.builds(
    made,
    texts.filter(bool) | st.sampled_from(["0", "7"]),
    st.lists(any_candidate, min_size=1, max_size=4),
)


def read(path: Path, form: str, **options: Any) -> list[CandidateList]:
    with open_lists(path, form, **options) as lists:
        entries = [entry for entry in lists if entry.record or "missing" not in str(entry.error)]
    assert [str(entry.error) for entry in entries if entry.error] == []
    return [entry.record for entry in entries if entry.record is not None]


@given(any_list, st.sampled_from(FORMS))
def test_what_is_written_comes_back_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, record: CandidateList, form: str
) -> None:
    try:
        data = ListWriter(form).written(record)
    except InputError:
        return
    path = tmp_path_factory.getbasetemp() / f"list.{form}"
    path.write_bytes(data)
    options = {"num_candidates": len(record.candidates)} if form == "flat" else {}
    (back,) = read(path, form, **options)
    assert back == record


good_text = st.text(st.sampled_from("aé船-0|\u2028\t "), max_size=8).map(str.strip)
good_features = st.dictionaries(
    st.sampled_from(["LM0", "TM0", "n"]), numbers.map(float), max_size=3
)


@st.composite
def good_lists(draw: st.DrawFn, form: str) -> list[CandidateList]:
    """Lists that a form can say."""
    lists = []
    size = draw(st.integers(1, 3))
    for i in range(draw(st.integers(1, 3))):
        candidates = []
        for _ in range(size if form == "flat" else draw(st.integers(1, 3))):
            text = draw(good_text.filter(lambda text: "|||" not in text))
            if form == "flat":
                candidates.append(Candidate(text))
                continue
            logprob = draw(st.floats(-100, 0))
            fields = {**draw(good_features), "score": draw(st.floats(-100, 0))}
            candidates.append(Candidate(text, logprob, fields))
        lists.append(CandidateList(str(i), tuple(candidates)))
    return lists


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
def test_no_list_that_a_form_can_say_is_refused(
    tmp_path_factory: pytest.TempPathFactory, form: str, data: st.DataObject
) -> None:
    lists = data.draw(good_lists(form))
    writer = ListWriter(form)
    path = tmp_path_factory.getbasetemp() / f"lists.{form}"
    path.write_bytes(b"".join(map(writer.written, lists)))
    options = {"num_candidates": len(lists[0].candidates)} if form == "flat" else {}
    back = read(path, form, **options)
    assert back == lists


@pytest.mark.parametrize(
    ("form", "candidate", "where"),
    [
        ("moses", Candidate("a ||| b"), ""),
        ("moses", Candidate("a\nb"), ""),
        ("moses", Candidate(" a"), "candidates[0].text"),
        ("moses", Candidate("a", None, {"system": "A"}), "candidates[0].system"),
        ("moses", Candidate("a", None, {"good": True}), "candidates[0].good"),
        ("moses", Candidate("a", -float("inf")), "logprob"),
        ("moses", Candidate("a", None, {"columns": ["x"]}), "score"),
        ("moses", Candidate("a", None, {"columns": "x"}), "candidates[0].columns"),
        ("moses", Candidate("a", None, {"score": 1.0, "columns": [1]}), "candidates[0].columns"),
        ("moses", Candidate("a", None, {"b c": 1.0}), "features"),
        ("moses", Candidate("a", None, {"b=": 1.0}), "b"),
        ("moses", Candidate("a", None, {"n": 2**60 + 1}), "candidates[0].n"),
        ("moses", Candidate(Document(("a", "b"))), "candidates[0].text"),
        ("flat", Candidate(Document(("a", "b"))), "candidates[0].text"),
        ("flat", Candidate("a", -1.0), "candidates[0].logprob"),
        ("flat", Candidate("\ufeffa"), "candidates[0].text"),
        ("flat", Candidate("a\ud800"), "text"),
        ("flat", Candidate("a\r"), "candidates[0].text"),
        ("flat", Candidate("a\0"), ""),
    ],
)
def test_what_a_form_cannot_say_is_refused(form: str, candidate: Candidate, where: str) -> None:
    with pytest.raises(InputError) as found:
        ListWriter(form).written(CandidateList("0", (candidate,)))
    assert where in found.value.where


def test_what_stands_beside_candidates_is_refused_or_counted() -> None:
    record = CandidateList("0", (Candidate("a", None, {"system": "A"}),), "source", extra={"k": 1})
    with pytest.raises(
        InputError, match=r"source: moses has no place for it. Leave it out: --lossy"
    ):
        ListWriter("moses").written(record)
    writer = ListWriter("moses", lossy=True, elsewhere=["source"])
    assert writer.written(record) == b"0 ||| a ||| \n"
    assert writer.left_out == {"system": 1, "extra": 1}


def test_lists_of_a_form_have_one_shape() -> None:
    flat = ListWriter("flat")
    flat.written(made("0", [("a", None, {}), ("b", None, {})]))
    with pytest.raises(InputError, match="1 candidates, the lists before have 2"):
        flat.written(made("1", [("a", None, {})]))
    with pytest.raises(InputError, match="id: flat has no place"):
        flat.written(made("2", [("a", None, {}), ("b", None, {})]))


# decisions

RANKING = Ranking(
    "0",
    (RankedText(2, 1, 0.75, "c"), RankedText(1, 2, 0.5, "b"), RankedText(4, 1, None, "e")),
    0.25,
    tuple(Candidate(text, -1.0, {"LM0": -1.0}) for text in "abcbe"),
)


def test_the_decision_alone_gives_the_order() -> None:
    values = decision_values(RANKING)
    assert values[1:4] == [0.5, 0.75, 0.5]
    assert 0.5 > values[4] > values[0] > 0.49
    nothing = Ranking(
        "0",
        (RankedText(1, 1, None, "b"), RankedText(0, 1, None, "a")),
        None,
        RANKING.candidates[:2],
    )
    low, high = decision_values(nothing)
    assert high > low


@pytest.mark.parametrize(
    ("form", "order", "expected"),
    [
        ("moses", "kept", ["a", "b", "c", "b", "e"]),
        ("moses", "choice", ["c", "b", "b", "e", "a"]),
        ("flat", "choice", ["c", "b", "b", "e", "a"]),
    ],
)
def test_candidates_stand_where_they_were_or_best_first(
    tmp_path: Path, form: str, order: Any, expected: list[str]
) -> None:
    rows = DecidedRows(form, order)
    data = rows.row(RANKING)
    path = tmp_path / "out"
    path.write_bytes(data)
    (back,) = read(path, form, **({"num_candidates": 5} if form == "flat" else {}))
    assert [candidate.text for candidate in back.candidates] == expected
    if form != "flat":
        chosen = max(back.candidates, key=lambda candidate: float(candidate.fields["discorank"]))
        assert chosen.text == "c"
        assert chosen.fields["LM0"] == -1.0
    record = CandidateList("0", RANKING.candidates)
    assert DecidedRows(form, order).chosen(iter(data.decode().splitlines(True)), record) == "c"


def test_the_decision_is_the_total_where_there_is_none() -> None:
    row = DecidedRows("moses", "kept", "mbr").row(RANKING).decode()
    assert row.splitlines()[2] == "0 ||| c ||| logprob= -1.0 LM0= -1.0 mbr= 0.75 ||| 0.75"
    with pytest.raises(InputError, match=r"a field of the decision's name.*--feature"):
        DecidedRows("moses", "kept", "LM0").row(RANKING)
    with pytest.raises(InputError, match="no place for the decision but the order"):
        DecidedRows("flat", "kept")


# commands

IN_CONTEXT = 'doc-bertscore(model="minilm", context=1)'
NBEST = {
    "moses": "0 ||| the cat sat ||| LM0= -1 ||| -3\n0 ||| a cat sat ||| LM0= -2 ||| -4\n"
    "1 ||| b ||| LM0= 1 ||| -1\n",
}


@pytest.mark.parametrize("command", [("decode", "-u", "chrf"), ("rerank", "-m", "length")])
@pytest.mark.parametrize("form", NBEST)
def test_an_nbest_file_comes_back_with_one_more_feature(
    tmp_path: Path, form: str, command: tuple[str, ...]
) -> None:
    source, out = tmp_path / "nbest", tmp_path / "out"
    source.write_text(NBEST[form])
    name, *options = command
    assert (
        main([name, str(source), "--from", form, *options, "--output-format", form, "-o", str(out)])
        == 0
    )
    before, after = read(source, form), read(out, form)
    assert [record.id for record in after] == [record.id for record in before]
    for one, other in zip(before, after, strict=True):
        assert one.source == other.source
        for a, b in zip(one.candidates, other.candidates, strict=True):
            fields = dict(b.fields)
            assert isinstance(fields.pop("discorank"), float)
            assert (a.text, a.logprob, a.fields) == (b.text, b.logprob, fields)


def lines_of(path: Path) -> Iterator[bytes]:
    yield from path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("form", "utility"),
    [
        ("moses", "chrf"),
        ("flat", "chrf"),
        ("moses", IN_CONTEXT),
    ],
)
def test_a_run_in_another_form_goes_on(tmp_path: Path, form: str, utility: str) -> None:
    lists = [
        row | {"id": str(i), "source": "s", "candidates": row["candidates"][:2]}
        for i, row in enumerate(made_lists(6, seed=3))
    ]
    whole, part = tmp_path / "whole", tmp_path / "part"
    source = write_lists(tmp_path / "in.jsonl", lists)
    how = ["-u", utility, "--output-format", form]
    how += ["--device", "cpu"] if utility != "chrf" else []
    assert main(["decode", str(source), *how, "-o", str(whole)]) == 0
    bad = [*lists[:3], {"id": "3"}, *lists[4:]]
    write_lists(source, bad)
    assert main(["decode", str(source), *how, "-o", str(part)]) == 3
    assert 0 < part.stat().st_size < whole.stat().st_size
    with part.open("ab") as file:  # what a killed run wrote behind its last checkpoint
        file.write(whole.read_bytes()[part.stat().st_size :][:40])
    write_lists(source, lists)
    assert main(["decode", str(source), *how, "-o", str(part)]) == 0
    assert part.read_bytes() == whole.read_bytes()
    counts = json.loads(Path(f"{whole}.run.json").read_text())["counts"]
    assert counts["row_lines"] == len(list(lines_of(whole)))
    damaged = whole.read_bytes().replace(b"a", b"b", 1)
    whole.write_bytes(damaged)
    assert main(["decode", str(source), *how, "-o", str(whole)]) == 4


def test_another_shape_is_seen_after_resuming(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = [{"id": "0", "candidates": ["a", "b"]}, {"id": "1"}]
    source, out = write_lists(tmp_path / "in.jsonl", lists), tmp_path / "out"
    command = ["decode", str(source), "-u", "chrf", "--output-format", "flat", "-o", str(out)]
    assert main(command) == 3
    write_lists(source, [lists[0], {"id": "1", "candidates": ["a"]}])
    assert main(command) == 3
    assert "1 candidates, the lists before have 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--output-format", "moses", "--nbest", "2"],
            "--nbest: cannot be combined with --output-format",
        ),
        (
            ["--output-format", "moses", "--format", "text"],
            "--format: cannot be combined with --output-format",
        ),
        (["--output-format", "flat", "--max-errors", "1"], "would shift the lines"),
        (["--order", "kept"], "--order: is for n-best lists"),
        (["--lossy"], "--lossy: is for n-best lists"),
        (["--output-format", "flat", "--order", "kept"], "no place for the decision"),
        (["--output-format", "fairesq"], "fairesq"),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lists(tmp_path / "in.jsonl", [{"id": "0", "candidates": ["a"]}])
    assert main(["decode", str(source), "-u", "chrf", "-o", str(tmp_path / "out"), *options]) == 2
    assert message in capsys.readouterr().err


def test_convert_says_what_was_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists = [{"id": "0", "source": "s", "candidates": [{"text": "a", "system": "A", "n": 2}]}]
    source, out = write_lists(tmp_path / "in.jsonl", lists), tmp_path / "out"
    command = ["convert", str(source), "--output-format", "moses", "-o", str(out)]
    assert main(command) == 2 or main(command) == 3
    assert "source: moses has no place for it" in capsys.readouterr().err
    assert not out.exists()
    assert main([*command, "--lossy"]) == 0
    assert "left out: source of 1, system of 1" in capsys.readouterr().err
    assert out.read_text() == "0 ||| a ||| n= 2\n"
