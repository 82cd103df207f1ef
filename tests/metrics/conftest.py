"""The kernels in C, built once for all processes of a run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def built_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the kernels of this checkout, built by its setup.py."""
    if not any(map(shutil.which, ("cc", "gcc", "clang", "cl"))):
        pytest.skip("no compiler")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    out = shared / "kernels"
    with FileLock(shared / "kernels.lock"):
        if not (out / "lib").exists():
            command = [sys.executable, "setup.py", "-q", "build_ext"]
            command += ["--build-lib", str(out / "draft"), "--build-temp", str(out / "temp")]
            done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            (out / "draft").rename(out / "lib")
    return out / "lib"
