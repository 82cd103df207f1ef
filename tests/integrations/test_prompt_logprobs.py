"""Log-probabilities of prompts by servers: every form of reply, the tokens of the text in them, and faults."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.integrations.scoring.list_prompts import PromptedText, ScoredText
from discorank.integrations.server.prompt_logprobs import FORMS, ServerScorer, ServerScoringOptions
from discorank.integrations.server.score_server import Pair
from discorank.integrations.server.settings import Connection
from discorank.metrics.errors import InputError, ResourceError

from ..support.lists import write_lists
from ..support.serving import Reply, Seen, Server, serving

Answer = Callable[[Seen, int], Reply]
PROMPT = "Der Hund schläft.\nEnglish:"


def tokens_of(text: str) -> list[str]:
    """Words with the space before them."""
    return re.findall(r" ?[^\s]+|\s", text)


def logprob(token: str, before: str) -> float:
    digest = blake2b(f"{before}|{token}".encode(), digest_size=2).digest()
    return -(1 + int.from_bytes(digest)) / 6000


def expected(prompt: str, text: str) -> ScoredText:
    """The value of the tokens that hold characters of the text."""
    at, total, count = 0, 0.0, 0
    for token in tokens_of(prompt + text):
        if at + len(token) > len(prompt):
            total += logprob(token, (prompt + text)[:at])
            count += 1
        at += len(token)
    return ScoredText(total, count)


def columns(whole: str, own: str = "") -> dict[str, Any]:
    """The columns of an echo; `own` is a token of the server's that begins every text."""
    tokens = [own] if own else []
    values: list[float | None] = [None] if own else []
    at = 0
    for token in tokens_of(whole):
        values.append(logprob(token, whole[:at]) if at or own else None)
        tokens.append(token)
        at += len(token)
    offsets = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
    return {"tokens": tokens, "token_logprobs": values, "text_offset": offsets}


def refuse(problem: str) -> Reply:
    return Reply({"error": {"message": problem}}, status=400)


def choice(**values: Any) -> Reply:
    return Reply({"choices": [{"index": 0, **values}]})


def openai(seen: Seen, number: int = 0) -> Reply:
    """An echo alone."""
    assert seen.path.endswith("/completions")
    if not seen.body.get("echo"):
        return refuse("echo is missing")
    return choice(text=seen.body["prompt"], logprobs=columns(seen.body["prompt"]))


def must_generate(seen: Seen, number: int = 0) -> Reply:
    """An echo, and the token that has to be generated."""
    if not seen.body.get("echo") or not seen.body["max_tokens"]:
        return refuse("max_tokens must be at least 1")
    given = columns(seen.body["prompt"])
    given["tokens"].append(" and")
    given["token_logprobs"].append(-0.5)
    given["text_offset"].append(len(seen.body["prompt"]))
    return choice(text=seen.body["prompt"] + " and", logprobs=given)


def vllm(seen: Seen, number: int = 0) -> Reply:
    """An echo whose offsets count the token before the text."""
    if not seen.body.get("echo"):
        return refuse("echo is missing")
    return choice(text=seen.body["prompt"], logprobs=columns(seen.body["prompt"], own="<s>"))


def positions(seen: Seen, number: int = 0) -> Reply:
    """The positions of vLLM, for a server that echoes nothing."""
    if "prompt_logprobs" not in seen.body:
        return refuse("Only no echo is supported")
    given = columns(seen.body["prompt"])
    rows: list[Any] = [None]
    for i, (token, value) in enumerate(zip(given["tokens"], given["token_logprobs"], strict=True)):
        if value is not None:
            rows.append({str(i): {"logprob": value, "rank": 1, "decoded_token": token}})
    return choice(text=" and", prompt_logprobs=rows)


