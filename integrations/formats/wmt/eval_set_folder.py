"""One language pair of a folder of mt-metrics-eval, ``ROOT/TESTSET``, read and written strictly.

    texts      a line per segment, ``.txt`` or ``.jsonl``; ``[No translation supplied]`` stands for a missing one, None
    documents  DOMAIN DOCUMENT, a line per segment
    scores     SYSTEM SCORE, or None, in the order of segments or documents
Lines lose trailing white space. Systems may come in any order and interleave. Scores of domains, and files of marked
errors (``.rating``), are not read.

What the tool repairs in silence is refused with its place: a metric that lacks an output (which counts there as zeros;
`missing` chooses what is done), a missing cell, texts of other lengths than the sources. Files that are written go
through drafts and take their names when they are complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from ....metrics.errors import InputError, ResourceError, excerpt, unknown
from ....metrics.representations import FloatArray
from ....metrics.spec.checked_settings import Rare, settings
from ....metrics.storage.atomic_files import complete_file, own_draft
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource
from ....rerank.lists import finite_of
from ....rerank.selection.meta_evaluation.eval_set import (
    ALL_REFERENCES,
    LEVELS,
    DocumentPlace,
    EvalSet,
    Level,
    MetricName,
    Scores,
    Standards,
    Texts,
)
from ...files.entries import in_line, json_object, typed

MISSING_TEXT = "[No translation supplied]"
Missing = Literal["error", "zeros", "leave-out"]
_SYNTHETIC = frozenset({"synthetic_ref"})


class KnownStandards(NamedTuple):
    """Of one test set and language pair."""

    reference: str | None = None
    human_scores: str | None = None
    outliers: frozenset[str] = frozenset()


_KNOWN = {
    ("wmt22", "en-de"): KnownStandards(outliers=frozenset({"M2M100_1.2B-B4"})),
    ("wmt23", "en-de"): KnownStandards("refA", "mqm", _SYNTHETIC),
    ("wmt23", "he-en"): KnownStandards("refB", "mqm"),
    ("wmt23", "zh-en"): KnownStandards("refA", "mqm", _SYNTHETIC),
    ("wmt24", "en-de"): KnownStandards("refB"),
}


@settings
class EvalSetOptions:
    """How the scores of test sets are read. Names may be given for one language pair: ``en-de:theta``.

    Args:
        main_reference: the reference that metrics of the WMT metrics task read, such as refA or he-en:refB; or all.
        human_scores: the human scores that the task's statistics hold metrics against, such as mqm.
        outliers: systems that do not count there, such as en-de:theta.
        close_references: references that are no systems there though people judged them.
        primary: the metrics that take part in task sets; all if not given.
        missing: what is done where a metric lacks a system: error, zeros (as mt-metrics-eval does), or leave-out.
    """

    heading: ClassVar = "judgements"

    main_reference: tuple[str, ...] = ()
    human_scores: Annotated[tuple[str, ...], Rare()] = ()
    outliers: Annotated[tuple[str, ...], Rare()] = ()
    close_references: Annotated[tuple[str, ...], Rare()] = ()
    primary: Annotated[tuple[str, ...], Rare()] = ()
    missing: Annotated[Missing, Rare()] = "error"


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
    root = Path(folder)
    pairs_of(root, [language_pair])
    sources = _texts_at(root / "sources", language_pair, "source")
    documents = _documents(root / "documents" / f"{language_pair}.docs")
    references, outputs = _references(root, language_pair), _outputs(root, language_pair)
    lengths = {f"{root}/documents/{language_pair}.docs": documents[-1].stop}
    for kind, texts_by_name in (("reference", references), ("output", outputs)):
        for name, texts in texts_by_name.items():
            lengths[f"{root}: {language_pair}: {kind} {name}"] = len(texts)
    for where, length in lengths.items():
        if length != len(sources):
            problem = f"{length} segments, the sources have {len(sources)}"
            raise InputError(problem, where=where, fix="Give a line per segment of the source")
    bare = EvalSet(root.name, language_pair, documents, sources, references, outputs)
    human: dict[tuple[str, Level], Scores] = {}
    for path, name, level in _score_files(root / "human-scores", f"{language_pair}."):
        human[name, level] = read_score_file(path, outputs, bare.length(level))
    bare = replace(bare, human_scores=human)
    standards = standards_of(bare, chosen)
    metric_scores = _metric_scores(root, bare, chosen.missing)
    return replace(bare, standards=standards, metric_scores=metric_scores)


def _names(folder: Path) -> list[str]:
    """The names in a folder, sorted, none of them hidden."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        fix = "Give the folder of a test set of mt-metrics-eval"
        problem = f"cannot be read: {error.strerror}"
        raise InputError(problem, where=str(folder), fix=fix) from error
    limits().check("entries", len(names), str(folder), what="members")
    return names


