"""What a stranger does first: six tasks with as few lines of code as they need, fifty mistakes, and what help shows."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import discorank
from discorank import Document, InputError
from discorank.cli.commands.train import KINDS
from discorank.cli.main import SUBCOMMANDS, main

from .stand_ins import stand_ins

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without a clone, with the data of a stranger."""
    monkeypatch.chdir(tmp_path)
    lists = [{"id": str(i), "candidates": ["a cat sat", "the cat sat"]} for i in range(2)]
    Path("lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lists))
    Path("array.json").write_text(json.dumps(lists))
    Path("outs.jsonl").write_text('{"id": "a", "outs": ["x", "y"]}\n')
    Path("typo.jsonl").write_text('{"id": "a", "canidates": ["x"]}\n')
    Path("twice.jsonl").write_text('{"id": "a", "candidates": ["x"]}\n' * 2)
    Path("words.txt").write_text("a cat sat\nthe cat sat\na dog\n")
    Path("two.txt").write_text("a cat sat\nthe cat sat\n")
    Path("scores.csv").write_text("a,b\n1,2\n")
    Path("semicolons.csv").write_text("source;first\na;b\n")
    Path("latin.txt").write_bytes(b"caf\xe9\n")
    Path("sheet.csv").write_text("source,first\na,b\n")


def ran(line: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    """What a command line prints and says."""
    capsys.readouterr()
    done = main(shlex.split(line)[1:])
    printed = capsys.readouterr()
    assert done == code, f"{line}\n{printed.err}"
    return printed.out + printed.err


# a task, its command lines, what they print, and how many lines of code of one's own it takes
TASKS: tuple[tuple[str, str, str], ...] = (
    (
        "n-best lists of fairseq and Moses",
        """discorank decode examples:generate.out --from fairseq -u chrf -o fairseq.jsonl
discorank decode examples:nbest.moses --from moses -u chrf --output-format moses -o with.moses
discorank compare --hypotheses examples:nbest.moses fairseq.jsonl --references examples:target.txt -m chrf""",
        "fairseq scores 87.98",
    ),
    (
        "several summaries of an article, and why one was chosen",
        """discorank decode examples:summaries.jsonl -u rouge-l -o summaries.jsonl
discorank explain examples:summaries.jsonl -u rouge-l --id library --nbest 1""",
        "ahead of the runner-up",
    ),
    (
        "ten systems",
        "discorank compare examples:systems.jsonl -m chrf bleu --human mqm:lower",
        "brook comes first by people's mqm",
    ),
    (
        "a spreadsheet with a row per output",
        "discorank decode sheet-of-outputs.csv --columns source=Question text=Answer -u chrf --format text",
        "Four.",
    ),
    (
        "two ways of choosing, side by side",
        """discorank decode examples:demo.jsonl -u chrf -o a.jsonl
discorank rerank examples:demo.jsonl -m '0.5*logprob/length + length' --normalize rank -o b.jsonl
discorank diff a.jsonl b.jsonl""",
        "choices differ",
    ),
)


@pytest.mark.parametrize(("task", "lines", "shown"), TASKS, ids=[task for task, *_ in TASKS])
def test_tasks_without_a_line_of_code(
    task: str, lines: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("sheet-of-outputs.csv", "w", newline="") as file:
        rows = [("Question", "Answer"), ("2 + 2?", "Four."), ("2 + 2?", "Four"), ("2 + 2?", "5")]
        csv.writer(file).writerows(rows)
    printed = "".join(ran(line, capsys) for line in lines.splitlines())
    assert shown in printed


def test_the_task_with_five_lines_of_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Hugging Face model: the block of docs/quick-start.md."""
    pytest.importorskip("torch")
    text = (ROOT / "docs" / "quick-start.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    assert len([line for line in block[1].splitlines() if line]) == 5
    code = block[1]
    for name, other in stand_ins(tmp_path).items():
        code = code.replace(name, other)
    exec(code, {})
    assert len(capsys.readouterr().out.splitlines()) == 2


# a mistake on the command line, and what it is answered
MISTAKES: tuple[tuple[str, str], ...] = (
    ("discorank vote", "discorank decode INPUT -u vote"),
    ("discorank decode semicolons.csv -u chrf", "expected columns between commas"),
    ("discorank decode lists.jsonl -u 'chrf - ter'", "Write 'chrf + ter'"),
    ("discorank decod x", "unknown subcommand 'decod'. Did you mean 'decode'"),
    ("discorank decode -u chrf", "INPUT: is missing"),
    ("discorank decode lists.jsonl", "Give --utility on the command line, such as -u chrf"),
    ("discorank decode list.jsonl -u chrf", "Did you mean lists.jsonl"),
    ("discorank decode examples:dem.jsonl -u chrf", "Did you mean 'demo.jsonl'"),
    ("discorank decode examples/demo.jsonl -u chrf", "The bundled one is examples:demo.jsonl"),
    ("discorank decode lists.jsonl -u chfr", "Did you mean 'chrf'"),
    ("discorank decode lists.jsonl -u chrf+", "Did you mean chrf++"),
    ("discorank decode lists.jsonl -u rogue", "Did you mean 'rouge'"),
    ("discorank decode lists.jsonl -u perplexity", "is lm, or in its document doc-lm"),
    ("discorank decode lists.jsonl -u moverscore", "Near it are bertscore and embedding"),
    ("discorank decode lists.jsonl -u rougeLsum", "reads a text as one sequence"),
    ("discorank decode lists.jsonl -u logprob", "discorank rerank -m logprob"),
    ("discorank decode lists.jsonl -u mqm", "--human mqm:lower"),
    ("discorank decode lists.jsonl -u wmt22-comet-da", 'comet(model="Unbabel/wmt22-comet-da")'),
    ("discorank decode lists.jsonl -u 'chrf(bta=1)'", "Did you mean 'beta'"),
    ("discorank decode lists.jsonl -u 'bleu(tokenize=zh)'", 'expected text in quotes: "zh"'),
    ("discorank decode lists.jsonl -u '2*chrf*2'", "the weight is given twice"),
    ("discorank decode lists.jsonl -u 'chrf bleu'", "expected + or the end"),
    ("discorank decode lists.jsonl -u chrf -m bleu --nbset 3", "did you mean --nbest"),
    ("discorank decode lists.jsonl -u chrf --nbest 0", "--nbest: found 0"),
    ("discorank decode lists.jsonl -u chrf --top-k 4", "has no effect without --shortlist"),
    ("discorank decode lists.jsonl -u chrf --temperature 2", "no effect without --weights"),
    ("discorank decode lists.jsonl -u chrf --cache-bytes 9", "has no effect without --cache"),
    ("discorank decode lists.jsonl -u chrf --model x", "--model: no metric takes it"),
    ("discorank decode lists.jsonl -u chrf --config mbr-chfr", "Did you mean 'mbr-chrf'"),
    ("discorank decode lists.jsonl -u chrf -o lists.jsonl", "is an input and an output"),
    ("discorank decode lists.jsonl -u chrf -o out/", "names a folder"),
    ("discorank decode lists.jsonl -u chrf -o out.gz", "files are written plain"),
    ("discorank decode array.json -u chrf", "jq -c '.[]'"),
    ("discorank decode words.txt -u chrf", "Use --from flat"),
    (
        "discorank decode words.txt --from flat -n 2 -u chrf",
        "1 left over. Are the files the right ones",
    ),
    ("discorank decode outs.jsonl -u chrf", "--columns candidates=outs"),
    ("discorank decode typo.jsonl -u chrf", "found the key 'canidates'"),
    ("discorank decode twice.jsonl -u chrf", "was there before"),
    ("discorank decode sheet.csv -u chrf", "or text=COLUMN where a row is a candidate"),
    ("discorank decode sheet.csv --columns text=frst -u chrf", "Did you mean 'first'"),
    ("discorank decode latin.txt --from flat -n 1 -u chrf", "expected UTF-8 text"),
    ("discorank decode examples:nbest.moses -u chrf", "Use --from moses"),
    ("discorank decode examples:systems.jsonl -u chrf", "use --from systems"),
    ("discorank rerank lists.jsonl -m logprb", "Did you mean 'logprob'"),
    ("discorank rerank lists.jsonl -m logprob", "Add them with discorank logprobs"),
    ("discorank rerank lists.jsonl -m 'logprob + chrf'", "beside -m expected"),
    ("discorank explain lists.jsonl -u chrf --id 7", "no list 7"),
    ("discorank score --hypotheses words.txt -m chrf", "--references FILE"),
    ("discorank score words.txt -m chrf", "discorank score --hypotheses words.txt"),
    ("discorank compare words.txt two.txt -m chrf", "--hypotheses words.txt two.txt"),
    (
        "discorank compare --hypotheses words.txt --references two.txt -m chrf",
        "words.txt: 3 lines, two.txt has 2 lines",
    ),
    (
        "discorank compare --hypotheses words.txt two.txt --human-scores scores.csv -m chrf",
        "Name files of people's scores with --human",
    ),
    (
        "discorank compare --hypotheses words.txt --references words.txt --human scores.csv -m chrf",
        "is a hypothesis and a reference",
    ),
    ("discorank compare lists.jsonl -m chrf", "These are candidate lists"),
    ("discorank compare examples:systems.jsonl -m chrf --human mqmm", "Did you mean 'mqm'"),
    ("discorank report lists.jsonl", "is no output of decode or rerank"),
    ("discorank convert lists.jsonl --align metric", "computes no metric"),
    ("discorank metrics chfr", "Did you mean 'chrf'"),
    ("discorank cite discoscor", "unknown metric 'discoscor'"),
    ("discorank docs quick-strat", "Did you mean 'quick-start'"),
    ("discorank diff lists.jsonl", "1 files, expected two"),
)


@pytest.mark.parametrize(("line", "answer"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_mistakes_are_answered(line: str, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = main(shlex.split(line)[1:])
    printed = capsys.readouterr()
    assert done in (2, 3), printed
    assert answer in printed.err, printed.err
    assert "Traceback" not in printed.err
    assert "internal error" not in printed.err


def test_without_a_subcommand_it_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert "usage: discorank" in printed.out
    assert "  decode " in printed.out
    assert printed.err == ""


# in Python: a call, and its error; or what it gives, where what was a mistake is taken
PYTHON_MISTAKES: tuple[tuple[Any, str], ...] = (
    (lambda: discorank.decode("a text", "chrf"), "a text: cannot be opened"),
    (lambda: discorank.decode(["a"], "chfr"), "Did you mean 'chrf'"),
    (lambda: discorank.MBRDecoder("chrf", nbst=2), "Did you mean 'nbest'"),
    (lambda: discorank.Reranker("chrf"), "Choose with it as a utility: -u chrf"),
    (lambda: discorank.compare({"a": "x"}, ["x"]), "Give a list with a value per segment"),
    (lambda: discorank.score(["a"], ["b", "c"]), "found 2 .*, expected 1|references"),
    (lambda: Document("a text"), "sentences"),
)


@pytest.mark.parametrize(("call", "message"), PYTHON_MISTAKES)
def test_mistakes_in_python(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_the_demo_is_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    printed = ran("discorank demo", capsys)
    lines = printed.splitlines()
    assert len(lines) <= 32
    assert max(map(len, lines)) <= 110
    assert "Ship chosen: by chrf it is better than every other system." in printed
    commands = [line for line in lines if line.startswith("  discorank ")]
    assert len(commands) == 3
    assert all(shlex.split(line)[1] in SUBCOMMANDS for line in commands)


def test_pages_are_printed_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8")
    assert ran("discorank docs runs", capsys) == page
    assert ran("discorank docs docs/runs.md", capsys) == page
    listed = ran("discorank docs", capsys)
    assert re.search(r"^  quick-start +Quick start$", listed, re.MULTILINE)


def test_help_names_no_file_that_is_not_installed(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [[name] for name in SUBCOMMANDS if name != "train"]
    for command in [*commands, *(["train", kind] for kind in KINDS)]:
        assert main([*command, "--help-all"]) == 0
        text = capsys.readouterr().out
        assert "docs/" not in text, command
        assert not re.search(r"(?<!:)\bexamples/", text), command


NEEDS = (
    "smollm2",
    "Helsinki-NLP",
    "--backend server",
    "discorank serve",
    "train rst",
    "train roles",
)
# what stands in the folder when they run, each made by an earlier example
ORDER = ("decode", "rerank", "compare", "train", "convert", "sample", "export", "report", "diff")


def test_the_examples_of_help_run(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [[name] for name in SUBCOMMANDS if name != "train"]
    commands += [["train", kind] for kind in KINDS]
    commands.sort(key=lambda words: ORDER.index(words[0]) if words[0] in ORDER else len(ORDER))
    for name, metric in (("first", "chrf"), ("second", "ter"), ("chosen", "bleu")):
        ran(f"discorank decode examples:demo.jsonl -u {metric} -o {name}.jsonl --quiet", capsys)
    for path in Path(".").glob("chosen.jsonl*"):
        path.unlink()
    done = 0
    for command in commands:
        assert main([*command, "--help"]) == 0
        shown = capsys.readouterr().out.partition("examples:\n")[2].partition("\nmore options")[0]
        for line in shown.splitlines():
            is_left_out = any(word in line for word in (*NEEDS, "doc-lm", "sescore2", "-u dr"))
            if "discorank " not in line or is_left_out or line.startswith("  discorank demo"):
                continue
            Path("lists.jsonl").unlink(missing_ok=True)
            for path in Path(".").glob("to-judge.jsonl*"):
                path.unlink()
            ran(f"{line} --quiet" if " docs" not in line else line, capsys)
            done += 1
    assert done >= 40
