"""Contrastive accuracy of a causal language model: does the translation's likelihood in context find the right one?

    python -m benchmarks.metric_quality.contrastive_lm FOLDER --work WORK [--sets NAME ...] [--items N [SET=N ...]]
        [--contexts 0 1 2 3] [--model gemma3-270m] [--dtype bfloat16]
        [--only-kept] [--output TABLE.md]

FOLDER holds contrastive_* sets. The score of a translation is log P(translation, line's end | prompt) under Gemma 3
270M, the prompt one few-shot example, the k pairs of sentence and translation before it as further ones, and the
source:
`lm(given="source+context", normalize="sum")`. Right is an item whose correct translation is above all contrastive ones;
behind context the paired difference from none stands too. `--items N` takes N of each phenomenon of a larger set,
`SET=N` of one, drawn with a fixed seed; fewer are among more. Intervals (95 %) are by the items' group, a document or
film, which is drawn whole. Values are kept in WORK: a run that was stopped goes
on; `--only-kept` prints what is complete. No set here has English as its target, so SmolLM2 has no row.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.judged_segments import limits_of
from benchmarks.support.kept_values import KeptValues, ListTexts
from benchmarks.support.markdown import write_or_print
from benchmarks.support.resampling import Resampling, shown
from discorank import load_metric
from discorank.metrics.base import Metric
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import Context
from discorank.rerank.selection.contrastive import ContrastiveItem, Verdict, read_item

SETS = ("discevalmt.en-fr", "pro_errors.en-de", "voita.en-ru")
MODEL = "gemma3-270m"
LANGUAGES = {"fr": "French", "de": "German", "ru": "Russian"}
WORKED = {
    "source": "The weather is nice today, so we are going to the park.",
    "fr": "Il fait beau aujourd'hui, alors nous allons au parc.",
    "de": "Das Wetter ist heute schön, deshalb gehen wir in den Park.",
    "ru": "Сегодня хорошая погода, поэтому мы идём в парк.",
}
SEED = 0


class Grouped(NamedTuple):
    """An item, and what it is resampled with."""

    item: ContrastiveItem
    group: str


def read_items(path: Path, most: int | None) -> list[Grouped]:
    """The items of a file, of each phenomenon so many."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows: list[dict[str, Any]] = [json.loads(line) for line in file]
    places = defaultdict(list)
    for i, row in enumerate(rows):
        places[row["phenomenon"]].append(i)
    kept: list[int] = []
    for own in places.values():
        order = np.random.default_rng(SEED).permutation(len(own))[:most]
        kept += [own[i] for i in order.tolist()]
    return [Grouped(read_item(rows[i]), str(rows[i]["group"])) for i in sorted(kept)]


def few_shot_example(lang: str, work: Path) -> Path:
    """The file of the few-shot example of a target language, written into WORK."""
    path = work / f"worked.{lang}.jsonl"
    worked = {"source": WORKED["source"], "target": WORKED[lang]}
    text = json.dumps(worked, ensure_ascii=False) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path


def language_model(model: str, lang: str, context: int, dtype: str, work: Path) -> Metric:
    """The metric with so many sentences of context."""
    metric: Any = load_metric(
        "lm",
        model=model,
        given="source+context" if context else "source",
        context=context,
        prompt=f"English: {{source}}\n{LANGUAGES[lang]}: ",
        separator="\n\n",
        examples=str(few_shot_example(lang, work)),
        normalize="sum",
        dtype=dtype,
    )
    return metric  # type: ignore[no-any-return]


def texts_of(items: Sequence[Grouped]) -> list[ListTexts]:
    """The translations of every item, the correct one first, with all sentences before it."""
    lists = []
    for item, _ in items:
        context = Context(item.context_source, item.context_target)
        lists.append(ListTexts((item.correct, *item.contrastive), item.source, context))
    return lists


def is_right(values: Sequence[FloatArray]) -> FloatArray:
    """1 where the correct translation is above all contrastive ones, else 0, [items]."""
    return np.array([Verdict.of(own).is_first for own in values], float)


def cells(
    items: Sequence[Grouped], right: FloatArray, base: FloatArray | None = None
) -> Iterator[tuple[str, str]]:
    """(row, accuracy in per cent with its interval): all items, each phenomenon, and each of its distances.

    Behind a semicolon stands the difference from the accuracy `base`, where there is one.
    """
    phenomena = [str(item.phenomenon) for item, _ in items]
    distances = [item.distance for item, _ in items]
    of_rows = [("all", np.ones(len(items), bool))]
    for phenomenon in sorted(set(phenomena)):
        own = np.array([name == phenomenon for name in phenomena])
        of_rows.append((phenomenon, own))
        known = sorted(
            {d for d, mine in zip(distances, own, strict=True) if mine and d is not None}
        )
        for distance in known if len(known) > 1 else ():
            at = own & np.array([d == distance for d in distances])
            of_rows.append((f"{phenomenon}, {distance} back", at))
    for name, where in of_rows:
        groups = [group for (_, group), mine in zip(items, where, strict=True) if mine]
        resampling = Resampling(groups)
        own = 100 * right[where]
        text = shown(own.mean(), resampling.means(own), 1)
        if base is not None:
            gain = own - 100 * base[where]
            text += f"; {shown(gain.mean(), resampling.means(gain), 1, '+')}"
        yield f"{name} ({int(where.sum())})", text


Values = Callable[[int], "list[FloatArray] | None"]


def table(name: str, items: Sequence[Grouped], contexts: Sequence[int], values: Values) -> str:
    """The table of a set, in Markdown, a column for every context that is complete."""
    columns: dict[int, dict[str, str]] = {}
    base: FloatArray | None = None
    for k in contexts:
        own = values(k)
        if own is not None:
            right = is_right(own)
            columns[k] = dict(cells(items, right, base))
            base = right if k == 0 else base
    if not columns:
        return f"{name}: nothing yet"
    head = [f"{name} (items)", *(f"context {k}" for k in columns)]
    rows = [
        [row, *(column[row] for column in columns.values())] for row in next(iter(columns.values()))
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--items", nargs="+", default=[], metavar="N or SET=N")
    parser.add_argument("--contexts", nargs="+", type=int, default=[0, 1, 2, 3])
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--only-kept", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    kept = KeptValues(options.work, options.only_kept)
    of_any, of_named = limits_of(options.items)
    tables = []
    for name in options.sets:
        most = of_named.get(name, of_any)
        items = read_items(options.folder / f"contrastive_{name}.jsonl.gz", most)
        longest = max(len(item.context_target) for item, _ in items)

        def values(
            k: int, name: str = name, items: list[Grouped] = items
        ) -> list[FloatArray] | None:
            metric = language_model(options.model, name[-2:], k, options.dtype, options.work)
            own = kept.values(metric, texts_of(items), f"{name} context {k}")
            known = [values for values in own if values is not None]
            return known if len(known) == len(own) else None

        contexts = [k for k in options.contexts if k <= longest]
        tables.append(table(name, items, contexts, values))
    markdown = "\n\n".join(tables) + "\n"
    write_or_print(markdown, options.output)


if __name__ == "__main__":
    main()
