"""Compares what this checkout writes with what an earlier commit wrote, on a sample of commands; `.ci/run` calls it.

    python -m benchmarks.same_outputs.since [COMMIT] [--all]

COMMIT is the one before by default. What is meant to differ is said in commit messages, in lines at their end:

    Outputs-change: decode-prior help-*

names commands (or patterns) of which that commit changes what they write. Any other difference makes the exit code 1.
Where the commit is not there, as in a clone without history, nothing is compared, and it says so.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
# one command for each kind of thing that is written; together a minute on two cores
SAMPLE = (
    *("help", "metrics", "check", "decode-chrf", "decode-sum", "decode-weights", "decode-errors"),
    *("decode-save", "decode-saved", "decode-moses", "decode-prior", "decode-bertscore"),
    *("decode-comet", "decode-dr", "decode-ds-focus", "resume-killed", "resume-stopped"),
    *("rerank", "explain", "score", "score-lines", "convert-moses", "compare", "compare-json"),
    *("report-chosen", "wrong-metric", "wrong-option", "wrong-bytes", "generate"),
)


def main() -> int:
    """Compares; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_outputs.since")
    parser.add_argument("commit", nargs="?", default="HEAD^", help="the one before by default")
    parser.add_argument("--all", action="store_true", help="all commands instead of a sample")
    options = parser.parse_args()
    found = _git("rev-parse", "--verify", "--quiet", f"{options.commit}^{{commit}}")
    if found.returncode:
        print(f"{options.commit} is not in this clone: outputs are not compared")
        return 0
    commit = found.stdout.strip()
    with tempfile.TemporaryDirectory(prefix="before-") as folder:
        before = Path(folder) / "checkout"
        _git("worktree", "add", "--quiet", "--detach", str(before), commit).check_returncode()
        try:
            _build_kernels(before)
            return _compare(before, commit, () if options.all else SAMPLE)
        finally:
            _git("worktree", "remove", "--force", str(before))


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    """What git says in this checkout."""
    return subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True)


def _build_kernels(before: Path) -> None:
    """The kernels in C of the earlier commit, where this checkout has its own: their values are the same bytes."""
    if not shutil.which("cc") and not shutil.which("gcc"):
        return
    line = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(line, cwd=before, capture_output=True, check=False)


def _compare(before: Path, commit: str, sample: tuple[str, ...]) -> int:
    """Runs both versions; returns the exit code."""
    log = _git("log", "--format=%(trailers:key=Outputs-change,valueonly)", f"{commit}..HEAD")
    meant = log.stdout.split()
    print(f"outputs since {commit[:8]}, meant to differ: {' '.join(meant) or 'none'}", flush=True)
    line = [sys.executable, "-m", "benchmarks.same_outputs", str(before / "src")]
    line += [str(CHECKOUT / "src"), "--brief"]
    line += ["--only", *sample] if sample else []
    line += ["--meant", *meant] if meant else []
    return subprocess.run(line, cwd=CHECKOUT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
