"""``discorank train prior SYSTEMS --human NAME:lower -o PRIOR.json``: the prior of every system, from judgements."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Literal

from ....metrics.errors import InputError
from ....metrics.spec.checked_settings import settings
from ....metrics.storage.checksums import with_checksum
from ....rerank.prior import STRENGTH, Prior
from ....rerank.selection.system_scores import all_systems, human_scored
from ....rerank.training.prior_estimation import Raters, Root, estimate_prior
from ....tables import aligned
from ...options import Options, needed
from ...options.system_outputs import JudgedDocuments, JudgementOptions, judged_documents
from ...running import check_not_input, check_writable, complete_or_absent
from ...terminal.console import say


@settings
class TrainPriorOptions:
    """How errors are counted, and where the prior goes.

    Args:
        input: the systems file, a document per line; "mqm": null where nobody judged one.
        root: whether an error is the square root of a score; auto, where lower is better and no score is negative.
        output: the file of the prior, .json.
        format: how the prior is printed, text or json.
    """

    input: str | None = None
    root: Root = "auto"
    output: str | None = None
    format: Literal["text", "json"] = "text"


TURNED = "mqm counts errors where no score is below 0; if lower is better, give mqm:lower"
OPTIONS = Options(
    "train prior",
    "Estimate from human judgements how many errors every system makes. The prior weighs pseudo-references: discorank "
    "decode SYSTEMS --from systems --utility chrf --prior PRIOR.json. Its numbers go to stdout.",
    [TrainPriorOptions, JudgementOptions],
    positional={"input": "?"},
    short={"output": "o"},
)


def run(arguments: Sequence[str]) -> int:
    """Estimates; returns the exit code."""
    values = OPTIONS.parse(arguments)
    path = needed(values, "input", "SYSTEMS")
    out = needed(values, "output", "--output")
    check_not_input(out, [path, values["rankings"], *values["judged"]])
    check_writable(out)
    judged = judged_documents(path, values)
    try:
        prior = estimate_prior(judged.documents, judged.dimension, judged.lower, values["root"])
    except InputError as error:
        raise error.inside(path) from None
    if _seems_turned(judged):
        say(f"warning: {TURNED}", values["quiet"])
    row = with_checksum(prior.as_json())
    with complete_or_absent(out) as file:
        file.write(json.dumps(row, ensure_ascii=False, indent=1).encode() + b"\n")
    raters = [] if judged.raters is None else [raters_table(judged.raters)]
    text = "\n".join([*raters, shown(prior)])
    sys.stdout.write((json.dumps(row) if values["format"] == "json" else text) + "\n")
    say(f"{out}: use it as discorank decode --prior {out}", values["quiet"])
    return 0


def _seems_turned(judged: JudgedDocuments) -> bool:
    """Whether MQM, which counts errors, was taken for a score of which higher is better."""
    if judged.lower or judged.dimension.lower() != "mqm":
        return False
    documents = judged.documents
    scores = human_scored(judged.dimension, True, documents, all_systems(documents)).parts[0]
    return bool((scores.rows[:, :, 0] >= 0).all())


def raters_table(raters: Raters) -> str:
    """How strict raters are, as text."""
    what = "times the mean rater's scores" if raters.are_factors else "added to scores"
    effects = [[name, f"{effect:.3f}"] for name, effect in raters.effects.items()]
    return aligned([["rater", what], *effects])


def shown(prior: Prior) -> str:
    """Every system's prior, the best first, and what it makes of a weight, as text."""
    names = [name for name, _ in prior.systems]
    weights = prior.weights(names, STRENGTH).tolist()
    ordered = sorted(
        zip(prior.systems, weights, strict=True),
        key=lambda pair: pair[0][1].mean,
    )
    rows = [
        [
            "system",
            "segments",
            "documents",
            "judged",
            "prior",
            "+-",
            f"weight at strength {STRENGTH:g}",
        ]
    ]
    for (name, system), weight in ordered:
        rows.append(
            [
                name,
                str(system.segments),
                str(system.documents),
                "-" if system.effect is None else f"{system.effect:+.3f}",
                f"{system.mean:+.3f}",
                f"{system.error:.3f}",
                f"{weight:.4f}",
            ]
        )
    return (
        f"{aligned(rows)}\nAn error is {_error(prior)}; below 0 is better than the mean system. "
        f"{prior.segments} segments of {prior.documents} documents, sigma {prior.sigma:.3f}, "
        f"between systems {prior.between:.3f}, design effect {prior.design_effect:.2f}{_unjudged(prior)}"
    )


def _error(prior: Prior) -> str:
    """How an error follows from a human score."""
    if prior.rooted:
        return f"the square root of {prior.human}"
    return prior.human if prior.lower else f"minus {prior.human}"


def _unjudged(prior: Prior) -> str:
    """A line on the systems without judgements, nothing if there are none."""
    names = [name for name, system in prior.systems if system.effect is None]
    if not names:
        return ""
    have = "they have" if len(names) > 1 else "it has"
    return f"\nNobody judged {', '.join(names)}: {have} the mean of all."
