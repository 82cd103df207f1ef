"""Prompts of judges: paragraphs that are left out, tags in texts, and prompt files with everything wrong in turn."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from discorank.integrations.judges.judge import JudgeWithoutReference, JudgeWithReference
from discorank.integrations.judges.judge_prompts import BUILT_IN, FIELDS, read_prompt
from discorank.metrics.errors import InputError

GOOD = "answer: number\nrange: [1, 7]\n---\nRate {hypothesis}\n"


def written(folder: Path, text: str) -> str:
    path = folder / "prompt.txt"
    path.write_text(text)
    return str(path)


WORDINGS = {  # the version of the metrics, and the digest of every prompt
    "version": 2,
    "da": "627d230c64c11fcd",
    "sqm": "61f61e6957caba4a",
    "stars": "b6ff0e7444937835",
    "mqm": "8c60148a360df81e",
    "pairwise": "ffc12f170c4d630a",
}


def test_wordings_are_frozen() -> None:
    """A change here changes scores: raise `Info.version` of both judges and say so."""
    versions = {JudgeWithReference.info.version, JudgeWithoutReference.info.version}
    digests = {name: sha256(text.encode()).hexdigest()[:16] for name, text in BUILT_IN.items()}
    assert (versions, digests) == (
        {WORDINGS["version"]},
        {name: digest for name, digest in WORDINGS.items() if name != "version"},
    )


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_field_stands_between_its_tags(name: str) -> None:
    prompt = read_prompt(name)
    values = dict.fromkeys(FIELDS, "the text")
    filled = prompt.filled(values)
    for field in prompt.fields - {"source_lang", "target_lang"}:
        assert len(re.findall(rf"<{field}-(\w{{16}})>\nthe text\n</{field}-\1>", filled)) == 1
    assert "{" not in filled or name == "mqm"
    assert prompt.is_pairwise == (name == "pairwise")


@pytest.mark.parametrize("name", BUILT_IN)
def test_paragraphs_of_what_is_not_there_are_left_out(name: str) -> None:
    prompt = read_prompt(name)
    texts = {"hypothesis": "one", "first": "one", "second": "two", "source": ""}
    filled = prompt.filled({**dict.fromkeys(FIELDS), **texts})
    assert re.search(r"<source-(\w{16})>\n\n</source-\1>", filled)
    for absent in ("<reference-", "<source_context-", "<target_context-", "written in"):
        assert absent not in filled
    assert "\n\n\n" not in filled


def test_a_file_says_what_answers_are_worth(tmp_path: Path) -> None:
    prompt = read_prompt(written(tmp_path, GOOD + "\n{{x}} {source}\n\nEnd"))
    assert prompt.worth.bounds == (1, 7)
    assert prompt.filled({"hypothesis": "h", "source": None}) == "Rate h\n\nEnd"
    assert prompt.filled({"hypothesis": "h", "source": "s"}) == "Rate h\n\n{x} s\n\nEnd"
    assert read_prompt(prompt.name).name == prompt.name
    Path(written(tmp_path, GOOD + " ")).touch()
    with pytest.raises(InputError, match="It is not the file that was used"):
        read_prompt(prompt.name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Rate {hypothesis}", "no line --- between header and template"),
        ("---\nRate {hypothesis}", "found None, expected a mapping"),
        ("answer: number\n---\n{hypothesis}", "answer: number: range missing"),
        ("answer: words\n---\n{hypothesis}", "answer = 'words': should be 'number', 'choice'"),
        ("answer: number\nrange: [7, 1]\n---\n{hypothesis}", r"range: found \[7.0, 1.0\]"),
        ("answer: number\nrange: [0, .inf]\n---\n{hypothesis}", "range.*finite"),
        ("answer: number\nrange: [0, 1]\nrun: x\n---\n{hypothesis}", "unknown setting 'run'"),
        ("answer: choice\n---\n{hypothesis}", "choices missing"),
        ("answer: choice\nchoices: {a: 1, A: 2}\n---\n{hypothesis}", "differ in case alone"),
        ("answer: choice\nchoices: {a: x}\n---\n{hypothesis}", "choices"),
        ("answer: choice\nchoices: {a: 1}\nrange: [0, 1]\n---\n{hypothesis}", "range: is not of"),
        ("answer: errors\nweights: {minor: 1}\n---\n{hypothesis}", "an error adds to the value"),
        ("answer: errors\n---\n{hypothesis}", "weights missing"),
        (GOOD + "\n{target}", "unknown field 'target'"),
        (GOOD + "\n{hypothesis!r}", "expected a plain name"),
        (GOOD + "\n{hypothesis.x}", "expected a plain name"),
        (GOOD + "\n{", "Write {{ and }} for braces"),
        ("answer: number\nrange: [0, 1]\n---\n{source}", "no field {hypothesis}"),
        (GOOD + "\n{first} {second}", "stand together, without {hypothesis}"),
        ("answer: number\nrange: [0, 1]\n---\n{first}", "stand together"),
        ("answer: number\nrange: [0, 2]\n---\n{first}{second}", "0 to 2, expected 0 to 1"),
        ("a: &x 1\nb: *x\n---\n{hypothesis}", "alias"),
        ("answer: number\nanswer: number\n---\n{hypothesis}", "a key stands twice"),
    ],
)
def test_what_is_no_prompt_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        read_prompt(path)
    assert str(caught.value).startswith(path)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown prompt 'dda'\. Did you mean 'da'"):
        read_prompt("dda")
    with pytest.raises(InputError, match="No such file"):
        read_prompt(str(tmp_path / "no.txt"))
    with pytest.raises(InputError, match="larger than 65536 bytes"):
        read_prompt(written(tmp_path, GOOD + "x" * (1 << 16)))
    (tmp_path / "bytes").write_bytes(b"answer: number\n---\n\xff")
    with pytest.raises(InputError, match="not UTF-8 at byte 19"):
        read_prompt(str(tmp_path / "bytes"))
    with pytest.raises(InputError, match="device or a pipe"):
        read_prompt("/dev/zero")
