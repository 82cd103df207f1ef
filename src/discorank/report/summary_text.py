"""The summary in words: which system to ship, how sure that is, which metric to believe, what to be careful with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..rerank.selection.comparison_folder import (
    KeptAgreement,
    KeptComparison,
    KeptHuman,
    KeptScores,
)
from ..tables import number

FEW_DOCUMENTS = 30
FEW_SYSTEMS = 6
MANY_PAIRS = 20
_TURNING = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)))  # marks of direction


class Summary(NamedTuple):
    """A headline, sentences, and warnings."""

    headline: str
    sentences: list[str]
    warnings: list[str]


def summary(found: KeptComparison, optimised: Sequence[str] = ()) -> Summary:
    """What a reader should take home.

    Args:
        found: the comparison.
        optimised: metrics that a system was decoded, selected or trained with.
    """
    judge = lead(found)
    sentences = [*_sure(judge, found), *_metrics(found), *_unjudged(found)]
    headline, warnings = _headline(judge, found), [*_warnings(found, optimised)]
    return Summary(_upright(headline), [*map(_upright, sentences)], [*map(_upright, warnings)])


def _upright(sentence: str) -> str:
    """A sentence in which no name turns round what follows it."""
    return sentence.translate(_TURNING)


def lead(found: KeptComparison) -> KeptScores:
    """What systems are ordered by: people's scores in the first dimension where they judged several, or a metric."""
    judged = [human.scores for human in found.human if len(human.scores.systems) > 1]
    return [*judged, found.metrics[0]][0]


def believed(human: KeptHuman) -> KeptAgreement | None:
    """The metric that orders most pairs of systems as people do; of several, the one with the surest pairs."""
    known = [one for one in human.agreement if one.systems.get("pairwise_accuracy") is not None]
    return max(known, key=lambda one: _strength(one), default=None)


def _strength(one: KeptAgreement) -> tuple[float, float, float]:
    names = ("pairwise_accuracy", "soft_pairwise_accuracy", "pearson")
    first, second, third = (one.systems.get(name) or -1.0 for name in names)
    return first, second, third


def _headline(judge: KeptScores, found: KeptComparison) -> str:
    if len(judge.systems) == 1:
        return f"There is only one system, {judge.systems[0]}: nothing to choose from."
    best = judge.systems[judge.order[0]]
    equal = [judge.systems[s] for s in rivals(judge, found.level)]
    by = judge.name if judge in found.metrics else f"people's {judge.name}"
    if not equal:
        return f"Ship {best}: by {by} it is better than every other system."
    first = f"{best} comes first by {by}, but it cannot be told apart from {names_of(equal)}"
    return f"{first}: choose among them by other needs, or judge more documents."


def rivals(judge: KeptScores, level: float) -> list[int]:
    """The systems that the best one is not significantly better than."""
    best, *others = judge.order
    return [s for s in others if judge.p(best, s) >= level]


def _sure(judge: KeptScores, found: KeptComparison) -> Iterator[str]:
    if len(judge.systems) == 1:
        return
    best, second = judge.order[:2]
    percent = f"{100 * (1 - found.level):g} %"
    yield (
        f"{judge.systems[best]} scores {number(judge.scores[best])} ({percent} interval {number(judge.low[best])} to "
        f"{number(judge.high[best])}), the runner-up {judge.systems[second]} {number(judge.scores[second])}; "
        f"p = {judge.p(best, second):.2g} for the pair, where below {found.level:g} counts as a difference."
    )
    if not found.human:
        firsts = [one for one in found.metrics if one.systems[one.order[0]] == judge.systems[best]]
        if len(found.metrics) > 1:
            yield f"{len(firsts)} of {len(found.metrics)} metrics put {judge.systems[best]} first."
        yield "There are no human scores: nothing here says which metric to believe."


def _metrics(found: KeptComparison) -> Iterator[str]:
    for human in found.human:
        one = believed(human)
        name = human.scores.name
        if one is None:
            yield f"No metric can be compared with {name}: too few systems were judged."
            continue
        accuracy, r = one.systems["pairwise_accuracy"], one.systems.get("pearson")
        said = f"On {name}, believe {one.metric}: it orders {100 * (accuracy or 0):.0f} % of the pairs of systems as "
        said += f"people do (Pearson {number(r)})"
        yield said + _not_surely(human, one, found.level)
        yield from _choice_of(one, human, found)


def _not_surely(human: KeptHuman, one: KeptAgreement, level: float) -> str:
    others = [other.metric for other in human.agreement if other.metric != one.metric]
    if not others:
        return "."
    tests = {(t.a, t.b): t.p_accuracy for t in human.tests}
    unsure = []
    for other in others:
        p = tests.get((one.metric, other), tests.get((other, one.metric)))
        if p is None or p >= level:
            unsure.append(other)
    if not unsure:
        return ", significantly more than every other metric."
    return f"; it is not shown to agree better than {names_of(unsure)}."


