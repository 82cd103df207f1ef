"""``discorank compare``, from the top down.

`command` reads and checks the options, prints all files, and writes a row per segment or document. `compared_sets`
compares the systems of one file, with figures of annotators, and `wmt_task`
counts as the WMT metrics task does.
"""

from .command import compare

__all__ = ["compare"]
