"""The conclusions of a comparison in words: the best system, how sure that is, which metric agrees with people.

A metric is believed if none surpasses it by any measure: pairs of systems, Pearson's correlation of systems, tau-b
within segments. Otherwise the question is called open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..metrics.registry import as_typed
from ..rerank.selection.comparison import (
    MetaEvaluation,
    MetricAgreement,
    MetricTest,
    SystemComparison,
)
from ..rerank.selection.significance import Verdicts, least_p
from ..rerank.selection.statistics import Number
from ..tables import number

MAX_NAME = 28
MIN_SYSTEMS = 3  # that people judged, to say which metric agrees with them
FEW_SYSTEMS, FEW_DOCUMENTS, MANY_PAIRS = 6, 30, 20
# Unicode's marks of writing direction, deleted by str.translate
_DIRECTION_MARKS = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)))
_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*")')
_SETTINGS = re.compile(r"(?<=\w)\([^()]*\)")


def with_noun(n: int, singular: str, plural: str) -> str:
    """A number with its noun.

    >>> with_noun(1, "list", "lists"), with_noun(0, "list", "lists")
    ('1 list', '0 lists')
    """
    return f"{n} {singular if n == 1 else plural}"


def plain(value: Any) -> str:
    """A setting, whatever it holds.

    >>> plain(None), plain(True), plain({"chrf": 1, "bleu": 2}), plain([])
    ('none', 'yes', 'chrf 1, bleu 2', 'none')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value)) or "none"
    return "none" if value is None else str(value)


def without_settings(signature: str) -> str:
    """The metrics of a sum by their names alone.

    >>> without_settings('lm(prompt="(a)",model="m@sha256:0f") + 0.5*combination(parts=[chrf(beta=3)])')
    'lm + 0.5*combination'
    """
    names = _QUOTED.sub("", signature)
    while (outer := _SETTINGS.sub("", names)) != names:
        names = outer
    return names


def names_of(names: Sequence[str]) -> str:
    """Names in a sentence; at most five of them.

    >>> names_of(["a"]), names_of(["a", "b", "c"]), names_of(list("abcdefg"))
    ('a', 'a, b and c', 'a, b, c, d and 3 more')
    """
    shown = list(names)
    if len(names) > 5:
        shown = [*names[:4], f"{len(names) - 4} more"]
    if len(shown) == 1:
        return shown[0]
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def short_names(signatures: Sequence[str]) -> dict[str, str]:
    """A name for every metric that fits over a column: without its settings, numbered where names meet.

    >>> short_names(["chrf", "chrf(word_order=2)", 'bleu(tokenize="zh")', "bleu"])
    {'chrf': 'chrf', 'chrf(word_order=2)': 'chrf++', 'bleu(tokenize="zh")': 'bleu', 'bleu': 'bleu 2'}
    """
    names: dict[str, str] = {}
    for signature in signatures:
        typed = as_typed(signature)
        is_sum = " + " in typed or " - " in typed or "*" in typed
        plain = cut(typed if is_sum else typed.partition("(")[0], 20)
        name, number_of = plain, 2
        while name in names.values():
            name, number_of = f"{plain} {number_of}", number_of + 1
        names[signature] = name
    return names


def cut(name: str, longest: int = MAX_NAME) -> str:
    """A name of at most so many letters, the last of them "…" where it was longer.

    >>> cut("chrf"), cut("a long name", 6)
    ('chrf', 'a lon…')
    """
    return name if len(name) <= longest else name[: longest - 1] + "…"


class Measure(NamedTuple):
    """One way to agree with people.

    Args:
        name: in a sentence.
        chance: its value for a metric that knows nothing.
        value: of a metric.
        p: that two metrics agree equally well by it.
    """

    name: str
    chance: float
    value: Callable[[MetricAgreement], Number]
    p: Callable[[MetricTest], Number]


MEASURES = (
    Measure("pairs of systems", 0.5, lambda a: a.systems.pairwise_accuracy, lambda t: t.p_accuracy),
    Measure("Pearson of systems", 0, lambda a: a.systems.pearson, lambda t: t.p_pearson),
    Measure("tau-b within segments", 0, lambda a: a.segments.kendall_b, lambda t: t.p_segments),
)


def measured(agreement: MetricAgreement) -> dict[Measure, float]:
    """How well a metric agrees with people by every measure that has a value."""
    values = {measure: measure.value(agreement) for measure in MEASURES}
    return {measure: value for measure, value in values.items() if value is not None}


