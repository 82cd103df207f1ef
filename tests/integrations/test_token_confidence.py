"""How sure a model was: numbers against plain passes and worked by hand, weights, servers."""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank import Candidate, CandidateList, InputError, MBRDecoder, Reranker
from discorank.cli.main import main
from discorank.integrations.files.reply_choices import token_logprobs
from discorank.rerank.votes.confidence import (
    SIGNS,
    TOKENS,
    TokenLogprobs,
    confidence_of,
    entropy_of_top,
)

from ..support.serving import Reply, Seen, serving
from ..support.tiny_causal import write_causal

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_causal(tmp_path_factory.mktemp("model"), "llama")


def generated(folder: Path, tmp_path: Path, *more: str) -> tuple[Path, list[dict[str, Any]]]:
    """The output of generate, and its rows."""
    source, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("one two\nthree\n")
    arguments = ["generate", str(source), "--from", "text", "--generator", str(folder), "-n", "4"]
    arguments += ["--max-new-tokens", "9", "--sampling", "ancestral", "-o", str(out), "--quiet"]
    assert main([*arguments, *more]) == 0
    return out, [json.loads(line) for line in out.read_text().splitlines()]


def test_numbers_are_those_of_a_plain_pass(folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from discorank.integrations.huggingface import generate

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    settings: dict[str, Any] = {"num_candidates": 4, "max_new_tokens": 9, "top_logprobs": 5}
    settings |= {"sampling": "ancestral", "logprobs": True}
    sources = ["one two", "three"]
    rankings = generate(model, tokenizer, sources, "vote", weights="certainty", **settings)
    for source, ranking in zip(sources, rankings, strict=True):
        ids = tokenizer(source)["input_ids"]
        for candidate in ranking.candidates:
            tokens = candidate.fields[TOKENS]
            assert candidate.logprob == pytest.approx(tokens.chosen.sum(), abs=1e-4)
            mean = candidate.fields["mean-logprob"]
            assert mean == pytest.approx(tokens.chosen.mean(), abs=1e-5)
            drawn: list[int] = []
            for step in range(len(tokens.chosen)):
                with torch.inference_mode():
                    logits = model(input_ids=torch.tensor([[*ids, *drawn]])).logits[0, -1]
                p = logits.double().softmax(0)
                # which token was drawn is known by its probability
                nearest = int((p.log() - float(tokens.chosen[step])).abs().argmin())
                assert float(p[nearest].log()) == pytest.approx(tokens.chosen[step], abs=1e-4)
                drawn.append(nearest)
                largest = p.log().topk(5).values.numpy()
                assert tokens.top[step] == pytest.approx(largest, abs=1e-4)
                uniform = float((-p.log().mean()) - log(len(p)))
                assert tokens.certainty is not None
                assert tokens.entropy is not None
                assert tokens.certainty[step] == pytest.approx(uniform, abs=1e-4)
                entropy = float(-(p * p.log()).sum())
                assert tokens.entropy[step] == pytest.approx(entropy, abs=1e-4)
            assert tokens.certainty is not None
            certainty = candidate.fields["certainty"]
            assert certainty == pytest.approx(tokens.certainty.mean(), abs=1e-5)


def test_in_python_candidates_carry_the_numbers_and_the_tokens(folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from discorank.integrations.huggingface import generate

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    settings: dict[str, Any] = {"num_candidates": 3, "max_new_tokens": 5, "top_logprobs": 2}
    (ranking,) = generate(model, tokenizer, ["one"], "vote", weights="certainty", **settings)
    for candidate in ranking.candidates:
        assert set(SIGNS) <= set(candidate.fields)
        assert candidate.fields[TOKENS].top.shape[1] == 2
    with pytest.raises(InputError, match="no certainty"):
        generate(model, tokenizer, ["one"], "vote", weights="certainty", max_new_tokens=5)


def test_numbers_worked_by_hand() -> None:
    # eight tokens of a vocabulary of 4, of which 2 are kept
    shares = np.array([[0.5, 0.25], [0.9, 0.05]] * 4)
    top = np.log(shares).astype(np.float32)
    chosen = top[:, 0]
    numbers = confidence_of(TokenLogprobs(chosen, top))
    assert set(numbers) == {"mean-logprob", "tail-entropy", "bottom-window"}
    assert numbers["mean-logprob"] == pytest.approx((log(0.5) + log(0.9)) / 2)
    # the last two of eight: the rest of each is one more token
    first = -(0.5 * log(0.5) + 2 * 0.25 * log(0.25))
    second = -(0.9 * log(0.9) + 2 * 0.05 * log(0.05))
    assert numbers["tail-entropy"] == pytest.approx((first + second) / 2, abs=1e-6)
    assert entropy_of_top(top)[0] == pytest.approx(first, abs=1e-6)
    # all windows of two tokens have one of each kind
    each = [-(log(a) + log(b)) / 2 for a, b in ((0.5, 0.25), (0.9, 0.05))]
    assert numbers["bottom-window"] == pytest.approx(sum(each) / 2, abs=1e-6)
    assert confidence_of(TokenLogprobs(chosen[:0], top[:0])) == {}


def test_the_lowest_tenth_of_windows_counts() -> None:
    top = np.log(np.linspace(0.2, 0.9, 40))[:, None].astype(np.float32)
    confidence = -top[:, 0].astype(float)
    windows = sorted(confidence[i : i + 10].mean() for i in range(31))
    numbers = confidence_of(TokenLogprobs(top[:, 0], top))
    assert numbers["bottom-window"] == pytest.approx(np.mean(windows[:3]), abs=1e-6)


def test_numbers_are_written_without_the_tokens(folder: Path, tmp_path: Path) -> None:
    out, rows = generated(folder, tmp_path, "--top-logprobs", "3")
    for row in rows:
        for candidate in row["candidates"]:
            assert {*SIGNS} <= candidate.keys()
            assert TOKENS not in candidate
    again, plain = tmp_path / "again", tmp_path / "plain"
    again.mkdir()
    plain.mkdir()
    other, _ = generated(folder, again, "--top-logprobs", "3")
    assert other.read_bytes() == out.read_bytes()
    _, without = generated(folder, plain)
    texts = [[c["text"] for c in row["candidates"]] for row in rows]
    assert [
        [c if isinstance(c, str) else c["text"] for c in row["candidates"]] for row in without
    ] == texts


def of_confidence(*values: float, name: str = "certainty") -> CandidateList:
    texts = ("the answer is 5", "it is 5", "the answer is 6")
    candidates = [Candidate(text, None, {name: v}) for text, v in zip(texts, values, strict=True)]
    return CandidateList("x", tuple(candidates))


def test_votes_are_weighted_by_confidence() -> None:
    for name, sign in SIGNS.items():
        record = of_confidence(*(sign * value for value in (1.0, 1.0, 3.0)), name=name)
        (ranking,) = MBRDecoder("vote", weights=name).decode([record])
        votes = {"6": 1.0, "5": 2 * exp(-2)}
        assert ranking.answer == "6"
        assert ranking.utility == pytest.approx(votes["6"] / sum(votes.values()))
        (even,) = MBRDecoder("vote", weights=name, temperature=100.0).decode([record])
        assert even.answer == "5"
        (first,) = Reranker({name: 1.0}).decode([record])
        assert first.index == 2


def test_what_lacks_the_number_is_told_how_to_have_it() -> None:
    record = CandidateList("x", (Candidate("a"), Candidate("b")))
    with pytest.raises(InputError, match=r"candidates\[0\]: no certainty.*servers do not tell it"):
        list(MBRDecoder("vote", weights="certainty").decode([record]))
    with pytest.raises(InputError, match=r"no tail-entropy.*generate --top-logprobs 20"):
        list(Reranker({"tail-entropy": 1.0}).decode([record]))


CHAT = {
    "logprobs": {
        "content": [
            {"logprob": -0.5, "top_logprobs": [{"logprob": -0.5}, {"logprob": -1.5}]},
            {"logprob": -2.0, "top_logprobs": [{"logprob": -2.0}, {"logprob": -0.25}]},
        ]
    }
}
PLAIN = {
    "logprobs": {
        "token_logprobs": [-0.5, -2.0],
        "top_logprobs": [{"a": -0.5, "b": -1.5}, {"c": -2.0, "d": -0.25}],
    }
}


@pytest.mark.parametrize("choice", [CHAT, PLAIN])
def test_replies_of_servers_are_read(choice: dict[str, Any]) -> None:
    tokens = token_logprobs(choice)
    assert tokens is not None
    assert tokens.chosen.tolist() == [-0.5, -2.0]
    assert tokens.top.tolist() == [[-0.5, -1.5], [-0.25, -2.0]]
    assert tokens.certainty is None


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"token_logprobs": [-1.0]},
        {"token_logprobs": [-1.0], "top_logprobs": None},
        {"token_logprobs": [-1.0], "top_logprobs": [None]},
        {"token_logprobs": [-1.0, -2.0], "top_logprobs": [{"a": -1.0}]},
        {"token_logprobs": [-1.0], "top_logprobs": [{"a": 3.0}]},
        {"token_logprobs": [None], "top_logprobs": [{"a": -1.0}]},
        {"content": [{"logprob": "x", "top_logprobs": [{"logprob": -1.0}]}]},
        {"content": [{"logprob": -1.0, "top_logprobs": []}]},
    ],
)
def test_replies_without_the_likeliest_tokens_have_no_confidence(logprobs: Any) -> None:
    assert token_logprobs({"logprobs": logprobs}) is None


def test_the_command_asks_servers_for_it(tmp_path: Path) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("how many?\n")

    def answer(seen: Seen, number: int) -> Reply:
        texts = ["the answer is 5", "the answer is 6"]
        choices = [{"index": i, "message": {"content": t}, **CHAT} for i, t in enumerate(texts)]
        return Reply({"choices": choices[: seen.body["n"]]})

    arguments = ["generate", str(source), "--from", "text", "--backend", "server", "--chat"]
    with serving(answer) as server:
        arguments += ["--base-url", server.url, "--generator", "m", "-n", "2", "-o", str(out)]
        assert main([*arguments, "--top-logprobs", "2", "--skip-probe", "--quiet"]) == 0
        assert [seen.body["top_logprobs"] for seen in server.seen] == [2]
    (row,) = map(json.loads, out.read_text().splitlines())
    assert row["candidates"][0]["mean-logprob"] == pytest.approx(-1.25)
    assert "certainty" not in row["candidates"][0]
    voted = tmp_path / "voted.txt"
    weighted = ["decode", str(out), "-u", "vote", "--weights", "mean-logprob"]
    assert main([*weighted, "--format", "answers", "-o", str(voted)]) == 0
    assert voted.read_text() == "5\n"
