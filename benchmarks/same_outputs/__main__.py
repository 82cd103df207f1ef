"""Runs all commands with both versions; see the package."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.same_outputs.commands import Command, all_commands, chosen
from benchmarks.same_outputs.comparing import Outputs, Tally, differences
from benchmarks.same_outputs.inputs import write_inputs
from benchmarks.same_outputs.running import Side
from benchmarks.same_outputs.text_server import text_server

CHECKOUT = Path(__file__).parents[2]


class Workplace(NamedTuple):
    """Where the two versions run, one after the other, and where their outputs are kept."""

    root: Path

    @property
    def inputs(self) -> Path:
        """The folder of what commands read, which no command touches."""
        return self.root / "inputs"

    def run(
        self,
        name: str,
        code: Path,
        commands: Sequence[Command],
        report: Callable[[Command, Outputs], None],
    ) -> None:
        """Runs all commands with the version `name`, before or after, and reports what came of each."""
        work = self.root / "work"
        shutil.copytree(self.inputs, work)
        earlier = work if name == "before" else self.root / "before"
        side = Side(code, work, self.root / f"shown-{name}", earlier)
        side.check()
        try:
            for command in commands:
                if not command.killed or name == "before":
                    report(command, side.run(command))
        finally:
            side.close()
            work.rename(self.root / name)

    def left_elsewhere(self, name: str) -> Outputs:
        """Everything that a version left outside of the commands' own folders."""
        folder = self.root / name
        contents = {}
        for path in folder.rglob("*"):
            inside = str(path.relative_to(folder))
            if path.is_file() and not inside.startswith("out/"):
                contents[inside] = path.read_bytes()
        return contents


def main() -> int:
    """Runs both versions; returns the exit code."""
    options = read_options()
    with root_folder(options.keep) as root, text_server() as server:
        commands = chosen(all_commands(server), options.only)
        place = Workplace(root)
        write_inputs(place.inputs, options.inputs)
        prepare_matplotlib()
        expected: dict[str, Outputs] = {}

        def keep(command: Command, outputs: Outputs) -> None:
            expected[command.name] = outputs

        start = time.monotonic()
        place.run("before", options.before.resolve(), commands, keep)
        middle = time.monotonic()
        print(f"{len(commands)} commands run before in {middle - start:.0f} s", flush=True)
        tally = Tally(expected, options.meant, options.brief)
        place.run("after", options.after.resolve(), commands, tally.compare)
        elsewhere = differences(place.left_elsewhere("before"), place.left_elsewhere("after"))
        tally.add("files beside the outputs", elsewhere)
        seconds = time.monotonic() - middle
    meant = f", {tally.meant_to_differ} meant to differ" if options.meant else ""
    print(f"{tally.same} same, {tally.different} different{meant} (after: {seconds:.0f} s)")
    return 1 if tally.different or not expected else 0


def read_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.same_outputs",
        description="Compare what two versions of discorank do.",
    )
    parser.add_argument("before", type=Path, help="a folder with the package discorank, as it was")
    parser.add_argument("after", type=Path, help="a folder with the package discorank, as it is")
    parser.add_argument(
        "--inputs",
        type=Path,
        default=CHECKOUT,
        metavar="CHECKOUT",
        help="a checkout with the inputs (default: this one)",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="a new folder for the outputs of both"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="names of commands, or patterns"
    )
    parser.add_argument(
        "--meant", nargs="+", default=[], metavar="NAME", help="commands that are meant to differ"
    )
    parser.add_argument(
        "--brief", action="store_true", help="print nothing of commands that do the same"
    )
    return parser.parse_args()


@contextmanager
def root_folder(keep: Path | None) -> Iterator[Path]:
    """The folder for everything: a new one that stays, or one that is gone at the end."""
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="same-outputs-") as folder:
        yield Path(folder).resolve()


def prepare_matplotlib() -> None:
    """Lets matplotlib collect its fonts, which it says on stderr the first time."""
    line = [sys.executable, "-c", "import matplotlib.pyplot"]
    subprocess.run(line, capture_output=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
