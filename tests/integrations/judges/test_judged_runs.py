"""Commands that choose and score by a judge: what they write, what they say they spent, and going on after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank.cli.main import main

from ...support.judging import asked, compared, judged, prompt_of, replied, spec, texts_of, verdict
from ...support.lists import write_lists
from ...support.serving import Reply, Seen, Server, serving
from ...support.waiting import PATIENCE_SECONDS, wait_until

KEY = "sk-very-secret-0123456789"
SAID = pytest.mark.filterwarnings("ignore:judge m. an answer without a value:RuntimeWarning")


def lists(n: int, width: int = 3) -> Iterator[dict[str, Any]]:
    """Candidate lists; the last two candidates of each are equal."""
    for i in range(n):
        candidates = [f"candidate {i} {j}" for j in range(width)]
        yield {"id": str(i), "source": f"source {i}", "candidates": [*candidates, candidates[-1]]}


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def best(record: dict[str, Any]) -> str:
    """The candidate that the judge likes best."""
    source, candidates = record["source"], record["candidates"]
    return str(max(candidates, key=lambda text: verdict(source, "", text)))


def test_decode_and_rerank_choose_by_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_lists(tmp_path / "in.jsonl", lists(4)), tmp_path / "out"
    with serving(judged) as server:
        for command, option in (("decode", "-u"), ("rerank", "-m")):
            own = Path(f"{out}.{command}")
            assert main([command, str(source), option, spec(server), "-o", str(own)]) == 0
            assert [row["text"] for row in rows(own)] == [best(record) for record in lists(4)]
            said = capsys.readouterr().err
            assert "judges: 12 calls, 1,200 tokens of prompts, 24 of answers" in said
            about = Path(f"{own}.run.json").read_text()
            timings = json.loads(about)["timings"]
            assert (timings["calls"], timings["prompt_tokens"]) == (12, 1200)
            assert (timings["answer_tokens"], "kept_answers" in timings) == (24, False)
            assert server.url not in about
        assert len(server.seen) == 24
        # answers stand beside the rows
        Path(f"{out}.decode").unlink()
        Path(f"{out}.decode.run.json").unlink()
        again = ["decode", str(source), "-u", spec(server), "-o", f"{out}.decode"]
        assert main(again) == 0
        said = capsys.readouterr().err
        assert "judges: 0 calls, 0 tokens of prompts, 0 of answers; 12 answers were kept" in said
    assert len(server.seen) == 24


def test_shares_of_wins_decide_by_pairs(tmp_path: Path) -> None:
    """As a utility, and as the feature that rerank expects; both orders of each pair of distinct texts."""
    source, out = write_lists(tmp_path / "in.jsonl", lists(3)), tmp_path / "out"
    texts = [list(dict.fromkeys(record["candidates"])) for record in lists(3)]

    def share(text: str, others: list[str]) -> float:
        def wins(one: str, two: str) -> float:
            return float(verdict(one) + 20 > verdict(two))

        return sum(
            (wins(text, other) + 1 - wins(other, text)) / 2 if other != text else 0.5
            for other in others
        )

    with serving(compared) as server:
        utility = spec(server, "judge", prompt="pairwise")
        assert main(["decode", str(source), "-u", utility, "-o", str(out), "--quiet"]) == 0
        cache = ["--cache", f"{out}.answers"]
        ranking = ["rerank", str(source), "-m", "expected", "-u", utility, "-o", f"{out}.2"]
        assert main([*ranking, *cache, "--quiet"]) == 0
    for record, row, again in zip(lists(3), rows(out), rows(Path(f"{out}.2")), strict=True):
        # the last text counts twice among the references
        shares = [share(text, record["candidates"]) for text in texts[int(record["id"])]]
        assert row["text"] == again["text"] == texts[int(record["id"])][int(np.argmax(shares))]
    assert len(server.seen) == 3 * 6


def test_several_judges_are_a_sum(tmp_path: Path) -> None:
    source, out = write_lists(tmp_path / "in.jsonl", lists(2)), tmp_path / "out"
    with serving(judged) as server:
        mix = f"0.5*{spec(server)} + 0.5*{spec(server, prompt='sqm')}"
        assert main(["decode", str(source), "-u", mix, "-o", str(out), "--quiet"]) == 0
    assert [row["text"] for row in rows(out)] == [best(record) for record in lists(2)]
    values = [verdict(record["source"], "", best(record)) for record in lists(2)]
    assert [row["utility"] for row in rows(out)] == values
    assert len(server.seen) == 12


@SAID
def test_a_list_without_values_is_an_error_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As whatever is NaN: a list with some is flagged."""

    def answer(seen: Seen, number: int) -> Reply:
        _, _, text = texts_of(seen)
        refuses = text.startswith("candidate 1") or text == "candidate 2 0"
        return replied("I would rather not.") if refuses else judged(seen)

    source, out = write_lists(tmp_path / "in.jsonl", lists(4)), tmp_path / "out"
    with serving(answer) as server:
        command = ["rerank", str(source), "-m", spec(server, repeats=1), "-o", str(out)]
        assert main([*command, "--max-errors", "1"]) == 3
    assert [row["id"] for row in rows(out)] == ["0", "2", "3"]
    assert [row.get("flags", []) for row in rows(out)] == [[], ["not-finite"], []]
    (error,) = rows(Path(f"{out}.errors.jsonl"))
    assert "no pair has a finite value, found 3 nan" in error["reason"]
    said = capsys.readouterr().err
    assert "16 calls (4 asked again)" in said
    assert "0 answers were kept, 4 without a value" in said


