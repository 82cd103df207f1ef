"""Reads and writes one language pair of an mt-metrics-eval folder, ``ROOT/TESTSET``, strictly.

What the tool repairs in silence is refused with its place: a metric that lacks an output (which counts there as zeros;
`missing` chooses what is done), a missing cell, texts of other lengths than the sources. Files that are written go
through drafts and take their names when they are complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ....metrics.errors import InputError, ResourceError, unknown
from ....metrics.representations import FloatArray
from ....metrics.storage.atomic_files import complete_file, own_draft
from ....metrics.storage.limits import limits
from ....rerank.selection.meta_evaluation.eval_set import (
    ALL_REFERENCES,
    LEVELS,
    EvalSet,
    Level,
    MetricName,
    Scores,
    Standards,
    Texts,
)
from .folder_files import (
    Ratings,
    check_name,
    read_documents_file,
    read_ratings_file,
    read_score_file,
    read_texts_file,
    split_name,
    written_documents,
    written_ratings,
    written_scores,
    written_texts,
)


class KnownStandards(NamedTuple):
    """Of one test set and language pair."""

    reference: str | None = None
    human_scores: str | None = None
    outliers: frozenset[str] = frozenset()


_SYNTHETIC = frozenset({"synthetic_ref"})
_KNOWN = {
    ("wmt22", "en-de"): KnownStandards(outliers=frozenset({"M2M100_1.2B-B4"})),
    ("wmt23", "en-de"): KnownStandards("refA", "mqm", _SYNTHETIC),
    ("wmt23", "he-en"): KnownStandards("refB", "mqm"),
    ("wmt23", "zh-en"): KnownStandards("refA", "mqm", _SYNTHETIC),
    ("wmt24", "en-de"): KnownStandards("refB"),
}


def known_names(test_set: str, language_pair: str) -> KnownStandards:
    """Facts of a test set; there are none for most.

    >>> known_names("wmt23", "he-en").reference
    'refB'
    """
    return _KNOWN.get((test_set, language_pair), KnownStandards())


Missing = Literal["error", "zeros", "leave-out"]
MISSING = ("error", "zeros", "leave-out")


@dataclass(frozen=True, slots=True)
class EvalSetOptions:
    """How a folder is read. Names may be given for one language pair: ``en-de:theta``.

    Args:
        reference: the main reference, or "all"; the task's, else the only one, else refA.
        human_scores: the standard human scores; the task's, else those that are there alone, else mqm.
        outliers: systems that do not count; the task's if not given.
        close_references: references that are no systems though they are outputs.
        primary: the base names of primary metrics; all if not given.
        missing: what is done where a metric lacks an output: "error", "zeros" (as the tool does without its strict
            mode), or "leave-out": the metric does not count.
    """

    reference: tuple[str, ...] = ()
    human_scores: tuple[str, ...] = ()
    outliers: tuple[str, ...] = ()
    close_references: tuple[str, ...] = ()
    primary: tuple[str, ...] = ()
    missing: Missing = "error"


def is_eval_set_folder(path: str | Path) -> bool:
    """Whether a path is the folder of a test set."""
    return all(os.path.isdir(Path(path) / name) for name in ("sources", "system-outputs"))


def check_no_eval_set(path: str | Path) -> None:
    """Raises InputError for the folder of a test set, in the place of a file."""
    if is_eval_set_folder(path):
        problem, fix = "is the folder of a test set of mt-metrics-eval", "Add --from mtme"
        raise InputError(problem, where=str(path), fix=fix)


def language_pairs(folder: str | Path) -> tuple[str, ...]:
    """The language pairs of a test set with outputs, sorted; errors as `read_eval_set`."""
    return tuple(sorted(name for name in _names(Path(folder) / "system-outputs") if "-" in name))


def pairs_of(path: str | Path, given: Sequence[str] = ()) -> tuple[str, ...]:
    """The language pairs of a folder that are wanted: those given, or all; errors as `language_pairs`."""
    pairs = language_pairs(path)
    for pair in given:
        if pair not in pairs:
            raise unknown("language pair", pair, pairs, where=str(path))
    return tuple(given) or pairs


def the_language_pair(folder: str | Path, given: str | None) -> str:
    """The language pair given, or the only one of a folder; raises InputError if there are several."""
    pairs = language_pairs(folder)
    if given is not None:
        return given
    if len(pairs) != 1:
        raise InputError(
            f"{len(pairs)} language pairs: {', '.join(pairs)[:200]}",
            where=str(folder),
            fix="Name one with --language-pair",
        )
    return pairs[0]


def read_eval_set(
    folder: str | Path, language_pair: str, options: EvalSetOptions | None = None
) -> EvalSet:
    """The test set in a folder in one language pair.

    Raises:
        InputError: a part is missing, of another length, or no score; names file and line.
    """
    chosen = options or EvalSetOptions()
    if chosen.missing not in MISSING:
        raise unknown("way", chosen.missing, MISSING, where="missing")
    root = Path(folder)
    pairs = language_pairs(root)
    if language_pair not in pairs:
        raise unknown("language pair", language_pair, pairs, where=str(root))
    sources = _text_file(root / "sources", language_pair, "source")
    documents = read_documents_file(root / "documents" / f"{language_pair}.docs")
    _check_length(documents[-1].stop, sources, f"{root}/documents/{language_pair}.docs")
    references = _references(root, language_pair)
    outputs = _outputs(root, language_pair)
    for kind, texts_by_name in (("reference", references), ("output", outputs)):
        for name, texts in texts_by_name.items():
            _check_length(len(texts), sources, f"{root}: {language_pair}: {kind} {name}")
    if not references:
        fix = "Expected references/LP.NAME.txt"
        raise InputError("no references", where=f"{root}: {language_pair}", fix=fix)
    bare = EvalSet(root.name, language_pair, documents, sources, references, outputs)
    bare = replace(bare, human_scores=_human_scores(root, bare))
    standards = standards_of(bare, chosen)
    metric_scores = _metric_scores(root, bare, chosen.missing)
    return replace(bare, standards=standards, metric_scores=metric_scores)


def _names(folder: Path) -> list[str]:
    """The names in a folder, sorted, none of them hidden."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}",
            where=str(folder),
            fix="Give the folder of a test set of mt-metrics-eval",
        ) from error
    limits().check("members", len(names), str(folder))
    return names


