"""Storms for ``generate``: a tiny model with documents in turns, and a server that takes its time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from transformers.utils.logging import disable_progress_bar

from benchmarks.reliability.counted_batches import batches_of
from benchmarks.reliability.storms import OUT, Target, Tried, stormed
from tests.support.lists import write_lists
from tests.support.serving import Reply, Seen, echo, serving
from tests.support.tiny_generators import TEXTS, model_of, tokenizer_of

ANSWER_SECONDS = 0.05
IN_CONTEXT = "{target_context} {source}"
AT_MOST = "a signal costs at most the batch at work"
SAME = "a resumed run makes the same batches"
COUNTED = "benchmarks.reliability.counted_batches"
LISTS_AT_ONCE = 2  # of 4 candidates, where 8 sequences make a batch


class MadeAgain:
    """Which lists were generated more than once, and in which batches, by the notes of `counted_batches`.

    Args:
        target: the command, which notes its batches.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.hits: Counter[Path] = Counter()  # signals, by the folder of the run

    def note_hit(self, folder: Path) -> list[str]:
        """Counts a signal that hit the run in a folder; nothing is wrong yet, as this shows when the run resumes."""
        self.hits[folder] += 1
        return []

    def too_many(self, folder: Path) -> int:
        """How many lists were generated again beyond those of the batches that signals can have found at work."""
        lists = [one for batch in batches_of(folder) for one in batch]
        return max(0, len(lists) - len(set(lists)) - LISTS_AT_ONCE * self.hits[folder])

    def rows(self) -> list[Tried]:
        """All lists that were generated and those not too often; all batches, and those that stood as they were."""
        begun = [batch for folder in self.hits for batch in batches_of(folder)]
        lists = [
            (folder, one) for folder in self.hits for batch in batches_of(folder) for one in batch
        ]
        again, signals = len(lists) - len(set(lists)), self.hits.total()
        excess = sum(map(self.too_many, self.hits))
        detail = f"{again} of {len(set(lists))} generated again after {signals} signals"
        # of the batches of a run each list has one, and only one
        others = sum(map(self.other_batches, self.hits))
        family, command = self.target.family, self.target.command
        return [
            Tried(family, AT_MOST, command, len(lists), len(lists) - excess, detail),
            Tried(family, SAME, command, len(begun), len(begun) - others, f"{others} others"),
        ]

    @staticmethod
    def other_batches(folder: Path) -> int:
        """How many batches of a run share a list with another that is not the same."""
        batches = set(batches_of(folder))
        of_list = Counter(one for batch in batches for one in batch)
        return sum(any(of_list[one] > 1 for one in batch) for batch in batches)


def counted(target_in: Callable[[Path], Target]) -> Callable[[int, int, Path], list[Tried]]:
    """The storm of a command whose batches are counted; `target_in` makes its inputs in a folder."""

    def trial(tries: int, seed: int, folder: Path) -> list[Tried]:
        target = target_in(folder / "inputs")
        again = MadeAgain(target)
        noted = replace(target, wrong_after=again.note_hit)
        rows = stormed(noted, tries, seed, folder / "runs")
        return [*rows, *again.rows()]

    return trial


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

    command = "generate --generator MODEL -u chrf --context 2"
    return Target("generate", command, words, source, module=COUNTED)


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
        module=COUNTED,
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
