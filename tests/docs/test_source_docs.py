"""What the documentation says of fairseq, servers and other lists is what happens."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main

from ..support.fairseq_hub import Hub
from ..support.judging import prompt_of
from ..support.serving import Reply, Seen, serving

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
TINY = str(GOLDEN / "docmetrics" / "models" / "tiny-xlmr")


def text_of(path: str) -> str:
    return (ROOT / "docs" / path).read_text(encoding="utf-8")


def blocks(path: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(path), re.MULTILINE | re.DOTALL)


def commands(path: str) -> list[list[str]]:
    """The lines of the documentation that call discorank, as words."""
    lines = [
        line for block in blocks(path, "sh") for line in block.replace("\\\n", " ").splitlines()
    ]
    return [words[1:] for words in map(shlex.split, lines) if words[0] == "discorank"]


def rows(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def with_tiny_model(words: list[str]) -> list[str]:
    """A command whose metric with a model runs with a tiny one."""
    return [
        word.replace("doc-bertscore", f'doc-bertscore(model="{TINY}",layer=2)') for word in words
    ]


def test_lists_of_other_tools_decode_as_described(clone: Path) -> None:
    found = [words for words in commands("n-best-lists.md") if "--output-format" not in words]
    assert len(found) == 13
    for words in found:
        assert main([*with_tiny_model(words), "--quiet"]) == 0
        if "-u" in words or "-m" in words:
            chosen = [row["id"] for row in rows(words[words.index("-o") + 1])]
            begin = "de-" if "batch" in words else ""
            numbers = [f"{begin}{n}" for n in range(4 if "lm-eval" in words else 12)]
            assert chosen == (["bakery", "library"] if "--columns" in words else numbers)
    assert len(rows("lists.jsonl")) == 12
    about = json.loads(Path("in-context.jsonl.run.json").read_text())
    assert about["settings"]["strategy"] == "sequential"


def test_the_hub_interface_works_as_described(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from discorank.integrations.fairseq import hub

    monkeypatch.setattr(hub, "load", lambda *given, **options: Hub())
    (code,) = blocks("n-best-lists.md", "python")
    exec(code, {})
    assert sorted(capsys.readouterr().out) == sorted("the dog finds your cat .\n")


def write_rows(name: str, values: list[dict[str, Any]]) -> None:
    """A file of JSON lines in the working directory."""
    Path(name).write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")


def test_nbest_lists_go_back_as_described(clone: Path) -> None:
    found = [words for words in commands("n-best-lists.md") if "--output-format" in words]
    assert len(found) == 6
    for words in found:
        assert main([*words, "--quiet"]) == 0
    lists = Path("with-mbr.moses").read_text()
    assert lists.count("discorank= ") == 72
    (shown,) = re.findall(r"^0 \|\|\| .*$", text_of("n-best-lists.md"), re.MULTILINE)
    begin, _, end = shown.partition("discorank= 69.30")
    assert any(
        line.startswith(f"{begin}discorank= 69.3") and line.endswith(end)
        for line in lists.splitlines()
    )
    assert Path("ranked.marian").read_text().count("rank= ") == 72
    assert Path("best-first.out").read_text().count("F-0\tdiscorank= ") > 1
    assert len(Path("best-first.txt").read_text().splitlines()) == 72
    assert Path("nbest.out").read_text().startswith("H-0\t")
    assert len(Path("nbest.moses").read_text().splitlines()) == 24


def translated(seen: Seen, number: int) -> Reply:
    """Translations, one of them odd, with log-probabilities where they are asked for."""
    texts = ["The dog sleeps.", "The dog is sleeping.", "Dog!", "The dog sleeps."] * 2
    logprobs = {"content": [{"logprob": -0.5}]} if "logprobs" in seen.body else None
    choices = [{"text": text, "message": {"content": text}, "logprobs": logprobs} for text in texts]
    return Reply({"choices": choices[: seen.body["n"]]})


def test_the_few_shot_example_is_that_of_the_bundled_file() -> None:
    (example,) = blocks("hugging-face.md", "json")
    assert (ROOT / "examples" / "few-shot-german.jsonl").read_text(encoding="utf-8") == example


def test_texts_of_a_server_are_chosen_from_as_described(clone: Path) -> None:
    (code,) = blocks("servers.md", "python")
    with serving(translated) as server:
        code = code.replace("http://localhost:8000/v1", server.url)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        assert done.stdout.splitlines() == ["The dog sleeps."] * 2
        assert [seen.path for seen in server.seen] == ["/v1/chat/completions"] * 2


def test_a_server_is_drawn_from_on_the_command_line_as_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    inputs = [{"id": str(i), "source": f"Satz {i}"} for i in range(12)]
    write_rows("inputs.jsonl", inputs)
    words = next(words for words in commands("servers.md") if words[0] == "generate")
    words = [word.removeprefix("examples:") for word in words]

    def dying(seen: Seen, number: int) -> Reply:
        if prompt_of(seen).endswith("Satz 7"):
            return Reply({"detail": "gone"}, 404)
        return translated(seen, number)

    def told(url: str) -> list[str]:
        return [url if word.startswith("http") else word for word in words]

    with serving(dying) as server:
        assert main([*told(server.url), "--quiet"]) != 0
    assert "gone" in capsys.readouterr().err
    before = Path("drawn.jsonl").read_bytes()
    assert [row["id"] for row in rows("drawn.jsonl")] == [str(i) for i in range(7)]
    with serving(translated) as server:
        assert main([*told(server.url), "--quiet"]) == 0
        prompts = [prompt_of(seen) for seen in server.seen]
        asked = sorted(prompt for prompt in prompts if "Satz" in prompt)
        assert asked == sorted(f"Translate into German: Satz {i}" for i in range(7, 12))
        assert {(seen.body["temperature"], seen.body["top_p"]) for seen in server.seen} == {
            (1.0, 1.0)
        }
        whole = ["whole.jsonl" if word == "drawn.jsonl" else word for word in told(server.url)]
        assert main([*whole, "--quiet"]) == 0
    assert Path("drawn.jsonl").read_bytes().startswith(before)
    assert Path("drawn.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()


def test_a_server_scores_on_the_command_line_as_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record = {"id": "a", "source": "Hund", "candidates": ["one", "the longest one"]}
    write_rows("demo.jsonl", [record])
    words = next(words for words in commands("servers.md") if "score-server-qe" in " ".join(words))

    def lengths(seen: Seen, number: int) -> Reply:
        scores = [len(text) for text in seen.body["text_2"]]
        return Reply({"data": [{"index": i, "score": score} for i, score in enumerate(scores)]})

    with serving(lengths) as server:
        told = [word.replace("http://localhost:8000/v1", server.url) for word in words]
        told = [word.removeprefix("examples:") for word in told]
        assert main([*told, "--quiet"]) == 0
    assert {seen.body["model"] for seen in server.seen} == {"bge-reranker-v2-m3"}
    assert [row["text"] for row in rows("reranked.jsonl")] == ["the longest one"]