def _text_file(folder: Path, stem: str, key: str) -> Texts:
    """The texts of ``STEM.txt``, or of ``STEM.jsonl``."""
    for suffix in (".txt", ".jsonl"):
        path = folder / f"{stem}{suffix}"
        if path.exists():
            return read_texts_file(path, key)
    raise InputError("is not there", where=str(folder / f"{stem}.txt"), fix="Expected a text file")


def _references(root: Path, language_pair: str) -> dict[str, Texts]:
    """The references of ``LP.REF.txt``."""
    references = {}
    for name in _names(root / "references"):
        first, _, rest = name.partition(".")
        stem, _, suffix = rest.rpartition(".")
        if first == language_pair and stem and suffix in ("txt", "jsonl"):
            _check_reference_name(stem, str(root / "references" / name))
            references[stem] = read_texts_file(root / "references" / name, "target")
    return references


def _check_reference_name(name: str, where: str) -> None:
    """Raises InputError for a name that cannot stand in the name of a metric."""
    if not name or "-" in name or "." in name or name in ("all", "src"):
        raise InputError(
            f"found the reference {name!r:.80}",
            where=where,
            fix="A reference has no - or . in its name, and is neither all nor src",
        )


def _outputs(root: Path, language_pair: str) -> dict[str, Texts]:
    """The outputs of every system."""
    folder = root / "system-outputs" / language_pair
    names = _names(folder)
    limits().check("systems", len(names), str(folder))
    outputs = {}
    for name in names:
        system = name.rpartition(".")[0] or name
        if system.split() != [system]:
            raise InputError("has white space in its name", where=str(folder / name))
        if system in outputs:
            raise InputError(f"system {system!r:.80} has two files", where=str(folder / name))
        outputs[system] = read_texts_file(folder / name, "hypothesis")
    if not outputs:
        raise InputError("no outputs", where=str(folder), fix="Expected SYSTEM.txt")
    return outputs


def _check_length(length: int, sources: Texts, where: str) -> None:
    if length != len(sources):
        raise InputError(
            f"{length} segments, the sources have {len(sources)}",
            where=where,
            fix="Give a line per segment of the source",
        )


def _score_files(
    folder: Path, language_pair: str, suffix: str
) -> Iterator[tuple[Path, str, Level]]:
    """The files ``LP.NAME.LEVEL`` + suffix of a folder, with name and level."""
    if not folder.is_dir():
        return
    for file_name in _names(folder):
        parts = split_name(file_name.removesuffix(suffix)) if file_name.endswith(suffix) else None
        if parts is not None and parts[0] == language_pair:
            yield folder / file_name, parts[1], parts[2]


def _human_scores(root: Path, bare: EvalSet) -> dict[tuple[str, Level], Scores]:
    """People's scores by name and level."""
    scores: dict[tuple[str, Level], Scores] = {}
    for path, name, level in _score_files(root / "human-scores", bare.language_pair, ".score"):
        scores[name, level] = _read_scores(path, level, bare)
    return scores


def _read_scores(path: Path, level: Level, bare: EvalSet) -> dict[str, FloatArray]:
    systems, domains = sorted(bare.outputs), bare.domains
    return read_score_file(path, level, systems, bare.length(level), domains)


def _metric_scores(
    root: Path, bare: EvalSet, missing: Missing
) -> dict[tuple[MetricName, Level], Scores]:
    """Metrics' scores by metric and level; each of every output but the references it reads."""
    folder = root / "metric-scores" / bare.language_pair
    scores: dict[tuple[MetricName, Level], Scores] = {}
    if not folder.is_dir():
        return scores
    for file_name in _names(folder):
        stem, _, level_name = file_name.removesuffix(".score").rpartition(".")
        level = next((level for level in LEVELS if level == level_name), None)
        if not file_name.endswith(".score") or level is None:
            continue
        path = folder / file_name
        name = _metric_name(stem, bare, path)
        if (name, level) in scores:
            raise InputError(f"{name} has two files", where=str(path), fix="Keep one")
        by_system = _read_scores(path, level, bare)
        completed = _completed(by_system, name, level, bare, missing, path)
        if completed is not None:
            scores[name, level] = completed
    return scores


