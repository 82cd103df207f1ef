"""``discorank generate`` that notes what every batch is for, as it begins.

    python -m benchmarks.reliability.counted_batches generate ... -o OUT        appends to OUT's folder's name.batches
Each line has the ids of the inputs of a batch. So those that are generated again after a kill can be counted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from discorank.cli.main import main
from discorank.integrations.generation.generator import Generated, Prompt
from discorank.integrations.huggingface import HuggingFaceGenerator


def notes_of(folder: Path) -> Path:
    """Where is noted what happened in a folder of outputs; beside it, as what is in it is compared."""
    return folder.with_name(f"{folder.name}.batches")


def batches_of(folder: Path) -> list[tuple[str, ...]]:
    """The ids of the inputs of every batch that was begun, in order."""
    notes = notes_of(folder)
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    return [tuple(json.loads(line)) for line in lines]


def note_batches(out: Path) -> None:
    """From here on every batch is noted."""
    plain, notes = HuggingFaceGenerator.generate, notes_of(out.parent)

    def generate(self: HuggingFaceGenerator, prompts: Iterable[Prompt]) -> Iterator[Generated]:
        batch = list(prompts)
        if len(batch) > self.prompts_at_once:
            raise ValueError(f"{len(batch)} prompts are more than one batch")
        with open(notes, "a", encoding="utf-8") as file:
            file.write(json.dumps([prompt.id for prompt in batch]) + "\n")
        yield from plain(self, batch)

    HuggingFaceGenerator.generate = generate  # type: ignore[method-assign]


if __name__ == "__main__":
    note_batches(Path(sys.argv[sys.argv.index("-o") + 1]))
    sys.exit(main(sys.argv[1:]))