def _texts_at(folder: Path, stem: str, key: str) -> Texts:
    """The texts of ``STEM.txt``, or of ``STEM.jsonl``."""
    for suffix in (".txt", ".jsonl"):
        path = folder / f"{stem}{suffix}"
        if path.exists():
            return _texts(path, key)
    raise InputError("is not there", where=str(folder / f"{stem}.txt"), fix="Expected a text file")


def _texts(path: Path, key: str) -> Texts:
    """The texts of a file, or of JSON lines under a key where its name ends in ``.jsonl``."""
    texts: list[str | None] = []
    source = LineSource(path)
    for number, line in source:
        with in_line(source, number):
            text = line.decode()
            if path.suffix == ".jsonl":
                text = typed(str, json_object(line).get(key), key)
            limits().check("rows", number, what="segments")
        texts.append(None if text.strip() == MISSING_TEXT else text.rstrip())
    return tuple(texts)


def _documents(path: Path) -> tuple[DocumentPlace, ...]:
    """The documents of ``DOMAIN DOCUMENT`` lines, one per segment; further columns are not read."""
    documents: dict[str, DocumentPlace] = {}
    source = LineSource(path)
    for segment, (number, line) in enumerate(source):
        with in_line(source, number):
            columns = line.decode().split()
            if len(columns) < 2:
                raise InputError(f"found {excerpt(line.decode())}, expected DOMAIN DOCUMENT")
            limits().check("rows", number, what="segments")
            domain, name = columns[:2]
            place = documents.setdefault(name, DocumentPlace(name, domain, segment, segment))
            if place.stop != segment or place.domain != domain:
                problem = f"document {name!r:.80} comes back after another, or has two domains"
                raise InputError(problem, fix="The segments of a document stand together")
        documents[name] = place._replace(stop=segment + 1)
    if not documents:
        raise InputError("no segments", where=str(path), fix="Give a line per segment")
    return tuple(documents.values())


def _references(root: Path, language_pair: str) -> dict[str, Texts]:
    """The references of ``LP.REF.txt``."""
    references = {}
    for name in _names(root / "references"):
        first, _, rest = name.partition(".")
        stem, _, suffix = rest.rpartition(".")
        if first == language_pair and stem and suffix in ("txt", "jsonl"):
            _check_reference_name(stem, str(root / "references" / name))
            references[stem] = _texts(root / "references" / name, "target")
    if not references:
        where, fix = f"{root}: {language_pair}", "Expected references/LP.NAME.txt"
        raise InputError("no references", where=where, fix=fix)
    return references


def _check_reference_name(name: str, where: str) -> None:
    """Raises InputError for a name that cannot stand in the name of a metric."""
    if not name or "-" in name or "." in name or name in ("all", "src"):
        fix = "A reference has no - or . in its name, and is neither all nor src"
        raise InputError(f"found the reference {name!r:.80}", where=where, fix=fix)


def _outputs(root: Path, language_pair: str) -> dict[str, Texts]:
    """The outputs of every system."""
    folder = root / "system-outputs" / language_pair
    names = _names(folder)
    limits().check("systems", len(names), str(folder))
    outputs: dict[str, Texts] = {}
    for name in names:
        system = name.rpartition(".")[0] or name
        check_name(system, str(folder / name))
        if system in outputs:
            raise InputError(f"system {system!r:.80} has two files", where=str(folder / name))
        outputs[system] = _texts(folder / name, "hypothesis")
    if not outputs:
        raise InputError("no outputs", where=str(folder), fix="Expected SYSTEM.txt")
    return outputs