def test_check_estimates_and_asks_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Equal questions count once; what is kept costs nothing."""
    records = [*lists(3), {**next(lists(1)), "id": "again"}]
    source, cache = write_lists(tmp_path / "in.jsonl", records), str(tmp_path / "cache")

    def estimate(metric: str, *more: str) -> dict[str, Any]:
        assert main(["check", str(source), "-u", metric, "--format", "json", *more]) == 0
        utility: dict[str, Any] = json.loads(capsys.readouterr().out)["utility"]
        return utility

    with serving(judged) as server:
        before = estimate(spec(server))
        assert (before["calls"], before["kept_answers"]) == (9, 0)
        assert estimate(spec(server, judgements=3, temperature=1))["calls"] == 27
        assert estimate(spec(server, "judge"))["calls"] == 27
        assert estimate(spec(server, "judge", prompt="pairwise"))["calls"] == 18
        assert estimate(f"{spec(server)} + {spec(server, prompt='sqm')}")["calls"] == 18
        assert not (tmp_path / "cache").exists()
        assert not server.seen
        bounded = ["decode", str(source), "-u", spec(server), "-o", str(tmp_path / "out")]
        assert main([*bounded, "--cache", cache, "--max-calls", "4", "--quiet"]) == 5
        assert "max_calls=4 reached: 4 calls and 408 tokens" in capsys.readouterr().err
        after = estimate(spec(server), "--cache", cache)
        assert (after["calls"], after["kept_answers"]) == (9, 4)
        assert main([*bounded, "--cache", cache, "--quiet"]) == 0
    assert len(server.seen) == 9
    prompts = {prompt_of(seen) for seen in server.seen}
    assert before["prompt_tokens"] == sum(-(-len(prompt.encode()) // 4) for prompt in prompts)


def systems(n: int) -> Iterator[dict[str, Any]]:
    for i in range(n):
        yield {
            "id": f"d{i}",
            "source": [f"s{i}", f"t{i}"],
            "references": {"refA": [f"r{i}", f"q{i}"]},
            "systems": {name: [f"{name} {i}", f"{name} {i}."] for name in ("one", "two")},
        }


@SAID
def test_means_leave_out_what_has_no_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(seen: Seen, number: int) -> Reply:
        _, _, text = texts_of(seen)
        return replied("No.") if text in ("one 0", "two 1.", "two 2") else judged(seen)

    records = list(systems(8))
    for record in records:
        record["human"] = {"da": {name: [len(name), 2] for name in ("one", "two")}}
        record["human"]["da"]["one"][0] += int(record["id"][1:])
    source = write_lists(tmp_path / "systems.jsonl", records)
    scores = tmp_path / "scores.jsonl"
    cache = ["--cache", str(tmp_path / "cache")]
    values = {
        name: [
            verdict(f"{'st'[j]}{i}", "", f"{name} {i}" + "." * j)
            for i in range(8)
            for j in range(2)
            if f"{name} {i}" + "." * j not in ("one 0", "two 1.", "two 2")
        ]
        for name in ("one", "two")
    }
    lines = {
        name: [text for record in records for text in record["systems"][name]]
        for name in ("one", "two")
    }
    lines["s"] = [text for record in records for text in record["source"]]
    for name, texts in lines.items():
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    with serving(answer) as server:
        metrics = ["-m", spec(server, repeats=0), "chrf"]
        comparing = ["compare", str(source), *metrics, *cache, "--draws", "100", "--human", "da"]
        comparing += ["--segment-scores", str(scores), "--unit", "segment"]
        assert main([*comparing, "--format", "json"]) == 0
        shown = capsys.readouterr()
        assert "3 texts have no score, and are left out of means" in shown.err
        assert "judges: 32 calls, 3,200 tokens" in shown.err
        assert "0 answers were kept, 3 without a value" in shown.err
        printed = json.loads(shown.out)
        hypotheses = [str(tmp_path / name) for name in ("one", "two")]
        scoring = ["score", "--hypotheses", *hypotheses, "--sources", str(tmp_path / "s")]
        assert main([*scoring, "-m", spec(server, repeats=0), *cache, "--format", "json"]) == 0
        shown = capsys.readouterr()
        assert "3 segments have no score, and are left out of means" in shown.err
    for name, line in zip(("one", "two"), shown.out.splitlines(), strict=True):
        row = json.loads(line)
        assert row["mean"] == row["corpus"] == pytest.approx(np.mean(values[name]))
        assert str(np.mean(values[name]))[:8] in json.dumps(printed)
    by_text = {(row["system"], row["document"], row["segment"]): row for row in rows(scores)}
    (judge_name,) = by_text["one", "d0", 0]["scores"].keys() - {"chrf"}
    missing = {key for key, row in by_text.items() if row["scores"][judge_name] is None}
    assert missing == {("one", "d0", 0), ("two", "d1", 1), ("two", "d2", 0)}


def test_a_report_reads_the_answers_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run file has no address: for a report it stands in the environment; nothing is asked again."""
    source, out = write_lists(tmp_path / "in.jsonl", lists(2)), tmp_path / "out"
    report = ["report", str(out), "-o", str(tmp_path / "page.html"), "--quiet"]
    with serving(judged) as server:
        assert main(["decode", str(source), "-u", spec(server), "-o", str(out), "--quiet"]) == 0
        monkeypatch.delenv("DISCORANK_JUDGE_SERVER", raising=False)
        assert main(report) == 2
        monkeypatch.setenv("DISCORANK_JUDGE_SERVER", server.url)
        assert main(report) == 0
    assert len(server.seen) == 6