def _largest(human: MetaEvaluation) -> dict[Measure, float]:
    """The largest value of any metric by every measure."""
    largest: dict[Measure, float] = {}
    for measure in MEASURES:
        values = [measured(one)[measure] for one in human.agreement if measure in measured(one)]
        if values:
            largest[measure] = max(values)
    return largest


def advice(comparison: SystemComparison) -> Iterator[str]:
    """Sentences on every dimension of human scores."""
    for human in comparison.human if comparison.metrics else ():
        name, best = human.scores.name, believed(human)
        if len(human.scores.systems) == 2:
            one_pair = "two judged systems are one pair, which a metric gets right by luck"
            yield f"Which metric to believe on {name} cannot be said: {one_pair}."
        elif not _largest(human):
            yield f"No metric can be compared with {name}: too few systems were judged."
        elif best is None:
            yield f"Which metric to believe on {name} is open: {_winners(human)}."
        else:
            yield _belief(human, best, comparison.level)
            yield _first_of(best.metric, human, comparison)


def believed(human: MetaEvaluation) -> MetricAgreement | None:
    """The metric that none surpasses by any measure; None where there is none, or where it contradicts people."""
    if len(human.scores.systems) < MIN_SYSTEMS:
        return None
    largest = _largest(human)
    for agreement in human.agreement:
        values = measured(agreement)
        if values and all(value >= largest[measure] for measure, value in values.items()):
            is_with_people = all(value > measure.chance for measure, value in values.items())
            return agreement if is_with_people else None
    return None


def against_people(agreement: MetricAgreement) -> list[str]:
    """By what measures a metric orders against people."""
    return [
        f"{measure.name} {number(value)}"
        for measure, value in measured(agreement).items()
        if value < measure.chance
    ]


def is_upside_down(human: MetaEvaluation) -> bool:
    """Whether every metric orders against people by every measure that there is."""
    counts = [(len(against_people(one)), len(measured(one))) for one in human.agreement]
    return bool(counts) and all(0 < against == known for against, known in counts)


def _winners(human: MetaEvaluation) -> str:
    """Who is best by each measure."""
    parts = []
    for measure, largest in _largest(human).items():
        names = [as_typed(a.metric) for a in human.agreement if measure.value(a) == largest]
        parts.append(f"{names_of(names)} by {measure.name} ({number(largest)})")
    return ", ".join(parts)


def _belief(human: MetaEvaluation, best: MetricAgreement, level: float) -> str:
    """That one metric agrees best, and by which measures this is shown."""
    values = [f"{measure.name} {number(value)}" for measure, value in measured(best).items()]
    sentence = f"On {human.scores.name}, believe {as_typed(best.metric)}: {', '.join(values)}"
    shown = {
        other.metric: _shown_better(human, best, other, level)
        for other in human.agreement
        if other.metric != best.metric
    }
    if not shown:
        return f"{sentence}."
    unsure = [as_typed(other) for other, measures in shown.items() if not measures]
    if unsure:
        return f"{sentence}; it is not shown to agree better than {names_of(unsure)}."
    alike = [m.name for m in MEASURES if all(m in measures for measures in shown.values())]
    by = f" by {names_of(alike)}" if alike else ""
    return f"{sentence}; better than every other metric{by}."


def _shown_better(
    human: MetaEvaluation, best: MetricAgreement, other: MetricAgreement, level: float
) -> list[Measure]:
    """The measures by which a metric agrees significantly better than another one."""
    ours, theirs = measured(best), measured(other)
    tests = [test for test in human.tests if {test.a, test.b} == {best.metric, other.metric}]
    return [
        measure
        for measure in ours.keys() & theirs.keys()
        for p in map(measure.p, tests)
        if p is not None and p < level and ours[measure] > theirs[measure]
    ]


def _first_of(name: str, human: MetaEvaluation, comparison: SystemComparison) -> str:
    """Which system the believed metric puts first, compared with people."""
    metric = next(metric for metric in comparison.metrics if metric.name == name)
    first = metric.systems[metric.order[0]]
    people = human.scores.systems[human.scores.order[0]]
    if first == people:
        return f"{as_typed(name)}, too, puts {first} first."
    reason = f"which people did not judge; of the judged systems people prefer {people}"
    if first in human.scores.systems:
        reason = f"people put {people} first: look at the documents where they differ"
    return f"{as_typed(name)} puts {first} first, {reason}."


