"""Arrays that took long to compute, kept in a folder by what they depend on, so that a stopped benchmark goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from time import process_time

import numpy as np

from discorank.metrics.representations import FloatArray


class KeptArrays:
    """The arrays in a folder.

    Args:
        folder: made if it is not there.
        only: what is not there yet is not computed.
    """

    def __init__(self, folder: Path, only: bool = False) -> None:
        self.folder, self.only = folder, only
        folder.mkdir(parents=True, exist_ok=True)

    def array(self, what: str, key: str, compute: Callable[[], FloatArray]) -> FloatArray | None:
        """The array of a key, None where only kept ones are wanted and it is not there.

        Args:
            what: it is, for the file's name and the progress that is told.
            key: all that it depends on.
            compute: makes it.
        """
        path = self.folder / f"{what}.{sha256(key.encode()).hexdigest()[:16]}.npy"
        if path.exists():
            return np.asarray(np.load(path, allow_pickle=False))
        if self.only:
            return None
        start = process_time()
        array = compute()
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as file:
            np.save(file, array, allow_pickle=False)
        os.replace(unfinished, path)
        print(f"{what}: {process_time() - start:.1f} CPU s", file=sys.stderr, flush=True)
        return array
