"""Files that grow by lines, of which a kill may leave the last one unfinished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def rows_of_whole_lines(path: Path) -> list[Any]:
    """The JSON values of a file, none if it is not there; what stands behind its last line end is cut off."""
    if not path.exists():
        return []
    whole = path.read_bytes()
    kept = whole[: whole.rfind(b"\n") + 1]
    if len(kept) < len(whole):
        path.write_bytes(kept)
    return [json.loads(line) for line in kept.splitlines()]
