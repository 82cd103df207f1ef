"""Inner products of rows: in C and with numpy the same bytes, and those of two rows alone."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discorank.metrics.neural.models import inner_products
from discorank.metrics.neural.models.inner_products import products

NAME = "discorank.metrics.neural.models._inner_products"
SIZES = st.integers(1, 40)
WIDTHS = st.integers(1, 70)
SEEDS = st.integers(0, 999)
ODD_NUMBERS = [0.0, -0.0, 1.0, -3.5, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan]
EXAMPLES = settings(max_examples=15, deadline=None, database=None, print_blob=True)


@pytest.fixture(scope="module")
def kernel(built_kernels: Path) -> ModuleType:
    (built,) = built_kernels.rglob("_inner_products*")
    spec = importlib.util.spec_from_file_location(NAME, built)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(seed: int, rows: int, width: int, dtype: str = "float64") -> np.ndarray:
    """Rows whose numbers differ in size, so that another order of summation shows."""
    generator = np.random.default_rng(seed)
    numbers = generator.standard_normal((rows, width)) * 10.0 ** generator.integers(
        -4, 4, (rows, width)
    )
    return numbers.astype(dtype)


def with_numpy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The plain path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inner_products, "kernel", None)
        return products(x, y)


def in_c(kernel: ModuleType, x: np.ndarray, y: np.ndarray, width: int = 8) -> np.ndarray:
    """The kernel with registers of so many lanes at most."""
    rows, columns = inner_products._whole_lanes(x), inner_products._whole_lanes(y)
    out = np.empty((len(x), len(y)))
    kernel.products(rows, columns, rows.shape[1], out, width)
    return out


def by_definition(x: np.ndarray, y: np.ndarray) -> float:
    """x . y as the equation says it, number by number."""
    lanes = [0.0] * 8
    for k, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        lanes[k % 8] += a * b
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + (
        (lanes[1] + lanes[5]) + (lanes[3] + lanes[7])
    )


@given(n=SIZES, m=SIZES, width=WIDTHS, seed=SEEDS, dtype=st.sampled_from(["float32", "float64"]))
@EXAMPLES
def test_c_and_numpy_have_the_same_bytes(
    kernel: ModuleType, n: int, m: int, width: int, seed: int, dtype: str
) -> None:
    x, y = drawn(seed, n, width, dtype), drawn(seed + 1, m, width, dtype)
    plain = with_numpy(x, y)
    assert plain.dtype == np.float64
    for lanes in (1, 2, 4, 8):
        assert in_c(kernel, x, y, lanes).tobytes() == plain.tobytes()


@given(seed=SEEDS, width=WIDTHS)
@EXAMPLES
def test_values_are_those_of_the_equation(kernel: ModuleType, seed: int, width: int) -> None:
    x, y = drawn(seed, 3, width), drawn(seed + 1, 2, width)
    expected = [[by_definition(a, b) for b in y] for a in x]
    assert with_numpy(x, y).tolist() == in_c(kernel, x, y).tolist() == expected
    np.testing.assert_allclose(expected, x @ y.T, rtol=1e-9, atol=1e-4)


@given(
    numbers=st.lists(st.sampled_from(ODD_NUMBERS), min_size=4, max_size=40), width=st.integers(1, 9)
)
@EXAMPLES
def test_what_is_not_finite_has_the_same_bytes(
    kernel: ModuleType, numbers: list[float], width: int
) -> None:
    rows = max(1, len(numbers) // width)
    x = np.resize(np.array(numbers), (rows, width))
    plain = with_numpy(x, x[::-1])
    for lanes in (1, 2, 4, 8):
        assert in_c(kernel, x, x[::-1], lanes).tobytes() == plain.tobytes()


@pytest.mark.parametrize("width", [1, 8, 384, 1024])
@given(sizes=st.tuples(SIZES, SIZES), seed=SEEDS)
@settings(EXAMPLES, max_examples=6)
def test_products_do_not_depend_on_other_rows(
    kernel: ModuleType, sizes: tuple[int, int], seed: int, width: int
) -> None:
    x = drawn(seed, 80, width)
    a, b = (np.random.default_rng(seed + i).permutation(80)[:n] for i, n in enumerate(sizes, 1))
    for whole, part in (
        (with_numpy(x, x), with_numpy(x[a], x[b])),
        (in_c(kernel, x, x), in_c(kernel, x[a], x[b])),
    ):
        assert part.tobytes() == np.ascontiguousarray(whole[np.ix_(a, b)]).tobytes()
        assert whole.tobytes() == np.ascontiguousarray(whole.T).tobytes()


def test_thousands_of_rows_pass_in_panels(kernel: ModuleType) -> None:
    x = drawn(0, 2000, 384, "float32")
    some = np.array([0, 3, 84, 85, 86, 1023, 1999])
    whole = in_c(kernel, x, x)
    assert (
        whole[np.ix_(some, some)].tobytes()
        == np.ascontiguousarray(products(x[some], x[some])).tobytes()
    )
    assert with_numpy(x[:300], x).tobytes() == whole[:300].tobytes()


@pytest.mark.parametrize("shapes", [((0, 3), (2, 3)), ((2, 3), (0, 3)), ((2, 0), (4, 0))])
def test_nothing_multiplies_to_zeros(shapes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    x, y = (np.ones(shape) for shape in shapes)
    assert products(x, y).tolist() == np.zeros((len(x), len(y))).tolist()


def test_rows_may_lie_anywhere() -> None:
    x = drawn(0, 6, 48)
    for other in (np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x[::-1][::-1]):
        assert products(other, x).tobytes() == products(x, x).tobytes()


def test_sizes_that_do_not_fit_are_refused(kernel: ModuleType) -> None:
    x = np.ones((2, 8))
    for width, out in ((0, np.empty((2, 2))), (7, np.empty((2, 2))), (8, np.empty((2, 3)))):
        with pytest.raises(ValueError, match="sizes do not fit"):
            kernel.products(x, x, width, out, 8)


def test_the_version_is_that_of_the_caller(kernel: ModuleType) -> None:
    assert kernel.VERSION == inner_products.VERSION


def test_pure_leaves_the_kernel_out() -> None:
    code = f"from {NAME.rpartition('.')[0]}.inner_products import kernel; print(kernel)"
    environment = {**os.environ, "DISCORANK_PURE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    )
    assert done.stdout == "None\n"
