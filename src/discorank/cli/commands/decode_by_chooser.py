"""``discorank decode --chooser FILE``: decoding as `train chooser` learned it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from ...metrics.errors import DiscorankError, InputError
from ...metrics.mixture import Utility
from ...metrics.registry import load_from_data
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.spec.user_code import AllowedCode
from ...rerank.engines.interface import Engine
from ...rerank.lists import CandidateList, finite
from ...rerank.runs.entry import Entry
from ...rerank.runs.run_file import earlier_settings
from ...rerank.runs.written_outcomes import stopped
from ...rerank.scheduler import Outcome
from ..options.engines import engine_in
from ..options.inputs import adapted, open_input
from ..running import check_not_input, run_decider
from ..terminal.console import Progress

if TYPE_CHECKING:
    from ...rerank.chooser.abstaining import Abstention
    from ...rerank.chooser.chooser_decider import ChooserDecider
    from ...rerank.chooser.model import TrainedChooser

# what a chooser settles itself
SETTLED = (
    *("utility", "utilities", "save_utilities", "shortlist", "oracle", "diverse", "keep_matrix"),
    *("weights", "temperature", "self_pair", "prior", "prior_strength"),
    *("normalize_parts", "budget", "budget_audit"),
)


@settings
class ChooserFileOptions:
    """A chooser.

    Args:
        chooser: the file of a chooser (`discorank train chooser`), which stands for utility, prior and weights; or
            default, the one for lists of which nobody judged any.
        abstain: with a chooser: the share of the input's lists to flag as abstain, those with the most errors expected,
            for people. The input is decided twice: which these are shows when all lists are decided.
    """

    chooser: str | None = None
    abstain: Annotated[float, Field(ge=0, le=1)] = 0.0


def run_chooser(values: dict[str, Any], defaults: Mapping[str, Any]) -> int:
    """Decides every list of the input as a chooser does; returns the exit code."""
    from ...rerank.chooser.chooser_decider import ChooserDecider
    from ...rerank.chooser.chooser_files import load_chooser

    for name in SETTLED:
        if values.get(name) != defaults.get(name):
            where = f"--{name.replace('_', '-')}"
            raise InputError("stands beside --chooser", where=where, fix="Give one of them")
    check_not_input(values["output"], [values["chooser"]])
    chooser = load_chooser(values["chooser"])
    check_abstain(values, chooser)
    allowed = AllowedCode.of(values["allow_code"])
    load = partial(metric_of_file, values=values, allowed=allowed)
    reranker = chooser.reranker(load, None, values["strategy"])
    decider = ChooserDecider(chooser, reranker, values["nbest"])
    with engine_in(values) as engine:
        if values["abstain"]:
            decider = replace(decider, abstain=abstention_in(values, decider, engine))
        return run_decider(values, decider, engine)


def check_abstain(values: Mapping[str, Any], chooser: TrainedChooser) -> None:
    """Raises InputError where a share of the lists cannot be flagged."""
    if not values["abstain"]:
        return
    if chooser.difficulty is None:
        problem, fix = (
            "the chooser does not say how hard a list is",
            "Train one: discorank train chooser",
        )
        raise InputError(problem, where="--abstain", fix=fix)
    if values["input"] in ("-", None):
        raise InputError("the input is read twice", where="--abstain", fix="Give a file")


def abstention_in(values: Mapping[str, Any], decider: ChooserDecider, engine: Engine) -> Abstention:
    """Which lists --abstain flags: those of the run that goes on, or as deciding all of them shows.

    Raises:
        StoppedByErrorsError: more lists than --max-errors have an error.
    """
    from ...rerank.chooser.abstaining import Abstention, abstention

    share, earlier = values["abstain"], earlier_settings(values["output"]).get("abstain")
    if isinstance(earlier, Mapping) and earlier.get("share") == share:
        above = finite(earlier.get("above"))
        if above is not None:
            return Abstention(share, above)
    engine.load(decider.metrics)
    with (
        open_input(values) as lists,
        Progress("lists looked at", lists.fraction, values["quiet"]) as progress,
    ):
        noted = Noted(lists.name, values["max_errors"], progress)
        records = (
            (entry, entry.error if entry.record is None else entry.record) for entry in lists
        )
        every_place = replace(decider, nbest=None)
        return abstention(every_place, decider.expected_error, records, engine, share, noted)


class Noted:
    """Counts what is decided before anything is written, and stops where the run would.

    Args:
        name: of the input.
        max_errors: how many lists may have an error.
        progress: shows both counts.
    """

    def __init__(self, name: str, max_errors: int, progress: Progress) -> None:
        self.name, self.max_errors, self.progress = name, max_errors, progress
        self.done = self.errors = 0

    def __call__(self, entry: Entry[CandidateList], outcome: Outcome) -> None:
        """Counts one list; raises StoppedByErrorsError at one error too many."""
        self.done += 1
        if isinstance(outcome, DiscorankError):
            self.errors += 1
            if self.errors > self.max_errors:
                raise stopped(outcome, entry, self.name)
        self.progress(self.done, self.errors)


def metric_of_file(signature: str, values: Mapping[str, Any], allowed: AllowedCode) -> Utility:
    """A metric of a chooser's file, its language as it stands there."""
    return adapted(load_from_data(signature, allowed), {**values, "lang": None})