def _choice_of(one: KeptAgreement, human: KeptHuman, found: KeptComparison) -> Iterator[str]:
    """What the believed metric says of all systems, beside what people say of the judged ones."""
    metric = next(m for m in found.metrics if m.name == one.metric)
    first = metric.systems[metric.order[0]]
    people = human.scores.systems[human.scores.order[0]]
    if first == people:
        yield f"{metric.name}, too, puts {first} first."
    elif first in human.scores.systems:
        yield f"{metric.name} puts {first} first, people put {people} first: look at the documents where they differ."
    else:
        judged = f"of the judged systems people prefer {people}"
        yield f"{metric.name} puts {first} first, which people did not judge; {judged}."


def _unjudged(found: KeptComparison) -> Iterator[str]:
    for human in found.human:
        missing = [system for system in found.systems if system not in human.scores.systems]
        if missing:
            yield f"People gave no {human.scores.name} to {names_of(missing)}."


def _warnings(found: KeptComparison, optimised: Sequence[str]) -> Iterator[str]:
    documents, systems = len(found.documents), len(found.systems)
    unit = found.settings.get("unit", "document")
    least = 2 / 2**documents if unit == "document" else 0.0
    if unit != "document":
        yield f"Tests draw by {unit}, but segments of one document are not independent: p is too small."
    if documents < FEW_DOCUMENTS and systems > 1:
        at_least = f"; p cannot fall below {least:.2g}" if least > 0.001 else ""
        yield f"Only {several(documents, 'document', 'documents')}: differences must be large to be seen{at_least}."
    for human in found.human:
        yield from _about_judging(human, found)
    corrected = found.settings.get("correction", "none") != "none"
    if (
        (pairs := systems * (systems - 1) // 2) >= MANY_PAIRS
        and not corrected
        and least < found.level
    ):
        yield (
            f"{pairs} pairs of systems were tested, uncorrected: if all were equal, about {found.level * pairs:.0f} "
            "would still look different."
        )
    for metric in found.metrics:
        yield from _about_metric(metric, optimised)


def _about_metric(metric: KeptScores, optimised: Sequence[str]) -> Iterator[str]:
    for name in dict.fromkeys(optimised):
        if base(name) & base(metric.name):
            yield (
                f"{metric.name} was also what a decoder or system was optimised for ({name}): its scores flatter that "
                "system. Decide by another metric, or by people."
            )
    if metric.cuts:
        yield f"{metric.name} did not read all of {several(metric.cuts, 'text', 'texts')}: too long for its model."


def base(signature: str) -> set[str]:
    """The names of the metrics in a signature, without settings; ``doc-`` forms are the metric itself.

    >>> sorted(base('0.5*doc-bertscore(model="x + y")+chrf'))
    ['bertscore', 'chrf']
    """
    found, depth, quoted, name = set(), 0, False, ""
    for letter in signature + "+":
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter == "(") - (letter == ")")
        if letter == "+" and not depth and not quoted:
            found.add(name.rpartition("*")[2].strip().removeprefix("doc-"))
            name = ""
        elif not depth and not quoted and letter not in ')"':
            name += letter
    return found - {""}


def _about_judging(human: KeptHuman, found: KeptComparison) -> Iterator[str]:
    name, n = human.scores.name, len(human.scores.systems)
    if 1 < n < FEW_SYSTEMS:
        pairs = several(n * (n - 1) // 2, "pair", "pairs")
        yield f"Only {n} systems have {name}: what agrees with people on {pairs} may do so by luck."
    given = [
        value
        for document in found.documents
        for system in human.scores.systems
        for value in _each(document.human.get(name, {}).get(system))
    ]
    if missing := given.count(None):
        yield f"{missing} of {len(given)} scores of {name} are missing; every score counts only where it is given."
    for one in human.agreement:
        accuracy = one.systems.get("pairwise_accuracy")
        if accuracy is not None and accuracy < 0.5:
            yield f"{one.metric} orders most pairs of systems against people's {name}: do not decide by it here."


def _each(value: tuple[float | None, ...] | float | None) -> tuple[float | None, ...]:
    """Scores of segments, or the one of the document."""
    return value if isinstance(value, tuple) else (value,)


def several(n: int, one: str, more: str) -> str:
    """A number with its noun.

    >>> several(1, "list", "lists"), several(0, "list", "lists")
    ('1 list', '0 lists')
    """
    return f"{n} {one if n == 1 else more}"


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
    shown = list(names) if len(names) <= 5 else [*names[:4], f"{len(names) - 4} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
