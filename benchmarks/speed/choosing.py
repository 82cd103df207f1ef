"""What choosing adds to generating: CPU milliseconds per list of 16 candidates, in batches of 64 lists.

    python -m benchmarks.speed.choosing [--utility chrf] [--repeats 5]

The lists are of synthetic sentences with copies and near-copies, as samples are. Everything between candidate texts and
rankings counts: distinct texts, n-grams, all pairs, places. The lowest of the repeats is printed.
"""

from __future__ import annotations

import argparse

from benchmarks.support.lists import synthetic
from benchmarks.support.measuring import timed
from discorank.rerank.mbr import MBRDecoder

LISTS, SIZE = 64, 16


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--utility", default="chrf")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    lists = [{"id": str(i), "candidates": synthetic(SIZE, seed=i)} for i in range(LISTS)]
    decoder = MBRDecoder(utility=options.utility, nbest=None)
    seconds, _ = timed(lambda: list(decoder.decode(lists)), options.repeats)
    print(
        f"{options.utility}: {1000 * seconds / LISTS:.2f} ms per list of {SIZE}, in batches of {LISTS}"
    )


if __name__ == "__main__":
    main()
