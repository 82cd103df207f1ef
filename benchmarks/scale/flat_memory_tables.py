"""Peak memory of runs from Parquet and Arrow files into such files, and of a tenth of the lists; each run a process.

    python -m benchmarks.scale.flat_memory_tables [--lists 100000] [--candidates 3] [--words 25] [--group-rows 0]

The input is one row group, unless --group-rows says how many rows one has. Flat is a ratio near 1.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks.scale.flat_memory import COMMAND, peak, write

ROWS_OF_ARROW = 1000  # of a record batch, which is unpacked at once
RUNS = {
    "decode .parquet -o .parquet": (
        ".parquet",
        *("decode", "{lists}", "-u", "chrf", "--quiet", "-o", "{out}.parquet"),
    ),
    "decode .arrow -o .arrow": (
        ".arrow",
        *("decode", "{lists}", "-u", "chrf", "--quiet", "-o", "{out}.arrow"),
    ),
    "rerank .parquet -o .parquet": (
        ".parquet",
        *("rerank", "{lists}", "-m", "logprob", "-m", "length", "--quiet", "-o", "{out}.parquet"),
    ),
    "rerank .arrow -o .arrow": (
        ".arrow",
        *("rerank", "{lists}", "-m", "logprob", "-m", "length", "--quiet", "-o", "{out}.arrow"),
    ),
    "convert .parquet -o .parquet": (
        ".parquet",
        *("convert", "{lists}", "--quiet", "-o", "{out}.parquet"),
    ),
    "convert .arrow -o .arrow": (
        ".arrow",
        *("convert", "{lists}", "--quiet", "-o", "{out}.arrow"),
    ),
}


def write_tables(lines: Path, group_rows: int) -> None:
    """The lists of a file as Parquet and Arrow files beside it."""
    import pyarrow.json

    table = pyarrow.json.read_json(lines)
    rows = group_rows or table.num_rows
    parquet.write_table(table, lines.with_suffix(".parquet"), row_group_size=rows)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(lines.with_suffix(".arrow"), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=ROWS_OF_ARROW)


def main() -> None:
    """Prints a row per run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lists", type=int, default=100_000)
    parser.add_argument("--candidates", type=int, default=3)
    parser.add_argument("--words", type=int, default=25)
    parser.add_argument("--group-rows", type=int, default=0)
    options = parser.parse_args()
    tenth = options.lists // 10
    with tempfile.TemporaryDirectory() as folder:
        paths = {n: Path(folder, f"{n}.jsonl") for n in (tenth, options.lists)}
        for n, path in paths.items():
            write(path, n, options.candidates, options.words)
            write_tables(path, options.group_rows)
        for name, (ending, *words) in RUNS.items():
            (_, small), (seconds, large) = (
                peak(path.with_suffix(ending), COMMAND, *words) for path in paths.values()
            )
            print(
                f"{name:34} {tenth} lists {small:6.1f} MiB, {options.lists} lists {large:6.1f} MiB, "
                f"{seconds:7.2f} CPU s, ratio {large / small:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
