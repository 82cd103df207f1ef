"""``discorank decode INPUT -u UTILITY -o OUT``: minimum Bayes risk."""

from __future__ import annotations

from collections.abc import Sequence

from ..metrics.errors import InputError
from ..metrics.spec.checked_settings import settings
from ..rerank.mbr_decoder import MBRDecoder
from ..rerank.runs.run import RunSettings
from ..rerank.runs.saved_engine import SavedEngine
from .engines import GROUPS, engine_in
from .inputs import CodeOptions, InputOptions, JudgeOptions, check_model, metric_in
from .options import Options, build, needed
from .running import OutputOptions, run_decider


@settings
class SavedOptions:
    """Utilities from an earlier run.

    Args:
        utilities: decide from matrices that --save-utilities wrote, instead of computing a utility.
    """

    utilities: str | None = None


OPTIONS = Options(
    "decode",
    "Choose from every candidate list the candidate with the highest expected utility. Run the same command again to "
    "go on after an interruption.",
    [InputOptions, OutputOptions, MBRDecoder, RunSettings, SavedOptions, CodeOptions, JudgeOptions],
    positional={"input": "?"},
    short={"utility": "u", "output": "o", "num_candidates": "n"},
    hidden=["keep_matrix"],
    groups=GROUPS,
)


def run(arguments: Sequence[str]) -> int:
    """Decodes; returns the exit code."""
    values = OPTIONS.parse(arguments)
    saved = None
    if values["utilities"]:
        if values["utility"] or values["shortlist"]:
            raise InputError("stands beside --utilities", where="--utility", fix="Give one of them")
        saved = SavedEngine(values["utilities"])
        values["utility"] = saved.utility
    shortlist = values["shortlist"] and metric_in(values, values["shortlist"])
    utility = metric_in(values, needed(values, "utility", "--utility"))
    check_model(values, [utility, shortlist] if shortlist else [utility])
    keep = bool(values["save_utilities"])
    decoder = build(MBRDecoder, values, utility=utility, shortlist=shortlist, keep_matrix=keep)
    with saved or engine_in(values) as engine:
        return run_decider(values, decoder, engine)
