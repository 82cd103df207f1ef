"""Few-shot examples of a prompt: what stands before the input, their digest, and files that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from discorank import InputError, use_limits
from discorank.metrics.text.prompt_template import (
    FewShotExamples,
    Template,
    read_examples,
    warn_of_two_blanks,
)

TEMPLATE = Template("English: {source}\nGerman:")
LINES = (
    '{"source": "Hello.", "target": " Hallo."}\n'
    "\n"
    '{"source": "It is {late}.", "target": " Es ist spät.", "domain": "news"}\n'
)


def written(folder: Path, lines: str) -> Path:
    path = folder / "examples.jsonl"
    path.write_text(lines, encoding="utf-8", newline="")
    return path


def test_worked(tmp_path: Path) -> None:
    examples = read_examples(written(tmp_path, LINES))
    assert examples.text(TEMPLATE) == (
        "English: Hello.\nGerman: Hallo.\n\nEnglish: It is {late}.\nGerman: Es ist spät.\n\n"
    )
    assert examples.text(TEMPLATE, separator="\n") == (
        "English: Hello.\nGerman: Hallo.\nEnglish: It is {late}.\nGerman: Es ist spät.\n"
    )


def test_a_blank_that_stands_twice_is_warned_about(tmp_path: Path) -> None:
    examples = read_examples(written(tmp_path, LINES))
    with pytest.warns(RuntimeWarning, match="example 1"):
        warn_of_two_blanks(examples, Template("{source} = "))
    warn_of_two_blanks(examples, TEMPLATE)
    warn_of_two_blanks(FewShotExamples(({"source": "a", "target": "b"},)), Template("{source} = "))
    warn_of_two_blanks(None, Template("{source} = "))


def test_context_and_other_fields(tmp_path: Path) -> None:
    line = '{"source": "B", "target": "b", "target_context": "a", "kind": "k"}\n'
    examples = read_examples(written(tmp_path, line))
    template = Template("{kind}|{source_context}|{target_context}|{source}=")
    assert examples.text(template) == "k||a|B=b\n\n"


def test_a_field_that_an_example_lacks(tmp_path: Path) -> None:
    examples = read_examples(written(tmp_path, LINES))
    with pytest.raises(InputError, match=r"example 1: .*\{domain\}"):
        examples.text(Template("{domain}: {source}"))


def test_the_digest_is_that_of_the_examples(tmp_path: Path) -> None:
    digest = read_examples(written(tmp_path, LINES)).digest
    assert digest == read_examples(written(tmp_path, LINES.replace("\n\n", "\n"))).digest
    assert FewShotExamples(()).digest != digest
    first, second = read_examples(written(tmp_path, LINES)).rows
    assert FewShotExamples((second, first)).digest != digest
    assert FewShotExamples(({**first, "target": " Hallo"}, second)).digest != digest
    # the border between a key and its text counts
    assert FewShotExamples(({"ab": "c"},)).digest != FewShotExamples(({"a": "bc"},)).digest


REFUSED = {
    "": "examples.jsonl",
    "\n\n": "examples.jsonl",
    '{"source": "a", "target": "b"}\n[1]\n': r":2: .*\[1\]",
    '{"source": "a"}\n': ":1: .*target",
    '{"target": "a"}\n': ":1: .*source",
    '{"source": "a", "target": null}\n': ":1: target",
    '{"source": "a", "target": ["b"]}\n': ":1: target",
    '{"source": "a", "target": "b", "n": 3}\n': ":1: n: .*3",
    '{"source": "a", "source": "b", "target": "c"}\n': ":1: .*'source'",
    '{"source": "a", "target": "b"\n': ":1: ",
    '{"source": "\\ud800", "target": "b"}\n': ":1: ",
    "[" * 100_000 + "\n": ":1: ",
}


@pytest.mark.parametrize("lines", REFUSED)
def test_refused(lines: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=REFUSED[lines]):
        read_examples(written(tmp_path, lines))


def test_bounds(tmp_path: Path) -> None:
    path = written(tmp_path, LINES)
    for bound in ("candidates", "file_bytes", "line_bytes"):
        with use_limits(**{bound: 1}), pytest.raises(InputError, match=f"--max {bound}="):
            read_examples(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_examples(tmp_path / "none.jsonl")
