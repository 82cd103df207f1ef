"""Score files of mt-metrics-eval: ``SYSTEM SCORE`` per line (``DOMAIN SYSTEM SCORE`` at level domain), or None.

The scores of one system stand in the order of segments or documents; systems may come in any order and interleave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, isnan
from pathlib import Path

import numpy as np

from ....metrics.errors import InputError, excerpt, unknown
from ....metrics.representations import FloatArray
from ....metrics.storage.line_source import LineSource
from ....rerank.selection.meta_evaluation.eval_set import LEVELS, Level, Scores
from .text_files import check_name


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
    try:
        value = float(text)
    except ValueError:
        value = np.inf
    if not isfinite(value):
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


def level_of(num_scores: int, lengths: dict[Level, int]) -> Level:
    """The level of a file by its scores per system, as the tool tells it: a system, documents, or segments.

    Raises:
        InputError: it is none of these.
    """
    for level in ("sys", "doc", "seg"):
        if lengths[level] == num_scores:
            return level
    raise InputError(
        f"{num_scores} scores per system", where="level", fix=f"Expected one of {lengths}"
    )


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
