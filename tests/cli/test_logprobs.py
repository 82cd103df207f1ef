"""``discorank logprobs``: what is asked of lists, where values go, resuming, and what cannot be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.integrations.formats.open_lists import open_lists
from discorank.integrations.generation.prompt_templates import FewShotTemplates
from discorank.integrations.scoring.list_prompts import (
    Answered,
    Asked,
    ListPrompts,
    PromptedText,
    ScoredText,
)
from discorank.integrations.scoring.scoring_run import ListScoring, ValueFields, run_scoring
from discorank.metrics.errors import InputError, ResumeError
from discorank.metrics.text.prompt_template import SEPARATOR, FewShotExamples, Template
from discorank.rerank.runs.resumable import StoppedByErrorsError

from ..support.lists import write_lists
from ..support.tiny_generators import TEXTS, model_of, tokenizer_of

Captured = pytest.CaptureFixture[str]


class Meter:
    """Scores a text by its length and its prompt's, remembers what it is asked; fails at "poison", stops in time."""

    def __init__(self, stop_after: int | None = None, at_once: int = 3) -> None:
        self.asked: list[PromptedText] = []
        self.stop_after, self.at_once = stop_after, at_once

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"scorer": "meter"}

    def scored(self, lists: Iterable[Asked], before_work: Callable[[], None]) -> Iterator[Answered]:
        for number, asked in enumerate(lists):
            if number % self.at_once == 0:
                before_work()
            if isinstance(asked, InputError):
                yield asked
                continue
            assert not isinstance(asked, Exception)
            values: list[Any] = []
            for text in asked:
                if self.stop_after is not None and len(self.asked) >= self.stop_after:
                    raise KeyboardInterrupt
                self.asked.append(text)
                values.append(self.value(text))
            yield values

    def value(self, text: PromptedText) -> ScoredText | InputError:
        if "poison" in text.text:
            return InputError("found poison", where="text")
        return ScoredText(-float(len(text.text)) - len(text.prompt) / 1000, len(text.text.split()))


def prompts(
    text: str = "{source}: ",
    first: str | None = None,
    reverse: bool = False,
    examples: FewShotExamples | None = None,
    separator: str = SEPARATOR,
    **settings: Any,
) -> ListPrompts:
    other = None if first is None else Template(first, "first_prompt")
    templates = FewShotTemplates(Template(text), other, examples, separator, reverse)
    return ListPrompts(templates, **settings)


def scored(
    source: Path,
    out: Path | None,
    meter: Meter | None = None,
    given: ListPrompts | None = None,
    max_errors: int = 0,
    **fields: Any,
) -> Mapping[str, int]:
    scoring = ListScoring(given or prompts(), meter or Meter(), ValueFields(**fields))
    with open_lists(source) as lists:
        return run_scoring(scoring, lists, lists.name, out, max_errors)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def one(tmp_path: Path, **row: Any) -> Path:
    return write_lists(tmp_path / "lists.jsonl", [{"id": "0", "source": "Ein Hund", **row}])


def test_control_tokens_in_fields_of_a_prompt_are_words(tmp_path: Path) -> None:
    class Plain(Meter):
        """A scorer that says which tokens control its model."""

        def plain_text(self, text: str) -> str:
            return text.replace("</s>", "< /s>")

    source = one(tmp_path, candidates=["a </s>"], note="n </s>")
    examples = FewShotExamples(({"source": "x</s>", "note": "</s>", "target": " y</s>"},))
    given = prompts("<s>{source}|{note}</s>", examples=examples, separator="</s>\n")
    meter = Plain()
    scored(source, tmp_path / "out.jsonl", meter, given)
    (text,) = meter.asked
    assert text.prompt == "<s>x< /s>|< /s></s> y< /s></s>\n<s>Ein Hund|n < /s></s>"
    assert text.text == "a </s>"  # the scorer breaks it up itself


