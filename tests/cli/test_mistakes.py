"""Mistakes that people make: the exit code, the place, the name that helps, and advice that works when it is pasted."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import discorank
from discorank import Document, InputError
from discorank.cli.main import main

LISTS = [{"id": str(i), "candidates": ["a cat sat", "the cat sat"]} for i in range(2)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without a clone, with the data of a newcomer."""
    monkeypatch.chdir(tmp_path)
    Path("lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in LISTS))
    Path("array.json").write_text(json.dumps(LISTS))
    Path("outs.jsonl").write_text('{"id": "a", "outs": ["x", "y"]}\n')
    Path("typo.jsonl").write_text('{"id": "a", "canidates": ["x"]}\n')
    Path("twice.jsonl").write_text('{"id": "a", "candidates": ["x"]}\n' * 2)
    Path("broken.jsonl").write_text('{"id": "a", "candidates": ["x"]}\n{"id": 7}\n')
    Path("words.txt").write_text("a cat sat\nthe cat sat\na dog\n")
    Path("two.txt").write_text("a cat sat\nthe cat sat\n")
    Path("scores.csv").write_text("a,b\n1,2\n")
    Path("latin.txt").write_bytes(b"caf\xe9\n")
    Path("sheet.csv").write_text("source,first\na,b\n")


# a command line, its exit code, and words of its message
MISTAKES: tuple[tuple[str, int, str], ...] = (
    ("decod x", 2, "'decod' 'decode'"),
    ("--verson", 2, "--verson --version"),
    ("train rts", 2, "'rts' 'rst'"),
    ("decode -u chrf", 2, "INPUT:"),
    ("decode lists.jsonl", 2, "--utility"),
    ("decode lists.jsonl -u chrf --nbset 3", 2, "--nbset --nbest"),
    ("decode lists.jsonl -u chrf --nbset=3", 2, "--nbset --nbest"),
    ("decode lists.jsonl -u chrf -q", 2, "-q --quiet"),
    ("score --lists lists.jsonl --at 1 4", 2, "--lists --at pass-at vote("),
    ("decode lists.jsonl -u chrf --draws 3", 2, "--draws compare"),
    ("decode lists.jsonl more.jsonl -u chrf", 2, "more.jsonl"),
    ("decode lists.jsonl -u chrf --nbest", 2, "--nbest"),
    ("decode lists.jsonl -u chrf --nbest 0", 2, "--nbest: 0"),
    ("decode lists.jsonl -u chrf --nbest many", 2, "--nbest: 'many' integer"),
    (
        "decode lists.jsonl -u chrf --weights logprob --temperature x",
        2,
        "--temperature: 'x' number",
    ),
    ("decode lists.jsonl -u chrf --set nbset=3", 2, "--set: 'nbset' 'nbest'"),
    ("decode lists.jsonl -u chrf --set nbest", 2, "key=value"),
    ("decode lists.jsonl -u chrf --strategy best", 2, "strategy 'best'"),
    ("decode lists.jsonl -u chrf --engine spark", 2, "--engine: 'spark' local ray"),
    ("decode lists.jsonl -u chrf --from mosses", 2, "'mosses' 'moses'"),
    ("decode lists.jsonl -u chrf --top-k 4", 2, "--top-k: --shortlist"),
    ("decode lists.jsonl -u chrf --temperature 2", 2, "--temperature: --weights"),
    ("decode lists.jsonl -u chrf --cache-bytes 9", 2, "--cache-bytes: --cache"),
    ("decode lists.jsonl -u chrf --prior-strength 1", 2, "--prior-strength: --prior"),
    ("decode lists.jsonl -u chrf --model x", 2, "--model:"),
    ("decode lists.jsonl -u chrf --config mbr-chfr", 2, "'mbr-chfr' 'mbr-chrf'"),
    ("decode list.jsonl -u chrf", 2, "list.jsonl: lists.jsonl"),
    ("decode none/list.jsonl -u chrf", 2, "none/list.jsonl"),
    ("decode examples:dem.jsonl -u chrf", 2, "'demo.jsonl'"),
    ("decode examples/demo.jsonl -u chrf", 2, "examples:demo.jsonl"),
    ("decode lists.jsonl -u chrf -o lists.jsonl", 2, "lists.jsonl"),
    ("decode lists.jsonl -u chrf -o out/", 2, "out/"),
    ("decode lists.jsonl -u chrf -o out.gz", 2, ".gz"),
    ("convert lists.jsonl -o out.parquet.zst", 2, ".zst"),
    ("decode lists.jsonl -u chrf -o /nowhere/at/all", 2, "/nowhere/at/all"),
    ("decode lists.jsonl -u chrf -o /dev/null", 2, "/dev/null"),
    ("decode lists.jsonl -u chfr", 2, "'chfr' 'chrf'"),
    ("decode lists.jsonl -u chrf+", 2, "chrf++"),
    ("decode lists.jsonl -u 'bleu + 2*chrf+ + ter'", 2, "chrf++"),
    ("decode lists.jsonl -u rogue", 2, "'rogue' 'rouge'"),
    ("decode lists.jsonl -u perplexity", 2, "lm doc-lm"),
    ("decode lists.jsonl -u logprob", 2, "rerank -m logprob"),
    ("decode lists.jsonl -u wmt22-comet-da", 2, 'comet(model="Unbabel/wmt22-comet-da")'),
    ("decode lists.jsonl -u 'chrf(bta=1)'", 2, "'bta' 'beta'"),
    ("decode lists.jsonl -u 'chrf(beta=0)'", 2, "beta 0"),
    ("decode lists.jsonl -u 'bleu(tokenize=zh)'", 2, '"zh"'),
    ("decode lists.jsonl -u 'chrf bleu'", 2, "+"),
    ("decode lists.jsonl -u no.such:Metric", 2, "no.such"),
    ("decode array.json -u chrf", 2, "array.json:1: jq"),
    ("decode words.txt -u chrf", 2, "words.txt:1: --from flat"),
    ("decode words.txt --from flat -n 2 -u chrf", 2, "words.txt 1"),
    ("decode outs.jsonl -u chrf", 3, "outs.jsonl:1: candidates --columns candidates=outs"),
    ("decode typo.jsonl -u chrf", 3, "typo.jsonl:1: 'canidates'"),
    ("decode twice.jsonl -u chrf", 3, "twice.jsonl:2: id 'a'"),
    ("decode broken.jsonl -u chrf", 3, "broken.jsonl:2: candidates"),
    ("decode sheet.csv -u chrf", 2, "sheet.csv text=COLUMN"),
    ("decode sheet.csv --columns text=frst -u chrf", 2, "'frst' 'first'"),
    ("decode latin.txt --from flat -n 1 -u chrf", 2, "latin.txt:1: UTF-8"),
    ("decode examples:nbest.moses -u chrf", 2, "--from moses"),
    ("decode examples:systems.jsonl -u chrf", 3, "--from systems"),
    ("decode examples:demo.jsonl --from systems -u chrf", 3, "--from jsonl"),
    ("rerank lists.jsonl", 2, "--metric"),
    ("rerank lists.jsonl -m logprb", 2, "'logprb' 'logprob'"),
    ("rerank lists.jsonl -m 'logprob + chrf'", 2, "chrf -u"),
    ("rerank lists.jsonl -m logprob", 3, "lists.jsonl:1: candidates[0] logprob"),
    ("rerank examples:nbest.moses --from moses -m logprob", 3, "-m field:score"),
    ("explain lists.jsonl -u chrf --id 7", 2, "7"),
    ("explain examples:demo.jsonl -u chrf --id fery:1", 2, "'ferry:1'"),
    ("explain lists.jsonl -u chrf --choice document", 2, "--choice:"),
    ("check lists.jsonl --format xml", 2, "format 'xml'"),
    ("score --hypotheses words.txt -m chrf", 2, "--references FILE"),
    ("score --hypotheses words.txt --references two.txt -m chrf", 2, "words.txt 3 two.txt: 2"),
    ("compare words.txt two.txt -m chrf", 2, "--hypotheses --references"),
    ("compare --hypotheses words.txt -m chrf", 2, "--references FILE"),
    ("compare examples:systems.jsonl -m chrf --human mqmm", 2, "'mqmm' 'mqm'"),
    ("convert lists.jsonl --max-errors abc", 2, "--max-errors: 'abc'"),
    ("metrics chfr", 2, "'chfr' 'chrf'"),
    ("cite discoscor", 2, "'discoscor'"),
    ("docs quick-strat", 2, "'quick-start'"),
    ("diff lists.jsonl", 2, "1 diff"),
)


@pytest.mark.parametrize(("line", "code", "facts"), MISTAKES, ids=[line for line, *_ in MISTAKES])
def test_a_mistake_has_its_place_and_its_fix(
    line: str, code: int, facts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(line)) == code, capsys.readouterr().err
    err = capsys.readouterr().err
    found, *message = err.rpartition("discorank: ")[1:]
    assert found
    assert [fact for fact in facts.split() if fact not in message[0]] == [], message
    assert "Traceback" not in err


def test_no_subcommand_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert all(name in printed.out for name in ("decode", "rerank", "compare"))


def advice(arguments: list[str], begin: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The words of the command that the message about a mistake ends with."""
    assert main(arguments) in (2, 3)
    *_, message = capsys.readouterr().err.splitlines()
    match = re.search(re.escape(begin) + r".*?(?=, or allow|$)", message)
    assert match, message
    return shlex.split(match.group())


def test_the_command_of_a_message_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("my texts.txt", "words.txt", "ref.txt"):
        Path(name).write_text("a cat sat\nthe cat sat\na dog\nthe end\nan end\n")
    words = advice(["score", "my texts.txt", "-m", "chrf"], "discorank ", capsys)
    assert main(["words.txt" if word == "REFERENCES" else word for word in words[1:]]) == 0


# in Python: a call, and a fact of its error
PYTHON_MISTAKES: tuple[tuple[Any, str], ...] = (
    (lambda: discorank.decode("a text", "chrf"), "a text: "),
    (lambda: discorank.decode(5, "chrf"), "candidates: found 5"),
    (lambda: discorank.decode([], "chrf"), "no candidates"),
    (lambda: discorank.decode(["a"], "chfr"), "'chrf'"),
    (lambda: discorank.decode(["a"], "chrf", nbst=2), "'nbest'"),  # type: ignore[call-overload]
    (lambda: discorank.decode(["a"], "chrf", logprobs=[1, 2]), "logprobs"),
    (lambda: discorank.decode({"candidates": ["a"]}, "chrf", source="s"), "source: "),
    (lambda: discorank.Reranker("chrf"), "-u chrf"),
    (lambda: discorank.rerank(["a"], "expected"), "expected.*utility"),
    (lambda: discorank.compare({"a": "x"}, ["x"]), "list"),
    (lambda: discorank.score(["a"], ["b", "c"]), "found 2 .*, expected 1|references"),
    (lambda: Document("a text"), "sentences"),
)


@pytest.mark.parametrize(("call", "message"), PYTHON_MISTAKES)
def test_a_mistake_in_python(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