class Summary(NamedTuple):
    """A headline, sentences, and warnings."""

    headline: str
    sentences: list[str]
    warnings: list[str]


def summary(comparison: SystemComparison) -> Summary:
    """The conclusions for a reader of a comparison."""
    judge = lead(comparison)
    headline = _headline(judge, comparison)
    sentences = [
        *_certainty(judge, comparison),
        *advice(comparison),
        *_unjudged(comparison),
    ]
    warnings = _warnings(comparison)
    names = short_names([metric.name for metric in comparison.metrics])

    def readable(sentence: str) -> str:
        """The sentence with short names of metrics, in which no name changes the direction of writing."""
        for signature in sorted(names, key=len, reverse=True):
            if "(" in signature:
                sentence = sentence.replace(signature, names[signature])
        return sentence.translate(_DIRECTION_MARKS)

    return Summary(
        readable(headline), list(map(readable, sentences)), list(map(readable, warnings))
    )


def lead(comparison: SystemComparison) -> Verdicts:
    """The order of systems: by people's scores in the first dimension where they judged several, or by a metric."""
    for human in comparison.human:
        if len(human.scores.systems) > 1:
            return human.scores
    return comparison.metrics[0] if comparison.metrics else comparison.human[0].scores


def _headline(judge: Verdicts, comparison: SystemComparison) -> str:
    """Which system to ship, or why that is open."""
    if len(judge.systems) == 1:
        return f"There is only one system, {judge.systems[0]}: nothing to choose from."
    best = judge.systems[judge.order[0]]
    if not is_tested(judge, comparison.level):
        return (
            f"{best} comes first by {_by(judge, comparison)}; {_untested(judge, comparison.level)}"
        )
    equal = [judge.systems[s] for s in rivals(judge, comparison.level)]
    by = _by(judge, comparison)
    if not equal:
        return f"Ship {best}: by {by} it is better than every other system."
    first = f"{best} comes first by {by}, but it cannot be told apart from {names_of(equal)}"
    more = "compare more" if judge in comparison.metrics else "judge more"
    units = "segments" if comparison.settings.get("ids_unknown", False) else "documents"
    return f"{first}: choose among them by other needs, or {more} {units}."


def _by(judge: Verdicts, comparison: SystemComparison) -> str:
    """By what systems are ordered."""
    return judge.name if judge in comparison.metrics else f"people's {judge.name}"


def is_tested(scores: Verdicts, level: float) -> bool:
    """Whether there are units enough for a difference to be significant at all."""
    return scores.units is None or least_p(scores.units) < level


def _untested(judge: Verdicts, level: float) -> str:
    """Why nothing is tested, and what to do."""
    needed = next(n for n in range(1, 64) if least_p(n) < level)
    given = with_noun(judge.units or 0, judge.unit, f"{judge.unit}s")
    return f"with {given} no difference can be tested: give at least {needed}."


def rivals(judge: Verdicts, level: float) -> list[int]:
    """The systems that the best one is not significantly better than."""
    best, *others = judge.order
    return [s for s in others if not judge.is_better(best, s, level)]


def _certainty(judge: Verdicts, comparison: SystemComparison) -> Iterator[str]:
    """How far the best system is ahead, and what says so."""
    if len(judge.systems) == 1:
        return
    best, second = judge.order[:2]
    percent = f"{100 * (1 - comparison.level):g} %"
    winner, runner_up = judge.systems[best], judge.systems[second]
    first = f"{winner} scores {number(judge.scores[best])}"
    runner = f"the runner-up {runner_up} {number(judge.scores[second])}"
    if is_tested(judge, comparison.level):
        interval = f"{percent} interval {number(judge.low[best])} to {number(judge.high[best])}"
        p = f"p = {judge.p(best, second):.2g} for the pair, where below {comparison.level:g} counts as a difference"
        yield f"{first} ({interval}), {runner}; {p}."
    else:
        yield f"{first}, {runner}."
    if comparison.human:
        return
    metrics = comparison.metrics
    if len(metrics) > 1:
        num_agreeing = sum(metric.systems[metric.order[0]] == winner for metric in metrics)
        yield f"{num_agreeing} of {len(metrics)} metrics put {winner} first."
    yield "There are no human scores: nothing here says which metric to believe."


def _unjudged(comparison: SystemComparison) -> Iterator[str]:
    for human in comparison.human:
        missing = [system for system in comparison.systems if system not in human.scores.systems]
        if missing:
            yield f"People gave no {human.scores.name} to {names_of(missing)}."