def _score_files(folder: Path, start: str) -> Iterator[tuple[Path, str, Level]]:
    """The files ``START NAME.LEVEL.score`` of a folder, with name and level."""
    for file_name in _names(folder) if folder.is_dir() else ():
        name, _, last = file_name.removesuffix(".score").removeprefix(start).rpartition(".")
        level = next((level for level in LEVELS if level == last), None)
        if file_name.startswith(start) and file_name.endswith(".score") and name and level:
            yield folder / file_name, name, level


def read_score_file(path: Path, systems: Iterable[str], length: int) -> dict[str, FloatArray]:
    """Scores by system, nan for None.

    Args:
        path: the file.
        systems: the outputs there are.
        length: how many scores a system has.

    Raises:
        InputError: a line that is not a score, of no output, or the wrong number of lines for a system.
    """
    known = frozenset(systems)
    values: dict[str, list[float]] = {}
    source = LineSource(path)
    for number, line in source:
        with in_line(source, number):
            columns = line.decode().split()
            if len(columns) != 2:
                raise InputError(f"found {excerpt(line.decode())}, expected SYSTEM SCORE")
            system, text = columns
            score = np.nan if text == "None" else finite_of(text)
            if score is None:
                raise InputError(f"found {text!r:.80}, expected a number or None")
            if system not in known:
                raise unknown("system", system, known)
        values.setdefault(system, []).append(score)
    for system, own in values.items():
        if len(own) != length:
            problem = f"{len(own)} values of {system!r:.80}, expected {length}"
            raise InputError(problem, where=str(path))
    return {system: np.array(own) for system, own in values.items()}


def _metric_scores(
    root: Path, bare: EvalSet, missing: Missing
) -> dict[tuple[MetricName, Level], Scores]:
    """Metrics' scores by metric and level; each of every output but the references it reads."""
    folder = root / "metric-scores" / bare.language_pair
    scores: dict[tuple[MetricName, Level], Scores] = {}
    for path, stem, level in _score_files(folder, ""):
        try:
            name = MetricName.parse(stem, bare.references)
        except InputError as error:
            raise error.inside(str(path)) from None
        if (name, level) in scores:
            raise InputError(f"{name} has two files", where=str(path), fix="Keep one")
        by_system = read_score_file(path, bare.outputs, bare.length(level))
        for system, own in by_system.items():
            if np.isnan(own).any():
                problem = f"system {system!r:.80} lacks a score"
                raise InputError(problem, where=str(path), fix="Give metrics' scores of all texts")
        lacking = sorted(set(bare.outputs) - name.references - set(by_system))
        if lacking and missing == "leave-out":
            continue
        if lacking and missing == "error":
            raise InputError(
                f"no score of {', '.join(lacking)[:200]}",
                where=str(path),
                fix="Add --missing leave-out, or --missing zeros as mt-metrics-eval counts it; or score every output",
            )
        by_system |= {system: np.zeros(bare.length(level)) for system in lacking}
        scores[name, level] = by_system
    return scores


def standards_of(bare: EvalSet, options: EvalSetOptions) -> Standards:
    """The names that count: as given, as the task had them, or the only one there.

    Raises:
        InputError: a name that the set does not have.
    """
    pair, where = bare.language_pair, f"{bare.name} {bare.language_pair}"
    known = _KNOWN.get((bare.name, pair), KnownStandards())
    references = [*_of_pair(options.main_reference, pair), known.reference]
    only = next(iter(bare.references)) if len(bare.references) == 1 else "refA"
    human_scores = [*_of_pair(options.human_scores, pair), known.human_scores]
    # outliers of the task that a folder of the same name does not have leave nothing out
    outliers = frozenset(_of_pair(options.outliers, pair)) or known.outliers & bare.outputs.keys()
    standards = Standards(
        reference=references[0] or only,
        human_scores=_standard_scores(bare, human_scores[0]),
        outliers=outliers,
        close_references=frozenset(_of_pair(options.close_references, pair)),
        primary=frozenset(_of_pair(options.primary, pair)),
    )
    if standards.reference not in (*bare.references, ALL_REFERENCES):
        names = ", ".join(sorted(bare.references))
        problem = f"no reference {standards.reference!r:.80}; there are: {names:.300}"
        fix = "Name the one that counts, or all: --main-reference NAME"
        raise InputError(problem, where=where, fix=fix)
    for system in sorted(standards.outliers):
        if system not in bare.outputs:
            raise unknown("outlier", system, bare.outputs, where=where)
    return standards


