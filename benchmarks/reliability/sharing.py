"""Two processes write one output: one of them must refuse, and the output must be that of one process alone."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.reliability import training_storms
from benchmarks.reliability.decode_storms import SAVED, decode_words, lists
from benchmarks.reliability.storms import OUT, Tried, finish, outputs_of, start, undisturbed
from benchmarks.same_outputs.comparing import Outputs, differences

REFUSED = 4  # the exit code of who comes second


class Pair(NamedTuple):
    """Two commands that write the same.

    Args:
        command: what the table shows of them.
        words: the arguments of either, by the folder of the outputs and by its number, 0 or 1.
        code: how one of them ends alone.
        shared: the outputs of both: their names begin so.
    """

    command: str
    words: Callable[[Path, int], Sequence[str]]
    code: int
    shared: str = ""


def two_processes(tries: int, seed: int, folder: Path) -> list[Tried]:
    """Starts two processes at once, or one shortly after the other."""
    source = lists(folder / "lists", 2000)
    texts = training_storms.texts(folder / "texts")

    def one_out(own: Path, number: int) -> Sequence[str]:
        return decode_words(source, own / OUT, "-u", "chrf")

    def one_saved(own: Path, number: int) -> Sequence[str]:
        out = own / (OUT, "other.jsonl")[number]
        return decode_words(source, out, "-u", "chrf", "--save-utilities", str(own / SAVED))

    def one_model(own: Path, number: int) -> Sequence[str]:
        return training_storms.words(own, texts)

    pairs = [
        Pair("decode -o OUT, twice", one_out, 3),
        Pair("decode --save-utilities U, twice", one_saved, 3, SAVED),
        Pair("train sescore2 -o MODEL, twice", one_model, 0),
    ]
    return [tried_pair(pair, tries, seed, folder / str(n)) for n, pair in enumerate(pairs)]


def tried_pair(pair: Pair, tries: int, seed: int, folder: Path) -> Tried:
    """How often two processes left what one leaves, and one of them ended well.

    Raises:
        RuntimeError: the command fails alone.
    """
    alone = folder / "alone"
    alone.mkdir(parents=True)
    ended, pace = undisturbed(pair.words(alone, 0), alone)
    if ended.code != pair.code:
        raise RuntimeError(f"{pair.command}: exit code {ended.code}\n{ended.said}")
    expected = _shared(pair, alone)
    r = Random(f"{seed} {pair.command}")
    outcomes: Counter[str] = Counter()
    kept = 0
    for number in range(tries):
        own = folder / f"run{number}"
        own.mkdir()
        first = start(pair.words(own, 0), own)
        time.sleep(r.choice((0.0, r.uniform(0, pace.seconds))))
        second = start(pair.words(own, 1), own)
        codes = [finish(process).code for process in (first, second)]
        outcomes[" and ".join(map(str, sorted(codes)))] += 1
        wrong = differences(expected, _shared(pair, own))
        if pair.code not in codes or not {*codes} <= {pair.code, REFUSED}:
            wrong.append(f"exit codes {codes}")
        kept += not wrong
        for problem in wrong:
            print(f"sharing: {pair.command}: {problem}", file=sys.stderr, flush=True)
    detail = ", ".join(f"{n} ended {codes}" for codes, n in sorted(outcomes.items()))
    return Tried("sharing", "one output has one writer", pair.command, tries, kept, detail)


def _shared(pair: Pair, folder: Path) -> Outputs:
    """What both write."""
    outputs = outputs_of(folder)
    return {name: data for name, data in outputs.items() if name.startswith(pair.shared)}
