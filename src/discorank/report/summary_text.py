"""The summary in words: which system to ship, how sure that is, which metric to believe, what to be careful with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..rerank.selection.kept_comparison import (
    KeptComparison,
    KeptHuman,
    KeptScores,
)
from ..rerank.selection.resampling_units import least_p
from ..tables import number
from .metric_advice import MIN_SYSTEMS, advice, against_people, is_upside_down
from .words import names_of, short_names, with_noun

FEW_DOCUMENTS = 30
FEW_SYSTEMS = 6
MANY_PAIRS = 20
# Unicode's marks of writing direction, deleted by str.translate
_DIRECTION_MARKS = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)))


class Summary(NamedTuple):
    """A headline, sentences, and warnings."""

    headline: str
    sentences: list[str]
    warnings: list[str]


def summary(comparison: KeptComparison, optimised: Sequence[str] = ()) -> Summary:
    """What a reader should take home.

    Args:
        comparison: the comparison.
        optimised: metrics that a system was decoded, selected or trained with.
    """
    judge = lead(comparison)
    headline = _headline(judge, comparison)
    sentences = [
        *_certainty(judge, comparison),
        *advice(comparison),
        *_unjudged(comparison),
    ]
    warnings = _warnings(comparison, optimised)
    names = short_names([metric.name for metric in comparison.metrics])
    return Summary(
        _readable(headline, names),
        [_readable(sentence, names) for sentence in sentences],
        [_readable(warning, names) for warning in warnings],
    )


def _readable(sentence: str, names: Mapping[str, str]) -> str:
    """A sentence with short names of metrics, in which no name changes the writing direction of what follows it."""
    for signature in sorted(names, key=len, reverse=True):
        if "(" in signature:
            sentence = sentence.replace(signature, names[signature])
    return sentence.translate(_DIRECTION_MARKS)


def lead(comparison: KeptComparison) -> KeptScores:
    """What systems are ordered by: people's scores in the first dimension where they judged several, or a metric."""
    for human in comparison.human:
        if len(human.scores.systems) > 1:
            return human.scores
    return comparison.metrics[0]


def _headline(judge: KeptScores, comparison: KeptComparison) -> str:
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


def _by(judge: KeptScores, comparison: KeptComparison) -> str:
    """By what systems are ordered."""
    return judge.name if judge in comparison.metrics else f"people's {judge.name}"


def is_tested(scores: KeptScores, level: float) -> bool:
    """Whether there are units enough for a difference to be significant at all."""
    return scores.units is None or least_p(scores.units) < level


def _untested(judge: KeptScores, level: float) -> str:
    """Why nothing is tested, and what to do."""
    needed = next(n for n in range(1, 64) if least_p(n) < level)
    given = with_noun(judge.units or 0, judge.unit, f"{judge.unit}s")
    return f"with {given} no difference can be tested: give at least {needed}."


def rivals(judge: KeptScores, level: float) -> list[int]:
    """The systems that the best one is not significantly better than."""
    best, *others = judge.order
    return [s for s in others if judge.p(best, s) >= level]


def _certainty(judge: KeptScores, comparison: KeptComparison) -> Iterator[str]:
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


def _unjudged(comparison: KeptComparison) -> Iterator[str]:
    for human in comparison.human:
        missing = [system for system in comparison.systems if system not in human.scores.systems]
        if missing:
            yield f"People gave no {human.scores.name} to {names_of(missing)}."


def _warnings(comparison: KeptComparison, optimised: Sequence[str]) -> Iterator[str]:
    """What to be careful with: units, sizes, human scores, tests, metrics."""
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
        yield from _about_metric(metric, optimised)


def _about_metric(metric: KeptScores, optimised: Sequence[str]) -> Iterator[str]:
    """Whether a system was optimised for a metric, and whether the metric read everything."""
    for name in dict.fromkeys(optimised):
        if base(name) & base(metric.name):
            yield (
                f"{metric.name} was also what a decoder or system was optimised for ({name}): its scores flatter that "
                "system. Decide by another metric, or by people."
            )
    if metric.cuts:
        yield f"{metric.name} did not read all of {with_noun(metric.cuts, 'text', 'texts')}: too long for its model."


def base(signature: str) -> set[str]:
    """The names of the metrics in a signature, without settings; ``doc-`` forms are the metric itself.

    >>> sorted(base('0.5*doc-bertscore(model="x + y")+chrf'))
    ['bertscore', 'chrf']
    """
    names = set()
    depth, quoted, name = 0, False, ""
    # a last + ends the last term
    for letter in signature + "+":
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter == "(") - (letter == ")")
        if letter == "+" and not depth and not quoted:
            names.add(name.rpartition("*")[2].strip().removeprefix("doc-"))
            name = ""
        elif not depth and not quoted and letter not in ')"':
            name += letter
    return names - {""}


def _about_judging(human: KeptHuman, comparison: KeptComparison) -> Iterator[str]:
    """Few judged systems, missing scores, and metrics that contradict people."""
    name, num_systems = human.scores.name, len(human.scores.systems)
    if MIN_SYSTEMS <= num_systems < FEW_SYSTEMS:
        pairs = with_noun(num_systems * (num_systems - 1) // 2, "pair", "pairs")
        yield f"Only {num_systems} systems have {name}: what agrees with people on {pairs} may do so by luck."
    scores: list[float | None] = []
    for document in comparison.documents:
        by_system = document.human.get(name, {})
        for system in human.scores.systems:
            scores += _as_tuple(by_system.get(system))
    num_missing = scores.count(None)
    if num_missing:
        yield f"{num_missing} of {len(scores)} scores of {name} are missing; every score counts only where it is given."
    if num_systems >= MIN_SYSTEMS and is_upside_down(human):
        yield f"Every metric orders against people's {name}, as if they were read upside down: {_other_way(human)}."
    for agreement in human.agreement:
        if against := against_people(agreement):
            yield f"{agreement.metric} orders against people's {name} ({', '.join(against)}): do not decide by it here."


def _other_way(human: KeptHuman) -> str:
    """How the direction of human scores is named."""
    name = human.scores.name
    if human.scores.higher_is_better:
        return f"if lower is better, as of errors, write {name}:lower"
    return f"if higher is better, write {name} without :lower"


def _as_tuple(value: tuple[float | None, ...] | float | None) -> tuple[float | None, ...]:
    """Scores of segments, or the one of the document."""
    return value if isinstance(value, tuple) else (value,)
