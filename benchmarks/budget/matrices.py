"""Makes utility matrices of real lists and keeps them in a folder, so that budgets can be replayed on them.

    python -m benchmarks.budget.matrices LISTS FOLDER --set captions64 --utilities chrf ter 'precise=chrf(beta=0.3)'
        [--format jsonl] [--most 500]

LISTS are files that `discorank decode` reads; without utilities, the cheap ones that guide a budget are taken. One file
per set and utility comes to FOLDER, ``SET.NAME.npz``, NAME that before the = or else that of the metric: the
matrix [H, H] of every list of three and more distinct texts, higher is better, and the weights [H], which count how
often a text stands in its list. A file that is there is not made again.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np

from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.representations import FloatArray
from discorank.rerank.lists import CandidateList, Distinct
from discorank.rerank.mbr import MBRDecoder

FEWEST = 3  # distinct texts
CHEAP = {
    "chrf": "chrf",
    "precise": "chrf(beta=0.3)",
    "complete": "chrf(beta=6)",
    "words": "chrf(word_order=2)",
    "bleu": "bleu",
    "rouge": "rouge-l",
}


class Kept(NamedTuple):
    """One list: its utilities [H, H], higher is better, and the weights [H] of its pseudo-references."""

    matrix: FloatArray
    weights: FloatArray


def name_and_utility(named: str) -> tuple[str, str]:
    """The name and the utility of NAME=UTILITY, or of a utility alone.

    >>> name_and_utility("precise=chrf(beta=0.3)"), name_and_utility("chrf(beta=0.3)")
    (('precise', 'chrf(beta=0.3)'), ('chrf', 'chrf(beta=0.3)'))
    """
    name, sign, utility = named.partition("=")
    return (name, utility) if sign and name.isidentifier() else (named.partition("(")[0], named)


def read_lists(paths: Iterable[Path], form: str, most: int) -> Iterator[CandidateList]:
    """The first lists of every file, at most `most` of each, with enough distinct texts."""
    for path in paths:
        with open_lists(path, form) as entries:
            records = (entry.record for entry in entries if entry.record is not None)
            long = (record for record in records if len(Distinct(record.candidates)) >= FEWEST)
            yield from (record for record, _ in zip(long, range(most), strict=False))


def make(records: list[CandidateList], utility: str) -> list[Kept]:
    """The matrices of lists under a utility."""
    decoder = MBRDecoder(utility=utility, keep_matrix=True, nbest=1, strategy="independent")
    kept = []
    for record, ranking in zip(records, decoder.decode(records), strict=True):
        weights = np.bincount(Distinct(record.candidates).of).astype(np.float64)
        assert ranking.matrix is not None
        kept.append(Kept(ranking.matrix, weights))
    return kept


def write(path: Path, kept: list[Kept]) -> None:
    """All matrices of a file, one after the other, in single precision."""
    sizes = np.array([len(one.weights) for one in kept])
    values = np.concatenate([one.matrix.ravel() for one in kept]).astype(np.float32)
    weights = np.concatenate([one.weights for one in kept])
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.savez_compressed(file, sizes=sizes, values=values, weights=weights)
    os.replace(unfinished, path)


def read(path: Path) -> list[Kept]:
    """The lists of a file that `write` wrote."""
    with np.load(path, allow_pickle=False) as file:
        sizes, values, weights = file["sizes"], file["values"], file["weights"]
    ends = np.cumsum(sizes)
    cells = np.cumsum(sizes**2)
    kept = []
    for size, end, cell in zip(sizes.tolist(), ends.tolist(), cells.tolist(), strict=True):
        matrix = values[cell - size**2 : cell].reshape(size, size).astype(np.float64)
        kept.append(Kept(matrix, weights[end - size : end]))
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", nargs="+", type=Path, metavar="LISTS")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--set", required=True)
    parser.add_argument("--utilities", nargs="+", default=[f"{k}={v}" for k, v in CHEAP.items()])
    parser.add_argument("--format", default="jsonl")
    parser.add_argument("--most", type=int, default=1000)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    records = list(read_lists(options.lists, options.format, options.most))
    for named in options.utilities:
        name, utility = name_and_utility(named)
        path = options.folder / f"{options.set}.{name}.npz"
        if not path.exists():
            start = process_time()
            write(path, make(records, utility))
            print(
                f"{path.name}: {len(records)} lists, {process_time() - start:.1f} CPU s", flush=True
            )


if __name__ == "__main__":
    main()
