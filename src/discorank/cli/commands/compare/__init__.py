"""``discorank compare``, from the top down.

`command` reads and checks the options. `compared_sets` compares the systems of one file, and `chooser_comparison` what
chooses among their outputs. `printed_sets` prints all files, from the numbers of `system_tables`;
`score_files` writes a row per segment or document.
"""

from .command import OPTIONS, run

__all__ = ["OPTIONS", "run"]