def in_bytes(seen: Seen, number: int = 0) -> Reply:
    """An echo in which every umlaut is two tokens that are no characters."""
    if not seen.body.get("echo"):
        return refuse("echo is missing")
    whole, at = seen.body["prompt"], 0
    given: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "text_offset": []}
    for piece in re.findall(r"[^äöü]+|[äöü]", whole):
        parts = ["bytes:\\xc3", "bytes:\\xa4"] if piece in "äöü" else tokens_of(piece)
        for part in parts:
            given["tokens"].append(part)
            given["token_logprobs"].append(-1.0 if given["tokens"][1:] else None)
            given["text_offset"].append(at)
            at += 0 if part.startswith("bytes") else len(part)
        at += piece in "äöü"
    return choice(text=whole, logprobs=given)


def scorer(server: Server | str, form: Any = "auto", **settings: Any) -> ServerScorer:
    url = server if isinstance(server, str) else server.url
    given = {"retries": 1, "backoff_seconds": 0.0, **settings}
    options = ServerScoringOptions(form=form)
    return ServerScorer("m", Connection(url, **given), options, probes=False)


def answers(scorer: ServerScorer, texts: list[PromptedText]) -> list[Any]:
    (answer,) = scorer.scored([texts], lambda: None)
    assert not isinstance(answer, Exception)
    return list(answer)


@pytest.mark.parametrize(
    ("answer", "form"),
    [(openai, "echo"), (must_generate, "echo-one"), (vllm, "echo"), (positions, "prompt-logprobs")],
)
def test_every_form_gives_the_tokens_of_the_text(answer: Answer, form: str) -> None:
    texts = [
        PromptedText(PROMPT, " The dog sleeps."),
        PromptedText(f"{PROMPT} ", "The dog sleeps."),  # the space is part of the first token
        PromptedText(PROMPT, " A dog"),
        PromptedText(PROMPT, ""),
    ]
    with serving(answer) as server:
        server_scorer = scorer(server)
        assert server_scorer.values.form.name == form
        given = answers(server_scorer, texts)
        assert answers(scorer(server, form), texts) == given
    for text, value in zip(texts, given, strict=True):
        wanted = expected(text.prompt, text.text)
        assert value.tokens == wanted.tokens
        assert value.logprob == pytest.approx(wanted.logprob, abs=1e-12)


def test_the_requests_are_those_of_the_forms() -> None:
    with serving(openai) as server:
        scorer(server)
        (seen,) = server.seen
    assert seen.path == "/v1/completions"
    assert seen.body == {
        "model": "m",
        "prompt": "Hello world",
        "temperature": 0.0,
        "max_tokens": 0,
        "echo": True,
        "logprobs": 1,
    }
    body = FORMS["prompt-logprobs"].body("m", [Pair("a", "b")])
    assert body["prompt_logprobs"] == 0
    assert body["max_tokens"] == 1


def test_parts_of_characters_are_found_by_their_offsets() -> None:
    with serving(in_bytes) as server:
        (value,) = answers(scorer(server, "echo"), [PromptedText("schläft: ", "ja, schön.")])
    # " ja,", " sch", two parts of a character, "n."
    assert value == ScoredText(-5.0, 5)


def one(**values: Any) -> dict[str, Any]:
    return {"choices": [{"text": "a b c", **values}]}


GOOD = {"tokens": ["a", " b", " c"], "token_logprobs": [None, -1.0, -2.0], "text_offset": [0, 1, 3]}


@pytest.mark.parametrize(
    ("shown", "prompt", "text", "scored"),
    [
        # The first parts of a character show nothing, the last one shows it.
        (["A", " =", " ", "", "", "\U0001f600", "!"], "A = ", "\U0001f600!", 4),
        (["A", " =", "", "", " \U0001f600", "!"], "A =", " \U0001f600!", 4),
        (["A", "", "\U0001f600", " b"], "A\U0001f600", " b", 1),
        # The server's own first token is no part of any.
        (["", "A", " b"], "", "A b", 2),
        # Nor is what it generated.
        (["A", " b", ""], "A", " b", 1),
    ],
)
def test_tokens_that_show_no_character_are_parts_of_the_next(
    shown: list[str], prompt: str, text: str, scored: int
) -> None:
    values = [-float(1 << i) for i in range(len(shown))]
    entries = [
        {"1": {"logprob": v, "decoded_token": t}} for v, t in zip(values, shown, strict=True)
    ]
    reply = {"choices": [{"prompt_logprobs": [None, *entries[1:]]}]}
    (value,) = FORMS["prompt-logprobs"].values(reply, [Pair(prompt, text)])
    of_text = values[len(values) - scored :] if shown[-1] else values[1:2]
    assert value == ScoredText(sum(of_text), scored)


