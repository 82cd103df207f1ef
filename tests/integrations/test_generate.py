"""Runs of generators: inputs, templates, documents in turns, resume after any interruption, the command."""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.cli.commands import generate
from discorank.cli.main import main
from discorank.cli.options.backends import BackendOptions
from discorank.cli.terminal import console
from discorank.cli.terminal.console import Progress
from discorank.integrations import huggingface
from discorank.integrations.generation.document_turns import Turn, Turns
from discorank.integrations.generation.generation_run import run_generation
from discorank.integrations.generation.generator import Generated, Prompt
from discorank.integrations.generation.prompts import read_prompts
from discorank.metrics.errors import DiscorankError, InputError, ResourceError, ResumeError
from discorank.metrics.storage import line_source
from discorank.metrics.storage.line_source import LineSource
from discorank.metrics.text.prompt_template import Template
from discorank.metrics.text.texts import Context
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.lists import Candidate
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.runs.resumable import StoppedByErrorsError

from ..support.contextual import Echo
from ..support.examples import examples
from ..support.tiny_generators import TEXTS, model_of, tokenizer_of
from ..support.waiting import has_rows, wait_until

Captured = pytest.CaptureFixture[str]
IN_CONTEXT = "{source_context} | {target_context} | {source}"


class Scribe:
    """Makes candidates of a prompt's words, and remembers every prompt; fails at "poison", stops at the n-th call."""

    def __init__(self, stop_after: int | None = None, at_once: int = 1) -> None:
        self.prompts: list[Prompt] = []
        self.at_once = at_once
        self.stop_after = stop_after

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"generator": "scribe"}

    @property
    def prompts_at_once(self) -> int:
        return self.at_once

    def generate(self, prompts: Iterable[Prompt]) -> Iterator[Generated]:
        for prompt in prompts:
            if self.stop_after is not None and len(self.prompts) >= self.stop_after:
                raise KeyboardInterrupt
            self.prompts.append(prompt)
            draw = random.Random(prompt.text)
            if "poison" in prompt.text.split("|")[-1]:
                yield InputError("found poison", where="text", fix="Leave it out")
            else:
                words = prompt.text.replace("|", " ").split()
                yield prompt.with_candidates(
                    [Candidate(" ".join(draw.choices(words, k=3))) for _ in range(4)]
                )


def inputs(documents: int = 3, sentences: int = 5) -> list[dict[str, Any]]:
    draw = random.Random(0)
    words = ["the", "a", "dog", "cat", "house", "runs", "sees", "red", "old"]
    return [
        {
            "id": f"{d}:{i}",
            "document": f"d{d}",
            "position": i,
            "source": " ".join(draw.choices(words, k=4)),
            "n": i,
        }
        for d in range(documents)
        for i in range(sentences)
    ]


