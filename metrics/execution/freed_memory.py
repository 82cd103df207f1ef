"""Freed memory stays with the process, so that arrays of a few megabytes are not paged in anew each time.

glibc returns the end of its heap to the system whenever twice the largest array freed so far is free there, up to an
array of 32 MiB; comparing lists of hundreds of texts makes and frees such arrays all the time, and up to a third of the
time went to page faults. Nothing is written to the array, so it takes no memory; other allocators do not mind it.
"""

from __future__ import annotations

from functools import cache

import numpy as np

LARGEST = (32 << 20) - (64 << 10)  # bytes; a larger array teaches glibc nothing


@cache
def keep_freed_memory() -> None:
    """Has glibc keep up to 64 MiB of what is freed, from the first call on."""
    np.empty(LARGEST, np.uint8)
