"""Writes a test set, or metrics' scores alone, in the form of mt-metrics-eval, so that its own tool reads them.

Files go through drafts and take their names when they are complete. A metric scores every output but the references
it reads: the tool would take what is missing for zeros, so it is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ....metrics.errors import InputError, ResourceError
from ....metrics.storage.atomic_files import complete_file, own_draft
from ....rerank.selection.meta_evaluation.eval_set import EvalSet, Level, MetricName, Scores
from .rating_lines import Ratings, written_ratings
from .score_columns import written_scores
from .text_files import check_name, written_documents, written_texts


def write_eval_set(
    eval_set: EvalSet, folder: str | Path, ratings: Mapping[str, Ratings] | None = None
) -> None:
    """Writes texts, people's and metrics' scores (and ratings) into the folder of a test set, beside other pairs.

    Raises:
        InputError: a name or text that the form cannot hold, or a metric that lacks an output.
        ResourceError: it cannot be written.
    """
    root, pair = Path(folder), eval_set.language_pair
    _check_pair(pair)
    documents = written_documents(eval_set.documents, "documents")
    if None in eval_set.sources:
        number = eval_set.sources.index(None) + 1
        raise InputError("no source", where=f"segment {number}", fix="Give every source")
    _write(root / "documents" / f"{pair}.docs", documents)
    _write(root / "sources" / f"{pair}.txt", written_texts(eval_set.sources, "source"))
    for name, texts in eval_set.references.items():
        _check_reference(name)
        lines = written_texts(texts, f"reference {name}")
        _write(root / "references" / f"{pair}.{name}.txt", lines)
    for name, texts in eval_set.outputs.items():
        check_name(name, "system")
        _check_file_name(name, "system")
        lines = written_texts(texts, f"system {name}")
        _write(root / "system-outputs" / pair / f"{name}.txt", lines)
    for (name, level), scores in eval_set.human_scores.items():
        _check_file_name(name, "human scores")
        lines = written_scores(scores, level, eval_set.domains, name)
        _write(root / "human-scores" / f"{pair}.{name}.{level}.score", lines)
    for name, by_system in (ratings or {}).items():
        _check_file_name(name, "rating")
        _write(root / "human-scores" / f"{pair}.{name}.seg.rating", written_ratings(by_system))
    write_metric_scores(eval_set, root)


def write_metric_scores(
    eval_set: EvalSet, folder: str | Path, metrics: Iterable[MetricName] | None = None
) -> list[Path]:
    """Writes the scores of metrics (all of the set if not given) and returns the files; errors as `write_eval_set`."""
    wanted = None if metrics is None else set(metrics)
    paths = []
    for (name, level), scores in eval_set.metric_scores.items():
        if wanted is not None and name not in wanted:
            continue
        _check_file_name(name.base, "metric")
        _check_complete(eval_set, name, level, scores)
        path = Path(folder) / "metric-scores" / eval_set.language_pair / f"{name}.{level}.score"
        _write(path, written_scores(scores, level, eval_set.domains, str(name)))
        paths.append(path)
    return paths


def _check_complete(eval_set: EvalSet, name: MetricName, level: Level, scores: Scores) -> None:
    """Raises InputError where a metric lacks an output or a score."""
    for system in sorted(set(eval_set.outputs) - name.references):
        values = scores.get(system)
        if values is None or np.isnan(values).any():
            raise InputError(
                f"system {system!r:.80} lacks {'scores' if values is None else 'a score'}",
                where=f"{name} ({level})",
                fix="Score every output but the references that the metric reads",
            )


def _check_pair(pair: str) -> None:
    parts = pair.split("-")
    if len(parts) != 2 or not all(parts) or "." in pair:
        raise InputError(
            f"found {pair!r:.80}, expected SOURCE-TARGET",
            where="language pair",
            fix="Such as en-de or en-de_DE",
        )
    _check_file_name(pair, "language pair")


def _check_reference(name: str) -> None:
    if not name or "-" in name or "." in name or name in ("all", "src"):
        raise InputError(
            f"found the reference {name!r:.80}",
            where="references",
            fix="Rename it: no - or . in the name, neither all nor src",
        )
    _check_file_name(name, "reference")


def _check_file_name(name: str, where: str) -> None:
    """Raises InputError for a name that no file can have, or that would leave its folder."""
    if not name or "/" in name or "\0" in name or name.startswith(".") or name.split() != [name]:
        raise InputError(f"{name!r:.80} cannot name a file", where=where, fix="Rename it")


def _write(path: Path, lines: Iterable[bytes]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResourceError(f"cannot be made: {error.strerror}", where=str(path.parent)) from error
    with own_draft(path) as file, complete_file(path, Path(file.name)):
        with file:
            file.writelines(lines)
        Path(file.name).chmod(0o644)
