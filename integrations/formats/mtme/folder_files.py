"""The files of an mt-metrics-eval folder, read and written: texts, documents, scores, ratings.

    texts      a line per segment, ``.txt`` or ``.jsonl``; ``[No translation supplied]`` stands for a missing one, None
    documents  DOMAIN DOCUMENT, a line per segment
    scores     SYSTEM SCORE (DOMAIN SYSTEM SCORE at level domain), or None, in the order of segments or documents
    ratings    SYSTEM <tab> JSON with the errors that a rater marked, or None <tab> RATER
Lines lose trailing white space. Systems may come in any order and interleave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....metrics.errors import InputError, excerpt, unknown
from ....metrics.representations import FloatArray
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource
from ....rerank.lists import finite, finite_of
from ....rerank.runs.resumable import as_line
from ....rerank.selection.meta_evaluation.eval_set import (
    LEVELS,
    DocumentPlace,
    Level,
    Scores,
    Texts,
)
from ...files.entries import in_line, json_object

MISSING_TEXT = "[No translation supplied]"


def read_texts_file(path: Path, key: str) -> Texts:
    """The texts of a file, or of JSON lines under a key where its name ends in ``.jsonl``.

    Raises:
        InputError: a line that has no text under the key, or more lines than the limit "segments".
    """
    texts: list[str | None] = []
    source = LineSource(path)
    for number, line in source:
        text = _text_of(line, key, source, number) if path.suffix == ".jsonl" else line.decode()
        text = text.rstrip()
        texts.append(None if text.strip() == MISSING_TEXT else text)
        limits().check("segments", len(texts), str(path))
    return tuple(texts)


def _text_of(line: bytes, key: str, source: LineSource, number: int) -> str:
    """The text of a JSON line."""
    with in_line(source, number):
        row = json_object(line)
    text = row.get(key)
    if not isinstance(text, str):
        raise source.refusal(number, f"found {excerpt(row)}, expected an object with {key}")
    return text


def written_texts(texts: Texts, where: str) -> Iterator[bytes]:
    """The lines of a text file.

    Raises:
        InputError: a text has a line break, or ends in white space, which its readers would not give back.
    """
    for number, text in enumerate(texts, 1):
        if text is not None:
            _check_line(text, f"{where}:{number}")
        yield (MISSING_TEXT if text is None else text).encode() + b"\n"


def _check_line(text: str, where: str) -> None:
    if "\n" in text or "\r" in text:
        raise InputError("a text of several lines", where=where, fix="Make it one line")
    if text != text.rstrip():
        raise InputError("a text that ends in white space", where=where, fix="Strip it")
    if text.strip() == MISSING_TEXT:
        raise InputError(f"the text {MISSING_TEXT!r}", where=where, fix="It means a missing text")


def read_documents_file(path: Path) -> tuple[DocumentPlace, ...]:
    """The documents of ``DOMAIN DOCUMENT`` lines, one per segment; further columns are not read.

    Raises:
        InputError: a line of fewer columns, or a document that comes back after another.
    """
    documents: list[DocumentPlace] = []
    names: set[str] = set()
    source = LineSource(path)
    for segment, (number, line) in enumerate(source):
        columns = line.decode().split()
        if len(columns) < 2:
            raise source.refusal(
                number, f"found {excerpt(line.decode())}, expected DOMAIN DOCUMENT"
            )
        domain, name = columns[:2]
        limits().check("segments", number, str(path))
        if documents and documents[-1].name == name:
            if documents[-1].domain != domain:
                raise source.refusal(number, f"document {name!r:.80} has two domains")
            documents[-1] = documents[-1]._replace(stop=segment + 1)
        elif name in names:
            raise source.refusal(
                number,
                f"document {name!r:.80} comes back after another",
                "The segments of a document stand together",
            )
        else:
            names.add(name)
            documents.append(DocumentPlace(name, domain, segment, segment + 1))
    if not documents:
        raise InputError("no segments", where=str(path), fix="Give a line per segment")
    return tuple(documents)


def written_documents(documents: tuple[DocumentPlace, ...], where: str) -> Iterator[bytes]:
    """The lines of a documents file.

    Raises:
        InputError: a name that is empty or has white space.
    """
    for document in documents:
        for name in (document.name, document.domain):
            check_name(name, where)
        line = f"{document.domain} {document.name}\n".encode()
        for _ in range(document.start, document.stop):
            yield line


def check_name(name: str, where: str) -> None:
    """Raises InputError for a name that no column can hold."""
    if not name or name.split() != [name]:
        raise InputError(
            f"found the name {name!r:.80}, expected one without white space",
            where=where,
            fix="Rename it",
        )


def read_score_file(
    path: Path,
    level: Level,
    systems: Sequence[str],
    length: int,
    domains: Sequence[str],
) -> dict[str, FloatArray]:
    """Scores by system, each of a length, nan for None.

    Args:
        path: the file.
        level: of its scores.
        systems: the outputs there are.
        length: how many scores a system has at the level.
        domains: sorted; scores of level domain stand in their order, nan where a domain has none.

    Raises:
        InputError: a line that is no score, of no output, or the wrong number of lines for a system; names the line.
    """
    known = frozenset(systems)
    source = LineSource(path)
    scores: dict[str, list[float]] = {}
    by_domain: dict[str, dict[str, float]] = {}
    for number, line in source:
        (*domain, system), score = _columns(line, level, source, number)
        if system not in known:
            raise unknown("system", system, known, where=f"{path}:{number}")
        if domain:
            _add_domain(by_domain.setdefault(system, {}), domain[0], score, domains, source, number)
        else:
            values = scores.setdefault(system, [])
            values.append(score)
            if len(values) > length:
                problem = f"score {len(values)} of {system!r:.80}, expected {length}"
                raise source.refusal(number, problem, f"Give {length} at level {level}")
    for system, of_domains in by_domain.items():
        scores[system] = [of_domains.get(name, np.nan) for name in domains]
    for system, values in scores.items():
        if len(values) != length:
            problem = f"{len(values)} scores of {system!r:.80}, expected {length}"
            raise source.refusal(0, problem, f"Give {length} at level {level}")
    return {system: np.array(values) for system, values in scores.items()}


def _columns(line: bytes, level: Level, source: LineSource, number: int) -> tuple[list[str], float]:
    """The names of a line and its score."""
    columns = line.decode().split()
    expected = 3 if level == "domain" else 2
    if len(columns) != expected:
        form = "DOMAIN SYSTEM SCORE" if level == "domain" else "SYSTEM SCORE"
        raise source.refusal(number, f"found {excerpt(line.decode())}, expected {form}")
    *names, text = columns
    return names, _score(text, source, number)


def _score(text: str, source: LineSource, number: int) -> float:
    """A finite number, or nan for None."""
    if text == "None":
        return np.nan
    value = finite_of(text)
    if value is None:
        raise source.refusal(number, f"found {text!r:.80}, expected a number or None")
    return value


def _add_domain(
    scores: dict[str, float],
    domain: str,
    score: float,
    domains: Sequence[str],
    source: LineSource,
    number: int,
) -> None:
    """Takes the score of one domain."""
    if domain not in domains:
        raise unknown("domain", domain, domains, where=f"{source.name}:{number}")
    if domain in scores:
        raise source.refusal(number, f"a second score of domain {domain!r:.80}")
    scores[domain] = score


def written_scores(
    scores: Scores, level: Level, domains: Sequence[str], where: str
) -> Iterator[bytes]:
    """The lines of a score file, system by system; every number reads back to the same float.

    Raises:
        InputError: a system's name has white space.
    """
    for system, values in scores.items():
        check_name(system, where)
        for i, value in enumerate(values.tolist()):
            number = "None" if isnan(value) else repr(value)
            domain = f"{domains[i]}\t" if level == "domain" else ""
            yield f"{domain}{system}\t{number}\n".encode()


def split_name(stem: str) -> tuple[str, str, Level] | None:
    """Language pair, name and level of ``LP.NAME.LEVEL``; None where it is none.

    >>> split_name("en-de.round2.mqm.seg")
    ('en-de', 'round2.mqm', 'seg')
    """
    first, _, rest = stem.partition(".")
    name, _, last = rest.rpartition(".")
    for level in LEVELS:
        if last == level and first and name:
            return first, name, level
    return None


class ErrorMark(NamedTuple):
    """A span of an output (of the source if `is_source_error`): characters start <= i < stop."""

    start: int
    stop: int
    category: str | None = None
    severity: str | None = None
    score: float | None = None
    is_source_error: bool = False


class Rating(NamedTuple):
    """The errors that one rater marked in one output; none of them: perfect."""

    rater: str
    errors: tuple[ErrorMark, ...]

    @property
    def score(self) -> float:
        """The sum of the errors' scores."""
        return sum(error.score or 0.0 for error in self.errors)


