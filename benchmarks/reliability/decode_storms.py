"""Storms for ``decode`` and ``rerank`` in this process: with saved utilities, with a cache, with documents in turns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.reliability.storms import CANDIDATES_OF_FLAT, OUT, ROOT, Target
from discorank.rerank.runs.table_files import write_table
from tests.support.lists import made_lists, write_lists

MODELS = ROOT / "tests" / "golden" / "docmetrics" / "models"
SAVED = "utilities.jsonl"
TABLE = "out.parquet"


def lists(folder: Path, count: int, width: int = 16) -> Path:
    """Candidate lists of which one is an error record and one is context alone."""
    rows = list(made_lists(count, width, seed=3))
    rows[count * 3 // 5]["candidates"] = []
    rows[count * 4 // 5]["context_only"] = True
    folder.mkdir(parents=True, exist_ok=True)
    return write_lists(folder / "lists.jsonl", rows)


def decode_words(source: Path, out: Path, *more: str) -> Sequence[str]:
    """A ``decode`` that may write an error record, unless `more` says otherwise."""
    bound = [] if "--max-errors" in more else ["--max-errors", "1"]
    return ["decode", str(source), "-o", str(out), *bound, "--quiet", *more]


def decode(folder: Path) -> Target:
    """chrF, with all utilities saved."""
    source = lists(folder, 4000)

    def words(own: Path) -> Sequence[str]:
        return decode_words(source, own / OUT, "-u", "chrf", "--save-utilities", str(own / SAVED))

    return Target("decode", "decode -u chrf --save-utilities", words, source, code=3)


def decode_table(folder: Path) -> Target:
    """From a Parquet file into one, which is made of the rows at the end."""
    source = lists(folder, 2000)
    table = folder / "lists.parquet"
    write_table(source, table)

    def words(own: Path) -> Sequence[str]:
        return decode_words(table, own / TABLE, "-u", "chrf")

    command = "decode LISTS.parquet -o OUT.parquet"
    return Target("decode-parquet", command, words, source, code=3, out=TABLE)


def rerank_table(folder: Path) -> Target:
    """The same of features alone, Arrow files."""
    source = lists(folder, 4000, 8)
    table = folder / "lists.arrow"
    write_table(source, table)

    def words(own: Path) -> Sequence[str]:
        command = decode_words(table, own / TABLE, "-m", "logprob", "-m", "length*0.1")
        return ["rerank", *command[1:]]

    command = "rerank LISTS.arrow -o OUT.parquet"
    return Target("rerank-parquet", command, words, source, code=3, out=TABLE)


def into_form(folder: Path, form: str) -> Target:
    """Into an n-best list with the decision; flat text, of which no list may be left out, has no error records."""
    rows = numbered_lists(2000)
    if form != "flat":
        rows[1200]["candidates"] = []
        rows[1600]["context_only"] = True
    folder.mkdir(parents=True, exist_ok=True)
    source = write_lists(folder / "lists.jsonl", rows)
    max_errors = "0" if form == "flat" else "1"

    def words(own: Path) -> Sequence[str]:
        more = ("-u", "chrf", "--output-format", form, "--max-errors", max_errors)
        return decode_words(source, own / OUT, *more)

    command = f"decode -u chrf --output-format {form}"
    code = 0 if form == "flat" else 3
    return Target(f"decode-{form}", command, words, source, code=code, form=form)


def numbered_lists(count: int) -> list[dict[str, Any]]:
    """Lists that every form can say: numbers as ids, as many candidates in each, all with log-probabilities."""
    rows = []
    for number, made in enumerate(made_lists(count, CANDIDATES_OF_FLAT, seed=4)):
        texts = [one["text"] if isinstance(one, dict) else one for one in made["candidates"]]
        filled = (texts * CANDIDATES_OF_FLAT)[:CANDIDATES_OF_FLAT]
        candidates = [{"text": text, "logprob": -1.5 - i} for i, text in enumerate(filled)]
        rows.append({"id": str(number), "candidates": candidates})
    return rows


def decode_plain(folder: Path) -> Target:
    """A sum of metrics."""
    source = lists(folder, 1000)

    def words(own: Path) -> Sequence[str]:
        return decode_words(source, own / OUT, "-u", "chrf + 0.5*ter")

    return Target("decode-sum", "decode -u 'chrf + 0.5*ter'", words, source, code=3)


def decode_cached(folder: Path) -> Target:
    """A model whose representations are kept in a cache that all runs share."""
    source, cache = lists(folder, 250), folder / "cache"
    utility = f'doc-bertscore(model="{MODELS}/tiny-bert",layer=2)'

    def words(own: Path) -> Sequence[str]:
        return decode_words(source, own / OUT, "-u", utility, "--cache", str(cache / own.name))

    return Target("decode-cache", "decode -u doc-bertscore --cache", words, source, code=3)


def under_budget(folder: Path, name: str = "decode-budget", stop: tuple[str, ...] = ()) -> Target:
    """Some of the pairs, or as many as it takes until a target is met."""
    source = lists(folder, 500)

    def words(own: Path) -> Sequence[str]:
        more = ("-u", "ter", "--nbest", "2", "--budget", "0.3", *stop)
        return decode_words(source, own / OUT, *more)

    command = " ".join(["decode -u ter --budget 0.3", *stop])
    return Target(name, command, words, source, code=3)


def rerank_shrunk(folder: Path) -> Target:
    """Features in two passes, by the means of systems; the first pass is most of the work."""
    source = lists(folder, 4000, 8)
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        texts = [one["text"] if isinstance(one, dict) else one for one in row["candidates"]]
        row["candidates"] = [{"text": t, "system": f"s{i}"} for i, t in enumerate(texts)]
    write_lists(source, rows)

    def words(own: Path) -> Sequence[str]:
        more = ("-m", "expected", "-m", "length*0.1", "-u", "chrf", "--shrink", "0.75")
        return ["rerank", *decode_words(source, own / OUT, *more)[1:]]

    command = "rerank -m expected -m length*0.1 -u chrf --shrink 0.75"
    return Target("rerank-shrink", command, words, source, code=3)


def rerank(folder: Path) -> Target:
    """Features alone."""
    source = lists(folder, 8000, 8)

    def words(own: Path) -> Sequence[str]:
        command = decode_words(source, own / OUT, "-m", "logprob", "-m", "length*0.1")
        return ["rerank", *command[1:]]

    return Target("rerank", "rerank -m logprob -m length*0.1", words, source, code=3)
