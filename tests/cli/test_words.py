"""What the command says where people stumble: one line, the nearest match, and a fix that works as it stands."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from discorank import load_metric
from discorank.cli.main import main
from discorank.metrics.registry import metric_class, names
from discorank.report.explanation import legend, scale

EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO, SYSTEMS = str(EXAMPLES / "demo.jsonl"), str(EXAMPLES / "systems.jsonl")


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """What a command line says on stderr."""
    assert main(list(arguments)) == code
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["decode", "--utilty", "chrf", DEMO],
            "discorank: unknown option --utilty; did you mean --utility? discorank decode --help-all lists all\n",
        ),
        (
            ["decode", DEMO, "--utilty=chrf"],
            "discorank: unknown option --utilty; did you mean --utility? discorank decode --help-all lists all\n",
        ),
        (
            ["decode", DEMO, "--qqqqqq"],
            "discorank: unknown option --qqqqqq; discorank decode --help-all lists all\n",
        ),
        (
            ["decode", DEMO, "-q"],
            "discorank: unknown option -q; did you mean --quiet? discorank decode --help-all lists all\n",
        ),
        (
            ["decode", DEMO, "more.jsonl"],
            "discorank: unexpected argument more.jsonl; discorank decode --help-all lists all\n",
        ),
        (
            ["decode", DEMO, "--nbest"],
            "discorank: argument --nbest: expected one argument; discorank decode --help-all lists all\n",
        ),
        (
            ["--verson"],
            "discorank: unknown option --verson; did you mean --version? discorank --help lists all\n",
        ),
        (["train", "--foo"], "discorank: unknown option --foo; discorank train --help lists all\n"),
    ],
)
def test_unknown_options_get_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert said(capsys, *arguments) == message


def command_in(message: str, start: str) -> list[str]:
    """The words of the command that a message gives, from `start` to what ends it."""
    match = re.search(re.escape(start) + r".*?(?=, or allow|$)", message, re.MULTILINE)
    assert match, message
    return shlex.split(match.group())


def demo_with(path: Path, key: str) -> str:
    """Candidate lists whose key is another, in a file of this name."""
    lines = Path(DEMO).read_text(encoding="utf-8").replace('"candidates"', json.dumps(key))
    path.write_text(lines, encoding="utf-8")
    return str(path)


def test_a_misspelt_key_is_renamed_by_the_command_that_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = demo_with(tmp_path / "my lists.jsonl", "candiates")
    message = said(capsys, "decode", path, "-u", "chrf", "-o", str(tmp_path / "o"), code=3)
    assert "candidates: not there, found the key 'candiates'" in message
    program, script, file, *_ = command_in(message, "sed ")
    mended = subprocess.run(
        [program, script, file], capture_output=True, check=True, text=True, encoding="utf-8"
    )
    assert mended.stdout == Path(DEMO).read_text(encoding="utf-8")


def test_keys_that_are_far_off_are_not_guessed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = demo_with(tmp_path / "lists.jsonl", "outputs")
    message = said(capsys, "decode", path, "-u", "chrf", "-o", str(tmp_path / "o"), code=3)
    assert "no candidates, expected at least one" in message


def test_candidate_lists_given_to_compare(capsys: pytest.CaptureFixture[str]) -> None:
    message = said(capsys, "compare", DEMO, "-m", "chrf")
    assert "systems: not there, expected texts by system. These are candidate lists" in message
    assert main(command_in(message, "discorank decode")[1:]) == 0


def test_a_misspelt_key_of_systems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "systems.jsonl"
    text = Path(SYSTEMS).read_text(encoding="utf-8")
    path.write_text(text.replace('"systems"', '"sytems"'), encoding="utf-8")
    message = said(capsys, "compare", str(path), "-m", "chrf")
    assert "systems: not there, found the key 'sytems'. Rename it: sed " in message


def test_candidate_lists_read_as_systems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "o")
    message = said(capsys, "decode", DEMO, "--from", "systems", "-u", "chrf", "-o", out, code=3)
    assert "These are candidate lists; read them with --from jsonl" in message


def test_systems_given_to_decode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["decode", SYSTEMS, "-u", "chrf"]
    message = said(capsys, *arguments, "-o", str(tmp_path / "o"), code=3)
    advice = command_in(message, "--from")
    assert advice == ["--from", "systems"]
    assert main([*arguments, *advice, "-o", str(tmp_path / "o2")]) == 0


def test_missing_references(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a text\n", encoding="utf-8")
    arguments = ["score", "--hypotheses", str(texts), "-m", "chrf"]
    message = said(capsys, *arguments)
    assert message == (
        "discorank: --references: is missing, and chrf compares with references. "
        "Add a file with a reference per line: --references FILE\n"
    )
    assert main([*arguments, "--references", str(texts)]) == 0


def test_plain_text_given_to_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "my texts.txt"
    texts.write_text("a text\n", encoding="utf-8")
    message = said(capsys, "score", str(texts), "-m", "chrf")
    assert "is no JSON object. Name files of one text per line by options" in message
    words = command_in(message, "discorank score")[1:]
    assert main([str(texts) if word == "REFERENCES" else word for word in words]) == 0


@pytest.mark.parametrize("bound", ["None", "all"])
def test_no_bound(capsys: pytest.CaptureFixture[str], bound: str) -> None:
    assert main(["decode", DEMO, "-u", "chrf", "--nbest", bound]) == 0
    first = json.loads(capsys.readouterr().out.partition("\n")[0])
    assert len(first["ranking"]) == 7  # distinct texts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nbest", "many"], "--nbest: found 'many': should be a valid integer"),
        (
            ["--weights", "logprob", "--temperature", "x"],
            "--temperature: found 'x': should be a valid number",
        ),
        (["--num-candidates", "x"], "--num-candidates: found 'x': should be a valid integer"),
        (["--set", "ray.actors=x"], "ray.actors: found 'x'"),
    ],
)
def test_options_are_named_as_they_are_typed(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    err = said(capsys, "decode", DEMO, "-u", "chrf", *arguments)
    assert err.startswith(f"discorank: {message}")
    assert not re.search(r"[a-z][A-Z]", err), err  # no class of ours


def test_explain_has_a_legend(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", DEMO, "-u", "chrf + 0.5*ter", "--limit", "2", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert out.count("what the numbers mean") == 1
    lines = out.partition("what the numbers mean")[2].splitlines()
    assert all(len(line) <= 100 for line in lines)
    shown = " ".join(" ".join(lines).split())
    assert "expected utility, higher is better" in shown
    assert "by their weights" in shown
    assert re.search(r"chrf character n-gram F-score .*: 0 to 100, higher is better", shown)
    assert re.search(r"ter edits .*: 0 and above, lower is better, so its utility is", shown)


def test_json_has_no_legend(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", DEMO, "-u", "chrf", "--format", "json", "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["ferry:0", "ferry:1", "ferry:2"]


def test_the_legend_of_parts_on_one_scale() -> None:
    parts = [metric for _, metric in load_metric("chrf + ter").parts]
    assert "brought to one scale within the list" in legend(parts, is_scaled=True)
    assert "sums of the values" in legend(parts)
    assert "sums of the values" not in legend(parts[:1])


def test_scales() -> None:
    inf = float("inf")
    shown = [scale(bounds) for bounds in ((-1, 1), (0, inf), (-inf, 0), (-inf, inf))]
    assert shown == ["-1 to 1", "0 and above", "0 and below", "any number"]


def test_metrics_that_give_reasons_say_what_they_are() -> None:
    silent = {name for name in names() if not metric_class(name).info.reasons}
    plain = {"chrf", "chrf++", "bleu", "ter", "wer", "cer", "nist", "meteor", "combination"}
    plain |= {"rouge", "rouge-1", "rouge-2", "rouge-l", "rouge-w"}
    regressions = (
        "comet",
        "metricx",
        "bleurt",
        "embedding",
        "sescore2",
        "score-server",
        "reward-server",
    )
    assert silent - plain == {
        name for name in names() if name.removeprefix("doc-").startswith(regressions)
    }


def test_the_legend_of_foci() -> None:
    shown = legend([metric for _, metric in load_metric("ds-focus").parts])
    words = " ".join(shown.split())
    assert "shared: foci of both texts with the distance of their vectors" in words
    assert "lower is better, so its utility is its negative" in words
    assert all(len(line) <= 100 for line in shown.splitlines())


def test_a_file_that_is_not_there_gets_its_nearest_namesake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = tmp_path / "lists.jsonl"
    lists.write_text(Path(DEMO).read_text(encoding="utf-8"), encoding="utf-8")
    message = said(capsys, "decode", str(tmp_path / "list.jsonl"), "-u", "chrf")
    assert message.endswith(f"No such file or directory. Did you mean {lists}?\n")
    message = said(capsys, "decode", str(tmp_path / "none" / "list.jsonl"), "-u", "chrf")
    assert message.endswith(f"There is no folder {tmp_path / 'none'}\n")


def test_a_feature_that_lists_lack_names_the_numbers_that_are_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["rerank", str(EXAMPLES / "nbest.moses"), "--from", "moses", "--quiet"]
    message = said(capsys, *command, "-m", "logprob", code=3)
    advice = (
        "or rank by a number that is there: -m field:LM0, -m field:WordPenalty0, -m field:score"
    )
    assert message.splitlines()[-1].endswith(advice)
    assert main([*command, "-m", "field:score"]) == 0


def test_the_fix_of_an_error_record_stands_last_and_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = demo_with(tmp_path / "lists.jsonl", "candiates")
    message = said(capsys, "decode", path, "-u", "chrf", "-o", str(tmp_path / "o"), code=3)
    last = message.splitlines()[-1]
    assert "(--max-errors N continues without N such)" in last
    assert last.endswith("> renamed.jsonl")


def test_texts_compared_without_references(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(EXAMPLES / name) for name in ("mbr.txt", "beam.txt", "ref.txt")]
    command = ["compare", "--hypotheses", *files[:2], "-m", "chrf", "--draws", "100"]
    message = said(capsys, *command)
    assert message.splitlines()[-1] == (
        "discorank: --references: is missing, and chrf compares with references. "
        "Add a file with a reference per line: --references FILE"
    )
    assert main([*command, "--references", files[2]]) == 0


def test_ids_that_no_list_has(capsys: pytest.CaptureFixture[str]) -> None:
    message = said(capsys, "explain", DEMO, "-u", "chrf", "--id", "fery:1")
    assert "no list fery:1. Did you mean 'ferry:1'" in message


def test_whole_documents_are_not_explained(capsys: pytest.CaptureFixture[str]) -> None:
    message = said(capsys, "explain", DEMO, "-u", "chrf", "--choice", "document")
    assert "--choice: does not go with discorank explain" in message


def test_a_report_of_what_no_command_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    Path("my lists.jsonl").write_text(Path(DEMO).read_text(encoding="utf-8"), encoding="utf-8")
    message = said(capsys, "report", "my lists.jsonl")
    assert "is no output of decode or rerank" in message
    decode, report = message[message.index("discorank decode") :].split(" && ")
    for command in (decode, report):
        assert main([*shlex.split(command)[1:], "--quiet"]) == 0
    assert Path("report.html").exists()
    assert "Did you mean my lists.jsonl?" in said(capsys, "report", "my list.jsonl")


def test_counts_of_lines_name_both_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("a\n")
    two.write_text("a\nb\n")
    message = said(
        capsys, "score", "-m", "chrf", "--hypotheses", str(one), "--references", str(two)
    )
    assert f"{one}: 1 lines, {two} has 2. Give files with a segment per line" in message


def test_sums_are_written_as_people_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", DEMO, "-u", "chrf + -0.5*bleu", "--id", "ferry:0"]) == 0
    out = capsys.readouterr().out
    assert "expected chrf - 0.5*bleu" in out
    assert "+ -" not in out


def test_files_of_texts_without_a_metric_are_told_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(tmp_path / name) for name in ("a.txt", "b.txt", "ref.txt")]
    for path in paths:
        Path(path).write_text("a text\n", encoding="utf-8")
    message = said(capsys, "compare", *paths)
    assert "found text with a segment per line, expected a systems file" in message
    words = command_in(message, "discorank compare")[1:]
    assert words == ["compare", "--hypotheses", *paths[:2], "--references", paths[2], "-m", "chrf"]
    assert main(words) == 0


@pytest.mark.parametrize("utility", ["chrf+", "bleu + 2*chrf+ + ter", "chrf+ + bleu"])
def test_a_plus_too_few(capsys: pytest.CaptureFixture[str], utility: str) -> None:
    assert "Did you mean chrf++? Examples" in said(capsys, "decode", DEMO, "-u", utility)


@pytest.mark.parametrize("utility", ["bleu+", "chrf +", "chrf + + bleu"])
def test_a_plus_that_ends_no_name(capsys: pytest.CaptureFixture[str], utility: str) -> None:
    message = said(capsys, "decode", DEMO, "-u", utility)
    assert "expected the name of a metric" in message
    assert "Did you mean" not in message


def test_costs_have_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    lacking = ["-u", "chrf", "--budget", "0.5", "--quiet"]
    assert main(["check", DEMO, *lacking]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    rows = dict(lines)
    assert rows["utility"] == "chrf"
    assert (rows["texts_to_represent"], rows["pairs_to_compare"]) == ("22", "162")
    assert rows["auto_processes"] == "yes"
    assert rows["problem"].startswith("no budget: pairs of chrf are algebra")
    assert len(rows) == len(lines)


def test_an_empty_file_has_no_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.jsonl").touch()
    assert main(["check", str(tmp_path / "empty.jsonl"), "--quiet"]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (rows["lists"], rows["candidates"], float(rows["duplicate_share"])) == ("0", "0", 0)
