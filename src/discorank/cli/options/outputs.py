"""Systems' outputs in files of their own, as commands read them.

Options of ``decode``, ``rerank`` and ``convert`` that write lists in the formats of other tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ...integrations.formats.format_table import FEATURE, Order, writer_of
from ...integrations.formats.system_texts import AlignedOutputs, OutputFiles, read_outputs
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Rare, settings
from ...rerank.runs.row_forms import RowForm
from ..terminal.console import say

if TYPE_CHECKING:
    from ...integrations.formats.written_lists import ListWriter


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


@settings
class OutputFormatOptions:
    """In which format lists are written.

    Args:
        output_format: {formats:written}; JSON lines if not given.
        lossy: leave out what the format has no place for, instead of an error.
    """

    heading: ClassVar = "output"

    output_format: str | None = None
    lossy: Annotated[bool, Rare()] = False


@settings
class DecisionOptions:
    """How a decision stands in an n-best list.

    Args:
        order: with --output-format: candidates where they were (kept), or best first (choice); kept if not given, and
            choice for flat text.
        feature: with --output-format: the name of the decision among the features.
    """

    heading: ClassVar = "output"

    order: Annotated[Order | None, Rare()] = None
    feature: Annotated[str, Rare()] = FEATURE


def with_every_place(values: dict[str, Any]) -> None:
    """Has every candidate ranked where an n-best list is written.

    Raises:
        InputError: options that do not go together.
    """
    if values["output_format"] is None:
        unused: dict[str, Any] = {"order": None, "feature": FEATURE, "lossy": False}
        for name, value in unused.items():
            if values[name] != value:
                problem = "is for n-best lists"
                raise InputError(problem, where=f"--{name}", fix="Add --output-format")
        return
    writing = writer_of(values["output_format"], "--output-format")
    others: dict[str, Any] = {"nbest": 1, "diverse": None, "format": "jsonl"}
    for name, default in others.items():
        if values.get(name, default) != default:
            problem = "stands beside --output-format, which writes every candidate"
            raise InputError(problem, where=f"--{name}", fix="Leave out one of them")
    if writing.numbers_lists and values["max_errors"]:
        problem = "a list that is left out would shift the lines of all that follow"
        raise InputError(problem, where="--max-errors", fix="Leave it out, or write moses")
    values["nbest"] = None


def row_form_in(values: dict[str, Any]) -> RowForm | None:
    """The form of rows that the options name; None where --format says it."""
    name = values["output_format"]
    if name is None:
        return None
    from ...integrations.formats.written_lists import DecidedRows

    has_features = writer_of(name).own_fields is not None
    order: Order = values["order"] or ("kept" if has_features else "choice")
    return DecidedRows(name, order, values["feature"], values["lossy"])


def list_writer_in(values: dict[str, Any]) -> ListWriter:
    """What writes lists as the options say; what stands in files of its own is not lost."""
    from ...integrations.formats.written_lists import list_writer

    elsewhere = ["source"] if values["sources"] else []
    elsewhere += ["document", "position"] if values["documents"] else []
    return list_writer(values["output_format"], values["lossy"], elsewhere)