def num_metric_files(folder: str | Path, language_pair: str) -> int:
    """How many files of metric scores a language pair has."""
    of_pair = Path(folder) / "metric-scores" / language_pair
    names = _names(of_pair) if of_pair.is_dir() else []
    return sum(name.endswith(".score") for name in names)


def _metric_name(stem: str, bare: EvalSet, path: Path) -> MetricName:
    try:
        return MetricName.parse(stem, bare.references)
    except InputError as error:
        raise error.inside(str(path)) from None


def _completed(
    scores: dict[str, FloatArray],
    name: MetricName,
    level: Level,
    bare: EvalSet,
    missing: Missing,
    path: Path,
) -> dict[str, FloatArray] | None:
    """The scores of every output, or None where the metric is to be left out."""
    for system, values in scores.items():
        if np.isnan(values).any():
            raise InputError(
                f"system {system!r:.80} lacks a score ({int(np.isnan(values).sum())} cells)",
                where=str(path),
                fix="Metrics score every text",
            )
    lacking = sorted(set(bare.outputs) - name.references - set(scores))
    if not lacking:
        return scores
    if missing == "leave-out":
        return None
    if missing == "error":
        raise InputError(
            f"no score of {', '.join(lacking)[:200]}",
            where=str(path),
            fix="Add --missing leave-out, or --missing zeros as mt-metrics-eval counts it; or score every output",
        )
    return {**scores, **{system: np.zeros(bare.length(level)) for system in lacking}}


def standards_of(bare: EvalSet, options: EvalSetOptions) -> Standards:
    """The names that count: as given, as the task had them, or the only one there.

    Raises:
        InputError: a name that the set does not have.
    """
    pair = bare.language_pair
    known = known_names(bare.name, pair)
    names = _of_pair(options.human_scores, pair)
    # outliers of the task that a folder of the same name does not have leave nothing out
    outliers = frozenset(_of_pair(options.outliers, pair)) or known.outliers & bare.outputs.keys()
    standards = Standards(
        reference=_standard_reference(bare, options, known.reference),
        human_scores=_standard_scores(bare, names[0] if names else known.human_scores),
        outliers=outliers,
        close_references=frozenset(_of_pair(options.close_references, pair)),
        primary=frozenset(_of_pair(options.primary, pair)),
    )
    _check_standards(bare, standards)
    return standards


def _of_pair(names: Sequence[str], language_pair: str) -> list[str]:
    """The names that hold for a language pair, those given for it alone first.

    >>> _of_pair(["refA", "he-en:refB"], "he-en")
    ['refB', 'refA']
    """
    own = [name.removeprefix(f"{language_pair}:") for name in names if f"{language_pair}:" in name]
    return [*own, *(name for name in names if ":" not in name)]


def _standard_reference(bare: EvalSet, options: EvalSetOptions, known: str | None) -> str:
    names = _of_pair(options.reference, bare.language_pair)
    if names:
        return names[0]
    if known is not None:
        return known
    only = sorted(bare.references)
    return only[0] if len(only) == 1 else "refA"


def _standard_scores(bare: EvalSet, name: str | None) -> dict[Level, str]:
    """The standard human scores of every level that has any."""
    standard: dict[Level, str] = {}
    for level in LEVELS:
        there = sorted(n for n, of_level in bare.human_scores if of_level == level)
        if name is not None and name in there:
            standard[level] = name
        elif name is None and there:
            standard[level] = there[0] if len(there) == 1 else "mqm" if "mqm" in there else there[0]
    if name is not None and not standard:
        raise unknown("human scores", name, {n for n, _ in bare.human_scores}, where=bare.name)
    return standard


def _check_standards(bare: EvalSet, standards: Standards) -> None:
    """Raises InputError for a name that the set does not have."""
    where = f"{bare.name} {bare.language_pair}"
    if standards.reference not in (*bare.references, ALL_REFERENCES):
        known = ", ".join(sorted(bare.references))
        raise InputError(
            f"no reference {standards.reference!r:.80}; there are: {known:.300}",
            where=where,
            fix="Name the one that counts, or all: --main-reference NAME",
        )
    for system in sorted(standards.outliers):
        if system not in bare.outputs:
            raise unknown("outlier", system, bare.outputs, where=where)


def read_ratings(folder: str | Path, eval_set: EvalSet) -> dict[str, Ratings]:
    """The marked errors of a test set by name of the rating; errors as `read_ratings_file`."""
    files = _score_files(Path(folder) / "human-scores", eval_set.language_pair, ".rating")
    systems, length = sorted(eval_set.outputs), len(eval_set.sources)
    ratings = {}
    for path, name, _ in files:
        ratings[name] = read_ratings_file(path, systems, length, name)
    return ratings


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
        _check_reference_name(name, "references")
        _check_file_name(name, "reference")
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
