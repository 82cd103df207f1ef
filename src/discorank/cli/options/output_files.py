"""Systems' outputs in files of their own, as commands read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...integrations.formats.system_texts import AlignedOutputs, OutputFiles, read_outputs
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import settings
from ..terminal.console import say


@settings
class OutputFileOptions:
    """Systems' outputs in files of their own.

    Args:
        hypotheses: files with the outputs of a system each, in place of a systems file: text with a segment per line,
            what decode wrote, n-best lists (the first candidates count), or systems files.
        references: files of references, beside --hypotheses.
        sources: the file of sources, one per line.
        documents: the file of document ids, one per line; without it every segment of --hypotheses is a document of
            its own.
    """

    heading: ClassVar = "input"

    hypotheses: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    sources: str | None = None
    documents: str | None = None


def output_files_in(values: Mapping[str, Any]) -> OutputFiles | None:
    """The files that --hypotheses and the options beside it name, None without.

    Raises:
        InputError: an input beside it.
    """
    if not values["hypotheses"]:
        return None
    if values["input"]:
        given = values["input"] if isinstance(values["input"], str) else values["input"][0]
        raise InputError(
            "is given beside --hypotheses", where=given, fix="Name all files after --hypotheses"
        )
    return OutputFiles(
        values["hypotheses"], values["references"], values["sources"], values["documents"]
    )


def aligned_outputs(files: OutputFiles, values: Mapping[str, Any]) -> AlignedOutputs:
    """The documents of the files, errors as `read_outputs`; says where ids lack, and what is left out."""
    outputs = read_outputs(files)
    if not outputs.has_documents:
        say(
            "every segment is a document of its own; where segments share documents, give ids with --documents",
            values["quiet"],
        )
    if outputs.left_out:
        say(f"left out: {', '.join(outputs.left_out)}", values["quiet"])
    return outputs
