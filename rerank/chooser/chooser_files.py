"""Reads choosers: a file, or the one that is shipped."""

from __future__ import annotations

from pathlib import Path

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.bounded_files import read_small_file
from .model import FIX, TrainedChooser, checked_json, read_chooser
from .shipped import default_chooser

DEFAULT = "default"


def load_chooser(spec: TrainedChooser | str | Path) -> TrainedChooser:
    """The chooser of a file, or the one that is shipped, "default"; a chooser is returned as it is.

    Raises:
        InputError: the file cannot be read, is no chooser, or is another than was written.
    """
    if isinstance(spec, TrainedChooser):
        return spec
    if not isinstance(spec, str | Path):
        raise InputError(f"found {excerpt(spec)}, expected a file", where="chooser", fix=FIX)
    if spec == DEFAULT:
        return default_chooser()
    content = read_small_file(spec, FIX)
    return read_chooser(checked_json(content, str(spec)), str(spec))
