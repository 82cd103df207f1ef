"""Storms for ``generate``: a tiny model with documents in turns, and a server that takes its time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from transformers.utils.logging import disable_progress_bar

from benchmarks.reliability.counted_batches import unsaved
from benchmarks.reliability.storms import OUT, Target
from tests.support.lists import write_lists
from tests.support.serving import Reply, Seen, echo, serving
from tests.support.tiny_generators import TEXTS, model_of, tokenizer_of

ANSWER_SECONDS = 0.05
IN_CONTEXT = "{target_context} {source}"


def sentences(folder: Path, count: int) -> Path:
    """Documents of five sentences."""
    rows = []
    for i in range(count):
        document, position = divmod(i, 5)
        row = {
            "id": str(i),
            "document": str(document),
            "position": position,
            "source": f"{TEXTS[i % 4]} {TEXTS[i % 3]}",
        }
        rows.append(row)
    folder.mkdir(parents=True, exist_ok=True)
    return write_lists(folder / "inputs.jsonl", rows)


def saved_model(folder: Path) -> Path:
    """A tiny model on disk."""
    disable_progress_bar()  # type: ignore[no-untyped-call]
    model_of("bart").save_pretrained(folder / "bart")
    tokenizer_of("bart").save_pretrained(folder / "bart")
    return folder / "bart"


def model_in_turns(folder: Path, count: int = 60) -> Target:
    """What was chosen for a sentence is read with the next; batches are small."""
    source = sentences(folder, count)
    model = saved_model(folder)
    options = [
        *("--generator", str(model), "-n", "4", "--max-new-tokens", "8", "--quiet"),
        *("--sequences-at-once", "8", "--utility", "chrf"),
        *("--prompt", IN_CONTEXT, "--first-prompt", "{source}", "--context", "2"),
    ]

    def words(own: Path) -> Sequence[str]:
        return ["generate", str(source), *options, "-o", str(own / OUT)]

    return Target("generate", "generate --generator MODEL -u chrf --context 2", words, source)


def model_by_batches(folder: Path, count: int = 48) -> Target:
    """Lists of a batch, which end at a stop string, are saved before the next batch begins."""
    source = sentences(folder, count)
    model = saved_model(folder)
    options = [
        *("--generator", str(model), "-n", "4", "--max-new-tokens", "12", "--quiet"),
        *("--sequences-at-once", "8", "--sampling", "ancestral", "--stop", "e", "--logprobs"),
    ]

    def words(own: Path) -> Sequence[str]:
        return ["generate", str(source), *options, "-o", str(own / OUT)]

    return Target(
        "generate-batches",
        "generate --generator MODEL --stop STRING",
        words,
        source,
        promise_after="no list is lost but those of the batch at work",
        wrong_after=unsaved,
        module="benchmarks.reliability.counted_batches",
    )


@contextmanager
def server(folder: Path, count: int = 150) -> Iterator[Target]:
    """A server whose texts depend on the request alone."""
    source = sentences(folder, count)

    def answer(seen: Seen, number: int) -> Reply:
        time.sleep(ANSWER_SECONDS)
        return echo(seen, number)

    with serving(answer) as running:
        options = [
            *("--backend", "server", "--base-url", running.url, "--generator", "m"),
            *("-n", "4", "--quiet"),
        ]

        def words(own: Path) -> Sequence[str]:
            return ["generate", str(source), *options, "-o", str(own / OUT)]

        yield Target("generate-server", "generate --backend server", words, source)
