"""``discorank train chooser SYSTEMS --human NAME:lower -o CHOOSER.json``: how to choose, from judgements or none."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ....metrics.errors import InputError
from ....metrics.spec.checked_settings import settings
from ....metrics.storage.checksums import with_checksum
from ....rerank.chooser.chooser_fit import SHIP
from ....rerank.chooser.model import (
    Expectation,
    ExpectedDifference,
    ExpectedRatio,
    TrainedChooser,
)
from ....rerank.chooser.shipped import default_chooser, shipped
from ....rerank.chooser.training import train_chooser
from ....rerank.features import Feature, feature_of
from ....rerank.prior import Prior
from ....rerank.selection.system_prior import Root
from ....rerank.surface import SURFACE
from ....tables import aligned
from ...options import Options, needed
from ...options.inputs import CodeOptions, adapted, cache_in, metric_in
from ...options.judgements import (
    JudgedDocuments,
    JudgementOptions,
    OtherDomainOptions,
    has_judgements,
    judged_documents,
    other_documents,
)
from ...running import check_not_input, check_writable, complete_or_absent
from ...terminal.console import say
from .judgement_tables import tables_of

TOO_FEW = "too few documents are judged to tell"


@settings
class TrainChooserOptions:
    """Whose judgements count, what is looked at, and where the chooser goes.

    Args:
        input: the systems file, a document per line; "mqm": null where nobody judged one. Where no option names
            judgements, the chooser that is shipped is written.
        root: whether an error is the square root of a score; auto, where lower is better and no score is negative.
        utility: of consensus; the one that the defaults were learned with if not given.
        metric: features beside consensus, by name, field:NAME, or a metric without references; none for no features.
        output: the file of the chooser, .json.
        format: how the chooser is printed, text or json.
    """

    input: str | None = None
    root: Root = "auto"
    utility: str | None = None
    metric: tuple[str, ...] = SURFACE
    output: str | None = None
    format: Literal["text", "json"] = "text"


OPTIONS = Options(
    "train chooser",
    "Learn from judgements how to choose among the texts of several systems: which systems are better, how much that "
    "counts, and what the texts tell. Use it as: discorank decode NEW --from systems --chooser CHOOSER.json. "
    "What was learned, and what to expect of it, goes to stdout.",
    [TrainChooserOptions, JudgementOptions, OtherDomainOptions, CodeOptions],
    positional={"input": "?"},
    short={"output": "o", "utility": "u", "metric": "m"},
)


def run(arguments: Sequence[str]) -> int:
    """Trains; returns the exit code."""
    values = OPTIONS.parse(arguments)
    out = needed(values, "output", "--output")
    check_not_input(out, [values["input"], values["rankings"], *values["judged"], *values["also"]])
    check_writable(out)
    chooser, judged = default_chooser(), None
    if has_judgements(values):
        chooser, judged = _trained(values)
    row = with_checksum(chooser.as_json())
    with complete_or_absent(out) as file:
        file.write(json.dumps(row, ensure_ascii=False, indent=1).encode() + b"\n")
    sys.stdout.write(
        (json.dumps(row) if values["format"] == "json" else shown(chooser, judged)) + "\n"
    )
    say(f"{out}: use it as discorank decode --chooser {out}", values["quiet"])
    return 0


def _trained(values: Mapping[str, Any]) -> tuple[TrainedChooser, JudgedDocuments]:
    """The chooser that judgements make, and these."""
    path = needed(values, "input", "SYSTEMS")
    judged = judged_documents(path, values)
    utility = metric_in(values, values["utility"] or shipped().utility)
    features = [_feature(name, values) for name in values["metric"] if name != "none"]
    try:
        chooser = train_chooser(
            judged.documents,
            judged.dimension,
            judged.lower,
            utility,
            features,
            values["root"],
            cache_in(values),
            other_documents(judged, values),
            values["also_weight"],
        )
    except InputError as error:
        raise error.inside(path) from None
    return chooser, judged


def _feature(name: str, values: Mapping[str, Any]) -> Feature:
    feature = feature_of(name, values["allow_code"])
    return feature if isinstance(feature, str) else adapted(feature, values)


def shown(chooser: TrainedChooser, judged: JudgedDocuments | None = None) -> str:
    """Raters or dimensions, systems, weights and what is expected, as text."""
    lines = [] if judged is None else tables_of(judged)
    if chooser.prior is not None:
        what = "errors" if chooser.prior.lower else "minus scores"
        rows = [["system", "segments", f"{what} beside the mean system's", "+-"]]
        for name, system in sorted(chooser.prior.systems, key=lambda pair: pair[1].mean):
            rows.append([name, str(system.segments), f"{system.mean:+.3f}", f"{system.error:.3f}"])
        lines.append(aligned(rows))
    rows = [["feature", "weight"], [f"expected {chooser.utility}", f"{chooser.consensus:+.3f}"]]
    rows += [[name, f"{weight:+.3f}"] for name, weight in chooser.weights]
    strength = "ships the best system" if chooser.strength >= SHIP else f"{chooser.strength:g}"
    lines += [aligned(rows), f"strength of systems: {strength}", f"from {chooser.provenance}"]
    return "\n".join([*lines, expected(chooser)])


def expected(chooser: TrainedChooser) -> str:
    """One line: how much better than shipping the best single system."""
    expectation = chooser.expectation
    if expectation is None:
        return f"expected: {_unsaid(chooser.prior)}"
    system = expectation.system
    if isinstance(expectation, ExpectedDifference):
        change = scores_changed(expectation)
        makes, would = "choosing gives", "choosing would give"
    else:
        change = errors_changed(expectation)
        makes, would = "choosing makes", "choosing would make"
    whose = "" if not _is_of_other_sets(expectation) else f", as on other sets: {TOO_FEW}"
    if chooser.ships:
        return f"ship {system}, as this chooser does: {would} {' '.join(change)}{whose}"
    if expectation.ships:
        return f"ship {system}: {makes} {' '.join(change)}{whose}"
    return f"expected: {change[0]} than shipping {system} {change[1]}{whose}"


def _is_of_other_sets(expectation: Expectation) -> bool:
    """Whether it is what other sets made of it, to which the judged documents add nothing."""
    if not isinstance(expectation, ExpectedRatio):
        return False
    own = (expectation.ratio, expectation.low, expectation.high)
    gain = shipped().gain
    return bool(np.allclose(own, (gain.ratio, *gain.interval), rtol=1e-9, atol=0))


def errors_changed(expectation: ExpectedRatio) -> tuple[str, str]:
    """How many errors more or fewer, and the interval."""
    more = 100 * (expectation.ratio - 1)
    low, high = round(100 * (expectation.low - 1)), round(100 * (expectation.high - 1))
    if more <= 0:
        return f"{abs(more):.1f} % fewer errors", f"[{-high:+d}, {-low:+d}]"
    return f"{more:.1f} % more errors", f"[{low:+d}, {high:+d}]"


def scores_changed(expectation: ExpectedDifference) -> tuple[str, str]:
    """How much better or worse scores, and the interval."""
    better, low, high = expectation.difference, expectation.low, expectation.high
    size = f"scores {abs(better):.2f} standard deviations within a segment"
    if better >= 0:
        return f"{size} better", f"[{low:+.2f}, {high:+.2f}]"
    return f"{size} worse", f"[{-high:+.2f}, {-low:+.2f}]"


def _unsaid(prior: Prior | None) -> str:
    """Why nothing can be said of what to expect."""
    if prior is None:
        return "nothing can be said of it before segments are judged"
    best = min(prior.systems, key=lambda pair: pair[1].mean)[0]
    return f"{TOO_FEW} choosing from shipping {best}"
