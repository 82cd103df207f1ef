"""How many pairs of a list's utility matrix are computed, and which: the settings, and for which utilities they are."""

from __future__ import annotations

from math import ceil
from typing import Annotated, Any

from ...metrics.errors import InputError
from ...metrics.mixture import Utility
from ...metrics.registry import MetricLike, load_metric
from ...metrics.spec.checked_settings import Converted, Field, settings
from .statement import Target

# in the order in which each says what those before it do not: likeness, lengths, words, their order
CHEAP = "chrf + chrf(beta=0.3) + chrf(beta=6) + chrf(word_order=2) + bleu + rouge-l"
_QUICK_PAIRS = {"ter"}  # metrics whose pairs are costly of long texts alone


@settings
class Budget:
    """A budget of pairs for each list.

    Args:
        share: of all pairs of a list that may be computed, above 0 and at most 1; at least one pair is.
        confidence: stop with a list as soon as its choice is that of the whole matrix with at least this probability;
            None to use the whole budget.
        regret: stop with a list as soon as what its choice is expected to lose is at most so many standard deviations
            of the list's expected utilities, such as 0.01; with a confidence, when both are met.
        cheap_utility: a utility whose values of all pairs are computed first and guide the search; each part of a sum
            says by itself what it can, whatever its weight.
        force: allow it for utilities whose pairs cost next to nothing.

    Raises:
        InputError: a setting out of range.
    """

    share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    regret: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    cheap_utility: Annotated[MetricLike, Converted(load_metric)] = CHEAP
    force: bool = False

    @property
    def target(self) -> Target:
        """The target that stops a list before its budget is used up."""
        return Target(self.confidence, self.regret)

    def pairs(self, of: int) -> int:
        """How many pairs of so many may be computed."""
        return max(1, ceil(self.share * of))

    @property
    def cheap(self) -> Utility:
        """The cheap utility."""
        return load_metric(self.cheap_utility)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on."""
        return {
            "share": self.share,
            "confidence": self.confidence,
            "regret": self.regret,
            "cheap_utility": self.cheap.signature(),
        }

    def check(self, utility: Utility) -> None:
        """Checks that fewer pairs of a utility are less work.

        Raises:
            InputError: it has no pairs, or they cost next to nothing and the budget is not forced.
        """
        parts = [part for weight, part in utility.parts if weight]
        if not any(part.info.needs_references for part in parts):
            problem = f"{utility.signature()} reads each candidate by itself: there are no pairs"
            raise InputError(problem, where="budget", fix="Leave the budget out")
        if self.force or any(part.costly_pairs for part in parts):
            return
        raise InputError(
            f"pairs of {utility.signature()} are algebra over what is computed once per text: all of them cost about "
            "as much as some, and are exact",
            where="budget",
            fix="Leave the budget out, or force it: --force-budget",
        )

    def remark(self, utility: Utility) -> str | None:
        """Advice on a budget for a utility, though it is allowed; None for none."""
        costly = {part.name for weight, part in utility.parts if weight and part.costly_pairs}
        if not costly or not costly <= _QUICK_PAIRS or self.share == 1:
            return None
        return (
            f"all pairs of {' and '.join(sorted(costly))} take less time than deciding which of them to compute, "
            "unless texts have hundreds of words"
        )


def asked_parts(utility: Utility, force: bool) -> list[int]:
    """Which parts of a utility are computed of some pairs only; the others that count are computed of all.

    Where the budget is forced and no pairs are costly, those are all parts with pairs.
    """
    with_pairs = [
        i for i, (weight, part) in enumerate(utility.parts) if weight and part.info.needs_references
    ]
    costly = [i for i in with_pairs if utility.parts[i][1].costly_pairs]
    return with_pairs if force and not costly else costly


def two_texts_are_one_pair(utility: Utility, force: bool) -> bool:
    """Whether what is computed of some pairs is the same of (h, r) and (r, h), where hypotheses are the references."""
    asked = [utility.parts[i][1] for i in asked_parts(utility, force)]
    return all(part.symmetric and not part.reads.everywhere for part in asked)


def load_budget(spec: Budget | float | None) -> Budget | None:
    """A budget from its settings or its share alone."""
    if spec is None or isinstance(spec, Budget):
        return spec
    return Budget(spec)
