"""XCOMET's spans of mistakes, from the label probabilities of tokens, and their penalties.

    label_t = argmax_l p_t(l),   l = none, minor, major, critical

A span begins at a token with a mistake behind one without, has that token's severity whatever follows, and ends before
the next token without a mistake. Penalties are 1, 5 and 10; mqm = (25 - min(25, their sum)) / 25.

Two rules: "reference" is that of the released code, which labels the tokens around the text too, as if they were words,
and drops a span that reaches the last of them; "clean" labels the text alone and keeps every span. There a token that
is nothing but a blank continues a mistake and begins none.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...representations import FloatArray, IntArray, Ragged

Rule = Literal["reference", "clean"]
Severity = Literal["minor", "major", "critical"]
SEVERITIES: tuple[Severity, ...] = ("minor", "major", "critical")
# Penalty of each label.
PENALTIES = np.array([0.0, 1.0, 5.0, 10.0])
WORST = 25.0


class TokenSpans(NamedTuple):
    """Spans of many texts: text, first token, token behind the last one (counted in the text), label; [spans] each."""

    text: IntArray
    first: IntArray
    end: IntArray
    label: IntArray


class ErrorSpan(NamedTuple):
    """A mistake in a hypothesis: its text, characters from `start` to before `end`, severity, confidence (0 to 1)."""

    text: str
    start: int
    end: int
    severity: Severity
    confidence: float


def labels_of(probabilities: NDArray[np.float32], threshold: float | None) -> IntArray:
    """The label of every token [tokens] from label probabilities [tokens, 4].

    With a threshold, a token has a mistake, the most probable one, where those of mistakes add up to more.
    """
    if threshold is None:
        most_probable: IntArray = probabilities.argmax(axis=1)
        return most_probable
    mistakes = probabilities[:, 1:]  # [tokens, 3]
    is_mistake = mistakes.sum(axis=1) > threshold
    return np.where(is_mistake, mistakes.argmax(axis=1) + 1, 0)


def spans_of(labels: Ragged, is_blank: NDArray[np.bool_], rule: Rule) -> TokenSpans:
    """The spans of texts from the labels of their tokens, those around each text included.

    is_blank: which tokens are nothing but a blank, [tokens].
    """
    values = labels.values
    first_tokens, ends = labels.offsets[:-1], labels.offsets[1:]
    if rule == "clean":
        values = values.copy()
        values[first_tokens] = 0
        values[ends - 1] = 0
        before = np.concatenate(([0], values[:-1]))
        values = np.where(is_blank, before, values)  # the first token of a text is no blank
    is_mistake = values > 0
    # A span begins where a mistake follows none, or at the first token of a text.
    follows_one = np.concatenate(([False], is_mistake[:-1]))
    follows_one[first_tokens] = False
    begin = np.flatnonzero(is_mistake & ~follows_one)
    # It ends before the next token without a mistake; one that reaches the end of its text is dropped.
    right = np.flatnonzero(~is_mistake)
    places = np.searchsorted(right, begin)
    end = np.append(right, len(values))[places]
    text = np.searchsorted(labels.offsets, begin, "right") - 1
    closed = end < ends[text]
    begin, end, text = begin[closed], end[closed], text[closed]
    start = first_tokens[text]
    return TokenSpans(text, begin - start, end - start, values[begin])


def penalties_of(spans: TokenSpans, num_texts: int) -> FloatArray:
    """The summed penalties of every text, [texts]."""
    return np.bincount(spans.text, PENALTIES[spans.label], num_texts).astype(np.float64)


def mqm_of(penalties: FloatArray) -> FloatArray:
    """(25 - min(25, penalties)) / 25 of every text, [texts]."""
    return (WORST - np.minimum(WORST, penalties)) / WORST
