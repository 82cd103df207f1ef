"""The pool: which texts count as pseudo-references of a list, and how much each of them.

    w(r) = 1                              uniform: each candidate counts alike
    w(r) = exp(logprob(r) / temperature)  logprob, once per distinct sample
    w(r) = exp((c(r) - max c) / temperature)   a confidence of `votes.confidence.SIGNS`, such as certainty
    w(r) = a field of the candidate       field:NAME
    w(r) = exp(-strength (m - min m) / sigma)   a prior over systems (`prior`)
Against human references, all alike, an oracle decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Annotated, Any, ClassVar

import numpy as np

from ..metrics.errors import InputError
from ..metrics.execution.evaluate import is_joined
from ..metrics.mixture import Utility
from ..metrics.representations import FloatArray, IntArray
from ..metrics.spec.checked_settings import Checked, Converted, Field, Rare, settings
from ..metrics.text.texts import Context, Text
from .capabilities import EVERY_VALUE, PSEUDO_REFERENCES, SYSTEMS, Beside, Costs, Needs
from .engines.interface import Task
from .lists import Candidate, CandidateList, Distinct, number_field
from .prior import STRENGTH, Prior, check_strength, load_prior
from .votes.confidence import SIGNS, confidences

# weights whose largest is outside are scaled, so that no sum overflows or vanishes
SMALL, LARGE = 1e-150, 1e150


def checked_weights(weights: str) -> str:
    """A setting `weights` that exists; InputError for another."""
    is_field = weights.startswith("field:") and weights != "field:"
    if weights not in WEIGHTS and not is_field:
        names = ", ".join(f'"{name}"' for name in WEIGHTS)
        fix = f'{names} or "field:NAME"'
        raise InputError(f"found {weights!r}", where="weights", fix=fix)
    return weights


@settings
class Pool:
    """Which texts count as pseudo-references, and how much.

    A list that brings pseudo-references of its own is decided against these, else against its own candidates.

    Args:
        weights: "uniform", "logprob", how sure the model was ("mean-logprob", "certainty", "tail-entropy",
            "bottom-window"), or "field:NAME", the weights of pseudo-references.
        temperature: divides log-probabilities, and confidences.
        self_pair: whether a candidate counts as a pseudo-reference for itself.
        prior: the file of a prior over systems (`discorank train prior`), which weighs pseudo-references instead, by
            their field "system".
        prior_strength: how much a prior counts; 0 not at all, a large one chooses the best system.
        oracle: decide against the human references instead: what the best choice would be.
    """

    heading: ClassVar = "pool"

    weights: Annotated[str, Checked(checked_weights)] = "uniform"
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False), Beside("weights"), Rare()] = 1.0
    self_pair: bool = True
    prior: Annotated[Prior | str | None, Converted(load_prior), Needs(SYSTEMS)] = None
    prior_strength: Annotated[
        float, Field(ge=0, allow_inf_nan=False), Needs(SYSTEMS), Beside("prior"), Rare()
    ] = STRENGTH
    oracle: Annotated[bool, Costs(PSEUDO_REFERENCES, EVERY_VALUE)] = False

    def __post_init__(self) -> None:
        check_strength(self.prior, self.prior_strength)
        if self.prior is not None and self.weights != "uniform":
            problem = (
                f"weights {self.weights!r} with a prior, which weighs pseudo-references itself"
            )
            raise InputError(problem, where="prior", fix="Give one of them")

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that expected utilities depend on; a prior stands by what is in its file."""
        identity: dict[str, Any] = {
            "weights": self.weights,
            "temperature": self.temperature,
            "self_pair": self.self_pair,
        }
        prior = load_prior(self.prior)
        if prior is not None:
            identity |= {"prior": prior.digest, "prior_strength": self.prior_strength}
        return identity

    @property
    def reads_logprobs(self) -> bool:
        """Whether every candidate needs its log-probability."""
        return self.weights == "logprob"

    def weights_of(self, candidates: Sequence[Candidate], where: str = "candidates") -> FloatArray:
        """The weights of candidates as pseudo-references, [N].

        Raises:
            InputError: one lacks the number, it is negative, or all are 0; `where` names their place.
        """
        prior = load_prior(self.prior)
        if prior is not None:
            return prior.of_candidates(candidates, self.prior_strength, where)
        if self.weights in WEIGHTS:
            weights = WEIGHTS[self.weights](candidates, self, where)
        else:
            weights = _field_weights(candidates, self.weights.removeprefix("field:"), where)
        if not weights.sum() > 0:
            problem = f"all {self.weights} weights are 0"
            raise InputError(problem, where=where, fix='Use weights="uniform"')
        return weights

    def task(
        self,
        utility: Utility,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        context: Context,
    ) -> Task:
        """The comparison of a list: texts against its pseudo-references, as each part of a utility reads them.

        Args:
            utility: the utility.
            record: the list.
            distinct: its distinct texts.
            kept: the numbers of those that have not been given up.
            context: the sentences before.

        Raises:
            InputError: weights are missing or all 0, or an oracle has no references.
        """
        hypotheses = references = tuple(distinct.texts[i] for i in kept.tolist())
        own = None
        if self.oracle or record.pseudo_references:
            pool, weights = record.pseudo_references, np.ones(len(record.references))
            if self.oracle:
                pool = tuple(map(Candidate, _human_references(record)))
            else:
                weights = self.weights_of(pool, "pseudo_references")
            given = Distinct(pool)
            references, pooled = given.texts, given.pooled(weights)
        else:
            weights = self.weights_of(record.candidates)
            pooled = distinct.pooled(weights)[kept]
            if not pooled.sum() > 0:
                problem = "all weights of the shortlisted candidates are 0"
                raise InputError(problem, where="candidates", fix="Raise top_k")
            if not self.self_pair:
                own = weights[distinct.first[kept]]
        # where they are the hypotheses, references are the same object: the comparison is known to be square
        comparisons = [
            part.comparison(hypotheses, references, record.source, context.last(part.reads.context))
            for _, part in utility.parts
        ]
        return Task(record.id, utility, tuple(comparisons), pooled, own)


