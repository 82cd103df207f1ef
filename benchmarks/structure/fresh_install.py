"""The package as strangers get it: built, installed away from its sources, and used.

    python -m benchmarks.structure.fresh_install [--pythons python3.11 python3.12 ...] [--work FOLDER]

Builds the source distribution and, from it alone, the wheel; installs the wheel into a fresh environment of every
interpreter, as `pip install discorank` would, in the versions of constraints.txt; decodes the bundled example in
another folder. Printed are megabytes of the environment without pip and setuptools, seconds to install, and the CPU
seconds of the command, the best of five; on Windows, which does not count those of other processes, 0. Fails where a
command fails, where torch came along, or above 120 MB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
MAX_MEGABYTES = 120
NOT_OURS = (
    "pip",
    "setuptools",
    "pkg_resources",
    "wheel",
    "_distutils_hack",
    "distutils-precedence.pth",
)
BUILD_SDIST = "import setuptools.build_meta as b, sys; b.build_sdist(sys.argv[1])"
IMPORTED = (
    "import sys, discorank; discorank.decode(['a b', 'a c'], utility='chrf');"
    "print(sorted({'torch', 'transformers', 'scipy'} & set(sys.modules)))"
)


class Installed(NamedTuple):
    """One environment."""

    python: str
    megabytes: float
    install_seconds: float
    decode_cpu_seconds: float


def built_wheel(work: Path) -> Path:
    """The wheel, built from the source distribution."""
    _run([sys.executable, "-c", BUILD_SDIST, str(work)], ROOT)
    (sdist,) = work.glob("*.tar.gz")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "-w", str(work)]
    _run([sys.executable, "-m", "pip", "wheel", *options, str(sdist)], work)
    (wheel,) = work.glob("*.whl")
    return wheel


def installed(python: str, wheel: Path, work: Path) -> Installed:
    """Installs the wheel into a fresh environment and decodes with it."""
    environment = work / f"environment-{Path(python).name}"
    started = perf_counter()
    _run([python, "-m", "venv", str(environment)], work)
    binaries = environment / ("Scripts" if os.name == "nt" else "bin")
    _run(
        [str(binaries / "pip"), "install", "--quiet", "-c", str(_constraints(work)), str(wheel)],
        work,
    )
    install_seconds = perf_counter() - started
    shutil.copy(ROOT / "examples" / "demo.jsonl", work / "demo.jsonl")
    command = [str(binaries / "discorank"), "decode", "demo.jsonl", "-u", "chrf", "--quiet"]
    decode_cpu_seconds = min(_cpu_seconds(command, work) for _ in range(5))
    # the examples come with the package
    _run([str(binaries / "discorank"), "demo"], work)
    modules = _run([str(binaries / "python"), "-c", IMPORTED], work)
    if modules.strip() != "[]":
        raise SystemExit(f"{python}: decoding imports {modules.strip()}")
    (packages,) = environment.rglob("site-packages")
    if (packages / "torch").exists():
        raise SystemExit(f"{python}: torch was installed")
    return Installed(python, _megabytes(packages), install_seconds, decode_cpu_seconds)


def main() -> None:
    """Prints a row per interpreter."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", nargs="+", default=pythons())
    parser.add_argument("--work", type=Path)
    arguments = parser.parse_args()
    with TemporaryDirectory() as temporary:
        work = (arguments.work or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        wheel = built_wheel(work)
        print(
            "| interpreter | installed, MB | seconds to install | CPU s of decode |\n|---|---|---|---|"
        )
        for python in arguments.pythons:
            row = installed(python, wheel, work)
            print(
                f"| {row.python} | {row.megabytes:.0f} | {row.install_seconds:.0f} | {row.decode_cpu_seconds:.2f} |"
            )
            if row.megabytes > MAX_MEGABYTES:
                raise SystemExit(
                    f"{row.megabytes:.0f} MB are installed, at most {MAX_MEGABYTES} are allowed"
                )


def pythons() -> list[str]:
    """The interpreters of this machine, by their versions' names; this one where none has such a name (Windows)."""
    return list(filter(_runs, PYTHONS)) or [sys.executable]


def _runs(python: str) -> bool:
    """Whether there is such an interpreter; some programs stand for versions that are not chosen."""
    return shutil.which(python) is not None and not subprocess.call(
        [python, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _constraints(work: Path) -> Path:
    """The tested versions, without the digests of their files: the wheel that is installed beside them has none."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    path = work / "constraints.txt"
    path.write_text("".join(f"{line.split()[0]}\n" for line in lines if "==" in line[:60]))
    return path


def _run(command: list[str], folder: Path) -> str:
    """What a command prints; it must not see the sources. Ends the program where it fails."""
    surroundings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    ended = subprocess.run(
        command, cwd=folder, env=surroundings, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def _cpu_seconds(command: list[str], folder: Path) -> float:
    """User and system seconds of one run."""
    before = os.times()
    _run(command, folder)
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system


def _megabytes(packages: Path) -> float:
    """Size of what was installed, in 2^20 bytes; what every environment has is left out."""
    sizes = (
        path.stat().st_size
        for path in packages.rglob("*")
        if path.is_file() and not path.relative_to(packages).parts[0].startswith(NOT_OURS)
    )
    return sum(sizes) / 2**20


if __name__ == "__main__":
    main()