def test_every_candidate_and_pseudo_reference_gets_its_value(tmp_path: Path) -> None:
    candidates = ["a dog", {"text": "the dog", "score": 1}, "a dog", ["a", "dog"]]
    source = one(tmp_path, candidates=candidates, pseudo_references=["a dog", "x"], note="n")
    meter, out = Meter(), tmp_path / "out.jsonl"
    counts = scored(source, out, meter)
    assert counts == {"rows": 1, "candidates": 4, "duplicates": 1}
    assert rows(out) == [
        {
            "id": "0",
            "source": "Ein Hund",
            "candidates": [
                {"text": "a dog", "logprob": -5.01, "tokens": 2},
                {"text": "the dog", "logprob": -7.01, "score": 1, "tokens": 2},
                {"text": "a dog", "logprob": -5.01, "tokens": 2},
                {"text": ["a", "dog"], "logprob": -5.01, "tokens": 2},
            ],
            "pseudo_references": [
                {"text": "a dog", "logprob": -5.01, "tokens": 2},
                {"text": "x", "logprob": -1.01, "tokens": 1},
            ],
            "note": "n",
        }
    ]
    # a document is its sentences joined; equal texts are asked for once
    assert [text.text for text in meter.asked] == ["a dog", "the dog", "x"]
    assert {text.prompt for text in meter.asked} == {"Ein Hund: "}
    run_file = json.loads(Path(f"{out}.run.json").read_text())
    assert run_file["complete"]
    assert (run_file["timings"]["texts"], run_file["timings"]["tokens"]) == (3, 5)


def test_a_value_that_is_there_is_not_replaced_unless_told(tmp_path: Path) -> None:
    source = one(tmp_path, candidates=["a", {"text": "b", "logprob": -1.0}])
    with pytest.raises(StoppedByErrorsError, match=r"candidates\[1\].logprob: is there already"):
        scored(source, tmp_path / "a.jsonl")
    scored(source, tmp_path / "b.jsonl", overwrite=True)
    assert [c["logprob"] for c in rows(tmp_path / "b.jsonl")[0]["candidates"]] == [-1.01, -1.01]
    scored(source, tmp_path / "c.jsonl", field="channel")
    assert rows(tmp_path / "c.jsonl")[0]["candidates"] == [
        {"text": "a", "channel_tokens": 1, "channel": -1.01},
        {"text": "b", "logprob": -1.0, "channel_tokens": 1, "channel": -1.01},
    ]
    with pytest.raises(StoppedByErrorsError, match=r"candidates\[0\].channel: is there already"):
        scored(tmp_path / "c.jsonl", tmp_path / "d.jsonl", field="channel")
    for field in ("", "text", "tokens", "roles"):
        with pytest.raises(InputError, match="which means something else"):
            ValueFields(field)


def test_unfinished_candidates_have_no_end(tmp_path: Path) -> None:
    source = one(tmp_path, candidates=["a", {"text": "a", "unfinished": True}])
    meter = Meter()
    scored(source, tmp_path / "a.jsonl", meter)
    assert [text.ends for text in meter.asked] == [True, False]
    meter = Meter()
    scored(source, tmp_path / "b.jsonl", meter, prompts(end_text="\n"))
    assert [text[1:4] for text in meter.asked] == [("a", False, "\n"), ("a", False, "")]


def test_the_source_is_scored_in_reverse(tmp_path: Path) -> None:
    source = one(tmp_path, candidates=["a", "bc", "a"], lang="en")
    meter = Meter()
    scored(
        source,
        tmp_path / "a.jsonl",
        meter,
        prompts("{lang}: {candidate} = ", reverse=True),
        field="c",
    )
    assert [text[:2] for text in meter.asked] == [
        ("en: a = ", "Ein Hund"),
        ("en: bc = ", "Ein Hund"),
    ]
    assert [c["c"] for c in rows(tmp_path / "a.jsonl")[0]["candidates"]] == [-8.008, -8.009, -8.008]


def test_few_shot_examples_stand_before_every_prompt(tmp_path: Path) -> None:
    examples = FewShotExamples(
        ({"source": "Rot", "target": "red"}, {"source": "Tag", "target": "day"})
    )
    source = one(tmp_path, candidates=["a"])
    meter = Meter()
    given = prompts("{source} = ", examples=examples, separator="; ")
    scored(source, tmp_path / "a.jsonl", meter, given)
    assert meter.asked[0].prompt == "Rot = red; Tag = day; Ein Hund = "
    meter = Meter()
    given = prompts("{candidate} = ", examples=examples, reverse=True)
    scored(source, tmp_path / "b.jsonl", meter, given, field="channel")
    assert meter.asked[0][:2] == ("red = Rot\n\nday = Tag\n\na = ", "Ein Hund")
    with pytest.raises(ResumeError, match="examples"):
        scored(source, tmp_path / "a.jsonl", Meter(), prompts("{source} = ", examples=examples))
    with pytest.raises(InputError, match="examples: example 1: found nothing, expected a text for"):
        prompts("{lang} {source} = ", examples=examples)


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (lambda: prompts("{candidate}"), "{candidate}"),
        (lambda: prompts("{source}", reverse=True), "{source}"),
        (lambda: prompts("{source_context}"), "context"),
        (lambda: prompts("{source}", context=1), "context"),
        (lambda: prompts("{source_context}", "{source_context}", context=1), "first_prompt: "),
        (lambda: prompts("{source_context}", context=1, choices={}), "choices: "),
        (lambda: prompts("{source_context}", context=1, context_from="first"), "context_from: "),
    ],
)
def test_prompts_that_cannot_be_are_refused(make: Callable[[], object], fact: str) -> None:
    with pytest.raises(InputError, match=fact):
        make()