def _human_references(record: CandidateList) -> tuple[Text, ...]:
    """The human references, against which an oracle decides; InputError where there are none."""
    if not record.references:
        fix = "An oracle decides against references"
        raise InputError("no references", where="references", fix=fix)
    return record.references


def remarks(task: Task, joined: bool = False) -> list[str]:
    """The remarks on the comparisons of a task, as flags of its list.

    Args:
        task: the task.
        joined: whether to say that a segment metric reads documents of unequal sentence counts as joined text.
    """
    pairs = [
        (part, comparison)
        for (_, part), comparison in zip(task.metric.parts, task.comparisons, strict=True)
    ]
    joins = ["joined" for part, comparison in pairs if joined and is_joined(part, comparison)]
    return [*joins, *(flag for part, comparison in pairs for flag in part.remarks(comparison))]


def _uniform_weights(candidates: Sequence[Candidate], pool: Pool, where: str) -> FloatArray:
    """1 for every candidate, [N]."""
    return np.ones(len(candidates))


def _logprob_weights(candidates: Sequence[Candidate], pool: Pool, where: str) -> FloatArray:
    """exp(logprob / temperature) relative to the most probable, 0 for repeated samples, [N]."""
    for i, candidate in enumerate(candidates):
        if candidate.logprob is None:
            fix = 'Give it, or use weights="uniform"'
            raise InputError("no logprob", where=f"{where}[{i}]", fix=fix)
    logprobs = np.array([candidate.logprob for candidate in candidates])
    seen: set[tuple[Text, float | None]] = set()
    is_new = np.ones(len(candidates), bool)
    for i, candidate in enumerate(candidates):
        sample = (candidate.text, candidate.logprob)
        is_new[i] = sample not in seen
        seen.add(sample)
    best = logprobs.max()
    if isfinite(best):
        relative = logprobs - best
    else:
        relative = np.where(logprobs == best, -np.inf, logprobs)
    return np.where(is_new, np.exp(relative / pool.temperature), 0.0)


def _confidence_weights(name: str) -> Callable[[Sequence[Candidate], Pool, str], FloatArray]:
    """The weights by a confidence of the model, [N]."""

    def weights(candidates: Sequence[Candidate], pool: Pool, where: str) -> FloatArray:
        values = confidences(name, candidates, where)
        return np.asarray(np.exp((values - values.max()) / pool.temperature))

    return weights


def _field_weights(candidates: Sequence[Candidate], name: str, where: str) -> FloatArray:
    """A field of every candidate, which may not be negative, [N]."""
    values = [
        number_field(candidate, name, f"{where}[{i}]") for i, candidate in enumerate(candidates)
    ]
    if min(values) < 0:
        at = int(np.argmin(values))
        problem = f"weight {values[at]} is negative"
        raise InputError(problem, where=f"{where}[{at}].{name}", fix="Weights are >= 0")
    largest = max(values)
    # sums of theirs, or of utilities times them
    is_odd = largest and not SMALL <= largest <= LARGE
    return np.array(values) / (largest if is_odd else 1.0)


# weights that have a name, by it; a further one is a function and a line
WEIGHTS: Mapping[str, Callable[[Sequence[Candidate], Pool, str], FloatArray]] = {
    "uniform": _uniform_weights,
    "logprob": _logprob_weights,
    **{name: _confidence_weights(name) for name in SIGNS},
}
