"""Systems' outputs in files of their own, as commands read them.

Options of ``decode``, ``rerank`` and ``convert`` that write lists in the formats of other tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ...integrations.formats.format_table import FEATURE, Order, writer_of
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Rare, settings
from ...rerank.runs.row_forms import RowForm

if TYPE_CHECKING:
    from ...integrations.formats.written_lists import ListWriter


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
