"""Run files as another run would have written them, or discorank 0.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from discorank.metrics.storage.checksums import with_checksum
from discorank.rerank.runs.block_digests import BlockDigests


def run_file(out: Path) -> dict[str, Any]:
    """The values of the run file beside a run's rows."""
    values: dict[str, Any] = json.loads(Path(f"{out}.run.json").read_text(encoding="utf-8"))
    return values


def write_run_file_for(out: Path, **parts: Any) -> None:
    """Changes values of a run file, which then fits the rows as they stand and has the right checksum."""
    data = out.read_bytes()
    digests = BlockDigests().extended(data)
    values = run_file(out)
    values["bytes"]["rows"] = len(data)
    values["blocks"]["rows"] = {
        "bytes_each": digests.block_bytes,
        "digests": " ".join(digests.all),
    }
    signed = with_checksum(values | parts)
    Path(f"{out}.run.json").write_text(json.dumps(signed), encoding="utf-8")


def write_old_run_file(out: Path, **parts: Any) -> None:
    """Takes away what discorank 0.1 did not write, and changes values."""
    values = run_file(out)
    del values["checksum"], values["blocks"]
    Path(f"{out}.run.json").write_text(json.dumps(values | parts), encoding="utf-8")
