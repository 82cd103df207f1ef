"""Storms for ``logprobs``: tiny models, a list that cannot be scored, and a server that takes its time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from random import Random

from transformers.utils.logging import disable_progress_bar

from benchmarks.reliability.storms import OUT, Target
from tests.support.lists import write_lists
from tests.support.serving import Reply, Seen, serving
from tests.support.tiny_generators import TEXTS, model_of, tokenizer_of

ANSWER_SECONDS = 0.01
IN_CONTEXT = "{source_context} {target_context} {source} "


def lists(folder: Path, count: int) -> Path:
    """Documents of five sentences, each with eight candidates; one has a candidate that is too long."""
    r = Random(5)
    words = " ".join(TEXTS).split()
    rows = []
    for i in range(count):
        document, position = divmod(i, 5)
        texts = [" ".join(r.choices(words, k=r.randint(2, 8))) for _ in range(7)]
        row = {
            "id": str(i),
            "document": str(document),
            "position": position,
            "source": TEXTS[i % 4],
            "chosen": i % 7,
            "candidates": [*texts, texts[0]],
        }
        rows.append(row)
    rows[count * 3 // 5]["candidates"] = ["the dog " * 99]
    folder.mkdir(parents=True, exist_ok=True)
    return write_lists(folder / "lists.jsonl", rows)


def saved_model(folder: Path, family: str) -> Path:
    """A tiny model on disk."""
    disable_progress_bar()  # type: ignore[no-untyped-call]
    model_of(family).save_pretrained(folder / family)
    tokenizer_of(family).save_pretrained(folder / family)
    return folder / family


def causal(folder: Path, count: int = 1500) -> Target:
    """A decoder-only model that reads what was chosen for the sentence before."""
    source, model = lists(folder, count), saved_model(folder, "llama")
    options = [
        *("--generator", str(model), "--quiet", "--max-errors", "1", "--batch-tokens", "512"),
        *("--prompt", IN_CONTEXT, "--first-prompt", "{source} ", "--context", "1"),
    ]

    def words(own: Path) -> Sequence[str]:
        return ["logprobs", str(source), *options, "-o", str(own / OUT)]

    return Target("logprobs", "logprobs --generator CAUSAL --context 1", words, source, code=3)


def encoder_decoder(folder: Path, count: int = 1000) -> Target:
    """The source given each candidate."""
    source, model = lists(folder, count), saved_model(folder, "bart")
    options = [
        *("--generator", str(model), "--quiet", "--max-errors", "1", "--batch-tokens", "512"),
        *("--reverse", "--field", "channel"),
    ]

    def words(own: Path) -> Sequence[str]:
        return ["logprobs", str(source), *options, "-o", str(own / OUT)]

    command = "logprobs --generator BART --reverse --field channel"
    return Target("logprobs-reverse", command, words, source, code=3)


@contextmanager
def server(folder: Path, count: int = 150) -> Iterator[Target]:
    """A server that echoes prompts, one token per word, and refuses one that is long."""
    source = lists(folder, count)

    def answer(seen: Seen, number: int) -> Reply:
        time.sleep(ANSWER_SECONDS)
        prompt = seen.body["prompt"]
        if len(prompt) > 600:
            return Reply({"error": {"message": "maximum context length"}}, status=400)
        first, *rest = prompt.split(" ")
        tokens = [first, *(f" {word}" for word in rest)]
        values = [None, *(logprob(prompt, i) for i in range(1, len(tokens)))]
        logprobs = {"tokens": tokens, "token_logprobs": values}
        return Reply({"choices": [{"text": prompt, "logprobs": logprobs}]})

    with serving(answer) as running:
        options = [
            *("--backend", "server", "--base-url", running.url, "--generator", "m"),
            *("--prompt", "{source} = ", "--quiet", "--max-errors", "1"),
        ]

        def words(own: Path) -> Sequence[str]:
            return ["logprobs", str(source), *options, "-o", str(own / OUT)]

        command = "logprobs --backend server"
        yield Target("logprobs-server", command, words, source, code=3)


def logprob(prompt: str, place: int) -> float:
    """A made-up log-probability, a function of its prompt and place alone."""
    digest = blake2b(f"{place} {prompt}".encode(), digest_size=2).digest()
    return -(1 + int.from_bytes(digest)) / 9000
