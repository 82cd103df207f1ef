"""The errors that a metric marks in a text, as ``describe`` gives them: as pieces of the text, and in words.

A metric marks errors by ``{"errors": [{"start", "end", "severity", "confidence"}, ...]}``, in code points of the text
that it read; of a document, by one such object per sentence. XCOMET does; a metric of the user's own may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..metrics.text.texts import Document, Text

SEVERITIES = ("minor", "major", "critical")


class MarkedError(NamedTuple):
    """Code points of a text from `start` to before `end`; they may be none."""

    start: int
    end: int
    severity: str
    confidence: float | None


def marked_errors(text: Text, reason: Mapping[str, Any]) -> list[MarkedError] | None:
    """The errors that a metric marks in a text, in order; None where it marks none and never does.

    >>> marked_errors("a cat", {"errors": [{"start": 2, "end": 5, "severity": "minor"}]})
    [MarkedError(start=2, end=5, severity='minor', confidence=None)]
    """
    sentences, parts = [str(text)], [reason]
    if isinstance(text, Document) and isinstance(reason.get("sentences"), list):
        sentences, parts = list(text.sentences), reason["sentences"]
    if len(sentences) != len(parts):
        return None
    errors: list[MarkedError] = []
    first = 0
    for sentence, part in zip(sentences, parts, strict=True):
        of_sentence = _read(sentence, part)
        if of_sentence is None:
            return None
        errors += [e._replace(start=e.start + first, end=e.end + first) for e in of_sentence]
        # Sentences of a document stand a blank apart.
        first += len(sentence) + 1
    return errors


def _read(sentence: str, part: Any) -> list[MarkedError] | None:
    """The errors in one sentence, without blanks around them; None where the data is no such errors."""
    entries = part.get("errors") if isinstance(part, Mapping) else None
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        return None
    errors = []
    for entry in entries:
        start, end, severity = (entry.get(name) for name in ("start", "end", "severity"))
        in_text = isinstance(start, int) and isinstance(end, int) and start <= end <= len(sentence)
        if not in_text or start < 0 or severity not in SEVERITIES:
            return None
        inside = sentence[start:end]
        start += len(inside) - len(inside.lstrip())
        end = max(start, end - len(inside) + len(inside.rstrip()))
        confidence = entry.get("confidence")
        is_number = isinstance(confidence, float | int)
        errors.append(MarkedError(start, end, severity, float(confidence) if is_number else None))
    return sorted(errors)


def pieces(text: str, errors: Sequence[MarkedError]) -> list[tuple[str, str | None]]:
    """A text in pieces, each with the severity of the error it is, or None; of errors that overlap the first counts.

    >>> pieces("a cat", [MarkedError(2, 5, "minor", None)])
    [('a ', None), ('cat', 'minor')]
    """
    made: list[tuple[str, str | None]] = []
    last = 0
    for error in errors:
        if error.start < last:
            continue
        if error.start > last:
            made.append((text[last : error.start], None))
        made.append((text[error.start : error.end], error.severity))
        last = error.end
    if last < len(text):
        made.append((text[last:], None))
    return made


def in_words(text: str, errors: Sequence[MarkedError]) -> str:
    """Errors as a line: severity, what is marked, and confidence.

    >>> in_words("a cat", [MarkedError(2, 5, "minor", 0.5), MarkedError(5, 5, "major", None)])
    'minor "cat" 0.50, major at 5'
    """
    return ", ".join(_described(text, errors)) or "none"


def _described(text: str, errors: Sequence[MarkedError]) -> Iterator[str]:
    for error in errors:
        marked = text[error.start : error.end]
        place = f'"{marked}"' if marked else f"at {error.start}"
        confidence = "" if error.confidence is None else f" {error.confidence:.2f}"
        yield f"{error.severity} {place}{confidence}"
