"""``discorank decode --chooser FILE``: decoding as `train chooser` learned it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from ...metrics.errors import InputError
from ...metrics.mixture import Utility
from ...metrics.registry import load_from_data
from ...metrics.spec.allowed_code import AllowedCode
from ...metrics.spec.checked_settings import Field, settings
from ..options.engines import engine_in
from ..options.inputs import adapted
from ..running import check_not_input, run_decider

# what a chooser settles itself
SETTLED = (
    *("utility", "utilities", "save_utilities", "shortlist", "oracle", "diverse", "keep_matrix"),
    *("weights", "temperature", "self_pair", "prior", "prior_strength"),
    *("expectation", "trim", "num_groups", "normalize_parts"),
    *("budget", "budget_seconds", "budget_audit"),
)


@settings
class ChooserFileOptions:
    """A chooser.

    Args:
        chooser: the file of a chooser (`discorank train chooser`), which stands for utility, prior and weights; or
            default, the one for lists of which nobody judged any.
        abstain: with a chooser: the share of lists to flag as abstain, those with the most errors expected, for people.
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
    allowed = AllowedCode.of(values["allow_code"])
    load = partial(metric_of_file, values=values, allowed=allowed)
    reranker = chooser.reranker(load, None, values["strategy"], values["beam"])
    decider = ChooserDecider(chooser, reranker, values["nbest"], values["abstain"])
    with engine_in(values) as engine:
        return run_decider(values, decider, engine)


def metric_of_file(signature: str, values: Mapping[str, Any], allowed: AllowedCode) -> Utility:
    """A metric of a chooser's file, its language as it stands there."""
    return adapted(load_from_data(signature, allowed), {**values, "lang": None})