def document() -> list[dict[str, Any]]:
    """Two documents; one sentence lends context alone, and one comes after a jump."""
    made = [
        {"document": "d", "position": 0, "chosen": 1},
        {"document": "d", "position": 1, "context_only": True},
        {"document": "d", "position": 2, "chosen": 0},
        {"document": "d", "position": 5, "chosen": 0},
        {"document": "e", "position": 0, "chosen": 1},
    ]
    return [
        {
            "id": str(i),
            "source": f"s{i}",
            **row,
            "candidates": [f"x{i}", f"y{i}"],
            "references": [f"r{i}"],
        }
        for i, row in enumerate(made)
    ]


IN_CONTEXT = "{source_context}|{target_context}|{source}|"


@pytest.mark.parametrize(
    ("context_from", "of_third"),
    [("chosen", "s0 s1|y0 x1|s2|"), ("reference", "s0 s1|r0 x1|s2|"), ("first", "s0 s1|x0 x1|s2|")],
)
def test_context_is_what_was_chosen_before(
    context_from: Any, of_third: str, tmp_path: Path
) -> None:
    source = write_lists(tmp_path / "lists.jsonl", document())
    meter, out = Meter(), tmp_path / "out.jsonl"
    given = prompts(IN_CONTEXT, "{source}|", context=2, context_from=context_from)
    counts = scored(source, out, meter, given)
    assert list(dict.fromkeys(text.prompt for text in meter.asked)) == [
        "s0|",
        of_third,
        "s3|",
        "s4|",
    ]
    written = rows(out)
    # a list that lends context alone comes through as it is, a list after a jump says so
    assert written[1] == document()[1]
    assert [row.get("context_was_cut", False) for row in written] == [
        False,
        False,
        False,
        True,
        False,
    ]
    assert counts == {"rows": 5, "candidates": 10, "duplicates": 0, "context-cut": 1}


def test_choices_of_an_earlier_run_are_context(tmp_path: Path) -> None:
    lists = [{**row, "chosen": None} for row in document()]
    for row in lists:
        del row["chosen"]
    source = write_lists(tmp_path / "lists.jsonl", lists)
    meter, out = Meter(), tmp_path / "out.jsonl"
    with pytest.raises(StoppedByErrorsError, match="chosen: found nothing, expected the number"):
        scored(source, tmp_path / "no.jsonl", Meter(), prompts(IN_CONTEXT, "{source}|", context=2))
    choices = {str(i): f"z{i}" for i in range(5)}
    scored(source, out, meter, prompts(IN_CONTEXT, "{source}|", context=2, choices=choices))
    assert "s0 s1|z0 x1|s2|" in {text.prompt for text in meter.asked}
    del choices["0"]
    given = prompts(IN_CONTEXT, "{source}|", context=2, choices=choices)
    counts = scored(source, tmp_path / "lost.jsonl", Meter(), given, max_errors=1)
    assert counts["errors"] == 1
    (error,) = rows(Path(f"{tmp_path / 'lost.jsonl'}.errors.jsonl"))
    assert "has no choice from '0'" in error["reason"]


