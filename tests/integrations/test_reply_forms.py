"""One table of the forms of replies, through every entrance: servers, serve, batch files, rewards and lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discorank
from discorank.integrations.formats.open_lists import open_lists
from discorank.integrations.generation.generator import Prompt
from discorank.integrations.server.generator import ServerGenerator
from discorank.integrations.server.settings import Connection, ServerSettings
from discorank.metrics.errors import InputError
from discorank.rerank.lists import CandidateList, list_of, read_list
from discorank.rerank.messages import is_reply, reply_text, user_text

from ..support.proxying import proxying, send
from ..support.serving import Reply, serving

TEXT = "the cat sat"
GOOD = "a cat sat down"
CALL = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
THOUGHT = {"type": "thinking", "thinking": "so"}


def part(text: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": text}


# messages of the model, and whether TEXT is their text; others have none
MESSAGES: dict[str, tuple[dict[str, Any], bool]] = {
    "text": ({"content": TEXT}, True),
    "parts": ({"content": [part("the cat"), part(" sat")]}, True),
    "parts of the responses endpoint": ({"content": [part(TEXT, "output_text")]}, True),
    "a part of reasoning": ({"content": [THOUGHT, part(TEXT)]}, True),
    "a part of reasoning with a text": ({"content": [part("so", "reasoning"), part(TEXT)]}, True),
    "reasoning beside a text": ({"content": TEXT, "reasoning_content": "so"}, True),
    "a text with calls": ({"content": TEXT, "tool_calls": CALL}, True),
    "no refusal": ({"content": TEXT, "refusal": None, "tool_calls": None}, True),
    "null": ({"content": None}, False),
    "no parts": ({"content": []}, False),
    "reasoning alone": ({"content": None, "reasoning_content": "so"}, False),
    "parts of reasoning alone": ({"content": [THOUGHT]}, False),
    "a refusal": ({"content": None, "refusal": "I cannot"}, False),
    "a part of a refusal": ({"content": [{"type": "refusal", "refusal": "no"}]}, False),
    "calls alone": ({"content": None, "tool_calls": CALL}, False),
    "a number": ({"content": 3}, False),
    "nothing": ({}, False),
}


def choice(message: Any, index: int = 0) -> dict[str, Any]:
    return {
        "index": index,
        "message": {"role": "assistant", **message},
        "finish_reason": "stop",
        "logprobs": None,
    }


def reply(message: Any) -> dict[str, Any]:
    """A reply with a choice of this message, and a good one."""
    return {
        "id": "r",
        "object": "chat.completion",
        "choices": [choice(message), choice({"content": GOOD}, 1)],
    }


def from_a_server(message: Any, folder: Path) -> list[str]:
    with serving(lambda seen, number: Reply(reply(message))) as server:
        settings = ServerSettings(model="m", num_candidates=2, chat=True)
        made = ServerGenerator(settings, Connection(server.url, backoff_seconds=0.0))
        (generated,) = made.generate([Prompt("p", "p")])
    assert isinstance(generated, CandidateList)
    texts = [str(candidate.text) for candidate in generated.candidates]
    # a choice without a text is drawn again
    return texts if TEXT in texts else sorted(set(texts))


def from_serve(message: Any, folder: Path) -> list[str]:
    asked = {"model": "chrf", "messages": [{"role": "user", "content": "p"}], "n": 2}
    with (
        serving(lambda seen, number: Reply(reply(message))) as server,
        proxying(url=server.url, num_candidates=2) as proxy,
    ):
        answer = send("POST", f"{proxy.url}/chat/completions", json=asked).json()
    assert answer["choices"], answer
    read = [reply_text(one) for one in answer["choices"]]
    assert bool(answer["discorank"].get("left_out")) == (TEXT not in read)
    return sorted(set(read), key=(TEXT, GOOD).index)


def from_a_batch(message: Any, folder: Path) -> list[str]:
    row = {"custom_id": "a", "response": {"status_code": 200, "body": reply(message)}}
    path = folder / "out.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with open_lists(path, "batch") as lists:
        ((record, *_),) = [(entry.record,) for entry in lists]
    assert record is not None
    texts = [str(candidate.text) for candidate in record.candidates]
    assert record.extra.get("missing_candidates", 0) == 2 - len(texts)
    return texts


def from_rewards(message: Any, folder: Path) -> list[str]:
    completions = [[{"role": "assistant", **message}], [{"role": "assistant", "content": GOOD}]]
    reward = discorank.reward("chrf", on_error="mask")
    first, second = reward(completions, reference=[TEXT, GOOD])
    assert second == 100
    group = discorank.group_reward("chrf", on_error="mask")
    grouped = group(completions, prompts=["p", "p"])
    assert [value is None for value in grouped] == [first is None, False]
    if first is None:
        with pytest.raises(InputError, match=r"completions\[0\]: found .*expected a text"):
            discorank.reward("chrf")(completions, reference=[TEXT, GOOD])
        return [GOOD]
    assert first == 100
    return [TEXT, GOOD]


def from_lists(message: Any, folder: Path) -> list[str]:
    said = {"role": "assistant", **message}
    row: dict[str, Any] = {
        "id": "1",
        "prompt": [{"role": "user", "content": "hi"}],
        "responses": [[said], said],
    }
    row["responses"] += [[{"role": "assistant", "content": GOOD}]]
    record = read_list(row)
    assert (record.source, len(record.candidates)) == ("hi", 3)
    first, second, good = record.candidates
    assert first.text == second.text
    missing = "missing_because" in first.fields
    assert missing == (first.text == "")
    return ([] if missing else [str(first.text)]) + [str(good.text)]


ENTRANCES = (from_a_server, from_serve, from_a_batch, from_rewards, from_lists)


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("form", MESSAGES)
def test_every_entrance_reads_every_form_alike(
    tmp_path: Path, form: str, entrance: Callable[[Any, Path], list[str]]
) -> None:
    message, has_text = MESSAGES[form]
    assert entrance(message, tmp_path) == ([TEXT, GOOD] if has_text else [GOOD])


SAID = {"role": "assistant", "content": TEXT}
TOOL = {"role": "tool", "content": "5"}
USER = {"role": "user", "content": "hi"}
CONVERSATIONS: list[list[dict[str, Any]]] = [
    [SAID],
    [USER, SAID],
    [SAID, TOOL],
    [USER, {"role": "assistant", "content": "let me see"}, TOOL, SAID],
    [{**SAID, "tool_calls": CALL}, TOOL, TOOL],
    [{"role": "model", "content": TEXT}],
    [{"content": TEXT}],
    [
        {"type": "reasoning", "summary": []},
        {"type": "message", "content": [part(TEXT, "output_text")]},
    ],
]


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_the_last_message_of_the_model_is_the_text(conversation: Any) -> None:
    assert is_reply(conversation)
    assert reply_text(conversation) == TEXT
    assert discorank.reward("chrf")([conversation], reference=[TEXT]) == [100]
    array: Any = np.empty(1, dtype=object)
    array[0] = np.array(conversation, dtype=object)
    assert discorank.reward("chrf")(array, reference=[TEXT]) == [100]
    texts = [one.text for one in list_of([conversation, GOOD], 0).candidates]
    assert texts == [TEXT, GOOD]


@pytest.mark.parametrize("conversation", [[USER], [TOOL, USER], []])
def test_a_conversation_without_the_model_has_no_text(conversation: Any) -> None:
    with pytest.raises(InputError, match="expected a text"):
        reply_text(conversation)
    with pytest.raises(InputError):
        read_list({"id": "a", "candidates": [conversation] if conversation else []})


def test_a_list_whose_candidates_all_lack_a_text_is_an_error() -> None:
    with pytest.raises(InputError, match=r"candidates\[0\]: found None, expected a text"):
        read_list({"id": "a", "candidates": [{"role": "assistant", "content": None}]})


def test_other_keys_of_a_message_are_fields() -> None:
    (one,) = read_list(
        {"id": "a", "candidates": [{**SAID, "logprob": -1.5, "system": "x"}]}
    ).candidates
    assert (one.text, one.logprob, dict(one.fields)) == (TEXT, -1.5, {"system": "x"})


def test_the_source_is_the_last_message_of_the_user() -> None:
    parts = {"role": "user", "content": [part("a"), {"type": "image_url"}, part("b")]}
    assert user_text([USER, parts, SAID]) == "ab"
    assert user_text([SAID]) is None
    assert read_list({"id": "a", "source": [USER, SAID], "candidates": ["x"]}).source == "hi"


COLUMNS: list[Any] = [
    [4, 6],
    [4.0, 6.0],
    [[4], [5, 6]],
    np.array([4, 6]),
    np.array([4.0, 6.0], np.float32),
    np.array(["4", "6"]),
    [np.int64(4), np.str_("6")],
    [np.array(["4"], dtype=object), np.array(["6"], dtype=object)],
    [[{"role": "assistant", "content": "4"}], [USER, {"role": "assistant", "content": "6"}]],
]


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_of_answers_are_numbers_arrays_and_conversations(column: Any) -> None:
    reward = discorank.reward("vote", reference="answer")
    completions = ["The answer is 4", "It is 5"]
    is_of_lists = isinstance(column, list) and column == [[4], [5, 6]]
    expected = [1.0, 1.0] if is_of_lists else [1.0, 0.0]
    assert reward(prompts=["p"] * 2, completions=completions, answer=column) == expected
    one = [
        reward.compute_score("w", text, truth)
        for text, truth in zip(completions, column, strict=True)
    ]
    assert one == expected


@pytest.mark.parametrize("bad", [None, True, float("nan"), []])
def test_one_bad_reference_costs_itself(bad: Any) -> None:
    reward = discorank.reward("vote", reference="answer", on_error="mask")
    assert reward(["It is 4", "It is 4"], answer=[bad, 4]) == [None, 1.0]


@pytest.mark.parametrize("references", [4, [4], [4.0], "4", ["4"]])
def test_references_of_lists_may_be_numbers(references: Any) -> None:
    record = read_list({"id": "a", "candidates": ["4"], "references": references})
    assert record.references == ("4",)
    with pytest.raises(InputError, match=r"references\[0\]: found true"):
        read_list({"id": "a", "candidates": ["4"], "references": [True]})