def _of_pair(names: Sequence[str], language_pair: str) -> list[str]:
    """The names that hold for a language pair, those given for it alone first.

    >>> _of_pair(["refA", "he-en:refB"], "he-en")
    ['refB', 'refA']
    """
    own = [name.removeprefix(f"{language_pair}:") for name in names if f"{language_pair}:" in name]
    return [*own, *(name for name in names if ":" not in name)]


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


def write_eval_set(eval_set: EvalSet, folder: str | Path) -> None:
    """Write texts and human scores into the folder of a test set, which may have other language pairs.

    Raises:
        InputError: a name or text that the form cannot hold.
        ResourceError: it cannot be written.
    """
    root, pair = Path(folder), eval_set.language_pair
    if pair.count("-") != 1 or pair.startswith("-") or pair.endswith("-") or "." in pair:
        problem, fix = f"found {pair!r:.80}, expected SOURCE-TARGET", "Such as en-de or en-de_DE"
        raise InputError(problem, where="language pair", fix=fix)
    _check_file_name(pair, "language pair")
    if None in eval_set.sources:
        number = eval_set.sources.index(None) + 1
        raise InputError("no source", where=f"segment {number}", fix="Give every source")
    _write(root / "documents" / f"{pair}.docs", _written_documents(eval_set.documents))
    _write(root / "sources" / f"{pair}.txt", _written_texts(eval_set.sources, "source"))
    for name, texts in eval_set.references.items():
        _check_reference_name(name, "references")
        _check_file_name(name, "reference")
        lines = _written_texts(texts, f"reference {name}")
        _write(root / "references" / f"{pair}.{name}.txt", lines)
    for name, texts in eval_set.outputs.items():
        _check_file_name(name, "system")
        lines = _written_texts(texts, f"system {name}")
        _write(root / "system-outputs" / pair / f"{name}.txt", lines)
    for (name, level), scores in eval_set.human_scores.items():
        _check_file_name(name, "human scores")
        path = root / "human-scores" / f"{pair}.{name}.{level}.score"
        _write(path, written_scores(scores, name))


def _written_documents(documents: Iterable[DocumentPlace]) -> Iterator[bytes]:
    """The lines of a documents file."""
    for document in documents:
        for name in (document.name, document.domain):
            check_name(name, "documents")
        line = f"{document.domain} {document.name}\n".encode()
        yield line * (document.stop - document.start)


def _written_texts(texts: Texts, where: str) -> Iterator[bytes]:
    """The lines of a text file; InputError for a text that would not be read back."""
    for number, text in enumerate(texts, 1):
        if text is not None:
            for is_so, problem in (
                ("\n" in text or "\r" in text, "a text of several lines"),
                (text != text.rstrip(), "a text that ends in white space"),
                (text.strip() == MISSING_TEXT, "a text that means a missing text"),
            ):
                if is_so:
                    raise InputError(problem, where=f"{where}:{number}", fix="Change the text")
        yield (MISSING_TEXT if text is None else text).encode() + b"\n"


def written_scores(scores: Scores, where: str) -> Iterator[bytes]:
    """The lines of a score file, system by system; every number reads back to the same float.

    Raises:
        InputError: a system's name has white space.
    """
    for system, values in scores.items():
        check_name(system, where)
        for value in values.tolist():
            yield f"{system}\t{None if isnan(value) else repr(value)}\n".encode()


def check_name(name: str, where: str) -> None:
    """Raises InputError for a name that no column can hold."""
    if not name or name.split() != [name]:
        problem = f"found the name {name!r:.80}, expected one without white space"
        raise InputError(problem, where=where, fix="Rename it")


def _check_file_name(name: str, where: str) -> None:
    """Raises InputError for a name that no file can have, or that would leave its folder."""
    check_name(name, where)
    if "/" in name or "\0" in name or name.startswith("."):
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
