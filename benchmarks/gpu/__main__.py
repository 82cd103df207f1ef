"""One command for a machine with a GPU: values, rates, whole runs and scarce memory, each part within its time.

    python -m benchmarks.gpu [--minutes 8] [--parts families comet ...] [--out gpu.tsv] [--rehearse]

Models have random weights in the shapes of XLM-R large and XL, mT5 large, BART and Qwen 2.5 1.5B, made on the spot. A
part runs in a process of its own and writes a row as soon as it has one: one that fails or is too slow costs itself
alone. `--minutes` are those of all parts. `--rehearse` runs all of it with tiny shapes on a CPU.

    families      every family in float32, float16 and bfloat16 against the CPU's float32; the same batch twice
    real          the same of MiniLM and SmolLM2, where their packages are installed
    comet ...     a family's rates by tokens of a batch, share of the peak, memory, profile; plain loops beside it
    mbr           COMET MBR of 100 lists of 64 in one process, and by Ray with fractions of the card
    memory        memory that runs out in the middle

A table of the figures is printed at the end, or by `--table FILE` from an earlier run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

from benchmarks.gpu.record import HEAD, Place, rows
from benchmarks.support.measuring import table

# Where each part is, and the seconds that it may take at most; in the order of their weight.
PARTS = {
    "comet": ("rates", "rates", 80),
    "mbr": ("runs", "mbr", 110),
    "families": ("values", "families", 110),
    "real": ("values", "real", 60),
    "metricx": ("rates", "rates", 60),
    "causal": ("rates", "rates", 70),
    "memory": ("runs", "memory", 40),
    "encoder": ("rates", "rates", 45),
    "seq2seq": ("rates", "rates", 40),
    "bleurt": ("rates", "rates", 40),
    "xcomet": ("rates", "rates", 150),
}
# Imported once, before the parts' processes start from this one.
IMPORTED = (
    "torch",
    "torch.profiler",
    "transformers.models.xlm_roberta.modeling_xlm_roberta",
    "transformers.models.xlm_roberta_xl.modeling_xlm_roberta_xl",
    "transformers.models.qwen2.modeling_qwen2",
    "transformers.models.bart.modeling_bart",
    "transformers.models.mt5.modeling_mt5",
)
# In the page's table, a row per case.
SHOWN = {
    "error": "error, sd",
    "same batch twice": "twice",
    "without other texts": "alone, sd",
    "texts or pairs": "texts or pairs/s",
    "share of the peak": "% of peak",
    "memory": "GiB",
    "device busy": "% busy",
    "kernels": "kernels",
    "decided": "seconds",
    "same choices": "same choices",
    "halvings": "halvings",
}


def run_part(place: Place) -> None:
    """A part, in this process; its failure is a row."""
    module, function, _ = PARTS[place.part]
    try:
        part: Callable[[Place], None] = getattr(import_module(f"benchmarks.gpu.{module}"), function)
        part(place)
    except BaseException as error:
        place.failed("", "", error)
        sys.exit(1)


def run_all(options: argparse.Namespace, root: Path) -> int:
    """Every part in its turn; the number of parts that failed."""
    device = "cpu" if options.rehearse else "cuda"
    options.out.write_text("\t".join(HEAD) + "\n", encoding="utf-8")
    for name in IMPORTED:
        import_module(name)
    end = perf_counter() + 60 * options.minutes
    context = get_context("fork")
    failed = 0
    for part in options.parts:
        start = perf_counter()
        limit = min(PARTS[part][2], end - start)
        place = Place(part, options.out, root, device, options.rehearse, start + limit)
        if limit < 1:
            place.write("", "", "left out", "", "", "no time was left")
            failed += 1
            continue
        process = context.Process(target=run_part, args=(place,))
        process.start()
        process.join(limit)
        if process.is_alive():
            process.kill()
            process.join()
            place.write("", "", "stopped", limit, "s", "its time was over")
        failed += process.exitcode != 0
        place.write("", "", "whole part", perf_counter() - start, "s")
    return failed


def shown(path: Path) -> str:
    """The figures as a table in Markdown."""
    cases: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows(path):
        if row.what in SHOWN:
            cases.setdefault((row.part, row.case, row.dtype), {})[row.what] = row.value
    columns = [what for what in SHOWN if any(what in case for case in cases.values())]
    lines = [[*key, *(figures.get(what, "") for what in columns)] for key, figures in cases.items()]
    return table(["part", "case", "dtype", *(SHOWN[what] for what in columns)], lines)


def main() -> int:
    """Runs the parts and prints a table; the exit status is the number of parts that failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--out", type=Path, default=Path("gpu.tsv"))
    parser.add_argument("--rehearse", action="store_true", help="tiny shapes on a CPU")
    parser.add_argument("--table", type=Path, help="print the table of this file, and run nothing")
    options = parser.parse_args()
    if options.table:
        print(shown(options.table))
        return 0
    os.environ |= {"TOKENIZERS_PARALLELISM": "true", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as root:
        failed = run_all(options, Path(root))
    print(shown(options.out))
    return failed


if __name__ == "__main__":
    sys.exit(main())
