"""Inner products of rows in one fixed order against BLAS', which depends on the processor, in one run.

    python -m benchmarks.speed.products_of_rows [--rows 2 8 32 100 300 1000] [--widths 384 768 1024] [--rounds 5]

Rows are random and in float32, [rows, width] on either side. BLAS' product is that of rows padded to multiples of 16,
in float64, as discorank computed it before. One thread, the versions take turns. Prints CPU seconds of BLAS' product
and, relative to them, those of the kernel in C and of numpy without it, medians [least, greatest]; and the largest
relative difference of a product.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from statistics import median

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.support.measuring import timed
from discorank.metrics.neural.models import inner_products
from discorank.metrics.neural.models.inner_products import products
from discorank.metrics.representations import Array, FloatArray

MULTIPLIED = 1e7  # numbers that a measurement multiplies at least


def by_blas(x: Array, y: Array) -> FloatArray:
    """The product that pads to multiples of 16 rows."""

    def padded(rows: Array) -> FloatArray:
        filling = np.repeat(rows[:1], -len(rows) % 16, axis=0)
        return np.concatenate([rows, filling]).astype(np.float64)

    return np.asarray(padded(x) @ padded(y).T)[: len(x), : len(y)]


def by_numpy(x: Array, y: Array) -> FloatArray:
    """The same products as the kernel's, without it."""
    kernel, inner_products.kernel = inner_products.kernel, None
    try:
        return products(x, y)
    finally:
        inner_products.kernel = kernel


def seconds(call: Callable[[], object], repeats: int) -> float:
    """CPU seconds of one call."""

    def all_calls() -> None:
        for _ in range(repeats):
            call()

    return timed(all_calls, repeats=1)[0] / repeats


def spread(values: list[float]) -> str:
    """Median [least, greatest]."""
    return f"{median(values):.2f} [{min(values):.2f}, {max(values):.2f}]"


def measure(width: int, rows: int, rounds: int) -> str:
    """A line of the table."""
    generator = np.random.default_rng(rows)
    x, y = (generator.standard_normal((rows, width)).astype(np.float32) for _ in range(2))
    repeats = 1 + int(MULTIPLIED / (rows * rows * width))
    blas, kernel, plain = [], [], []
    for _ in range(rounds):
        blas.append(seconds(lambda: by_blas(x, y), repeats))
        kernel.append(seconds(lambda: products(x, y), repeats) / blas[-1])
        plain.append(seconds(lambda: by_numpy(x, y), 1 + repeats // 10) / blas[-1])
    values = by_blas(x, y)
    difference = np.abs(products(x, y) - values).max() / np.abs(values).max()
    return f"{width} | {rows} | {median(blas):.6f} | {spread(kernel)} | {spread(plain)} | {difference:.0e}"


def main() -> None:
    """Prints a row per shape."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[2, 8, 32, 100, 300, 1000])
    parser.add_argument("--widths", type=int, nargs="+", default=[384, 768, 1024])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    lanes = getattr(inner_products.kernel, "WIDTH", None)
    print(f"the kernel in C: {f'{lanes} lanes at once' if lanes else 'not built'}")
    print("width | rows | BLAS, CPU s | C / BLAS | numpy / BLAS | largest difference")
    for width in options.widths:
        for rows in options.rows:
            print(measure(width, rows, options.rounds), flush=True)


if __name__ == "__main__":
    main()