def changed(**logprobs: Any) -> Any:
    """A reply of whose log-probabilities some parts are others."""
    return one(logprobs={**GOOD, **logprobs})


ANOTHER = [None, {"1": {"logprob": -1.0, "decoded_token": " x"}}]
GENERATED_ALONE = {"tokens": [" d"], "token_logprobs": [-1.0], "text_offset": [5]}
WITHOUT_THE_BEGINNING = {"tokens": [" b", " c"], "token_logprobs": [-1.0, -2.0]}


@pytest.mark.parametrize(
    ("form", "reply", "fact"),
    [
        ("echo", [], "no choices"),
        ("echo", {"choices": []}, "no choices"),
        ("echo", one(), r"choices\[0\].logprobs: no log-probabilities of the prompt"),
        ("echo", changed(tokens=["a", " b"]), "no log-probabilities of the prompt"),
        ("echo", changed(token_logprobs=[None, None, -1.0]), "found None"),
        ("echo", changed(token_logprobs=[None, "x", -1.0]), "found 'x'"),
        ("echo", changed(token_logprobs=[None, 3.0, -1.0]), "found 3.0"),
        ("echo", one(logprobs=GENERATED_ALONE), "' d' are not those of prompt and text"),
        ("echo", one(logprobs=WITHOUT_THE_BEGINNING), "are not those of prompt and text"),
        ("echo", changed(tokens=["a", "\ufffd", " c"], text_offset=[0, 1, 2]), "are not those"),
        ("prompt-logprobs", one(prompt_logprobs=None), "no log-probabilities of the prompt"),
        ("prompt-logprobs", one(prompt_logprobs=[None, {}]), r"prompt_logprobs\[1\]: found {}"),
        ("prompt-logprobs", one(prompt_logprobs=ANOTHER), "are not those of prompt and text"),
    ],
)
def test_replies_that_do_not_cover_the_text_are_refused(form: str, reply: Any, fact: str) -> None:
    with pytest.raises(InputError, match=fact):
        FORMS[form].values(reply, [Pair("a", " b c")])


def test_what_covers_the_text_is_read() -> None:
    assert FORMS["echo"].values(one(logprobs=GOOD), [Pair("a", " b c")]) == [ScoredText(-3.0, 2)]
    floor = {**GOOD, "token_logprobs": [None, -9999.0, -2.0]}
    (value,) = FORMS["echo"].values(one(logprobs=floor), [Pair("a", " b c")])
    assert value == ScoredText(-float("inf"), 2)


@pytest.mark.parametrize(
    "answer",
    [
        lambda seen, number: refuse("Only no echo is supported"),
        lambda seen, number: choice(text="x", logprobs={"tokens": ["x"], "token_logprobs": [-1.0]}),
        lambda seen, number: choice(text="x"),
    ],
)
def test_a_server_without_log_probabilities_of_prompts_is_refused(answer: Answer) -> None:
    with serving(answer) as server, pytest.raises(InputError, match="gives no scores") as caught:
        scorer(server)
    for form in FORMS:
        assert f"{form}: " in str(caught.value)