def test_a_key_goes_into_one_header_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)

    def answer(seen: Seen, number: int) -> Reply:
        if "candidate 1 0" in texts_of(seen):
            return Reply({"error": f"{seen.key} may not"}, 400)
        return judged(seen)

    source, out = write_lists(tmp_path / "in.jsonl", lists(3)), tmp_path / "out"
    with serving(answer) as server:
        metric = spec(server, key_variable="MY_KEY")
        command = ["decode", str(source), "-u", metric, "-o", str(out), "--max-errors", "1"]
        assert main([*command, "--debug"]) == 3
        assert {seen.key for seen in server.seen} == {f"Bearer {KEY}"}
    assert "[key] may not" in Path(f"{out}.errors.jsonl").read_text()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    shown = capfd.readouterr()
    assert KEY.encode() not in b"".join(path.read_bytes() for path in files)
    assert KEY not in shown.out + shown.err
    assert any(path.suffix == ".sqlite" for path in files)


def started(source: Path, out: Path, server: Server) -> subprocess.Popen[bytes]:
    words = ["decode", str(source), "-u", spec(server, connections=2), "-o", str(out), "--quiet"]
    return subprocess.Popen([sys.executable, "-m", "discorank", *words])


def test_a_killed_run_goes_on_and_pays_nothing_twice_but_what_was_under_way(tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", lists(12))

    killed = threading.Event()
    killed.set()

    def held_at_20(seen: Seen, number: int) -> Reply:
        reply = judged(seen)
        reply.hold = killed if number >= 20 else None
        return reply

    with serving(held_at_20) as server:
        whole, out = tmp_path / "whole", tmp_path / "out"
        assert main(["decode", str(source), "-u", spec(server), "-o", str(whole), "--quiet"]) == 0
        num_distinct = len(server.seen)
        server.seen.clear()
        killed.clear()
        process = started(source, out, server)
        wait_until(lambda: len(server.seen) > 20 or process.poll() is not None)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_SECONDS)
        killed.set()
        assert started(source, out, server).wait(PATIENCE_SECONDS) == 0
    assert out.read_bytes() == whole.read_bytes()
    assert len(asked(server)) == num_distinct == 36
    assert len(server.seen) <= num_distinct + 2
