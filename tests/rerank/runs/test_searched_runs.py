"""Runs whose documents are searched: what a command writes, what it refuses, and how it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main

from ...support.lists import made_lists, write_lists

ECHO = "tests.support.contextual:Echo"
Captured = pytest.CaptureFixture[str]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def decode(source: Path, out: Path, *more: str) -> int:
    words = ["decode", str(source), "-u", ECHO, "--strategy", "joint", "-o", str(out), *more]
    return main([*words, "--quiet"])


def test_rows_say_what_a_search_chose(tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(30, 5))
    whole, plain = tmp_path / "whole", tmp_path / "plain"
    assert decode(source, whole, "--nbest", "3") == 0
    assert main(["decode", str(source), "-u", ECHO, "-o", str(plain), "--quiet"]) == 0
    sums: dict[str, float] = {}
    ahead = 0
    for row in rows(whole):
        document = row["id"].split(":")[0]
        sums[document] = sums.get(document, 0.0) + row["utility"]
        assert row["total"] == pytest.approx(sums[document], rel=1e-12)
        assert row["ranking"][0]["utility"] == row["utility"]
        if "looked-ahead" in row.get("flags", ()):
            ahead += 1
            assert row["gap"] <= 0
            assert row["ranking"][1]["utility"] >= row["utility"]
    assert ahead
    of_plain: dict[str, float] = {}
    for row in rows(plain):
        document = row["id"].split(":")[0]
        of_plain[document] = of_plain.get(document, 0.0) + row["utility"]
    assert all(sums[name] >= of_plain[name] - 1e-9 for name in sums)
    assert sum(sums.values()) > sum(of_plain.values())
    settings = json.loads(Path(f"{whole}.run.json").read_text())
    assert settings["settings"]["strategy"] == "joint"
    assert settings["counts"]["looked-ahead"] == ahead


def test_a_beam_of_one_writes_the_bytes_of_sequential(tmp_path: Path) -> None:
    lists = list(made_lists(30, 5))
    lists[4]["candidates"] = ["poison"]
    lists[9]["candidates"] = []
    lists[12]["context_only"] = True
    source = write_lists(tmp_path / "in.jsonl", lists)
    for name, more in (("a", ["sequential"]), ("b", ["beam", "--beam", "1"])):
        words = ["decode", str(source), "-u", ECHO, "-o", str(tmp_path / name), "--quiet"]
        assert main([*words, "--nbest", "2", "--max-errors", "9", "--strategy", *more]) == 3
    for suffix in ("", ".errors.jsonl"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_a_document_that_an_error_stops_is_not_written_in_part(tmp_path: Path) -> None:
    """The line is mended, and the same command goes on as if it had been right from the beginning."""
    lists = list(made_lists(28, 5))
    source = write_lists(tmp_path / "in.jsonl", lists)
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert decode(source, whole) == 0
    for line in (3, 10, 13, 14, 27):
        for path in tmp_path.glob("out*"):
            path.unlink()
        broken = [*lists[:line], {**lists[line], "candidates": []}, *lists[line + 1 :]]
        write_lists(source, broken)
        assert decode(source, out) == 3
        before = line - 1  # the line that cannot be read is of its document
        assert len(rows(out)) == before - before % 7
        write_lists(source, lists)
        assert decode(source, out) == 0
        assert out.read_bytes() == whole.read_bytes()
    write_lists(source, [*lists[:3], {**lists[3], "candidates": []}, *lists[4:]])
    out.unlink()
    Path(f"{out}.run.json").unlink()
    assert decode(source, out, "--max-errors", "1") == 3
    assert len(rows(out)) == 27


def test_a_document_that_grew_is_refused_where_its_choices_are_others(
    tmp_path: Path, capsys: Captured
) -> None:
    lists = list(made_lists(14, 5))
    source = write_lists(tmp_path / "in.jsonl", lists)
    whole = tmp_path / "whole"
    assert decode(source, whole) == 0
    refused = 0
    for stop in range(1, 14):
        out = tmp_path / f"out{stop}"
        write_lists(source, lists[:stop])
        assert decode(source, out) == 0
        write_lists(source, lists)
        code = decode(source, out)
        if code == 0:
            assert out.read_bytes() == whole.read_bytes()
        else:
            refused += 1
            assert code == 4
            assert "its document has other lines than when" in capsys.readouterr().err
    assert 0 < refused < 13


def test_an_n_best_list_leads_to_the_choice(tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(14, 5))
    plain, nbest = tmp_path / "plain", tmp_path / "nbest"
    assert decode(source, plain) == 0
    assert decode(source, nbest, "--output-format", "moses", "--lossy") == 0
    best: dict[str, tuple[float, str]] = {}
    for line in nbest.read_text().splitlines():
        name, text, _, value = line.split(" ||| ")
        if name not in best or float(value) > best[name][0]:
            best[name] = float(value), text
    assert [text for _, text in best.values()] == [row["text"] for row in rows(plain)]


def test_reasons_are_those_of_whole_documents(tmp_path: Path, capsys: Captured) -> None:
    """A limit within a document changes no choice."""
    source = write_lists(tmp_path / "in.jsonl", made_lists(21, 5))
    out, page = tmp_path / "out", tmp_path / "page.html"
    assert decode(source, out) == 0
    texts = [row["text"] for row in rows(out)]
    for limit, num_shown in ((1, 7), (7, 7), (9, 14)):
        words = ["explain", str(source), "-u", ECHO, "--strategy", "joint", "--format", "json"]
        assert main([*words, "--limit", str(limit), "--quiet"]) == 0
        shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [one["ranking"][0]["text"] for one in shown] == texts[:num_shown]
    behind = [one["gap"] for one in shown if (one["gap"] or 0) < 0]
    assert behind
    words = ["report", str(out), "--allow-code", "tests.support.contextual", "--quiet"]
    assert main([*words, "--limit", "9", "-o", str(page)]) == 0
    assert "No list is shown with reasons" not in page.read_text()


def test_strategies_are_told_and_refused(tmp_path: Path, capsys: Captured) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(14, 5))
    out = tmp_path / "out"
    words = ["decode", str(source), "-u", "chrf", "-o", str(out)]
    assert main([*words, "--strategy", "joint"]) == 0
    message = capsys.readouterr().err
    assert (
        "--strategy joint: no metric reads context, so every list is decided by itself" in message
    )
    assert "total" not in rows(out)[0]
    assert main([*words, "--quiet"]) == 0  # the same run
    assert decode(source, tmp_path / "d", "--max", "states=20") == 3
    message = capsys.readouterr().err
    assert "contexts in which its lists would be decided, at most 20" in message
    serve = ["serve", "--upstream", "http://localhost:9", "-u", ECHO, "--strategy", "beam"]
    assert main(serve) == 2
    assert "a document is answered request by request" in capsys.readouterr().err


def test_check_tells_the_contexts_of_a_search(tmp_path: Path, capsys: Captured) -> None:
    texts = [["a", "b", "a"], ["c", "d", "e"], ["f", "g"], ["h", "i"]]
    lists = [
        {"id": str(i), "document": "d", "position": i, "candidates": own}
        for i, own in enumerate(texts)
    ]
    lists.append({"id": "9", "document": "e", "candidates": ["a", "b"]})
    source = write_lists(tmp_path / "in.jsonl", lists)
    model = Path(__file__).parents[2] / "golden" / "docmetrics" / "models" / "tiny-bert"
    utility = f'bertscore(model="{model}",layer=2,context=2)'

    def report(*more: str) -> dict[str, Any]:
        words = ["check", str(source), "-u", utility, "--format", "json", "--quiet", *more]
        assert main(words) == 0
        reported: dict[str, Any] = json.loads(capsys.readouterr().out)["utility"]
        return reported

    plain, joint, beam = report(), report("--strategy", "joint"), report("--strategy", "beam")
    assert "search" not in plain
    # 1 + 2 + 2 * 3 + 3 * 2 of the first document, 1 of the second
    named = {"states_of_a_document": 15, "lists_of_a_document": 4}
    assert joint["search"] == {"strategy": "joint", "states": 16, **named}
    assert beam["search"]["states"] == 1 + 2 + 4 + 4 + 1
    assert plain["forward_passes"] == 2 + 3 + 2 + 2 + 2
    assert joint["forward_passes"] == 2 + 2 * 3 + 6 * 2 + 6 * 2 + 2
    problems = report("--strategy", "joint", "--max", "states=10")["problems"]
    assert "--strategy joint decides lists of a document in 15 contexts, at most 10" in problems[0]
    problems = report("--strategy", "beam", "--max", "document_lists=3")["problems"]
    assert "--strategy beam holds a document of 4 lists, at most 3" in problems[0]
    assert main(["check", str(source), "--strategy", "joint"]) == 2
