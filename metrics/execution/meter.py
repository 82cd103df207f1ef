"""How much work some lists took: texts, tokens, pairs, and seconds by stage. It changes no value."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from time import perf_counter

# in the order of the work
STAGES = ("read", "prepare", "represent", "cache", "compare", "choose", "write")


@dataclass(frozen=True, slots=True)
class Metered:
    """Amounts of work; two add up.

    Args:
        texts: distinct texts prepared and represented.
        cached_texts: distinct texts whose representations came from the cache.
        tokens: summed lengths of `texts` as the metric measures them: tokens for a model, else words or characters.
        pairs: distinct pairs of a list that were compared (or lie under a linear form), texts where there is no
            reference.
        seconds: by stage; see `STAGES`.
        damaged_entries: entries of the cache that were damaged.
        calls: requests that a judge made, and `repeated_calls` of them after an answer without a value.
        kept_answers: answers that were there from an earlier call.
        prompt_tokens, answer_tokens: of the calls.
        unparsable: questions that no answer had a value for.
    """

    texts: int = 0
    cached_texts: int = 0
    tokens: int = 0
    pairs: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    damaged_entries: int = 0
    calls: int = 0
    repeated_calls: int = 0
    kept_answers: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    unparsable: int = 0

    def __add__(self, other: Metered) -> Metered:
        names = dict.fromkeys((*self.seconds, *other.seconds))
        seconds = {
            name: self.seconds.get(name, 0.0) + other.seconds.get(name, 0.0) for name in names
        }
        amounts = {name: getattr(self, name) + getattr(other, name) for name in AMOUNTS}
        return Metered(**amounts, seconds=seconds)

    @property
    def all_seconds(self) -> float:
        """Seconds of all stages."""
        return sum(self.seconds.values())


# all that is counted, and of it what judges ask
AMOUNTS = tuple(field.name for field in fields(Metered) if field.name != "seconds")
ASKED = (
    "calls",
    "repeated_calls",
    "kept_answers",
    "prompt_tokens",
    "answer_tokens",
    "unparsable",
)


class _Stage:
    """Adds the seconds of a block of code; a class, as every list has two such blocks."""

    __slots__ = ("name", "seconds", "start")

    def __init__(self, seconds: defaultdict[str, float], name: str) -> None:
        self.seconds, self.name = seconds, name

    def __enter__(self) -> None:
        self.start = perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds[self.name] += perf_counter() - self.start


class Meter:
    """Counters of a process's work; `on_count` is called whenever more is done, within a large list too."""

    def __init__(self) -> None:
        self.on_count: Callable[[], None] = lambda: None
        self.amounts: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def count(self, **amounts: int) -> None:
        """Adds to the amounts of `Metered`."""
        self.amounts.update(amounts)
        self.on_count()

    def stage(self, name: str) -> _Stage:
        """Adds the seconds of a block of code to a stage, whatever ends it; stages do not lie within one another."""
        return _Stage(self.seconds, name)

    @property
    def now(self) -> Metered:
        """The work since the last take."""
        return Metered(**self.amounts, seconds=dict(self.seconds))

    def take(self) -> Metered:
        """The work since the last take; counting starts again from nothing."""
        metered = self.now
        self.amounts.clear()
        self.seconds.clear()
        return metered
