"""``discorank compare``, from the top down.

`command` reads and checks the options, prints all files, and writes a row per segment or document. `compared_sets`
compares the systems of one file. The tables of systems are
those of the page, `discorank.report.comparison_tables`. `wmt_task` counts as the WMT metrics task does.
"""

from .command import OPTIONS, run

__all__ = ["OPTIONS", "run"]