def test_a_text_at_fault_is_an_error_of_its_own_and_equal_texts_are_asked_for_once() -> None:
    def answer(seen: Seen, number: int) -> Reply:
        if "poison" in seen.body["prompt"]:
            return refuse("maximum context length")
        return openai(seen)

    texts = [PromptedText("a", " b"), PromptedText("a", " poison"), PromptedText("a", " c")]
    with serving(answer) as server:
        server_scorer = scorer(server)
        lists: list[Any] = [texts, InputError("no list"), texts[:1], texts]
        given = list(server_scorer.scored(lists, lambda: None))
        asked = [seen.body["prompt"] for seen in server.seen]
    assert [type(answer) for answer in given] == [list, InputError, list, list]
    first = given[0]
    assert isinstance(first, list)
    assert isinstance(first[1], InputError)
    assert "maximum context length" in str(first[1])
    assert sorted(asked) == sorted({"Hello world", "a b", "a poison", "a c"})


def test_keys_retries_and_the_end_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "sesame")

    def answer(seen: Seen, number: int) -> Reply:
        if number >= 4:
            return Reply(b"gone", status=500)
        return Reply(b"later", status=503) if number == 2 else openai(seen)

    with serving(answer) as server:
        server_scorer = scorer(server, key_variable="KEY", connections=1)
        texts = [PromptedText("a", " b"), PromptedText("a", " c"), PromptedText("a", " d")]
        with pytest.raises(ResourceError, match="status 500: gone, 2 times"):
            answers(server_scorer, texts)
        assert {seen.key for seen in server.seen} == {"Bearer sesame"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--chat"], "servers give no log-probabilities of a text behind a chat template. Write"),
        (["--end"], "servers give no log-probability of the model's own end"),
        (["--dtype", "bfloat16"], "is no option of the backend server"),
        (["--request", '{"echo": false}'], "request.echo: is a key that discorank sets itself"),
        (["--request", '{"api_key": "x"}'], "holds a secret"),
    ],
)
def test_what_servers_cannot_do_is_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lists(
        tmp_path / "lists.jsonl", [{"id": "0", "source": "a", "candidates": ["b"]}]
    )
    command = ["logprobs", str(source), "--backend", "server", "--generator", "m"]
    command += ["--base-url", "http://localhost:9/v1", "--prompt", "{source} "]
    assert main([*command, *words]) == 2
    assert message in capsys.readouterr().err


def test_a_run_whose_server_stopped_goes_on(tmp_path: Path) -> None:
    rows = [
        {"id": str(i), "source": f"s{i}", "candidates": [f"t{i} {j % 3}" for j in range(4)]}
        for i in range(30)
    ]
    source = write_lists(tmp_path / "lists.jsonl", rows)

    def command(server: Server, out: Path) -> list[str]:
        words = ["logprobs", str(source), "--backend", "server", "--generator", "m", "-o", str(out)]
        words += ["--base-url", server.url, "--prompt", "{source} ", "--end-text", " end"]
        words += ["--skip-probe"]
        return [*words, "--connections", "1", "--retries", "0", "--backoff-seconds", "0", "--quiet"]

    with serving(openai) as server:
        assert main(command(server, tmp_path / "whole.jsonl")) == 0
        # three distinct candidates each, and what is asked at the beginning
        assert len(server.seen) == 1 + 3 * len(rows)

    def dying(seen: Seen, number: int) -> Reply:
        return openai(seen) if number < 50 else Reply(b"", status=502)

    out = tmp_path / "out.jsonl"
    with serving(dying) as server:
        assert main(command(server, out)) == 5
    assert 0 < len(out.read_bytes().splitlines()) < len(rows)
    with serving(openai) as server:
        assert main(command(server, out)) == 0
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    written = [json.loads(line) for line in out.read_text().splitlines()]
    value = expected("s3 ", "t3 1 end")
    assert written[3]["candidates"][1] == {
        "text": "t3 1",
        "logprob": pytest.approx(value.logprob),
        "tokens": value.tokens,
    }


