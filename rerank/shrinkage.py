"""Shrinkage: the score of a candidate moved towards the mean score of the system that it comes from.

    v(c) = (1 - s) z(c) + s m(system of c)
z(c) is the weighted sum of features, each standardised within its list; m is the mean of z over all lists that have
candidates of a system, of the mean of these in the list. A metric errs much on one text and little on a system, so a
share s of what tells a text from its system's mean is taken for noise. It is the posterior mean of quality where that
share is noise indeed.

Two passes over the lists: the first has the means, the second chooses. The means of an earlier run take the place of
the first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import sqrt
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from ..metrics.errors import InputError, excerpt, unknown
from ..metrics.mixture import Utility
from ..metrics.representations import FloatArray
from ..metrics.spec.checked_settings import Converted, Field, settings
from ..metrics.storage.checksums import with_checksum
from ..metrics.storage.limits import limits
from ..metrics.text.texts import Context
from .capabilities import EVERY_VALUE, SYSTEMS, Beside, Needs
from .choice import Choice, Ranking, choose
from .decider import Decider
from .lists import Candidate, CandidateList
from .order import Order
from .prior import Finite, built_by_system, read_object, systems_of, values_by_system
from .scheduler import Program

KIND, FORMAT = "system means", 2
INTERVAL = 1.96  # standard errors on either side of a mean: 95 % of a normal distribution
VALUES = "system_values"  # the key of a first pass's row: [system, value] of every candidate
CHOSEN = "chosen_system"  # the key of a row: the system of the candidate that was chosen
MAX_NAMED = 12  # systems in a closing line
_FIX = "Give the file OUT.systems.json of an earlier run with --shrink"
_MEND = "Mend the lists, or leave --shrink out"


@settings
class SystemMean:
    """The mean standardised score of a system, the bounds of its 95 % interval, and of how many lists it is."""

    mean: Finite
    low: Finite
    high: Finite
    lists: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True, slots=True)
class SystemMeans:
    """The means of all systems, the best first."""

    systems: Mapping[str, SystemMean]

    @classmethod
    def of(cls, lists: Iterable[Sequence[tuple[str, float]]]) -> SystemMeans:
        """The means of (system, standardised score) pairs of the candidates of lists; scores may be missing (NaN).

        Raises:
            InputError: no score is finite, all are of one system, or there are too many systems.
        """
        sums: defaultdict[str, RunningMean] = defaultdict(RunningMean)
        for pairs in lists:
            for name, mean in means_of_list(pairs).items():
                sums[name].add(mean)
            limits().check("systems", len(sums), "systems of candidates")
        if not sums:
            raise InputError("no candidate has a score that is a number", where="shrink", fix=_MEND)
        if len(sums) < 2:
            of_one = f"all candidates are of one system ({excerpt(next(iter(sums)))})"
            problem = f"{of_one}, whose mean tells none from another"
            fix = "Leave --shrink out, or name a field with several values (--system-field prompt)"
            raise InputError(problem, where="shrink", fix=fix)
        means = {name: one.mean for name, one in sums.items()}
        return cls(dict(sorted(means.items(), key=lambda pair: (-pair[1].mean, pair[0]))))

    def shrunk(self, values: FloatArray, systems: Sequence[str], share: float) -> FloatArray:
        """The values v(c) of candidates by their standardised scores [N]; what is not finite stays so.

        Raises:
            InputError: a system is not among these.
        """
        for i, name in enumerate(systems):
            if name not in self.systems:
                place = f"candidates[{i}]"
                raise unknown("system with a mean", name, self.systems, where=place)
        means = np.array([self.systems[name].mean for name in systems])
        return (1.0 - share) * values + share * means

    def as_json(self) -> dict[str, Any]:
        """The content of a file of means; `load_means` reads it."""
        systems = {name: asdict(mean) for name, mean in self.systems.items()}
        return {"kind": KIND, "format": FORMAT, "systems": systems}

    def __str__(self) -> str:
        shown = [f"{name} {one.mean:+.3f}" for name, one in self.systems.items()]
        more = len(shown) - MAX_NAMED
        return ", ".join(shown[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def means_of_list(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The mean score of every system in a list, by (system, score) of its candidates; without scores that are none."""
    of_list: defaultdict[str, list[float]] = defaultdict(list)
    for name, value in pairs:
        if np.isfinite(value):
            of_list[name].append(value)
    return {name: sum(values) / len(values) for name, values in of_list.items()}


class RunningMean:
    """A mean that grows value by value, such as that of a system's mean scores in lists."""

    def __init__(self) -> None:
        self._count = 0
        self._mean = self._squares = 0.0

    def add(self, value: float) -> None:
        """Takes a value; Welford's recurrence, which keeps its digits however many there are."""
        self._count += 1
        change = value - self._mean
        self._mean += change / self._count
        self._squares += change * (value - self._mean)

    @property
    def mean(self) -> SystemMean:
        """The mean and its interval; 0 before the first value."""
        variance = self._squares / max(1, self._count - 1)
        half = INTERVAL * sqrt(variance / max(1, self._count))
        return SystemMean(self._mean, self._mean - half, self._mean + half, self._count)


def load_means(spec: SystemMeans | Mapping[str, Any] | str | Path | None) -> SystemMeans | None:
    """The means of a file; means, or none, are returned as they are, and numbers by system are means too.

    Raises:
        InputError: the file cannot be read, has no means, or is another than was written.
    """
    if spec is None or isinstance(spec, SystemMeans):
        return spec
    if isinstance(spec, Mapping):
        rows = {name: dict.fromkeys(("mean", "low", "high"), spec[name]) for name in spec}
        return SystemMeans(built_by_system(SystemMean, rows, "system_means", _FIX))
    data = read_object(spec, "system_means", _FIX)
    return SystemMeans(values_by_system(SystemMean, data, (KIND, FORMAT), str(spec), _FIX))


