"""``compare --hypotheses``: systems' outputs in files of their own; what to do where --hypotheses lacks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ....integrations.formats.system_texts import AlignedOutputs, OutputFiles, about_kind, kind_of
from ....metrics.errors import InputError, unknown
from ....metrics.storage.line_source import LineSource
from ....rerank.selection.resampling_units import segments_of_unit
from ...options.output_files import aligned_outputs, output_files_in
from .set_places import SetPlace

_BESIDE = ("sources", "documents")  # options that need --hypotheses
_OF_SYSTEMS_FILES = ("human", "include", "columns", "language_pair", "tasks")


def checked_files(values: Mapping[str, Any]) -> OutputFiles | None:
    """The files of outputs, None where systems files are given.

    Raises:
        InputError: options that do not go together.
    """
    files = output_files_in(values)
    if files is None:
        for name in _BESIDE:
            if values[name]:
                raise InputError(
                    "stands beside --hypotheses alone", where=f"--{name}", fix="Add --hypotheses"
                )
        return None
    for name in _OF_SYSTEMS_FILES:
        if values[name]:
            _refuse(f"--{name.replace('_', '-')}")
    if values["input_format"] != "systems":
        _refuse("--from")
    if values["statistics"] == "wmt":
        _refuse("--statistics wmt")
    return files


def _refuse(flag: str) -> None:
    fix = (
        "Make a systems file with discorank convert --hypotheses ... --to systems, or leave it out"
    )
    raise InputError("does not go with --hypotheses", where=flag, fix=fix)


def output_place(files: OutputFiles, values: Mapping[str, Any]) -> SetPlace:
    """The set that files of outputs make; errors as `read_outputs`."""
    return SetPlace(files.name, "hypotheses", outputs=aligned_outputs(files, values))


def segment_unit(unit: str | int) -> str:
    """The unit where every segment is a document; raises InputError for another."""
    if unit != "auto" and segments_of_unit(unit) != 1:
        raise InputError(
            "which segments stand in one document is not known",
            where=f"--unit {unit}",
            fix="Give document ids with --documents",
        )
    return "segment"


def baseline_of(
    given: str | None, outputs: AlignedOutputs | None, systems: Sequence[str]
) -> str | None:
    """The system that --baseline names, by its name or its file; raises InputError if there is none."""
    if given is None or given in systems:
        return given
    names = {} if outputs is None else outputs.names
    if names.get(given) in systems:
        return names[given]
    raise unknown("system", given, systems, where="--baseline")


def check_systems_files(paths: Sequence[str], form: str) -> None:
    """Raises InputError, with the command that reads them, where files hold texts in place of documents."""
    if form != "systems":
        return
    for path in paths:
        kind = _kind(path)
        # of one file of candidate lists its reader says more
        if kind not in (None, "systems") and (kind != "jsonl" or len(paths) > 1):
            problem = f"found {about_kind(str(kind))}, expected a systems file"
            raise InputError(problem, where=path, fix=f"For files of texts: {_command(paths)}")


def _kind(path: str) -> str | None:
    """What a file is, None where its reader is to say that."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return None
    try:
        with closing(LineSource(path)) as source:
            first = next(iter(source), (0, b""))[1]
            # JSON of any other kind has errors that say more
            if first.lstrip().startswith((b"{", b"[")) and b'"text"' not in first:
                return None
            return kind_of(first, source) if first.strip() else None
    except InputError:
        return None


def _command(paths: Sequence[str]) -> str:
    """The command that compares the files, of which those named like references are references."""
    references = [path for path in paths if Path(path).stem.lower().startswith("ref")]
    hypotheses = [path for path in paths if path not in references]
    if not hypotheses:
        hypotheses, references = list(paths), []
    words = ["discorank", "compare", "--hypotheses", *hypotheses]
    words += ["--references", *(references or ["REFERENCES"]), "-m", "chrf"]
    return shlex.join(words)