def _warnings(comparison: SystemComparison) -> Iterator[str]:
    """Warnings on units, sizes, human scores, tests, metrics."""
    num_documents, num_systems = len(comparison.documents), len(comparison.systems)
    unit = comparison.settings.get("unit", "document")
    # of the 2^n ways to exchange two systems' documents, two are the most extreme
    min_p = 2 / 2**num_documents if unit == "document" else 0.0
    ids_unknown = comparison.settings.get("ids_unknown", False)
    if ids_unknown:
        yield (
            "Every segment counts as independent, as no document ids were given: p is sound only if segments come from "
            "different documents. Give --documents where they share some."
        )
    elif unit != "document":
        yield f"Tests draw by {unit}, but segments of one document are not independent: p is too small."
    if num_documents < FEW_DOCUMENTS and num_systems > 1:
        noun = "segment" if ids_unknown else "document"
        documents = with_noun(num_documents, noun, f"{noun}s")
        bound = f"; p cannot fall below {min_p:.2g}" if min_p > 0.001 else ""
        yield f"Only {documents}: differences must be large to be seen{bound}."
    for human in comparison.human:
        yield from _about_judging(human, comparison)
    num_pairs = num_systems * (num_systems - 1) // 2
    corrected = comparison.settings.get("correction", "none") != "none"
    if num_pairs >= MANY_PAIRS and not corrected and min_p < comparison.level:
        by_chance = comparison.level * num_pairs
        yield (
            f"{num_pairs} pairs of systems were tested, uncorrected: if all were equal, about {by_chance:.0f} "
            "would still look different."
        )
    for metric in comparison.metrics:
        if metric.cuts:
            texts = with_noun(metric.cuts, "text", "texts")
            yield f"{as_typed(metric.name)} did not read all of {texts}: too long for its model."


def _about_judging(human: MetaEvaluation, comparison: SystemComparison) -> Iterator[str]:
    """Few judged systems, missing scores, and metrics that contradict people."""
    name, num_systems = human.scores.name, len(human.scores.systems)
    if comparison.metrics and MIN_SYSTEMS <= num_systems < FEW_SYSTEMS:
        pairs = with_noun(num_systems * (num_systems - 1) // 2, "pair", "pairs")
        yield f"Only {num_systems} systems have {name}: what agrees with people on {pairs} may do so by luck."
    yield from _about_gaps(human.scores, comparison)
    if num_systems >= MIN_SYSTEMS and is_upside_down(human):
        yield f"Every metric orders against people's {name}, as if they were read upside down: {_other_way(human)}."
    for agreement in human.agreement:
        if against := against_people(agreement):
            orders = f"orders against people's {name} ({', '.join(against)})"
            yield f"{as_typed(agreement.metric)} {orders}: do not decide by it here."


def _about_gaps(scores: Verdicts, comparison: SystemComparison) -> Iterator[str]:
    """On how many segments the systems were judged, alone and in common, and what follows from that."""
    if scores.judged is None:
        values: list[float | None] = []
        for document in comparison.documents:
            by_system = document.human.get(scores.name, {})
            for system in scores.systems:
                values += _as_tuple(by_system.get(system))
        if num_missing := values.count(None):
            yield (
                f"{num_missing} of {len(values)} scores of {scores.name} are missing, on the same segments for all "
                "systems."
            )
        return
    counts = [pair.common or 0 for pair in scores.pairs]
    common = f"pairs are tested on their common segments, {min(counts, default=0)} or more"
    if untested := counts.count(0):
        common += f"; {with_noun(untested, 'pair has', 'pairs have')} none, and cannot be tested"
    yield (
        f"The systems were judged on different segments ({scores.name}: {min(scores.judged)} to {max(scores.judged)} "
        f"each). Their scores are estimates for all judged segments, by a model with system and segment effects; "
        f"{common}."
    )


def _other_way(human: MetaEvaluation) -> str:
    """How the direction of human scores is named."""
    name = human.scores.name
    if human.scores.higher_is_better:
        return f"if lower is better, as of errors, write {name}:lower"
    return f"if higher is better, write {name} without :lower"


def _as_tuple(value: tuple[float | None, ...] | float | None) -> tuple[float | None, ...]:
    """Scores of segments, or the one of the document."""
    return value if isinstance(value, tuple) else (value,)
