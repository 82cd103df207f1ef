"""Tries every promise of docs/reliability.md, and prints how often it was kept.

    python -m benchmarks.reliability [--only FAMILY ...] [--tries N] [--seed S] [--write PAGE]

Commands are disturbed at random moments drawn with the seed: N signals each, ten times as many flipped bits. What was
promised, tried and kept is a row of a Markdown table; what went wrong is said on stderr. ``--write`` puts the rows
between the markers of a page, where those of other families stay. Exits with 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.reliability.families import FAMILIES
from benchmarks.reliability.storms import HEAD, Tried, heed_interrupts, write_table


def main() -> int:
    """Tries what the options name; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reliability",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--tries", type=int, default=20, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="a page with the markers")
    options = parser.parse_args()
    heed_interrupts()
    print("\n".join(HEAD), flush=True)
    rows: list[Tried] = []
    for family in options.only:
        with tempfile.TemporaryDirectory(prefix="reliability-") as folder:
            tried = FAMILIES[family](options.tries, options.seed, Path(folder).resolve())
        for row in tried:
            print(row.line(), flush=True)
        rows += tried
        if options.write:
            write_table(options.write, rows, list(FAMILIES))
    return int(any(row.kept < row.tried for row in rows))


if __name__ == "__main__":
    sys.exit(main())
