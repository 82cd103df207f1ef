"""The rehearsal of the benchmark on a GPU: every part runs on a CPU, and writes what a page is made of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.__main__ import PARTS, shown
from benchmarks.gpu.models import FAMILIES
from benchmarks.gpu.record import HEAD, Row, rows
from benchmarks.gpu.values import TOLERANCES

ROOT = Path(__file__).parents[2]


def rehearsed(out: Path, *parts: str) -> list[Row]:
    """The rows that some parts write; the exit status is the number of parts that failed."""
    command = ["-m", "benchmarks.gpu", "--rehearse", "--minutes", "60", "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, *command, "--parts", *parts], cwd=ROOT, env=environment, check=True
    )
    return rows(out)


@pytest.mark.slow
def test_rates_and_scarce_memory(tmp_path: Path) -> None:
    written = rehearsed(tmp_path / "gpu.tsv", "comet", "memory")
    shares = [row for row in written if row.what == "share of the peak"]
    assert {row.dtype for row in shares} == {"bfloat16", "float32"}
    assert any(row.case == "plain loop" for row in written)
    (halvings,) = (row for row in written if row.what == "halvings")
    assert int(halvings.value) > 0
    (apart,) = (row for row in written if row.what == "apart from usual batches")
    assert float(apart.value) == 0


@pytest.mark.slow
def test_values(tmp_path: Path) -> None:
    written = rehearsed(tmp_path / "gpu.tsv", "families")
    of_float32 = {row.case: row for row in written if row[2:4] == ("float32", "error")}
    assert of_float32.keys() == FAMILIES.keys()
    # the device is the CPU itself
    assert {row.value for row in of_float32.values()} == {"0"}
    errors = [row for row in written if row.what == "error"]
    assert len(errors) == len(FAMILIES) * len(TOLERANCES) - 1  # MetricX overflows in float16
    assert all(row.note.startswith("ok") for row in errors)
    assert {row.value for row in written if row.what == "same batch twice"} == {"equal"}
    assert "| families | comet | float32 | 0 | equal | 0 |" in shown(tmp_path / "gpu.tsv")


@pytest.mark.slow
def test_the_other_parts(tmp_path: Path) -> None:
    others = [part for part in PARTS if part not in ("families", "comet", "memory")]
    written = rehearsed(tmp_path / "gpu.tsv", *others)
    assert [row.part for row in written if row.what == "whole part"] == others
    assert not [row for row in written if row.what == "failed"]


@pytest.mark.slow
def test_a_part_that_takes_too_long_costs_itself_alone(tmp_path: Path) -> None:
    table = tmp_path / "gpu.tsv"
    command = ["-m", "benchmarks.gpu", "--rehearse", "--minutes", "0.0001", "--out", str(table)]
    done = subprocess.run([sys.executable, *command, "--parts", "encoder", "bleurt"], cwd=ROOT)
    assert done.returncode == 2
    assert table.read_text().startswith("\t".join(HEAD))
    assert [row.what for row in rows(table) if row.case == ""][-1] in ("left out", "whole part")
