"""Whether a run that was disturbed left what an undisturbed one leaves: every file by its bytes, every input once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.same_outputs.comparing import Outputs, differences, files_below
from discorank.integrations.formats.open_lists import open_lists

RUN_FILE = ".run.json"
CANDIDATES_OF_FLAT = 8  # of every list


class Accounted(NamedTuple):
    """What became of the inputs of a run."""

    inputs: int
    lost: int
    doubled: int


def outputs_of(folder: Path) -> Outputs:
    """All files below a folder, as they are compared: a run file without its timings, and as JSON."""
    outputs = dict(files_below(folder))
    for name in outputs:
        if name.endswith(RUN_FILE):
            outputs[name] = without_timings((folder / name).read_bytes())
        elif name.endswith(".pt"):
            outputs[name] = values_of(folder / name)
    return outputs


def without_timings(data: bytes) -> bytes:
    """A run file without how long its sessions took and what they did; as it is where it cannot be read."""
    try:
        row = json.loads(data)
    except ValueError:
        return data
    # a checksum covers the timings too
    kept = {key: value for key, value in row.items() if key not in ("timings", "checksum")}
    return json.dumps(kept, sort_keys=True).encode()


def values_of(path: Path) -> bytes:
    """Every value in a file of torch: its pickle names equal strings once or twice, as it happens."""
    import torch

    values: list[bytes] = []

    def add(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key in sorted(value, key=str):
                add(f"{name}.{key}", value[key])
        elif isinstance(value, torch.Tensor):
            values.append(f"{name} {value.shape} {value.numpy().tobytes().hex()}".encode())
        else:
            values.append(f"{name} {value!r}".encode())

    add("", torch.load(path, map_location="cpu", weights_only=True))
    return b"\n".join(values)


def what_differs(expected: Outputs, folder: Path) -> list[str]:
    """What is not as expected in a folder, and every run file that does not say that it is complete."""
    outputs = outputs_of(folder)
    wrong = differences(expected, outputs)
    for name, data in outputs.items():
        if name.endswith(RUN_FILE) and b'"complete": true' not in data:
            wrong.append(f"{name}: is not complete")
    return wrong


def accounted(source: Path, out: Path, form: str = "jsonl") -> Accounted:
    """Counts inputs that are neither a row nor an error record nor context alone, and those that are twice.

    Args:
        source: the input, JSON lines.
        out: the output.
        form: of its rows.
    """
    inputs = Counter(str(row["id"]) for row in json_lines(source) if not row.get("context_only"))
    outcomes = Counter(ids_in(out, form))
    outcomes += Counter(str(row["id"]) for row in json_lines(Path(f"{out}.errors.jsonl")))
    lost = (inputs - outcomes).total()
    return Accounted(inputs.total(), lost, (outcomes - inputs).total())


def ids_in(out: Path, form: str) -> Iterable[str]:
    """The ids of the lists in an output."""
    if form == "jsonl":
        return [str(row["id"]) for row in json_lines(out)]
    num_candidates = CANDIDATES_OF_FLAT if form == "flat" else None
    with open_lists(out, form, num_candidates=num_candidates) as lists:
        # a log has an entry for the ids between its own
        return [entry.record.id for entry in lists if entry.record is not None]


def json_lines(path: Path) -> Iterable[dict[str, Any]]:
    """The rows of a file, none if there is no such file."""
    if path.suffix == ".parquet" and path.exists():
        import pyarrow.parquet

        yield from pyarrow.parquet.read_table(path).to_pylist()
    elif path.exists():
        for line in path.read_bytes().splitlines():
            yield json.loads(line)