def written(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def in_turns(scribe: Scribe, utility: Any = None) -> Turns:
    decider = MBRDecoder(utility=utility or "chrf")
    return Turns(scribe, Template(IN_CONTEXT), Template("| | {source}"), 2, decider, LocalEngine())


def plain(scribe: Scribe) -> Turns:
    return Turns(scribe, Template("{source}"))


def run(turns: Turns, source: Path, out: Path, max_errors: int = 0) -> Mapping[str, int]:
    with contextlib.closing(LineSource(source)) as lines:
        return run_generation(turns, read_prompts(lines), str(source), out, max_errors)


def one_by_one(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What turns must come to: sentence after sentence, with nothing read ahead."""
    rows_written: list[dict[str, Any]] = []
    before: list[tuple[str, str]] = []
    for i, row in enumerate(given):
        if not i or given[i - 1]["document"] != row["document"]:
            before = []
        context = before[-2:]
        text = f"{' '.join(s for s, _ in context)} | {' '.join(t for _, t in context)} | {row['source']}"
        (made,) = Scribe().generate(
            [Prompt(row["id"], text if context else f"| | {row['source']}")]
        )
        assert not isinstance(made, DiscorankError)
        (ranking,) = MBRDecoder(utility="chrf").decode([made])
        rows_written.append(
            {**row, "candidates": [str(c.text) for c in made.candidates], "chosen": ranking.index}
        )
        before.append((row["source"], str(ranking.text)))
    return rows_written


def test_documents_take_turns(tmp_path: Path) -> None:
    source, scribe = written(tmp_path / "in.jsonl", inputs()), Scribe()
    counts = run(in_turns(scribe), source, tmp_path / "out.jsonl")
    assert counts["rows"] == 15
    assert rows(tmp_path / "out.jsonl") == one_by_one(inputs())
    # of a block of 8, one at a time: the first document is done before the second begins
    assert [prompt.id for prompt in scribe.prompts[:4]] == ["0:0", "0:1", "0:2", "0:3"]
    pairs = Scribe(at_once=2)
    run(in_turns(pairs), source, tmp_path / "pairs.jsonl")
    assert [prompt.id for prompt in pairs.prompts[:4]] == ["0:0", "1:0", "0:1", "1:1"]
    assert (tmp_path / "pairs.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()


def test_decoding_what_was_generated_in_turns_chooses_the_same(tmp_path: Path) -> None:
    source, out = written(tmp_path / "in.jsonl", inputs()), tmp_path / "out.jsonl"
    run(in_turns(Scribe(), Echo()), source, out)
    decoded = MBRDecoder(utility=Echo()).decode(rows(out))
    assert [ranking.index for ranking in decoded] == [row["chosen"] for row in rows(out)]


def test_sources_alone_are_read_ahead(tmp_path: Path) -> None:
    scribe = Scribe()
    turns = Turns(scribe, Template("{source_context} | {source}"), None, 1)
    prompts = [Prompt(str(i), f"s{i}", f"s{i}", "d", i) for i in range(4)]
    outcomes = [done.outcome for together in turns.outcomes(prompts) for done in together]
    assert [prompt.text for prompt in scribe.prompts] == [" | s0", "s0 | s1", "s1 | s2", "s2 | s3"]
    assert len(outcomes) == 4
    assert all(isinstance(one, Turn) for one in outcomes)


@pytest.mark.parametrize("make", [plain, in_turns])
@examples(3)
@given(
    st.lists(st.integers(0, 8), max_size=4),
    st.sets(st.integers(0, 15), max_size=4),
    st.integers(0, 15),
)
def test_a_run_stopped_anywhere_goes_on(
    make: Any,
    tmp_path_factory: pytest.TempPathFactory,
    stops: list[int],
    gone: set[int],
    poisoned: int,
) -> None:
    folder = tmp_path_factory.mktemp("run")
    given = [row for i, row in enumerate(inputs(documents=4, sentences=4)) if i not in gone]
    poison = given[poisoned % len(given)]
    poison["source"] = "poison"
    source = written(folder / "in.jsonl", given)
    run(make(Scribe()), source, folder / "whole.jsonl", max_errors=1)
    out = folder / "out.jsonl"
    asked: list[str] = []
    for stop in (*stops, None):
        scribe = Scribe(stop, at_once=3)
        with contextlib.suppress(KeyboardInterrupt):
            run(make(scribe), source, out, max_errors=1)
        asked += [prompt.id for prompt in scribe.prompts]
    # also what waited for its turn is not asked again; where nothing was made of a text, it is
    assert len(set(asked)) == len(given)
    assert [one for one in asked if asked.count(one) > 1 and one != poison["id"]] == []
    assert not Path(f"{out}.waiting.jsonl").exists()
    assert out.read_bytes() == (folder / "whole.jsonl").read_bytes()
    assert json.loads(Path(f"{out}.run.json").read_text())["complete"]


class Batchwise(Scribe):
    """Makes candidates that depend on all prompts handed over together, as rounding can."""

    makes_batches = True

    def __init__(self, at_once: int = 3) -> None:
        super().__init__(at_once=at_once)
        self.batches: list[tuple[str, ...]] = []

    def generate(self, prompts: Iterable[Prompt]) -> Iterator[Generated]:
        together = list(prompts)
        self.batches.append(tuple(prompt.id for prompt in together))
        draw = random.Random(" ".join(prompt.text for prompt in together))
        for prompt in together:
            words = prompt.text.replace("|", " ").split()
            yield prompt.with_candidates(
                [Candidate(" ".join(draw.choices(words, k=3))) for _ in range(4)]
            )


@pytest.mark.parametrize("make", [plain, in_turns])
def test_a_batch_that_was_half_written_is_made_again_as_it_was(make: Any, tmp_path: Path) -> None:
    source, whole = written(tmp_path / "in.jsonl", inputs(4, 5)), Batchwise()
    run(make(whole), source, tmp_path / "whole.jsonl")
    for stop in range(1, 20, 5):
        out = tmp_path / f"{stop}.jsonl"

        def interrupt(done: int, errors: int, stop: int = stop) -> None:
            if done == stop:
                raise KeyboardInterrupt

        first, second = Batchwise(), Batchwise()
        with contextlib.closing(LineSource(source)) as lines, pytest.raises(KeyboardInterrupt):
            run_generation(make(first), read_prompts(lines), str(source), out, 0, interrupt)
        assert len(rows(out)) == stop
        run(make(second), source, out)
        assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
        assert {*first.batches, *second.batches} == {*whole.batches}
        # at most the batch at work
        assert len(first.batches) + len(second.batches) - len(whole.batches) in (0, 1)


@pytest.mark.parametrize("damage", ["flip", "tail", "other input"])
def test_lists_that_waited_and_are_damaged_are_generated_again(tmp_path: Path, damage: str) -> None:
    given = inputs(4, 5)
    source, out = written(tmp_path / "in.jsonl", given), tmp_path / "out.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run(in_turns(Scribe(stop_after=8, at_once=2)), source, out)
    waiting = Path(f"{out}.waiting.jsonl")
    assert [row["row"]["id"] for row in rows(waiting)] == ["1:0", "1:1", "1:2", "1:3"]
    data, num_again = waiting.read_bytes(), 1
    if damage == "flip":
        waiting.write_bytes(data.replace(b"dog", b"hog", 1))
    elif damage == "tail":
        waiting.write_bytes(data[:-9])
    else:
        given[6]["source"] = "a red house"  # 7 and 8 then have another context
        written(source, given)
        num_again = 3
    scribe = Scribe(at_once=2)
    run(in_turns(scribe), source, out)
    run(in_turns(Scribe()), source, tmp_path / "whole.jsonl")
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert len(scribe.prompts) == 20 - 8 + num_again


def test_damaged_lists_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = written(tmp_path / "in.jsonl", inputs(2, 3)), tmp_path / "out.jsonl"
    run(plain(Scribe()), source, out)
    data = bytearray(out.read_bytes())
    data[len(data) // 2] ^= 1
    out.write_bytes(data)
    place = f"out.jsonl: damaged or edited: its first {len(data)} bytes"
    with pytest.raises(ResumeError, match=re.escape(place)):
        run(plain(Scribe()), source, out)
    assert main(["decode", str(out), "-u", "chrf", "-o", str(tmp_path / "chosen"), "--quiet"]) == 2
    assert place in capsys.readouterr().err


def test_every_block_is_saved_before_the_next(tmp_path: Path) -> None:
    source, out = written(tmp_path / "in.jsonl", inputs(1, 5)), tmp_path / "out.jsonl"
    saved = []

    class Watching(Scribe):
        """Reads the run file whenever it is called."""

        def generate(self, prompts: Iterable[Prompt]) -> Iterator[Generated]:
            saved.append(json.loads(Path(f"{out}.run.json").read_text())["input"]["entries"])
            yield from super().generate(prompts)

    run(plain(Watching()), source, out)
    assert saved == [0, 1, 2, 3, 4]


class Dying(Scribe):
    """Wants many prompts at once, and raises at the n-th."""

    def __init__(self, dies_after: int, error: BaseException) -> None:
        super().__init__()
        self.dies_after, self.error = dies_after, error

    @property
    def prompts_at_once(self) -> int:
        return 100

    def generate(self, prompts: Iterable[Prompt]) -> Iterator[Generated]:
        for made in super().generate(prompts):
            if len(self.prompts) > self.dies_after:
                raise self.error
            yield made


@pytest.mark.parametrize(
    "error", [ResourceError("cannot be reached", where="server"), KeyboardInterrupt()]
)
@pytest.mark.parametrize(("make", "kept"), [(plain, 7), (in_turns, 3)])
def test_what_was_finished_before_an_error_is_written(
    make: Any, kept: int, error: BaseException, tmp_path: Path
) -> None:
    source, out = written(tmp_path / "in.jsonl", inputs(3, 5)), tmp_path / "out.jsonl"
    with pytest.raises(type(error)):
        # in turns: sentences 0 and 1 of all documents, 2 of the first
        run(make(Dying(7, error)), source, out)
    assert [row["id"] for row in rows(out)] == [row["id"] for row in inputs(3, 5)[:kept]]
    run(make(Dying(99, error)), source, out)
    run(make(Scribe()), source, tmp_path / "whole.jsonl")
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_every_list_is_saved_before_the_next_is_waited_for(tmp_path: Path) -> None:
    source, out = written(tmp_path / "in.jsonl", inputs(1, 5)), tmp_path / "out.jsonl"
    saved = []

    class Watching(Scribe):
        """Reads the outputs whenever the next list is wanted of it."""

        @property
        def prompts_at_once(self) -> int:
            return 100

        def generate(self, prompts: Iterable[Prompt]) -> Iterator[Generated]:
            for made in super().generate(prompts):
                run_file = json.loads(Path(f"{out}.run.json").read_text())
                saved.append((run_file["input"]["entries"], len(rows(out)) if out.exists() else 0))
                yield made

    run(plain(Watching()), source, out)
    assert saved == [(i, i) for i in range(5)]


def test_a_finished_run_generates_nothing_again(tmp_path: Path) -> None:
    source, out = written(tmp_path / "in.jsonl", inputs()), tmp_path / "out.jsonl"
    run(plain(Scribe()), source, out)
    before, again = out.read_bytes(), Scribe()
    run(plain(again), source, out)
    assert (out.read_bytes(), again.prompts) == (before, [])
    with pytest.raises(ResumeError, match="prompt was"):
        run(Turns(Scribe(), Template("Say: {source}")), source, out)
    with pytest.raises(ResumeError, match="differ from those"):
        run(plain(Scribe()), written(source, reversed(inputs())), out)


def test_errors_are_records_and_cut_the_context(tmp_path: Path) -> None:
    given = inputs(documents=1, sentences=5)
    given[1]["source"] = "poison"
    source, out = written(tmp_path / "in.jsonl", given), tmp_path / "out.jsonl"
    with pytest.raises(StoppedByErrorsError, match=r"in\.jsonl:2"):
        run(in_turns(Scribe()), source, out)
    assert [row["id"] for row in rows(out)] == ["0:0"]
    scribe = Scribe()
    counts = run(in_turns(scribe), source, out, max_errors=1)
    assert (counts["rows"], counts["errors"], counts["context-cut"]) == (4, 1, 1)
    (error,) = rows(tmp_path / "out.jsonl.errors.jsonl")
    assert (error["line"], error["id"], error["reason"]) == (2, "0:1", "found poison")
    assert scribe.prompts[1].text == f"| | {given[2]['source']}"
    assert [row.get("context_was_cut", False) for row in rows(out)] == [False, True, False, False]


def test_a_line_that_is_no_input_is_an_error_record(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    good = [json.dumps(row) for row in inputs(1, 4)]
    source.write_text(
        "\n".join([good[0], '{"id": "x"}', good[2].replace("0:2", "0:0"), good[3], "", "{"])
    )
    out = tmp_path / "out.jsonl"
    counts = run(in_turns(Scribe()), source, out, max_errors=9)
    assert (counts["rows"], counts["errors"]) == (2, 4)
    errors = rows(tmp_path / "out.jsonl.errors.jsonl")
    assert [(e["line"], e["where"]) for e in errors] == [(2, "source"), (3, "id"), (5, ""), (6, "")]
    assert rows(out)[1]["context_was_cut"]


BAD_INPUTS = [
    ({"id": "a", "source": "x", "candidates": ["y"]}, "candidates: there are candidates already"),
    ({"id": "a", "source": "x", "chosen": 1}, "chosen: is a key that generating writes"),
    ({"id": "a", "source": "x", "pseudo_references": ["y"]}, "pseudo_references: is a key"),
    ({"id": "a", "source": ["x"]}, "source: found an array"),
    ({"source": "x", "id": None}, "id: found null"),
    (["x"], "expected an object"),
]


@pytest.mark.parametrize(("row", "message"), BAD_INPUTS)
def test_bad_inputs_say_what_is_wrong(row: Any, message: str, tmp_path: Path) -> None:
    (entry,) = read_prompts(written(tmp_path / "in.jsonl", [row]))
    assert message in str(entry.error)


def test_plain_text_is_numbered(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text('one\r\n{"two"}\n\nfour\n\n')
    entries = list(read_prompts(source, "text"))
    sources = [(e.id, e.record and e.record.source) for e in entries]
    assert sources == [("0", "one"), ("1", '{"two"}'), ("2", None), ("3", "four")]
    with pytest.raises(InputError, match="unknown format 'txt'"):
        read_prompts("nowhere", "txt")


@pytest.mark.parametrize("first", ["Ein Satz.", "  12 Uhr", '"quoted"'])
def test_plain_text_read_as_json_lines(tmp_path: Path, first: str) -> None:
    source = tmp_path / "in.txt"
    source.write_text(f"{first}\nNoch einer.\n")
    message = "in.txt:1: found plain text .* expected a JSON object on each line. Use --from text"
    with pytest.raises(InputError, match=message):
        list(read_prompts(source))
    assert len(list(read_prompts(source, "text"))) == 2


def test_an_id_that_was_there_before_is_told_in_the_words_of_inputs(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", [{"id": "a", "source": "x"}] * 2)
    _, entry = read_prompts(source)
    assert str(entry.error).endswith(
        "id: 'a' was there before, expected a new id. Give every input its own id"
    )


def test_templates() -> None:
    template = Template("{{{tone}}} {source_context}/{target_context}/{source}")
    context = Context(("a", "b"), ("c", "d"))
    assert template.filled("s", context, {"tone": "kind"}) == "{kind} a b/c d/s"
    assert template.reads_context
    with pytest.raises(InputError, match=r"expected a text for \{tone\}"):
        template.filled("s", context, {"tone": 3})
    for text in ("{source", "{source.__class__}", "{source!r}", "{source:>9}", "{}", "{0}", "}"):
        with pytest.raises(InputError, match="prompt: "):
            Template(text)


MISFITS: list[tuple[dict[str, Any], str]] = [
    (
        {"template": Template("{source_context} {source}")},
        "context: the prompt reads context, but none is kept",
    ),
    ({"context": 2}, "prompt: the prompt reads no context"),
    ({"template": Template(IN_CONTEXT), "context": 2}, "utility: the prompt reads what was chosen"),
    (
        {"decider": MBRDecoder(utility="chrf"), "engine": LocalEngine()},
        "does not read what was chosen",
    ),
    ({"first": Template("{target_context}"), "context": 0}, "first_prompt: reads context"),
]


@pytest.mark.parametrize(("settings", "message"), MISFITS)
def test_templates_and_deciders_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Turns(Scribe(), **{"template": Template("{source}"), **settings})


def test_context_needs_documents(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", [{"id": "a", "source": "x"}])
    with pytest.raises(StoppedByErrorsError, match="no document, but the prompt reads context"):
        run(in_turns(Scribe()), source, tmp_path / "out.jsonl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny models on disk."""
    folder = tmp_path_factory.mktemp("models")
    for family in ("bart", "llama"):
        model_of(family).save_pretrained(folder / family)
        tokenizer_of(family).save_pretrained(folder / family)
    return folder


def sentences(n: int) -> list[dict[str, Any]]:
    return [
        {
            "id": str(i),
            "document": str(i // 5),
            "position": i % 5,
            "source": f"{TEXTS[i % 4]} {TEXTS[i % 3]}",
        }
        for i in range(n)
    ]


def command(folder: Path, source: Path, out: Path, *more: str) -> list[str]:
    model = str(folder / "bart")
    return [
        "generate",
        str(source),
        "--generator",
        model,
        "-n",
        "4",
        "--max-new-tokens",
        "8",
        "-o",
        str(out),
        *more,
    ]


@pytest.mark.parametrize("at_once", [1, 5])
def test_progress_counts_every_input_once(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its total is estimated from the lines read, and is right throughout where these are alike; also when resumed."""
    shown: list[tuple[int, float | None]] = []

    class Seen(Progress):
        def __call__(self, done: int, errors: int = 0) -> None:
            super().__call__(done, errors)
            shown.append((done, self.total()))

    scribes = iter([Scribe(stop_after=5, at_once=at_once), Scribe(at_once=at_once)])
    no_model = SimpleNamespace(model=None, tokenizer=None), "sha256:0"
    monkeypatch.setattr(BackendOptions, "loaded", lambda *options: no_model)
    monkeypatch.setattr(huggingface, "HuggingFaceGenerator", lambda *options: next(scribes))
    monkeypatch.setattr(generate, "Progress", Seen)
    monkeypatch.setattr(console, "DELAY_SECONDS", 0.0)
    rows_in = [{"id": f"{i:03}", "source": TEXTS[0]} for i in range(12)]
    source, out = written(tmp_path / "in.jsonl", rows_in), tmp_path / "out.jsonl"
    # as of a file that is too large to be read at once
    monkeypatch.setattr(line_source, "BLOCK_BYTES", source.stat().st_size // 24)
    words = ["generate", str(source), "--generator", "scribe", "-o", str(out)]
    assert main(words) == 130
    num_done = len(shown)
    assert main(words) == 0
    assert num_done == 5
    assert shown == [(done, 12) for done in range(1, 13)]


def test_the_command(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    source, out = written(tmp_path / "in.jsonl", sentences(6)), tmp_path / "out.jsonl"
    assert main(command(folder, source, out, "--logprobs", "--num-references", "3")) == 0
    assert "6 lists generated, 24 candidates" in capsys.readouterr().err
    written_rows = rows(out)
    assert [row["source"] for row in written_rows] == [row["source"] for row in sentences(6)]
    assert all(
        len(row["candidates"]) == 4 and len(row["pseudo_references"]) == 3 for row in written_rows
    )
    assert all(candidate["logprob"] <= 0 for row in written_rows for candidate in row["candidates"])
    about = json.loads(Path(f"{out}.run.json").read_text())
    assert about["seeds"] == {"generation": 0}
    assert about["settings"]["model"].startswith("sha256:")
    assert (
        main(
            [
                "decode",
                str(out),
                "-u",
                "chrf",
                "--weights",
                "logprob",
                "-o",
                f"{out}.chosen",
                "--quiet",
            ]
        )
        == 0
    )
    assert main(command(folder, source, out, "--logprobs", "--num-references", "2", "--quiet")) == 4
    assert (
        main(
            command(
                folder,
                source,
                out,
                "--logprobs",
                "--num-references",
                "3",
                "--sequences-at-once",
                "3",
            )
        )
        == 0
    )


def test_the_command_in_turns(folder: Path, tmp_path: Path) -> None:
    source, out = written(tmp_path / "in.jsonl", sentences(10)), tmp_path / "out.jsonl"
    more = [
        "--context",
        "1",
        "--prompt",
        "{target_context} {source}",
        "-u",
        "chrf",
        "--weights",
        "logprob",
        "--quiet",
    ]
    given = [*command(folder, source, out, *more)]
    given[given.index(str(folder / "bart"))] = str(folder / "llama")
    assert main(given) == 0
    decoded = tmp_path / "chosen.jsonl"
    assert (
        main(
            [
                "decode",
                str(out),
                "-u",
                "chrf",
                "--weights",
                "logprob",
                "-o",
                str(decoded),
                "--quiet",
            ]
        )
        == 0
    )
    assert [row["index"] for row in rows(decoded)] == [row["chosen"] for row in rows(out)]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--generator", "./nowhere"], "there is no such file or folder"),
        (["--dtype", "int3"], "unknown dtype 'int3'"),
        (["--sampling", "beam", "--temperature", "0.5"], "a beam has no temperature"),
        (["--max-new-tokens", "100"], "--max-new-tokens: found 100, the model has 64 positions"),
        (["--prompt", "{target_context} {source}"], "the prompt reads context, but none is kept"),
        (["-u", "chrf"], "the prompt does not read what was chosen"),
        (["--backend", "abacus"], "backend"),
        (["--model", "x"], "Name the model that generates with --generator"),
        (["-o", "out.gz"], "Leave .gz off"),
        (
            ["--base-url", "http://localhost:1/v1"],
            "--base-url: is no option of the backend huggingface",
        ),
        (["--system", "x"], "--system: is no option of the backend huggingface"),
        (["--request", "{}"], "--request: is no option of the backend huggingface"),
        (
            ["--backend", "server", "--sequences-at-once", "3"],
            "--sequences-at-once: is no option of the backend server",
        ),
        (["--weights", "logprob"], "--weights: has no effect where no utility chooses"),
        (["--no-self-pair"], "--self-pair: has no effect where no utility chooses"),
        (["--temperature", "1e-9"], "temperature"),
    ],
)
def test_the_command_refuses(
    more: list[str], message: str, folder: Path, tmp_path: Path, capsys: Captured
) -> None:
    source = written(tmp_path / "in.jsonl", sentences(2))
    assert main(command(folder, source, tmp_path / "out.jsonl", *more)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.slow  # imports torch and transformers in a process of its own
def test_transformers_is_imported_before_a_fault_is_told_as_that_of_the_model(folder: Path) -> None:
    code = f"""
import sys
from transformers import AutoConfig
from discorank.integrations.huggingface.model_loading import load
wanted = "transformers.models.auto.modeling_auto"
AutoConfig.from_pretrained = lambda *given, **more: sys.exit(7 * (wanted in sys.modules))
load({str(folder / "bart")!r})
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7


def test_a_killed_run_goes_on(folder: Path, tmp_path: Path) -> None:
    count = 24
    source = written(tmp_path / "in.jsonl", sentences(count))
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    small = ["--sequences-at-once", "4", "--quiet"]
    assert main(command(folder, source, whole, *small)) == 0

    def killed() -> bool:
        """Whether a run was killed after its first rows; a busy machine may get to it too late."""
        for path in tmp_path.glob(f"{out.name}*"):
            path.unlink()
        process = subprocess.Popen(
            [sys.executable, "-m", "discorank", *command(folder, source, out, *small)]
        )
        wait_until(lambda: has_rows(out) or process.poll() is not None)
        process.kill()
        return process.wait() == -signal.SIGKILL

    assert any(killed() for _ in range(9))
    about = json.loads(Path(f"{out}.run.json").read_text())
    assert not about["complete"]
    assert about["input"]["entries"] < count
    assert main(command(folder, source, out, *small)) == 0
    assert out.read_bytes() == whole.read_bytes()
    decoded = tmp_path / "chosen.jsonl"
    assert main(["decode", str(out), "-u", "chrf", "-o", str(decoded), "--quiet"]) == 0
    assert len(rows(decoded)) == count
