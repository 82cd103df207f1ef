"""Run files as another run would have written them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from discorank.metrics.storage.checksums import with_checksum
from discorank.rerank.runs.run_file import WrittenBytes


def run_file(out: Path) -> dict[str, Any]:
    """The values of the run file beside a run's rows."""
    values: dict[str, Any] = json.loads(Path(f"{out}.run.json").read_text(encoding="utf-8"))
    return values


def write_run_file_for(out: Path, **parts: Any) -> None:
    """Changes values of a run file, which then fits the rows as they stand and has the right checksum."""
    written = WrittenBytes().plus(out.read_bytes())
    values = run_file(out)
    values["bytes"]["rows"] = written.num_bytes
    values["sha256"]["rows"] = written.digest
    signed = with_checksum(values | parts)
    Path(f"{out}.run.json").write_text(json.dumps(signed), encoding="utf-8")