Ratings = Mapping[str, tuple[Rating | None, ...]]  # by system, of every segment; None: not rated


def read_ratings_file(path: Path, systems: Sequence[str], length: int, rater: str) -> Ratings:
    """The ratings by system.

    Args:
        path: the file.
        systems: the outputs there are.
        length: segments.
        rater: of lines that name none.

    Raises:
        InputError: a line that is no rating, of no output, or the wrong number of lines for a system.
    """
    known = frozenset(systems)
    source = LineSource(path)
    ratings: dict[str, list[Rating | None]] = {}
    for number, line in source:
        columns = line.decode().split("\t")
        if len(columns) not in (2, 3):
            raise source.refusal(
                number, f"found {excerpt(line.decode())}, expected SYSTEM, JSON, RATER"
            )
        system, text = columns[0].strip(), columns[1].strip()
        if system not in known:
            raise unknown("system", system, known, where=f"{path}:{number}")
        name = columns[2].strip() if len(columns) == 3 else rater
        of_system = ratings.setdefault(system, [])
        of_system.append(None if text == "None" else Rating(name, _errors(text, source, number)))
        if len(of_system) > length:
            problem = f"rating {len(of_system)} of {system!r:.80}, expected {length}"
            raise source.refusal(number, problem)
    for system, values in ratings.items():
        if len(values) != length:
            raise source.refusal(0, f"{len(values)} ratings of {system!r:.80}, expected {length}")
    return {system: tuple(values) for system, values in ratings.items()}


