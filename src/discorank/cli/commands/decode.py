"""``discorank decode INPUT -u UTILITY -o OUT``: minimum Bayes risk."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Rare, settings
from ...rerank.capabilities import ALL_PAIRS, SINGLE_LISTS, Needs
from ...rerank.votes.answer_shares import compares_answers
from ..options import command
from ..options.decoders import BudgetOptions, DecoderOptions, EngineSettings, MetricOptions
from ..options.inputs import InputOptions
from ..options.output_formats import RunOptions
from ..running import run_decider
from ..terminal.console import say


@settings
class SavedOptions:
    """Utilities from an earlier run.

    Args:
        utilities: decide from matrices that --save-utilities wrote, instead of computing a utility.
    """

    heading: ClassVar = "utility"

    utilities: Annotated[str | None, Needs(SINGLE_LISTS, ALL_PAIRS), Rare()] = None


@command(
    "Choose from every candidate list the candidate with the highest expected utility. Run the same command again to "
    "resume after an interruption.",
    positional={"input": "?"},
    short={"utility": "u", "output": "o", "num_candidates": "n"},
    first=["input", "utility", "output", "input_format", "nbest", "config"],
    examples=[
        "decode examples:demo.jsonl -u chrf -o chosen.jsonl",
        "decode examples:nbest.moses --from moses -u '0.5*chrf + bleu' --format text",
        "decode examples:demo.jsonl --config mbr-lexical-mix --nbest 3",
    ],
)
def decode(
    input: InputOptions,
    budget: BudgetOptions,
    decoder: DecoderOptions,
    run: RunOptions,
    saved: SavedOptions,
    engine: EngineSettings,
    metrics: MetricOptions,
) -> int:
    """Decodes; returns the exit code."""
    metrics = metrics.beside(run.output)
    keeps = bool(run.settings.save_utilities)
    choice = replace(run.every_rank(decoder.choice), keep_matrix=keeps)
    matrices = None
    if saved.utilities:
        if decoder.utility or decoder.estimator.shortlist:
            problem = "cannot be combined with --utilities"
            raise InputError(problem, where="utility", fix="Give one of them")
        from ...rerank.runs.saved_matrices import SavedEngine

        matrices = SavedEngine(saved.utilities)
    utility = matrices.utility if matrices else None
    made = replace(decoder, choice=choice).loaded(metrics, budget, utility)
    if run.settings.format == "answers" and not compares_answers(made.loaded_utility):
        fix = "Decide by vote, or write --format jsonl"
        raise InputError("the utility compares no answers", where="format", fix=fix)
    pairs = made.estimator.loaded_budget
    if pairs is not None and (remark := pairs.remark(made.loaded_utility)):
        say(f"--budget: {remark}")
    with matrices or engine.opened(metrics.cache()) as opened:
        return run_decider(made, opened, input, run, decoder.file.prior, saved.utilities)
