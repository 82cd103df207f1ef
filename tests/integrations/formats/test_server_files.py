"""Files that servers leave as candidate lists: OpenAI's batches, vLLM's run-batch, samples of lm-evaluation-harness."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.cli.main import main
from discorank.integrations.files.entries import ListEntry
from discorank.integrations.files.line_spool import GroupedLines
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.errors import InputError
from discorank.metrics.storage.limits import use_limits
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.lists import CandidateList


def write(path: Path, rows: list[Any]) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def entries(path: Path, form: str, **options: Any) -> list[ListEntry]:
    with open_lists(path, form, **options) as lists:
        return list(lists)


def good(path: Path, form: str, **options: Any) -> list[CandidateList]:
    found = entries(path, form, **options)
    assert [str(entry.error) for entry in found if entry.error] == []
    return [entry.record for entry in found if entry.record is not None]


def chat(text: Any, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"index": index, "message": {"role": "assistant", "content": text}, **more}


def output(custom_id: str, *choices: Any, **more: Any) -> dict[str, Any]:
    response = {"status_code": 200, "request_id": "r", "body": {"choices": list(choices)}}
    return {"id": "b", "custom_id": custom_id, "response": response, "error": None, **more}


def request(custom_id: str, text: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    body = {"model": "m", "messages": messages, "n": 2}
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}


# batches


def test_choices_of_one_request_and_of_several_are_candidates_of_one_list(tmp_path: Path) -> None:
    logprobs = {"content": [{"logprob": -1.0}, {"logprob": -0.5}]}
    rows = [
        output("b", chat("late", 1), chat("first", 0, finish_reason="length", logprobs=logprobs)),
        output("a", {"index": 0, "text": " plain", "logprobs": {"token_logprobs": [-2.0]}}),
        output("b", chat("again")),
    ]
    b, a = good(write(tmp_path / "out.jsonl", rows), "batch")
    assert [(c.text, c.logprob, dict(c.fields)) for c in b.candidates] == [
        ("first", -1.5, {"unfinished": True}),
        ("late", None, {}),
        ("again", None, {}),
    ]
    assert [(c.text, c.logprob) for c in a.candidates] == [(" plain", -2.0)]
    assert (b.id, a.id, b.source, b.extra) == ("b", "a", None, {})


def test_lists_stand_in_the_order_of_the_requests_and_have_their_prompts(tmp_path: Path) -> None:
    out = write(tmp_path / "out", [output("b", chat("B")), output("a", chat("A"), chat("A2", 1))])
    parts = [{"type": "text", "text": "t"}, {"type": "image_url"}, {"type": "text", "text": "u"}]
    asked = [
        request("a", "question"),
        {"custom_id": "b", "body": {"messages": [{"role": "user", "content": parts}]}},
    ]
    a, b = good(out, "batch", requests=write(tmp_path / "in", asked))
    assert (a.id, a.source, len(a.candidates)) == ("a", "question", 2)
    assert a.extra["messages"][0] == {"role": "system", "content": "Be brief."}
    assert b.source == "tu"
    prompts = [{"custom_id": i, "body": {"prompt": f"say {i}"}} for i in "ab"]
    assert [r.source for r in good(out, "batch", requests=write(tmp_path / "in2", prompts))] == [
        "say a",
        "say b",
    ]


def test_answers_of_the_responses_endpoint_are_read(tmp_path: Path) -> None:
    parts = [{"type": "output_text", "text": "one "}, {"type": "output_text", "text": "two"}]
    items = [{"type": "reasoning"}, {"type": "message", "content": parts}]
    row = {"custom_id": "a", "response": {"status_code": 200, "body": {"output": items}}}
    (a,) = good(write(tmp_path / "out", [row]), "batch")
    assert a.candidates[0].text == "one two"


FAILED = """
{ => out:2: not JSON
{"id": 1} => out:2: custom_id: found None
{"custom_id": "x", "response": null, "error": {"code": "e"}} => response: the request failed: {'code'
{"custom_id": "x", "response": {"status_code": 429, "body": {}}} => the request failed: 429
{"custom_id": "x", "response": {"status_code": 200, "body": {"data": []}}} => no choices
{"custom_id": "x", "response": {"body": {"choices": [{"message": {"content": null}}]}}} => choices[0]: found None
{"custom_id": "x", "response": {"body": {"choices": ["text"]}}} => choices[0]: found 'text', expected a choice
{"custom_id": "x", "response": {"body": {"output": [{"type": "reasoning"}]}}} => output: found [{'type'
"""


@pytest.mark.parametrize("case", FAILED.strip().split("\n"))
def test_what_failed_is_an_error_record(tmp_path: Path, case: str) -> None:
    row, fact = case.split(" => ")
    path = write(tmp_path / "out", [output("a", chat("A")), row, output("b", chat("B"))])
    first, bad, last = entries(path, "batch")
    assert first.record
    assert last.record
    assert fact in str(bad.error)


def test_one_bad_choice_costs_itself(tmp_path: Path) -> None:
    positive = chat("c", 2, logprobs={"content": [{"logprob": 3.0}]})
    failed = {"custom_id": "a", "response": {"status_code": 500, "body": {}}}
    rows = [output("a", chat("A"), chat(None, 1), positive), failed, output("a", chat("D"))]
    (record,) = good(write(tmp_path / "out", rows), "batch")
    assert [candidate.text for candidate in record.candidates] == ["A", "D"]
    assert record.extra["missing_candidates"] == 3
    assert "choices[1]: found None, expected a text" in record.extra["missing_because"]
    (record,) = good(write(tmp_path / "s", [sample(0, "a", None, "b")]), "lm-eval")
    assert [candidate.text for candidate in record.candidates] == ["a", "b"]
    assert record.extra["missing_candidates"] == 1


def test_requests_without_output_and_outputs_without_request_are_told(tmp_path: Path) -> None:
    out = write(tmp_path / "out", [output("c", chat("C")), output("a", chat("A"))])
    other = request("d", "other")
    asked = [request("a", "q"), request("b", "q"), request("d", "q"), other, {"custom_id": 1}]
    found = entries(out, "batch", requests=write(tmp_path / "in", asked))
    assert [entry.record is not None for entry in found] == [True, False, False, False, False]
    messages = "\n".join(str(entry.error) for entry in found)
    assert "in:2: custom_id: no output for 'b'" in messages
    assert "in:4: custom_id: another question under the same id" in messages
    assert "in:5: custom_id: found 1" in messages
    assert "out:1: custom_id: an output of no request" in messages


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found flat text"):
        entries(write(tmp_path / "out", ["text"]), "batch")
    (entry,) = entries(write(tmp_path / "l", [output("a", chat("A"))]), "jsonl")
    assert "use --from batch" in str(entry.error)


def test_a_batch_is_decided(tmp_path: Path) -> None:
    out = write(
        tmp_path / "out", [output("a", chat("the cat"), chat("the cat sat", 1), chat("dog", 2))]
    )
    asked = write(tmp_path / "in", [request("a", "q")])
    command = ["decode", out, "--from", "batch", "--requests", asked, "-u", "chrf"]
    assert main([*map(str, command), "-o", str(tmp_path / "chosen")]) == 0
    row = json.loads((tmp_path / "chosen").read_text())
    assert (row["id"], row["text"]) == ("a", "the cat sat")
    assert row["messages"][1]["content"] == "q"
    assert main([*map(str, command), "-o", str(asked)]) == 2


# the harness


def sample(doc_id: Any, *texts: Any, **more: Any) -> dict[str, Any]:
    arguments = {"gen_args_0": {"arg_0": f"Q{doc_id}", "arg_1": {"until": ["\n"]}}}
    row = {"doc_id": doc_id, "doc": {"q": 1}, "target": "42", "arguments": arguments}
    return {**row, "resps": [list(texts)], "filtered_resps": [texts[0]], "filter": "none", **more}


def test_repeats_and_repeated_ids_are_candidates_and_filters_are_taken_once(tmp_path: Path) -> None:
    rows = [
        sample(0, "a", "b", filter="strict"),
        sample(1, "c", filter="strict"),
        sample(0, "a", "b", filter="flexible"),
        sample(1, "c", filter="flexible"),
        sample(1, "d", filter="strict"),
        sample(1, "d", filter="flexible"),
    ]
    zero, one = good(write(tmp_path / "s", rows), "lm-eval")
    assert [c.text for c in zero.candidates] == ["a", "b"]
    assert [c.text for c in one.candidates] == ["c", "d"]
    assert (zero.id, zero.source, zero.references, zero.extra) == (
        "0",
        "Q0",
        ("42",),
        {"doc": {"q": 1}},
    )


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        (["454", "454"], "454"),  # a run with two filters
        (["454", "454", "544", "544"], "454544"),  # two runs with two filters
        (["4", "4", "5"], "445"),  # three runs without filters, two of which agree
        (["45", "54"], "4554"),
    ],
)
def test_filters_of_old_versions_have_no_names(
    tmp_path: Path, lines: list[str], texts: str
) -> None:
    rows = [sample(0, *responses) for responses in lines]
    for row in rows:
        del row["filter"]
    (record,) = good(write(tmp_path / "s", rows), "lm-eval")
    assert [c.text for c in record.candidates] == list(texts)


@pytest.mark.parametrize("arguments", [[["Q", {"until": []}]], ["Q", {}], [["Q"]]])
def test_the_forms_of_arguments(tmp_path: Path, arguments: Any) -> None:
    (record,) = good(
        write(tmp_path / "s", [sample(0, "a", arguments=arguments, target=["x", "y"])]), "lm-eval"
    )
    assert (record.source, record.references) == ("Q", ("x", "y"))
    (record,) = good(write(tmp_path / "t", [sample(0, "a", target=42)]), "lm-eval")
    assert record.references == ("42",)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [sample(0, ["-1.5", "False"])],
            r"resps\[0\]\[0\]: .*expected a text. Give the samples of a task",
        ),
        ([sample(0, "a", resps=[["a"], ["b"]])], "expected texts of one request"),
        ([sample(None, "a")], "doc_id: found None"),
        (
            [sample(0, "a"), sample(0, "b", filter="x")],
            "other responses under the filter 'x' than under 'none'",
        ),
        (
            [sample(0, "a"), sample(0, "b", target="7")],
            "references: another one under the same doc_id",
        ),
    ],
)
def test_what_is_no_sample_of_a_text_is_an_error_record(
    tmp_path: Path, rows: Any, message: str
) -> None:
    (entry,) = entries(write(tmp_path / "s", rows), "lm-eval")
    with pytest.raises(InputError, match=message):
        raise entry.error or AssertionError


# groups


@given(st.lists(st.sampled_from("abcd"), max_size=12))
def test_lines_are_grouped_by_their_keys(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str]
) -> None:
    path = write(
        tmp_path_factory.getbasetemp() / "groups", [{"k": k, "i": i} for i, k in enumerate(keys)]
    )
    groups = GroupedLines("groups", LineSource(path), lambda row: str(row["k"]))
    found = [
        [json.loads(line)["i"] for _, line in groups.lines(g).lines] for g in groups.by_appearance()
    ]
    assert found == [[i for i, k in enumerate(keys) if k == key] for key in dict.fromkeys(keys)]
    for key in "abcde":
        group = groups.find(key)
        assert (group is None) == (key not in keys)
        if group is not None:
            assert json.loads(groups.lines(group).lines[0][1])["k"] == key
    groups.close()


def test_a_list_of_too_many_lines_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "out", [output("a", chat("A"))] * 4)
    with (
        use_limits(candidates=3),
        pytest.raises(InputError, match="a list of more than 3 candidates"),
    ):
        entries(path, "batch")
