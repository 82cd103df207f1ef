"""Single bits are flipped in every kind of file that is written and read again; is it seen?

A command reads the damaged file. Damage is seen where the command refuses it, or says something it does not say of the
sound file; it is harmless where the same comes out in silence. Else it is silent damage, and the promise is broken.
"""

from __future__ import annotations

import gc
import io
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.reliability.comparison_storms import SAVED, systems
from benchmarks.reliability.decode_storms import MODELS
from benchmarks.reliability.storms import OUT, Tried, outputs_of
from discorank.cli.main import main
from tests.support.lists import made_lists, write_lists

FLIPS_PER_TRY = 10
INTERRUPTED = (129, 130, 143)
UTILITIES = "utilities.jsonl"
CACHE = "cache/representations.sqlite"
BERT = f'doc-bertscore(model="{MODELS}/tiny-bert",layer=2)'
LISTS, HALF = 24, 14
SYSTEMS = ("systems.jsonl", "--from", "systems")
TUNED = ("-m", "chrf", "bleu", "rouge-l", "--against", "candidates", "--prefer", "mqm:lower")
Words = Sequence[str]


class Form(NamedTuple):
    """A kind of file.

    Args:
        name: what the table calls it.
        path: the file, in the folder that the commands run in.
        before: what makes it.
        reads: what reads it.
        shown: what the table shows of the command that reads it.
        more_input: whether the lists become more before it is read, so that the run resumes.
        same: which outputs must be the same: their names begin so.
    """

    name: str
    path: str
    before: Sequence[Words]
    reads: Words
    shown: str
    more_input: bool = False
    same: str = OUT


DECODE = ("decode", "lists.jsonl", "-u", "chrf", "-o", OUT, "--quiet")
SAVE = (*DECODE, "--save-utilities", UTILITIES)
COMPARE = ("compare", "systems.jsonl", "-m", "chrf", "ter", "--human", "mqm:lower", "--quiet")
COMPARED = (*COMPARE, "--draws", "100", "--save", SAVED)
REPORT = ("report", SAVED, "-o", OUT)
CACHED = ("decode", "lists.jsonl", "-u", BERT, "--cache", "cache", "--quiet", "-o")
COMBINE = ("train", "combination", *SYSTEMS, *TUNED, "-o", "tuned.json", "--quiet")
COMBINED = ("decode", "lists.jsonl", "-u", 'combination(model="tuned.json")', "-o", OUT, "--quiet")
ESTIMATE = ("train", "prior", "systems.jsonl", "--human", "mqm:lower", "-o", "prior.json")
WITH_PRIOR = ("decode", *SYSTEMS, "-u", "chrf", "--prior", "prior.json", "-o", OUT, "--quiet")
AGAIN = ("decode", "lists.jsonl", "--utilities", UTILITIES, "-o", OUT, "--quiet")
FROM_BEFORE = (*SAVE[:-4], "before.jsonl", *SAVE[-3:])
FORMS = (
    Form("OUT", OUT, [SAVE], SAVE, "decode, resuming", more_input=True, same=""),
    Form("saved utilities", UTILITIES, [SAVE], SAVE, "decode, resuming", True, same=""),
    Form("run file", f"{OUT}.run.json", [SAVE], SAVE, "decode, resuming", True, same=""),
    Form("saved utilities", UTILITIES, [FROM_BEFORE], AGAIN, "decode --utilities"),
    Form("cache", CACHE, [(*CACHED, "before.jsonl")], (*CACHED, OUT), "decode --cache"),
    Form("combination", "tuned.json", [COMBINE], COMBINED, "decode -u combination"),
    Form("prior", "prior.json", [ESTIMATE], WITH_PRIOR, "decode --prior"),
    Form("comparison", f"{SAVED}/comparison.json", [COMPARED], REPORT, "report"),
    Form("comparison, its documents", f"{SAVED}/documents.jsonl", [COMPARED], REPORT, "report"),
)


class Result(NamedTuple):
    """What came of a command."""

    code: int
    said: str
    outputs: Mapping[str, bytes]


def flipped_bits(tries: int, seed: int, folder: Path) -> list[Tried]:
    """Flips bits in files of every form, one at a time."""
    rows = []
    for number, form in enumerate(FORMS):
        work = folder / str(number)
        counts = flipped(form, FLIPS_PER_TRY * tries, seed, work)
        kept = counts.total() - counts["silent"] - counts["internal errors"]
        detail = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items()))
        promise = f"damage is seen: {form.name}"
        rows.append(Tried("damage", promise, form.shown, counts.total(), kept, detail))
    return rows


def flipped(form: Form, tries: int, seed: int, folder: Path) -> Counter[str]:
    """How often flipped bits were refused, told, harmless, silent.

    Raises:
        RuntimeError: a command fails on sound files.
    """
    sound, work = folder / "sound", folder / "work"
    prepare(form, work)
    work.rename(sound)
    expected = read(form, sound, work, lambda path: None)
    if expected.code or read(form, sound, work, lambda path: None) != expected:
        raise RuntimeError(f"{form.shown}: {expected.code} {expected.said}")
    r = Random(f"{seed} {form.name} {form.shown}")
    size = 8 * (sound / form.path).stat().st_size
    counts: Counter[str] = Counter()
    for _ in range(tries):
        bit = r.randrange(size)
        outcome = judged(expected, read(form, sound, work, partial(flip, bit)))
        counts[outcome] += 1
        if outcome in ("silent", "internal errors"):
            place = f"bit {bit % 8} of byte {bit // 8}"
            print(f"damage: {form.name}, {form.shown}: {outcome}: {place}", file=sys.stderr)
    return counts


def prepare(form: Form, work: Path) -> None:
    """Makes the sound files.

    Raises:
        RuntimeError: a command fails.
    """
    work.mkdir(parents=True)
    lists = list(made_lists(LISTS, seed=3))
    write_lists(work / "lists.jsonl", lists[:HALF] if form.more_input else lists)
    systems(work, 12)
    for words in form.before:
        result = run(words, work)
        if result.code:
            raise RuntimeError(f"{' '.join(words)}: {result.said}")
    write_lists(work / "lists.jsonl", lists)


def read(form: Form, sound: Path, work: Path, damage: Callable[[Path], None]) -> Result:
    """What comes of the command on a copy of the sound files, one of them damaged."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(sound, work)
    damage(work / form.path)
    result = run(form.reads, work)
    kept = {name: data for name, data in result.outputs.items() if name.startswith(form.same)}
    return result._replace(outputs=kept)


def flip(bit: int, path: Path) -> None:
    """Flips a bit of a file."""
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def judged(expected: Result, result: Result) -> str:
    """What became of damage."""
    if result.code == 1:
        return "internal errors"
    if result.code != expected.code:
        return "refused"
    says_more = result.said != expected.said
    if result.outputs == expected.outputs:
        return "told and mended" if says_more else "harmless"
    return "told" if says_more else "silent"


def run(words: Words, work: Path) -> Result:
    """Runs a command in this process, in a folder."""
    said = io.StringIO()
    with (
        warnings.catch_warnings(record=True) as warned,
        redirect_stdout(io.StringIO()),
        redirect_stderr(said),
        chdir(work),
    ):
        warnings.simplefilter("always")
        code = main(list(words))
        gc.collect()  # some warn when they are done with
    if code in INTERRUPTED:  # the command heeded a signal that was meant for this process
        raise KeyboardInterrupt
    texts = [str(warning.message) for warning in warned]
    return Result(code, said.getvalue() + "\n".join(texts), outputs_of(work))
