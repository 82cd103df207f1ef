"""Which metric to believe, in words: by pairs of systems, by correlation, and within segments, or that it is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..rerank.selection.kept_comparison import (
    KeptAgreement,
    KeptComparison,
    KeptHuman,
    KeptTest,
    Number,
)
from ..tables import number
from .words import names_of

MIN_SYSTEMS = 3  # that people judged, to say which metric agrees with them


class Measure(NamedTuple):
    """One way to agree with people: its value of a metric, and p that two metrics do so equally well."""

    name: str
    value: Callable[[KeptAgreement], Number]
    p: Callable[[KeptTest], Number]


MEASURES = (
    Measure(
        "pairs of systems", lambda a: a.systems.get("pairwise_accuracy"), lambda t: t.p_accuracy
    ),
    Measure("Pearson of systems", lambda a: a.systems.get("pearson"), lambda t: t.p_pearson),
    Measure("tau-b within segments", lambda a: a.segments.get("kendall_b"), lambda t: t.p_segments),
)


def advice(comparison: KeptComparison) -> Iterator[str]:
    """Sentences on every dimension of human scores."""
    for human in comparison.human:
        if len(human.scores.systems) == 2:
            name = human.scores.name
            one_pair = "two judged systems are one pair, which a metric gets right by luck"
            yield f"Which metric to believe on {name} cannot be said: {one_pair}."
            continue
        if not any(_known(human, measure) for measure in MEASURES):
            yield f"No metric can be compared with {human.scores.name}: too few systems were judged."
            continue
        best = believed(human)
        if best is None:
            yield f"Which metric to believe on {human.scores.name} is open: {_winners(human)}."
            continue
        yield _belief(human, best, comparison.level)
        yield from _choice_of(best.metric, human, comparison)


def believed(human: KeptHuman) -> KeptAgreement | None:
    """The metric that none surpasses by any measure; None where there is none, or where it contradicts people."""
    if len(human.scores.systems) < MIN_SYSTEMS:
        return None
    for agreement in human.agreement:
        values = [measure.value(agreement) for measure in MEASURES]
        if any(value is not None for value in values) and all(
            value is None or value >= max(_known(human, measure))
            for measure, value in zip(MEASURES, values, strict=True)
        ):
            by_chance = (0.5, 0.0, 0.0)
            pairs = zip(values, by_chance, strict=True)
            return agreement if all(v is None or v > chance for v, chance in pairs) else None
    return None


def against_people(agreement: KeptAgreement) -> list[str]:
    """By what measures a metric orders against people."""
    by_chance = (0.5, 0.0, 0.0)
    against = []
    for measure, chance in zip(MEASURES, by_chance, strict=True):
        value = measure.value(agreement)
        if value is not None and value < chance:
            against.append(f"{measure.name} {number(value)}")
    return against


def is_upside_down(human: KeptHuman) -> bool:
    """Whether every metric orders against people by every measure that there is."""
    counts = [
        (len(against_people(one)), sum(measure.value(one) is not None for measure in MEASURES))
        for one in human.agreement
    ]
    return bool(counts) and all(0 < against == known for against, known in counts)


def _known(human: KeptHuman, measure: Measure) -> list[float]:
    """The values of all metrics that have one."""
    values = map(measure.value, human.agreement)
    return [value for value in values if value is not None]


def _winners(human: KeptHuman) -> str:
    """Who is best by each measure."""
    parts = []
    for measure in MEASURES:
        values = {a.metric: measure.value(a) for a in human.agreement}
        known = {name: value for name, value in values.items() if value is not None}
        if known:
            largest = max(known.values())
            names = [name for name, value in known.items() if value == largest]
            parts.append(f"{names_of(names)} by {measure.name} ({number(largest)})")
    return ", ".join(parts)


def _belief(human: KeptHuman, best: KeptAgreement, level: float) -> str:
    """That one metric agrees best, and by which measures this is shown."""
    values = []
    for measure in MEASURES:
        value = measure.value(best)
        if value is not None:
            values.append(f"{measure.name} {number(value)}")
    sentence = f"On {human.scores.name}, believe {best.metric}: {', '.join(values)}"
    others = [other.metric for other in human.agreement if other.metric != best.metric]
    if not others:
        return f"{sentence}."
    shown = {other: _shown_better(human, best.metric, other, level) for other in others}
    unsure = [other for other, measures in shown.items() if not measures]
    if unsure:
        return f"{sentence}; it is not shown to agree better than {names_of(unsure)}."
    alike = set(shown[others[0]]).intersection(*shown.values())
    by = names_of([m.name for m in MEASURES if m.name in alike])
    return f"{sentence}; better than every other metric{f' by {by}' if alike else ''}."


def _shown_better(human: KeptHuman, best: str, other: str, level: float) -> list[str]:
    """The measures by which a metric agrees significantly better than another one."""
    agreement = {a.metric: a for a in human.agreement}
    names = []
    for test in human.tests:
        if {test.a, test.b} != {best, other}:
            continue
        for measure in MEASURES:
            p = measure.p(test)
            ours, theirs = measure.value(agreement[best]), measure.value(agreement[other])
            if (
                p is not None
                and p < level
                and ours is not None
                and theirs is not None
                and ours > theirs
            ):
                names.append(measure.name)
    return names


def _choice_of(name: str, human: KeptHuman, comparison: KeptComparison) -> Iterator[str]:
    """What the believed metric says of all systems, beside what people say of the judged ones."""
    metric = next(metric for metric in comparison.metrics if metric.name == name)
    first = metric.systems[metric.order[0]]
    people = human.scores.systems[human.scores.order[0]]
    if first == people:
        yield f"{metric.name}, too, puts {first} first."
    elif first in human.scores.systems:
        yield f"{metric.name} puts {first} first, people put {people} first: look at the documents where they differ."
    else:
        judged = f"of the judged systems people prefer {people}"
        yield f"{metric.name} puts {first} first, which people did not judge; {judged}."
