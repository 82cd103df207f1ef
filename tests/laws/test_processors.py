"""The laws of equal bytes on other processors: numpy, torch and oneDNN are told to compute as they would there.

A setting that this processor cannot run is skipped. `equal_bytes` says what is checked.
"""

from __future__ import annotations

import json
import platform
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from benchmarks.reliability.other_processors import PROCESSORS, VARIABLES, environment_of

ROOT = Path(__file__).parents[2]
# Under these metrics with models are checked as well, as they are on this processor by itself.
WITH_MODELS = ("Haswell", "SkylakeX")
# How a process ends that meets an instruction which the processor has not got: here, and under Windows.
ILLEGAL_INSTRUCTION = (-signal.SIGILL, 0xC000001D)
ARCHITECTURE = """
import numpy, threadpoolctl
numpy.ones((40, 40)) @ numpy.ones((40, 40))
print([library.get("architecture") for library in threadpoolctl.threadpool_info()])
"""


@cache
def numpys_kernels(core_type: str) -> str:
    """Whose kernels numpy takes for a type of processor; empty where this one has not got their instructions.

    core_type: empty for that of this processor.
    """
    done = subprocess.run(
        [sys.executable, "-c", ARCHITECTURE],
        env=environment_of({VARIABLES[0]: core_type} if core_type else {}),
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def results(setting: dict[str, str], *arguments: str) -> list[dict[str, object]]:
    """What `equal_bytes` prints under a setting; nothing where the processor cannot run it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.laws.equal_bytes", *arguments],
        cwd=ROOT,
        env=environment_of(setting),
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode in ILLEGAL_INSTRUCTION:
        return []
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-3000:]}"
    return printed


def is_repeated(processor: tuple[str, ...]) -> bool:
    """Whether numpy and torch compute as for an earlier one of `PROCESSORS`."""
    earlier = PROCESSORS[: PROCESSORS.index(processor)]
    alike = [other for other in earlier if other[1] == processor[1]]
    return numpys_kernels(processor[0]) in {numpys_kernels(other[0]) for other in alike}


@pytest.mark.filterwarnings("ignore")
def test_bytes_do_not_depend_on_how_work_is_cut() -> None:
    torch = pytest.importorskip("torch")
    from .equal_bytes import result

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = result(has_models=True)
    finally:
        torch.set_num_threads(before)
    assert found["failures"] == {}
    assert found["checks"] > 300


# One of the oldest in every run; the others where time does not matter.
ALWAYS = PROCESSORS[2]


def of_processor(processor: tuple[str, ...]) -> object:
    marks = () if processor == ALWAYS else pytest.mark.slow
    return pytest.param(processor, marks=marks, id="-".join(processor))


@pytest.mark.parametrize("processor", [*map(of_processor, PROCESSORS)])
def test_bytes_of_another_processor_do_not_depend_on_it(processor: tuple[str, ...]) -> None:
    pytest.importorskip("torch")
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("kernels of x86-64")
    if not numpys_kernels(processor[0]):
        pytest.skip("this processor has not got its instructions")
    if is_repeated(processor):
        pytest.skip("the same kernels as those of an earlier one")
    has_models = processor[0] in WITH_MODELS and numpys_kernels(processor[0]) != numpys_kernels("")
    setting = dict(zip(VARIABLES, processor, strict=False))
    printed = results(setting, *["--models"] * has_models)
    if not printed:
        pytest.skip("this processor has not got its instructions")
    _, result = printed
    assert result["failures"] == {}
    assert int(str(result["checks"])) > (300 if has_models else 150)
