"""CPU time of the test suite, per folder and for its most expensive tests.

    python -m benchmarks.structure.suite_cost [--top 40] [-- PYTEST ARGUMENTS]

Runs pytest with its arguments (by default the suite on two workers) and counts the CPU seconds of each test: those of
its worker, and of the processes that it started and waited for. Daemons that outlive a test, such as Ray's, count only
towards the total of the run, which includes collection and imports.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter
from pathlib import PurePosixPath

import pytest

CPU = "cpu_seconds"
PLUGIN = "benchmarks.structure.suite_cost"
DEPTH = 3  # parts of a path that make a row of the table: tests/metrics/neural


def cpu_seconds() -> float:
    """CPU seconds of this process and of its finished children."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the CPU time at the start of a test."""
    item.stash[START] = cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Attach the CPU time so far to the report of the teardown, which the main process receives."""
    report = yield
    if report.when == "teardown":  # type: ignore[attr-defined]
        report.user_properties.append((CPU, cpu_seconds() - item.stash[START]))  # type: ignore[attr-defined]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the CPU time of one test in the main process."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    for name, value in report.user_properties:
        if name == CPU and isinstance(value, float):
            SPENT[report.nodeid] = value


START = pytest.StashKey[float]()
SPENT: dict[str, float] = {}


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the tables at the end of the run."""
    if not SPENT:
        return
    folders: defaultdict[str, float] = defaultdict(float)
    files: defaultdict[str, float] = defaultdict(float)
    for nodeid, seconds in SPENT.items():
        path = nodeid.partition("::")[0]
        parent = PurePosixPath(path).parent
        folders["/".join(parent.parts[:DEPTH])] += seconds
        files[path] += seconds
    top = int(os.environ.get("SUITE_COST_TOP", "40"))
    for title, spent in (("folder", folders), ("file", files), ("test", SPENT)):
        print(f"\nCPU seconds | {title}\n--- | ---")
        ordered = sorted(spent.items(), key=itemgetter(1), reverse=True)
        for name, seconds in ordered[: None if title == "folder" else top]:
            print(f"{seconds:.1f} | {name}")
    print(f"\nin tests: {sum(SPENT.values()) / 60:.2f} CPU minutes in {len(SPENT):,} tests")


def main() -> int:
    """Run the suite and print the tables; return pytest's exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--top", default="40", help="number of files and tests to print")
    parser.add_argument("words", nargs="*", metavar="PYTEST ARGUMENTS", help="after --")
    options = parser.parse_args()
    os.environ["SUITE_COST_TOP"] = options.top
    code = pytest.main(["-p", PLUGIN, "-q", *(options.words or ["-n", "2"])])
    print(f"whole run: {cpu_seconds() / 60:.2f} CPU minutes")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