def continuing(seen: Seen, rows_off: int = 0, has_logprobs: bool = True) -> Reply:
    """An echo as of OpenAI's, whose values are those of the token so many rows on, and a continuation where none is."""
    prompt = seen.body["prompt"]
    if seen.body.get("echo"):
        given = columns(prompt)
        values = given["token_logprobs"]
        given["token_logprobs"] = (
            values if not rows_off else [None, *values[1 + rows_off :], *[-9.0] * rows_off]
        )
        return choice(text=prompt, logprobs=given)
    if "prompt_logprobs" in seen.body:
        return refuse("prompt_logprobs is not known")
    text = f" a {seen.body.get('seed')} boat and a train and a small house under the hill"
    given = columns(prompt + text)
    start = len(tokens_of(prompt))
    made = {name: column[start:] for name, column in given.items()}
    return choice(text=text, logprobs=made if has_logprobs and seen.body.get("logprobs") else None)


def probed(server: Server, **settings: Any) -> ServerScorer:
    given = {"retries": 0, "backoff_seconds": 0.0, **settings}
    return ServerScorer("m", Connection(server.url, **given))


def test_values_are_checked_by_a_text_that_the_server_generates() -> None:
    with serving(lambda seen, number: continuing(seen)) as server:
        right = probed(server)
        assert right.values.form.name == "echo"
        assert [bool(seen.body.get("echo")) for seen in server.seen] == [True, False, True]
        generated = server.seen[1].body
    assert (generated["temperature"], generated["logprobs"], generated["max_tokens"]) == (
        1.0,
        1,
        24,
    )


def test_an_echo_that_is_a_row_off_is_refused() -> None:
    with (
        serving(lambda seen, number: continuing(seen, rows_off=1)) as server,
        pytest.raises(
            InputError, match=r"prompts by echo-one: wrong: -\d+\.\d\d nats a token"
        ) as raised,
    ):
        probed(server)
    assert "--skip-probe" in str(raised.value)


def test_the_form_is_the_one_whose_values_are_right() -> None:
    """An echo that must not generate is a row off; one with a token behind it is right."""

    def answer(seen: Seen, number: int) -> Reply:
        return continuing(seen, rows_off=int(seen.body["max_tokens"] == 0))

    with serving(answer) as server:
        assert probed(server).values.form.name == "echo-one"


def test_values_that_cannot_be_checked_are_warned_of() -> None:
    with (
        serving(lambda seen, number: continuing(seen, has_logprobs=False)) as server,
        pytest.warns(UserWarning, match="prompts by echo: nothing is generated with"),
    ):
        assert probed(server).values.form.name == "echo"


def test_the_table_says_what_the_server_does(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["logprobs", "--backend", "server", "--generator", "m", "--probe", "--base-url"]
    with serving(lambda seen, number: continuing(seen, rows_off=1)) as server:
        assert main([*words, server.url, "--retries", "0"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert [re.split(r"  +", line)[:2] for line in table] == [
        ["n", "no"],
        ["sampling", "yes"],
        ["seed", "yes"],
        ["log-probabilities", "yes"],
        ["prompts by echo", "no"],
        ["prompts by echo-one", "no"],
        ["prompts by prompt-logprobs", "no"],
    ]


def test_a_form_that_a_server_fails_at_is_asked_once_and_is_a_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As one that takes 0 tokens for no bound, and writes until there is no room."""

    def answer(seen: Seen, number: int) -> Reply:
        if seen.body.get("echo") and seen.body["max_tokens"] == 0:
            return Reply({"error": {"message": "no room"}}, 500)
        return continuing(seen)

    words = ["logprobs", "--backend", "server", "--generator", "m", "--probe", "--base-url"]
    with serving(answer) as server:
        assert main([*words, server.url, "--retries", "3"]) == 0
        echoes = [seen for seen in server.seen if seen.body.get("echo")]
    table = capsys.readouterr().out.splitlines()
    assert re.split(r"  +", table[4])[:2] == ["prompts by echo", "no"]
    assert re.split(r"  +", table[5])[:2] == ["prompts by echo-one", "yes"]
    assert [seen.body["max_tokens"] for seen in echoes] == [0, 1]
