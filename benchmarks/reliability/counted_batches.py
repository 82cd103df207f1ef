"""``discorank generate`` that notes, whenever a batch begins, how many lists are done and how many of them are saved.

    python -m benchmarks.reliability.counted_batches generate ... -o OUT        appends to OUT's folder's name.batches
Each line has two numbers: the lists of all batches that have ended, and the entries of the run file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discorank.cli.main import main
from discorank.integrations.huggingface import HuggingFaceGenerator


def notes_of(folder: Path) -> Path:
    """Where is noted what happened in a folder of outputs; beside it, as what is in it is compared."""
    return folder.with_name(f"{folder.name}.batches")


def entries_in(run_file: Path) -> int:
    """How many entries a run has saved."""
    if not run_file.exists():
        return 0
    return int(json.loads(run_file.read_text(encoding="utf-8"))["input"]["entries"])


def unsaved(folder: Path) -> list[str]:
    """The batches that began while lists of batches before them were not saved, in words."""
    notes = notes_of(folder)
    lines = notes.read_text().splitlines() if notes.exists() else []
    pairs = [line.split() for line in lines]
    return [
        f"a batch began with {saved} of {done} lists saved"
        for done, saved in pairs
        if done != saved
    ]


def note_batches(out: Path) -> None:
    """From here on every batch is noted."""
    plain = HuggingFaceGenerator.outputs
    run_file, notes = Path(f"{out}.run.json"), notes_of(out.parent)
    done: list[int] = []

    def outputs(self: HuggingFaceGenerator, inputs: Sequence[Any]) -> Any:
        saved = entries_in(run_file)
        if not done:
            done.append(saved)
        with open(notes, "a") as file:
            file.write(f"{done[0]} {saved}\n")
        made = plain(self, inputs)
        done[0] += len(inputs)
        return made

    HuggingFaceGenerator.outputs = outputs  # type: ignore[method-assign]


if __name__ == "__main__":
    note_batches(Path(sys.argv[sys.argv.index("-o") + 1]))
    sys.exit(main(sys.argv[1:]))