def written_means(means: SystemMeans) -> bytes:
    """The bytes of a file of means, with its checksum."""
    return json.dumps(with_checksum(means.as_json()), ensure_ascii=False, indent=1).encode() + b"\n"


@settings
class Shrinkage:
    """How scores are moved towards the mean score of a system.

    Args:
        shrink: the share s of it, 0 to 1; 0 leaves scores as they are. Features are standardised within each list.
            0.75 is a good share for learned metrics without references; a consensus does not gain by it.
        system_field: the field of candidates that names their system, such as prompt or temperature.
        system_means: the file OUT.systems.json of an earlier run, whose means count in place of those of these lists;
            then there is one pass.
    """

    heading: ClassVar = "estimator"

    shrink: Annotated[
        float, Field(ge=0, le=1, allow_inf_nan=False), Needs(EVERY_VALUE, SYSTEMS)
    ] = 0.0
    system_field: Annotated[str, Field(min_length=1), Needs(SYSTEMS), Beside("shrink")] = "system"
    system_means: Annotated[
        SystemMeans | Mapping[str, float] | str | None, Converted(load_means), Needs(SYSTEMS)
    ] = None

    def __post_init__(self) -> None:
        if self.system_means is not None and not self.shrink:
            fix = "Add --shrink 0.75, or leave the means out"
            raise InputError(
                "has no effect without a share to shrink by", where="system_means", fix=fix
            )

    @property
    def means(self) -> SystemMeans | None:
        """The means that are given."""
        return load_means(self.system_means)

    @property
    def needs_means(self) -> bool:
        """Whether a first pass must find the means."""
        return bool(self.shrink) and self.system_means is None

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on; none where nothing is shrunk."""
        if not self.shrink:
            return {}
        means = self.means
        by_name = means and {name: one.mean for name, one in means.systems.items()}
        return {"shrink": self.shrink, "system_field": self.system_field, "system_means": by_name}

    def systems_of(self, candidates: Sequence[Candidate]) -> list[str]:
        """The systems of candidates; raises InputError for one that names none."""
        fix = "Shrinking goes by the system of every candidate; --system-field names the field that has it"
        return systems_of(candidates, self.system_field, "candidates", fix)


@dataclass(frozen=True)
class SecondPass(Decider):
    """Decides lists by the scores of a first pass, which `with_scores` has put beside them.

    Args:
        first: the reranker of the first pass.
        shrinkage: its settings.
        means: what the first pass gave.
    """

    first: Decider
    shrinkage: Shrinkage
    means: SystemMeans
    order: Order = field(default_factory=lambda: Order(strategy="independent"))

    @property
    def choice(self) -> Choice:  # type: ignore[override]
        """What is chosen."""
        return self.first.choice

    @property
    def metrics(self) -> tuple[Utility, ...]:
        """None: all is known."""
        return ()

    @property
    def scored_by(self) -> tuple[Utility, ...]:
        """The metrics of the first pass."""
        return self.first.metrics

    @property
    def reads_logprobs(self) -> bool:
        """Whether it looks at log-probabilities, which the first pass has done."""
        return False

    @property
    def identity(self) -> dict[str, Any]:
        """Those of the first pass, and the means."""
        known = replace(self.shrinkage, system_means=self.means)
        return {**self.first.identity, **known.identity}

    def program(self, record: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        """The decision of one list, without a task."""
        extra = dict(record.extra)
        row = extra.pop(VALUES)
        record = replace(record, extra=extra)
        return self.ranking(record, row[VALUES], row.get("flags", ()))
        yield

    def ranking(
        self,
        record: CandidateList,
        scores: Sequence[tuple[str, float | None]],
        flags: Sequence[str],
    ) -> Ranking:
        """The ranking of a list by (system, score) of every candidate, where None is no number."""
        systems = [name for name, _ in scores]
        values = np.array([np.nan if value is None else value for _, value in scores])
        shrunk = self.means.shrunk(values, systems, self.shrinkage.shrink)
        return with_system(choose(record, shrunk, self.choice.nbest, flags), systems)


def with_system(ranking: Ranking, systems: Sequence[str]) -> Ranking:
    """The ranking with the system of what was chosen among the keys of its row."""
    return replace(ranking, extra={**ranking.extra, CHOSEN: systems[ranking.index]})


def first_pass_row(systems: Sequence[str], values: FloatArray) -> dict[str, Any]:
    """What a first pass adds to the keys of a list: what the second reads."""
    numbers = [float(value) if np.isfinite(value) else None for value in values]
    return {VALUES: [list(pair) for pair in zip(systems, numbers, strict=True)]}


def in_memory(
    first_rankings: Iterable[Ranking], first: Decider, shrinkage: Shrinkage
) -> Iterator[Ranking]:
    """The rankings of the second pass by those of the first, which are all read before it begins."""
    rankings = list(first_rankings)
    rows = [ranking.extra[VALUES] for ranking in rankings]
    means = SystemMeans.of(
        [(name, np.nan if value is None else value) for name, value in row] for row in rows
    )
    second = SecondPass(first, shrinkage, means)
    for ranking, row in zip(rankings, rows, strict=True):
        extra = {key: value for key, value in ranking.extra.items() if key != VALUES}
        record = CandidateList(
            ranking.id,
            ranking.candidates,
            ranking.source,
            references=ranking.references,
            extra=extra,
        )
        yield replace(second.ranking(record, row, ranking.flags), context=ranking.context)