def _errors(text: str, source: LineSource, number: int) -> tuple[ErrorMark, ...]:
    """The errors of a rating's JSON."""
    try:
        value = parse_json(text.encode())
        errors = value.get("errors") if isinstance(value, dict) else None
        if not isinstance(errors, list):
            raise InputError(f"found {excerpt(value)}, expected an object with errors")
        return tuple(_error(error) for error in errors)
    except RecursionError:
        raise source.refusal(number, "nested too deeply") from None
    except InputError as error:
        raise source.refusal(number, error.problem, error.fix) from None


def _error(value: Any) -> ErrorMark:
    """One error of a rating."""
    if not isinstance(value, dict):
        raise InputError(f"found {excerpt(value)}, expected an error with start and end")
    start: Any = value.get("start")
    end: Any = value.get("end")
    if not (_is_place(start) and _is_place(end)):
        raise InputError(f"found {excerpt(value)}, expected start and end as whole numbers")
    for key in ("category", "severity"):
        if not isinstance(value.get(key), str | None):
            raise InputError(f"{key} is {excerpt(value[key])}, expected a text or null")
    score = value.get("score")
    number = finite(score)
    if score is not None and number is None:
        raise InputError(f"score is {excerpt(score)}, expected a number or null")
    is_source = value.get("is_source_error") or False
    if not isinstance(is_source, bool):
        raise InputError(f"is_source_error is {excerpt(is_source)}, expected true or false")
    return ErrorMark(
        start, end + 1, value.get("category"), value.get("severity"), number, is_source
    )


def _is_place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= -1


def written_ratings(ratings: Ratings) -> Iterator[bytes]:
    """The lines of a rating file, system by system."""
    for system, values in ratings.items():
        for rating in values:
            if rating is None:
                yield f"{system}\tNone\n".encode()
                continue
            row = {"errors": [_error_object(error) for error in rating.errors]}
            text = as_line(row).decode().strip()
            yield f"{system}\t{text}\t{rating.rater}\n".encode()


def _error_object(error: ErrorMark) -> dict[str, Any]:
    values = error._asdict()
    return {"start": values.pop("start"), "end": values.pop("stop") - 1, **values}
