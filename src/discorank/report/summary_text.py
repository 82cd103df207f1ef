"""The summary in words: which system to ship, how sure that is, which metric to believe, what to be careful with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..rerank.selection.kept_comparison import (
    KeptAgreement,
    KeptComparison,
    KeptHuman,
    KeptScores,
)
from ..tables import number

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
        *_metrics(comparison),
        *_unjudged(comparison),
    ]
    warnings = _warnings(comparison, optimised)
    return Summary(
        _upright(headline),
        [_upright(sentence) for sentence in sentences],
        [_upright(warning) for warning in warnings],
    )


def _upright(sentence: str) -> str:
    """A sentence in which no name changes the writing direction of what follows it."""
    return sentence.translate(_DIRECTION_MARKS)


def lead(comparison: KeptComparison) -> KeptScores:
    """What systems are ordered by: people's scores in the first dimension where they judged several, or a metric."""
    for human in comparison.human:
        if len(human.scores.systems) > 1:
            return human.scores
    return comparison.metrics[0]


def believed(human: KeptHuman) -> KeptAgreement | None:
    """The metric that orders most pairs of systems as people do; of several, the one with the surest pairs."""
    known = [
        agreement
        for agreement in human.agreement
        if agreement.systems.get("pairwise_accuracy") is not None
    ]
    return max(known, key=_strength, default=None)


def _strength(agreement: KeptAgreement) -> tuple[float, float, float]:
    """What metrics are ordered by: pairwise accuracy, then what decides between equal ones."""
    by_system = agreement.systems
    return (
        by_system.get("pairwise_accuracy") or -1.0,
        by_system.get("soft_pairwise_accuracy") or -1.0,
        by_system.get("pearson") or -1.0,
    )


def _headline(judge: KeptScores, comparison: KeptComparison) -> str:
    """Which system to ship, or why that is open."""
    if len(judge.systems) == 1:
        return f"There is only one system, {judge.systems[0]}: nothing to choose from."
    best = judge.systems[judge.order[0]]
    equal = [judge.systems[s] for s in rivals(judge, comparison.level)]
    by = judge.name if judge in comparison.metrics else f"people's {judge.name}"
    if not equal:
        return f"Ship {best}: by {by} it is better than every other system."
    first = f"{best} comes first by {by}, but it cannot be told apart from {names_of(equal)}"
    return f"{first}: choose among them by other needs, or judge more documents."


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
    interval = f"{percent} interval {number(judge.low[best])} to {number(judge.high[best])}"
    p = f"{judge.p(best, second):.2g}"
    yield (
        f"{winner} scores {number(judge.scores[best])} ({interval}), "
        f"the runner-up {runner_up} {number(judge.scores[second])}; "
        f"p = {p} for the pair, where below {comparison.level:g} counts as a difference."
    )
    if comparison.human:
        return
    metrics = comparison.metrics
    if len(metrics) > 1:
        num_agreeing = sum(metric.systems[metric.order[0]] == winner for metric in metrics)
        yield f"{num_agreeing} of {len(metrics)} metrics put {winner} first."
    yield "There are no human scores: nothing here says which metric to believe."


def _metrics(comparison: KeptComparison) -> Iterator[str]:
    """Which metric to believe on every dimension of human scores, and what it says."""
    for human in comparison.human:
        name = human.scores.name
        agreement = believed(human)
        if agreement is None:
            yield f"No metric can be compared with {name}: too few systems were judged."
            continue
        percent = 100 * (agreement.systems["pairwise_accuracy"] or 0)
        pearson = number(agreement.systems.get("pearson"))
        sentence = (
            f"On {name}, believe {agreement.metric}: it orders {percent:.0f} % of the pairs of systems as "
            f"people do (Pearson {pearson})"
        )
        yield sentence + _against_others(human, agreement, comparison.level)
        yield from _choice_of(agreement.metric, human, comparison)


def _against_others(human: KeptHuman, best: KeptAgreement, level: float) -> str:
    """The end of the sentence on the believed metric: whether it agrees significantly better than all others."""
    others = [other.metric for other in human.agreement if other.metric != best.metric]
    if not others:
        return "."
    p_by_pair = {(test.a, test.b): test.p_accuracy for test in human.tests}
    unsure = []
    for other in others:
        p = p_by_pair.get((best.metric, other), p_by_pair.get((other, best.metric)))
        if p is None or p >= level:
            unsure.append(other)
    if not unsure:
        return ", significantly more than every other metric."
    return f"; it is not shown to agree better than {names_of(unsure)}."


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
    if unit != "document":
        yield f"Tests draw by {unit}, but segments of one document are not independent: p is too small."
    if num_documents < FEW_DOCUMENTS and num_systems > 1:
        documents = with_noun(num_documents, "document", "documents")
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
    if 1 < num_systems < FEW_SYSTEMS:
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
    for agreement in human.agreement:
        accuracy = agreement.systems.get("pairwise_accuracy")
        if accuracy is not None and accuracy < 0.5:
            yield f"{agreement.metric} orders most pairs of systems against people's {name}: do not decide by it here."


def _as_tuple(value: tuple[float | None, ...] | float | None) -> tuple[float | None, ...]:
    """Scores of segments, or the one of the document."""
    return value if isinstance(value, tuple) else (value,)


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
