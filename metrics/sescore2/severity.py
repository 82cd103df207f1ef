"""How bad a mistake is: minor (-1) or major (-5) (Xu et al. 2023, section 4.2).

`paper`      insertions and replacements: p = 1/l sum_i P(m_i | t, y_mask), minor if p >= gamma = 0.1;
             deletions: w = max_i tfidf(w_i), minor if w < lambda = 1; tfidf(w) = tf ln(N / df) over the texts at hand
`code`       as the released code: see `by_rule`; where that asks for likelihood, each significant new word has the mean
             of its sub-tokens, and the least of these words decides: minor if it is >= gamma = 0.5
`stop-list`  `by_rule`, and major where that asks for likelihood; needs no model
`off`        -1 each: a text's score counts its mistakes

Every mistake is judged alone, on the otherwise unchanged anchor; the score of a text is the sum.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Annotated, Literal

from ..errors import InputError
from ..spec.checked_settings import Field, settings
from .edits import Edit, applied
from .masked_model import MaskedLM, Masking
from .spaced_words import Words, bare, is_punctuation
from .stopwords import key

MAJOR = -5.0
MINOR = -1.0
PUNCTUATION = -0.1
GAMMA = {"paper": 0.1, "code": 0.5}
Kind = Literal["paper", "code", "stop-list", "off"]


@settings
class Severity:
    """How mistakes are judged.

    Args:
        severity: paper, code, stop-list or off.
        mlm: the masked language model, a folder or a name on the hub; for paper and code.
        gamma: the least likelihood of a minor mistake; 0.1, or 0.5 for code, if not given.
        salience: paper: the least tf-idf of a word whose loss is a major mistake (lambda).
        stop_words: words without much meaning: en, frequent:N for the N most frequent, or a file.
    """

    severity: Kind = "stop-list"
    mlm: str | None = None
    gamma: Annotated[float, Field(ge=0, le=1)] | None = None
    salience: float = 1.0
    stop_words: str = "en"

    def __post_init__(self) -> None:
        if (self.severity in GAMMA) != (self.mlm is not None):
            with_or_without = "without" if self.mlm is None else "with"
            problem = f"severity {self.severity} {with_or_without} a masked language model"
            fix = "Name one, mlm=FOLDER, for paper and code alone; without one there are stop-list and off"
            raise InputError(problem, where="severity", fix=fix)

    @property
    def threshold(self) -> float:
        """The gamma in force."""
        return GAMMA.get(self.severity, 0.0) if self.gamma is None else self.gamma


class Judge:
    """Judges mistakes.

    Args:
        settings: the settings.
        stops: words without much meaning, in lower case.
        texts: the words of all texts at hand, for tf-idf.
        model: the masked language model, where the settings name one.
    """

    def __init__(
        self,
        settings: Severity,
        stops: frozenset[str],
        texts: Iterable[Words] = (),
        model: MaskedLM | None = None,
    ) -> None:
        self.settings = settings
        self.stops = stops
        self.model = model
        self.idf = inverse_frequencies(texts) if settings.severity == "paper" else {}

    def scores(self, mistakes: Sequence[tuple[Words, Edit, str]]) -> list[float | None]:
        """The score of every mistake: (words of the anchor, edit, source or ""); None where it is none.

        A replacement by a part of what it replaces is no mistake in the released code: it leaves these to drops.
        """
        scores = [self._by_settings(anchor, edit) for anchor, edit, _ in mistakes]
        undecided = [i for i, score in enumerate(scores) if score == "likelihood"]
        likelihoods = self._likelihoods([mistakes[i] for i in undecided])
        for i, likelihood in zip(undecided, likelihoods, strict=True):
            scores[i] = MINOR if likelihood >= self.settings.threshold else MAJOR
        return [score if isinstance(score, float) else None for score in scores]

    def _by_settings(self, anchor: Words, edit: Edit) -> float | Literal["likelihood"] | None:
        """The score of a mistake as far as it needs no model."""
        if self.settings.severity == "off":
            return MINOR
        old = anchor[edit.start : edit.end]
        if self.settings.severity == "paper":
            if edit.words:
                return "likelihood"
            return MINOR if self._salience(anchor, old) < self.settings.salience else MAJOR
        score = by_rule(old, edit.words, self.stops)
        return MAJOR if score == "likelihood" and self.model is None else score

    def _salience(self, anchor: Words, lost: Words) -> float:
        """The greatest tf-idf of the lost words of an anchor."""
        counts = Counter(map(key, anchor))
        lost_keys = [key(word) for word in lost]
        return max(counts[word] * self.idf.get(word, 0.0) for word in lost_keys)

    def _likelihoods(self, mistakes: Sequence[tuple[Words, Edit, str]]) -> list[float]:
        """The likelihood of the new words of every mistake, under the model."""
        if not mistakes or self.model is None:
            return []
        maskings = []
        for anchor, edit, source in mistakes:
            end = edit.start + len(edit.words)
            words = applied(anchor, [edit])
            maskings.append(Masking(words, edit.start, end, source))
        probabilities = self.model.probabilities(maskings)
        return [
            self._likelihood(edit.words, tokens)
            for (_, edit, _), tokens in zip(mistakes, probabilities, strict=True)
        ]

    def _likelihood(self, new: Words, words: Sequence[Sequence[float]]) -> float:
        """The likelihood of new words, from the probabilities of the sub-tokens of each."""
        if self.settings.severity == "paper":
            tokens = [value for word in words for value in word]
            return sum(tokens) / max(1, len(tokens))
        means = []
        for word, tokens_of_word in zip(new, words, strict=True):
            if tokens_of_word and is_significant(word, self.stops):
                means.append(sum(tokens_of_word) / len(tokens_of_word))
        return min(means, default=0.0)


def by_rule(
    old: Words,
    new: Words,
    stops: frozenset[str],
) -> float | Literal["likelihood"] | None:
    """The score of a mistake that gives `new` words for `old` ones, as far as rules go.

    Punctuation for punctuation, or added, or lost: -0.1. A number for a number: -5. Nothing significant on either side:
    -1. Something significant lost and nothing significant added: -5. Else likelihood decides. None where the new words
    are a part of the old ones.

    >>> by_rule((" a",), (" the",), frozenset({"a", "the"}))
    -1.0
    """
    if not new:
        if all(map(is_punctuation, old)):
            return PUNCTUATION
        return MAJOR if any(is_significant(word, stops) for word in old) else MINOR
    if old and _text(new) in _text(old):
        return None
    single_words = len(old) == len(new) == 1
    if single_words and _is_number(old[0]) and _is_number(new[0]):
        return MAJOR
    if all(map(is_punctuation, (*old, *new))):
        return PUNCTUATION
    if any(is_significant(word, stops) for word in new):
        return "likelihood"
    return MAJOR if any(is_significant(word, stops) for word in old) else MINOR


def is_significant(word: str, stops: frozenset[str]) -> bool:
    """Whether a word carries meaning: no stop word and no punctuation."""
    return not is_punctuation(word) and key(word) not in stops


def inverse_frequencies(texts: Iterable[Words]) -> Mapping[str, float]:
    """ln(N / df) of every word of N texts, by its lower-case form."""
    counts: Counter[str] = Counter()
    number = 0
    for words in texts:
        counts.update({key(word) for word in words})
        number += 1
    return {word: log(number / count) for word, count in counts.items()}


def _is_number(word: str) -> bool:
    return re.sub(r"[\W_]", "", bare(word)).isdigit()


def _text(words: Words) -> str:
    return " ".join(map(bare, words))
