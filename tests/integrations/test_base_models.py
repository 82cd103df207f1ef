"""Base models that generate: stop strings, few-shot examples, GGUF files, and what a run writes when it is stopped."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from discorank import InputError
from discorank.cli.main import main
from discorank.integrations import huggingface
from discorank.integrations.generation.document_turns import Turn, Turns
from discorank.integrations.generation.generator import (
    Prompt,
    before_stop,
    unescaped,
    warning_of_no_choice,
)
from discorank.integrations.huggingface import HuggingFaceGenerator
from discorank.integrations.huggingface.model_loading import GenerationSettings, LoadedModel, load
from discorank.integrations.server.generator import candidates_in, tokens_in
from discorank.integrations.server.settings import ServerSettings
from discorank.metrics.text.prompt_template import FewShotExamples, Template
from discorank.rerank.lists import Candidate, CandidateList
from tests.support.lists import write_lists
from tests.support.serving import Reply, Seen, serving
from tests.support.tiny_gguf import write_gguf

pytest.importorskip("gguf")
pytest.importorskip("accelerate")

SETTINGS = GenerationSettings(num_candidates=6, sampling="ancestral", max_new_tokens=12, seed=4)
PROMPTS = [Prompt(str(i), text, text) for i, text in enumerate(("a b", "the other", "x", "y z"))]


@cache
def model_path() -> Path:
    return write_gguf(Path(mkdtemp()) / "tiny.gguf")


@cache
def model() -> LoadedModel:
    return load(str(model_path()), device="cpu")


def generator(settings: GenerationSettings = SETTINGS, **more: Any) -> HuggingFaceGenerator:
    return HuggingFaceGenerator(model().model, model().tokenizer, settings, **more)


def generated(settings: GenerationSettings) -> list[list[Candidate]]:
    lists = []
    for record in generator(settings).generate(PROMPTS):
        assert not isinstance(record, Exception)
        lists.append(list(record.candidates))
    return lists


def test_control_tokens_in_fields_of_a_prompt_are_words(monkeypatch: pytest.MonkeyPatch) -> None:
    made = generator()
    asked: list[str] = []

    def generate(prompts: Iterable[Prompt]) -> Iterator[Any]:
        for prompt in prompts:
            asked.append(prompt.text)
            yield prompt.with_candidates([Candidate("x")])

    monkeypatch.setattr(made, "generate", generate)
    example = {"source": "x<|endoftext|>", "note": "", "target": " y</s>"}
    turns = Turns(made, Template("<s>{source}</s>{note}:"), examples=FewShotExamples((example,)))
    prompt = Prompt("0", "a</s>", "a</s>", extra={"note": "</s>"})
    (done,) = [one for several in turns.outcomes([prompt]) for one in several]
    assert asked == ["<s>x< |endoftext|></s>: y< /s>\n\n<s>a< /s></s>< /s>:"]
    assert isinstance(done.outcome, Turn)
    assert done.outcome.record.source == "a</s>"
    end = model().tokenizer.eos_token_id
    ids, _ = made.ids_of(asked[0])
    assert ids.count(end) == 2  # those of the template


def stops_in(texts: list[str]) -> list[tuple[str, ...]]:
    """Stop strings of one to three characters out of texts, some of them several tokens."""
    readable = [text for text in texts if len(text) > 8 and "\ufffd" not in text[3:7]]
    assert len(readable) >= 3
    return [
        (readable[0][4],),
        (readable[1][3:5],),
        (readable[2][3:6],),
        (readable[0][4], readable[2][3:6], "never to be found"),
    ]


def raw_texts(settings: GenerationSettings) -> list[str]:
    """What the tokens of every candidate say, not stripped."""
    made = generator(settings)
    (pool,) = made.outputs([made.ids_of(prompt.text)[0] for prompt in PROMPTS])
    decode = model().tokenizer.decode
    return [
        decode(output.tokens, skip_special_tokens=True) for outputs in pool for output in outputs
    ]


def test_a_candidate_is_the_text_before_the_first_stop_string() -> None:
    whole = raw_texts(SETTINGS)
    free = [candidate for candidates in generated(SETTINGS) for candidate in candidates]
    for stops in stops_in(whole):
        lists = generated(replace(SETTINGS, stop=stops))
        candidates = [candidate for candidates in lists for candidate in candidates]
        parts_before = [before_stop(text, stops) for text in whole]
        assert any(before is not None for before in parts_before)
        for candidate, text, before, other in zip(
            candidates, whole, parts_before, free, strict=True
        ):
            assert candidate.text == (text if before is None else before).strip()
            unfinished = before is None and "unfinished" in other.fields
            assert ("unfinished" in candidate.fields) == unfinished


def test_tokens_end_with_the_one_that_completes_the_stop_string() -> None:
    whole = raw_texts(SETTINGS)
    (stop,) = stops_in(whole)[2]
    settings = replace(SETTINGS, stop=(stop,), logprobs=True)
    made = generator(settings)
    inputs = [made.ids_of(prompt.text)[0] for prompt in PROMPTS]
    (pool,) = made.outputs(inputs)
    decode = model().tokenizer.decode
    stopped = 0
    for outputs in pool:
        for output in outputs:
            before = decode(output.tokens[:-1], skip_special_tokens=True)
            assert stop not in before
            stopped += stop in decode(output.tokens, skip_special_tokens=True)
    assert stopped
    # the log-probability is that of all these tokens
    tokens = [[output.tokens for output in outputs] for outputs in pool]
    expected = made.token_generator.scores(inputs, tokens)
    assert [[output.scores for output in outputs] for outputs in pool] == expected


def test_generating_ends_when_every_sequence_has_stopped() -> None:
    steps: list[int] = []

    def count(input_ids: Any, scores: Any) -> Any:
        steps.append(len(steps))
        return scores

    letters = (*map(chr, range(32, 0x300)), "\ufffd")
    settings = replace(SETTINGS, stop=letters, max_new_tokens=100)
    inputs = [model().tokenizer(prompt.text)["input_ids"] for prompt in PROMPTS]
    (pool,) = generator(settings, processors=[count]).outputs(inputs)
    outputs = [output for of_input in pool for output in of_input]
    longest = max(len(output.tokens) for output in outputs)
    assert len(steps) == longest < 20
    assert all(output.ended for output in outputs)


def test_a_beam_stops_too() -> None:
    settings = replace(SETTINGS, sampling="beam", num_candidates=4)
    texts = [candidate.text for candidates in generated(settings) for candidate in candidates]
    letters = [letter for letter in "".join(map(str, texts)) if letter not in "\ufffd "]
    stop = letters[len(letters) // 2]
    lists = generated(replace(settings, stop=(stop,)))
    candidates = [candidate for candidates in lists for candidate in candidates]
    assert not any(stop in str(candidate.text) for candidate in candidates)
    assert any("unfinished" not in candidate.fields for candidate in candidates)


def test_what_stands_in_the_prompt_stops_nothing() -> None:
    whole = raw_texts(SETTINGS)
    absent = next(pair for pair in ("a b", "the other") if not any(pair in text for text in whole))
    assert generated(replace(SETTINGS, stop=(absent,))) == generated(SETTINGS)


def test_a_byte_of_a_character_is_no_stop() -> None:
    # é is two tokens of one byte each; ê begins with the same byte
    tokenizer = model().tokenizer
    made = generator(replace(SETTINGS, stop=("é",)))
    for text, held in (("aé", True), ("aê", False)):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert made._stopped(ids) is held
        assert made._stopped(ids[:-1]) is False


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("\\n", "\n"), ("\n", "\n"), ("\\t|\\r", "\t|\r"), ("\\\\n", "\\n"), ("Q:", "Q:")],
)
def test_escapes(typed: str, meant: str) -> None:
    assert unescaped(typed) == meant


@pytest.mark.parametrize("typed", ["\\x", "a\\", "\\ n"])
def test_unknown_escapes(typed: str) -> None:
    with pytest.raises(InputError, match=r"--stop: found .*Write \\\\ for a backslash"):
        unescaped(typed)


def test_empty_stop_strings() -> None:
    for kind in (GenerationSettings, lambda **more: ServerSettings("m", **more)):
        with pytest.raises(InputError, match="stop: an empty stop string"):
            kind(stop=("\n", ""))


def test_settings_without_stop_strings_are_as_they_were() -> None:
    assert "stop" not in SETTINGS.identity
    assert "stop" not in ServerSettings("m").identity
    assert replace(SETTINGS, stop=("\n",)).identity["stop"] == ["\n"]


def test_nothing_but_empty_candidates_is_an_error() -> None:
    error = PROMPTS[0].generated([Candidate(""), Candidate(" ")])
    assert isinstance(error, InputError)
    assert "generated nothing: 2 empty candidates" in str(error)
    assert isinstance(PROMPTS[0].generated([Candidate(""), Candidate("a")]), CandidateList)


def test_lists_without_a_choice_are_warned_about() -> None:
    same = PROMPTS[0].with_candidates([Candidate("a")] * 3)
    single = PROMPTS[1].with_candidates([Candidate("a")])
    other = PROMPTS[2].with_candidates([Candidate("a"), Candidate("b")])
    with pytest.warns(UserWarning, match="1 of 3 lists have one distinct candidate"):
        assert list(warning_of_no_choice([same, single, other])) == [same, single, other]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(warning_of_no_choice([single, other]))


def test_python_warns_of_lists_without_a_choice() -> None:
    made = model()
    with pytest.warns(UserWarning, match="2 of 2 lists have one distinct candidate"):
        huggingface.generate(
            made.model,
            made.tokenizer,
            ["a b", "x"],
            num_candidates=3,
            temperature=1e-6,
            max_new_tokens=8,
        )


def inputs_in(folder: Path, count: int = 10) -> Path:
    rows = [{"id": str(i), "source": f"the {chr(97 + i)} b"} for i in range(count)]
    return write_lists(folder / "inputs.jsonl", rows)


def command(source: Path, out: Path, *more: str) -> int:
    words = ["generate", str(source), "--generator", str(model_path()), "-o", str(out)]
    options = ("-n", "4", "--sampling", "ancestral", "--max-new-tokens", "8", "--seed", "2")
    return main([*words, *options, "--sequences-at-once", "8", "--device", "cpu", *more])


def run_file(out: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(Path(f"{out}.run.json").read_text())
    return values


def rows_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def _text(candidate: Any) -> str:
    return str(candidate["text"] if isinstance(candidate, dict) else candidate)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = tmp_path / "examples.jsonl"
    examples.write_text('{"source": "a", "target": "b"}\n')
    source, out = inputs_in(tmp_path), tmp_path / "out.jsonl"
    stop = ("--stop", "e", "\\n", "--examples", str(examples), "--prompt", "{source}=")
    assert command(source, out, *stop) == 0
    texts = [_text(candidate) for row in rows_of(out) for candidate in row["candidates"]]
    assert not any("e" in text for text in texts)
    values = run_file(out)
    assert values["settings"]["stop"] == ["e", "\n"]
    assert len(values["settings"]["examples"]) == 16
    tokens = values["timings"]["tokens"]
    assert 40 <= tokens <= 40 * 8
    assert f", {tokens} tokens (" in capsys.readouterr().err
    # other examples are another run, the same ones elsewhere are not
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_text(examples.read_text())
    again = [*stop[:4], str(elsewhere), *stop[5:]]
    assert command(source, out, *again) == 0
    elsewhere.write_text('{"source": "a", "target": "c"}\n')
    assert command(source, out, *again) == 4
    assert "examples was" in capsys.readouterr().err


def test_examples_stand_before_the_prompt(tmp_path: Path) -> None:
    """A prompt with examples is the prompt that holds them."""
    examples = tmp_path / "examples.jsonl"
    examples.write_text('{"source": "a", "target": "b"}\n{"source": "c", "target": "d"}\n')
    source = inputs_in(tmp_path, 3)
    assert (
        command(source, tmp_path / "one", "--examples", str(examples), "--prompt", "{source}=") == 0
    )
    whole = "a=b\n\nc=d\n\n{source}="
    assert command(source, tmp_path / "two", "--prompt", whole) == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_blank_that_stands_twice_is_warned_about() -> None:
    examples = FewShotExamples(({"source": "a", "target": " b"},))
    with pytest.warns(RuntimeWarning, match="example 1: its target begins with white space"):
        Turns(generator(), Template("{source}: "), examples=examples)


def stopping_at(batch: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Lets a run be interrupted within its n-th batch; the number of batches begun."""
    from discorank.integrations.huggingface.token_generator import TokenGenerator

    plain = TokenGenerator._generated
    calls = []

    def interrupted(self: TokenGenerator, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == batch:
            raise KeyboardInterrupt
        return plain(self, *arguments)

    monkeypatch.setattr(TokenGenerator, "_generated", interrupted)
    return lambda: len(calls)


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_an_interrupted_run_has_kept_every_list_but_those_of_its_batch(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out, whole = inputs_in(tmp_path), tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    assert command(source, whole) == 0
    with monkeypatch.context() as patch:
        stopping_at(batch, patch)
        assert command(source, out) != 0
    # two lists of four sequences are a batch
    assert run_file(out)["input"]["entries"] == 2 * (batch - 1)
    assert len(rows_of(out)) == 2 * (batch - 1)
    assert command(source, out) == 0
    assert out.read_bytes() == whole.read_bytes()
    assert run_file(out)["timings"]["tokens"] == run_file(whole)["timings"]["tokens"]


@pytest.mark.parametrize("batch", [3, 6])
def test_documents_in_turns_keep_what_was_done_in_order(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {
            "id": f"{i}:{j}",
            "document": str(i),
            "position": j,
            "source": f"the {chr(97 + 3 * i + j)}",
        }
        for i in range(4)
        for j in range(3)
    ]
    source, out = write_lists(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    turns = ("--context", "1", "-u", "chrf", "--prompt", "{target_context} {source}")
    more = (*turns, "--first-prompt", "{source}")
    assert command(source, tmp_path / "whole", *more) == 0
    with monkeypatch.context() as patch:
        stopping_at(batch, patch)
        assert command(source, out, *more) != 0
    # two documents are under way at a time; the first is written as it comes, the second with its end
    kept = [row["id"] for row in rows_of(out)]
    assert kept == [row["id"] for row in rows[: {3: 2, 6: 8}[batch]]]
    assert command(source, out, *more) == 0
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def test_servers_are_told_where_to_stop_and_cut_if_they_do_not(tmp_path: Path) -> None:
    def answer(seen: Seen, number: int) -> Reply:
        choices = [
            {"text": " Hallo.\nEnglish:", "finish_reason": "length", "logprobs": None},
            {"text": " Welt.", "finish_reason": "stop"},
        ]
        return Reply({"choices": choices, "usage": {"completion_tokens": 9}})

    source, out = inputs_in(tmp_path, 2), tmp_path / "out.jsonl"
    with serving(answer) as server:
        words = ["generate", str(source), "--backend", "server", "--base-url", server.url]
        words += ["--skip-probe", "--generator", "m", "-n", "2"]
        status = main([*words, "--stop", "\\n", "-o", str(out)])
        assert status == 0
        assert [seen.body["stop"] for seen in server.seen] == [["\n"]] * 2
    assert [row["candidates"] for row in rows_of(out)] == [[" Hallo.", " Welt."]] * 2
    assert run_file(out)["timings"]["tokens"] == 18


def test_a_reply_that_was_cut_has_no_log_probability() -> None:
    choice = {"text": "a\nb", "finish_reason": "length", "logprobs": {"token_logprobs": [-1.0]}}
    (cut,) = candidates_in({"choices": [choice]}, stops=["\n"])
    assert cut == Candidate("a")
    (whole,) = candidates_in({"choices": [choice]})
    assert whole == Candidate("a\nb", -1.0, {"unfinished": True})
    assert tokens_in({"usage": {"completion_tokens": True}}) == tokens_in({}) == tokens_in([]) == 0


def test_stop_strings_twice_for_a_server() -> None:
    with pytest.raises(InputError, match=r"request\.stop: stands beside stop"):
        ServerSettings("m", stop=("\n",), request='{"stop": "x"}')