def test_an_error_costs_its_list_alone(tmp_path: Path) -> None:
    lists: list[dict[str, Any]] = [
        {"id": "0", "source": "s", "candidates": ["a"]},
        {"id": "1", "source": "s", "candidates": ["b", "poison"]},
        {"id": "2", "source": "s", "candidates": []},
        {"id": "3", "candidates": ["c"]},
        {"id": "4", "source": "s", "candidates": ["d"]},
    ]
    source = write_lists(tmp_path / "lists.jsonl", lists)
    out = tmp_path / "out.jsonl"
    counts = scored(source, out, max_errors=3)
    assert counts["errors"] == 3
    assert [row["id"] for row in rows(out)] == ["0", "4"]
    errors = rows(Path(f"{out}.errors.jsonl"))
    assert [(row["id"], row["where"]) for row in errors] == [
        ("1", "candidates[1]: text"),
        ("2", "candidates"),
        ("3", "source"),
    ]


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_run_that_was_stopped_leaves_the_same_bytes(at_once: int, tmp_path: Path) -> None:
    """Whenever it is stopped; what came out of a block is written."""
    lists = [
        {
            "id": str(i),
            "document": f"d{i // 4}",
            "source": f"s{i}",
            "chosen": i % 2,
            "candidates": [f"x{i}", f"y{i}"],
        }
        for i in range(12)
    ]
    lists[5] = {"id": "5", "candidates": []}
    source = write_lists(tmp_path / "lists.jsonl", lists)

    def given() -> ListPrompts:
        return prompts(IN_CONTEXT, "{source}|", context=2)

    whole = tmp_path / "whole.jsonl"
    scored(source, whole, Meter(at_once=at_once), given(), max_errors=1)
    for stop_after in range(0, 22, 3):
        out = tmp_path / f"{stop_after}.jsonl"
        with pytest.raises(KeyboardInterrupt):
            scored(source, out, Meter(stop_after, at_once), given(), max_errors=1)
        meter = Meter(at_once=at_once)
        scored(source, out, meter, given(), max_errors=1)
        assert out.read_bytes() == whole.read_bytes()
        assert len(meter.asked) <= 22 - stop_after + 2 * at_once
    with pytest.raises(ResumeError, match="reverse"):
        scored(source, whole, Meter(), prompts("{candidate}|", reverse=True), max_errors=1)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for family in ("bart", "llama"):
        model_of(family).save_pretrained(folder / family)
        tokenizer_of(family).save_pretrained(folder / family)
    return folder


def lists_of(tmp_path: Path) -> Path:
    made = [
        {"id": str(i), "source": text, "candidates": [*TEXTS[:3], TEXTS[0]], "lang": "en"}
        for i, text in enumerate(TEXTS)
    ]
    return write_lists(tmp_path / "lists.jsonl", made)


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ("", "--generator"),
        ("--generator LLAMA", "--prompt"),
        ("--generator BART --model x", "--model"),
        ("--generator BART --base-url x", "--base-url: "),
        ("--generator BART --end --end-text x", "--end-text: "),
        ("--generator BART --field text", "'text'"),
        ("--generator BART --target-lang de_DE", "--target-lang: "),
        ("--backend server --generator m", "--prompt"),
        ("--generator BART -o IN", "lists.jsonl"),
    ],
)
def test_options_that_cannot_be_are_refused(
    words: str, fact: str, models: Path, tmp_path: Path, capsys: Captured
) -> None:
    source = write_lists(tmp_path / "lists.jsonl", [{"id": "0", "source": "a", "candidates": []}])
    places = {"IN": str(source), "LLAMA": str(models / "llama"), "BART": str(models / "bart")}
    given = [places.get(word, word) for word in words.split()]
    assert main(["logprobs", str(source), *given]) == 2
    assert fact in capsys.readouterr().err


def test_choices_are_read_from_rows_of_decode(
    models: Path, tmp_path: Path, capsys: Captured
) -> None:
    made = [
        {"id": str(i), "document": "d", "source": text, "candidates": [*TEXTS[:2]]}
        for i, text in enumerate(TEXTS[:3])
    ]
    source = write_lists(tmp_path / "lists.jsonl", made)
    chosen = tmp_path / "chosen.jsonl"
    assert main(["decode", str(source), "-u", "chrf", "-o", str(chosen), "--quiet"]) == 0
    command = ["logprobs", str(source), "--generator", str(models / "llama"), "--context", "1"]
    command += ["--prompt", "{target_context} {source} ", "--first-prompt", "{source} ", "--quiet"]
    out = tmp_path / "out.jsonl"
    assert main([*command, "--choices", str(chosen), "-o", str(out)]) == 0
    without = tmp_path / "without.jsonl"
    assert main([*command, "--context-from", "first", "-o", str(without)]) == 0
    assert len(rows(out)) == len(rows(without)) == 3
    # other choices are another run
    other = write_lists(tmp_path / "other.jsonl", [{"id": str(i), "text": "a"} for i in range(3)])
    assert main([*command, "--choices", str(other), "-o", str(out)]) == 4
    assert "choices" in capsys.readouterr().err
    for line, message in [
        ({"id": "0"}, "other.jsonl:1: text: found no text"),
        ({"text": "a"}, "other.jsonl:1: id: found no id"),
    ]:
        write_lists(other, [line])
        assert main([*command, "--choices", str(other)]) == 2
        assert message in capsys.readouterr().err
