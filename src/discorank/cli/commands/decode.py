"""``discorank decode INPUT -u UTILITY -o OUT``: minimum Bayes risk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Rare, settings
from ...rerank.capabilities import ALL_PAIRS, SINGLE_LISTS, Needs
from ...rerank.mbr import MBRDecoder
from ...rerank.runs.run import RunSettings
from ...rerank.votes.answer_shares import compares_answers
from ..options import Options, build, needed
from ..options.budget import BudgetOptions, budget_in
from ..options.engines import GROUPS, engine_in
from ..options.inputs import CodeOptions, InputOptions, JudgeOptions, check_model, metric_in
from ..options.output_formats import DecisionOptions, OutputFormatOptions, with_every_place
from ..running import OutputOptions, run_decider
from ..terminal.console import say


@settings
class SavedOptions:
    """Utilities from an earlier run.

    Args:
        utilities: decide from matrices that --save-utilities wrote, instead of computing a utility.
    """

    heading: ClassVar = "utility"

    utilities: Annotated[str | None, Needs(SINGLE_LISTS, ALL_PAIRS), Rare()] = None


OPTIONS = Options(
    "decode",
    "Choose from every candidate list the candidate with the highest expected utility. Run the same command again to "
    "resume after an interruption.",
    [
        InputOptions,
        OutputOptions,
        BudgetOptions,
        MBRDecoder,
        RunSettings,
        OutputFormatOptions,
        DecisionOptions,
        SavedOptions,
        CodeOptions,
        JudgeOptions,
    ],
    positional={"input": "?"},
    short={"utility": "u", "output": "o", "num_candidates": "n"},
    groups=GROUPS,
    first=["input", "utility", "output", "input_format", "nbest", "config"],
    examples=[
        "decode examples:demo.jsonl -u chrf -o chosen.jsonl",
        "decode examples:nbest.moses --from moses -u '0.5*chrf + bleu' --format text",
        "decode examples:demo.jsonl --config mbr-lexical-mix --nbest 3",
    ],
)


def run(arguments: Sequence[str]) -> int:
    """Decodes; returns the exit code."""
    values = OPTIONS.parse(arguments)
    with_every_place(values)
    budget = budget_in(values)
    saved = None
    if values["utilities"]:
        if values["utility"] or values["shortlist"]:
            raise InputError("stands beside --utilities", where="--utility", fix="Give one of them")
        from ...rerank.runs.saved_matrices import SavedEngine

        saved = SavedEngine(values["utilities"])
        values["utility"] = saved.utility
    shortlist = values["shortlist"] and metric_in(values, values["shortlist"])
    utility = metric_in(values, needed(values, "utility", "--utility"))
    if values["format"] == "answers" and not compares_answers(utility):
        fix = "Decide by vote, or write --format jsonl"
        raise InputError("the utility compares no answers", where="--format", fix=fix)
    check_model(values, [utility, shortlist] if shortlist else [utility])
    keep = bool(values["save_utilities"])
    decoder = build(
        MBRDecoder, values, utility=utility, shortlist=shortlist, keep_matrix=keep, budget=budget
    )
    remark = None if budget is None else budget.remark(utility)
    if remark is not None:
        say(f"--budget: {remark}", values["quiet"])
    with saved or engine_in(values) as engine:
        return run_decider(values, decoder, engine)
