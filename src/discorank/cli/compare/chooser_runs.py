"""The choosers of ``compare``: metrics that choose among the systems' outputs, and files of what was chosen before."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ...integrations.formats.earlier_choices import read_chosen
from ...metrics.errors import InputError
from ...metrics.mixture import Utility
from ...metrics.spec.checked_settings import settings
from ...metrics.text.line_source import LineSource
from ...rerank.selection.choosers import ChooserComparison, compare_choosers
from ...rerank.selection.document_outputs import DocumentOutputs
from ...rerank.selection.significance import SignificanceSettings
from ...rerank.selection.system_choices import Choices, Chosen, bases_of, choices, decider_of
from ..cite import signatures_in
from ..console import Counted, say
from ..inputs import cache_in
from .system_tables import too_few


@settings
class ChooserOptions:
    """What chooses among the systems' outputs, judged by the human scores of what it chose.

    Args:
        choosers: utilities for MBR, and metrics without references for reranking, by name or signature.
        decoded: files that decode or rerank wrote of the same documents.
        choice: what is chosen: segment, document, or auto, which is what people scored.
    """

    choosers: tuple[str, ...] = ()
    decoded: tuple[str, ...] = ()
    choice: Literal["auto", "segment", "document"] = "auto"


def check_decoded(values: Mapping[str, Any], several: bool) -> None:
    """Raises InputError for a decoded file given twice, or beside several systems files."""
    given = values["decoded"]
    if twice := [one for i, one in enumerate(given) if one in given[:i]]:
        raise InputError(f"{twice[0]} is given twice", where="--decoded", fix="Give each once")
    if given and several:
        raise InputError(
            "belongs to one systems file", where="--decoded", fix="Compare each systems file alone"
        )


class Prepared(NamedTuple):
    """What there is to choose, and what was chosen before."""

    given: Choices
    decided: list[Chosen]


def prepared(
    documents: Sequence[DocumentOutputs],
    human: Sequence[tuple[str, bool]],
    values: Mapping[str, Any],
) -> Prepared | None:
    """What choosers work on, None if there are none; raises InputError before anything is computed."""
    if not (values["choosers"] or values["decoded"]):
        return None
    given = choices(documents, human, values["choice"])
    return Prepared(given, [_decided(path, given) for path in values["decoded"]])


def compared_choosers(
    work: Prepared,
    choosers: Sequence[Utility],
    metrics: Sequence[Utility],
    human: Sequence[tuple[str, bool]],
    values: Mapping[str, Any],
) -> ChooserComparison:
    """What became of the choosers; says what its reader must know."""
    given, quiet = work.given, values["quiet"]
    to_decide, to_draw = len(given.lists) * len(choosers), values["draws"] * 2 * len(human)
    tests = SignificanceSettings(
        values["draws"], values["seed"], values["level"], values["unit"], values["correction"]
    )
    with (
        Counted("lists", to_decide, quiet) as deciding,
        Counted("draws", to_draw, quiet) as drawing,
    ):
        found = compare_choosers(
            {metric.signature(): decider_of(metric) for metric in choosers},
            given,
            human,
            metrics,
            decided=work.decided,
            settings=tests,
            cache=cache_in(values),
            on_list=deciding.more,
            on_draw=drawing.more,
        )
    _tell(found, values["level"], lambda text: say(text, quiet))
    return found


def _decided(path: str, given: Choices) -> Chosen:
    """The choices in a file, and the metrics by which they were made if its run says so."""
    by = _by(f"{path}.run.json")
    source = LineSource(path)
    return read_chosen(source, given, source.stem, by)


def _by(run: str) -> frozenset[str]:
    """The metrics of a run, none if there is no such file."""
    if not os.path.exists(run):
        return frozenset()
    try:
        return frozenset(base for signature in signatures_in(run) for base in bases_of(signature))
    except InputError as error:
        raise (error if run in error.where else error.inside(run)) from None


def _tell(found: ChooserComparison, level: float, tell: Callable[[str], None]) -> None:
    given = found.choices
    if more := len(given.documents[0].systems) - len(given.systems):
        tell(f"choosers: {more} systems that people did not judge are no candidates")
    for one in found.judged:
        tell(f"choosers: {one.counted} of {one.total} {given.what} count under {one.dimension}")
        for warning in too_few([one.verdicts], level):
            tell(f"choosers by {one.dimension}: {warning}")
        for name, n in zip(one.names, one.unscored.tolist(), strict=True):
            if n:
                tell(
                    f"choosers: {name} chose a text without a score in {n} {given.what}, which count for no chooser"
                )
    for scored, row in zip(found.scored, found.optimised, strict=True):
        if by := [name for name, own in zip(found.judged[0].names, row, strict=True) if own]:
            tell(
                f"warning: {', '.join(by)} chose by {scored.name}, which therefore says little of what they chose"
            )
