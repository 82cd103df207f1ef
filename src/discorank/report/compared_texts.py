"""Systems compared in one call: `discorank.compare`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from os import PathLike, fspath
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from ..integrations.formats.document_outputs import human_dimensions, read_documents
from ..integrations.formats.format_table import DocumentRows
from ..integrations.formats.human_scores import HumanKey
from ..integrations.formats.open_lists import open_documents
from ..integrations.formats.readers.systems import SystemsOptions
from ..integrations.formats.system_texts import TextsInMemory
from ..metrics.errors import InputError, excerpt
from ..metrics.optional_packages import imported
from ..metrics.quoted_signature import quoted
from ..metrics.registry import MetricLike, load_metric
from ..metrics.storage.bundled_files import bundled
from ..metrics.text.texts import plain_value
from ..printable import printable
from ..rerank.selection.comparison import SystemComparison, compare_systems, fitted_to_references
from ..rerank.selection.saved_comparison import save
from ..rerank.selection.significance import Correction, unit_of
from ..rerank.selection.statistics import DRAWS
from ..rerank.selection.system_scores import DocumentOutputs
from ..tables import CORRECTED, columns_of_text
from .comparison_tables import WIDTH, baseline_tables, ranking_tables, score_rows
from .summary_text import lead, short_names, summary

if TYPE_CHECKING:
    from pandas import DataFrame

Scores = Sequence[float | None]


def answer_lines(comparison: SystemComparison) -> Iterator[str]:
    """The headline, what supports it, what to be careful with, the table, the signatures."""
    said = summary(comparison)
    yield _wrapped(said.headline)
    for sentence in said.sentences:
        yield _wrapped(sentence)
    for warning in said.warnings:
        yield _wrapped(f"Careful: {warning}")
    for table in [*ranking_tables(comparison, WIDTH), *baseline_tables(comparison, WIDTH)]:
        yield ""
        yield printable(table.title)
        yield columns_of_text(table)
    yield ""
    yield from _computed(comparison)


def _computed(comparison: SystemComparison) -> Iterator[str]:
    """The signatures of the metrics, how tests were made, and where more is told."""
    names = short_names([metric.name for metric in comparison.metrics])
    num_references = len(comparison.documents[0].references)
    for metric in comparison.metrics:
        name = names[metric.name]
        if name != metric.name:
            yield printable(f"{name}: {metric.name}")
        yield printable(
            quoted(metric.name, comparison.versions["discorank"], num_references or None)
        )
    settings = comparison.settings
    tested = comparison.metrics or [human.scores for human in comparison.human]
    units = " or ".join(dict.fromkeys(f"{one.units} {one.unit}s" for one in tested))
    how = f"{settings['draws']} draws of {units}, seed {settings['seed']}"
    corrected = CORRECTED[settings["correction"]]
    yield f"{how}{corrected}; discorank {comparison.versions['discorank']}"


def _wrapped(sentence: str) -> str:
    return fill(printable(sentence), WIDTH, subsequent_indent="  ", break_long_words=False)


@dataclass(frozen=True, repr=False)
class ComparedSystems:
    """Systems compared; it prints as what ``discorank compare`` says.

    Args:
        kept: texts, scores and tests.
    """

    kept: SystemComparison

    def __repr__(self) -> str:
        return "\n".join(answer_lines(self.kept))

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        return f"<pre>{escape(repr(self))}</pre>"

    @property
    def best(self) -> str:
        """The system that comes first by people's scores, or by the first metric."""
        scores = lead(self.kept)
        return scores.systems[scores.order[0]]

    def to_dict(self) -> dict[str, Any]:
        """The answer, scores, tests and settings as values of JSON; texts are left out."""
        said = summary(self.kept)
        return {
            **said._asdict(),
            "scores": self._rows(),
            "metrics": [asdict(scores) for scores in self.kept.metrics],
            "human": [asdict(human) for human in self.kept.human],
            "settings": dict(self.kept.settings),
            "versions": dict(self.kept.versions),
        }

    def to_pandas(self) -> DataFrame:
        """A row per system and metric or dimension of human scores, in the order of systems.

        Returns:
            columns system, by, human (whether people's), score, low, high (its interval), cluster (between which lines
            can be drawn), best_rank, worst_rank; what cannot be tested has none of the last five.

        Raises:
            ModelLoadError: the package pandas is not installed.
        """
        pandas = imported("pandas", "to_pandas")
        return pandas.DataFrame(self._rows())

    def save(self, folder: str | Path) -> None:
        """Writes the folder of which ``discorank report`` makes a page; errors as `saved_comparison.save`."""
        save(self.kept, folder)

    def _rows(self) -> list[dict[str, Any]]:
        of_people = [(human.scores, True) for human in self.kept.human]
        rows = []
        for scores, is_human in [*of_people, *((scores, False) for scores in self.kept.metrics)]:
            for row in score_rows(scores, self.kept.level):
                key = {"system": row["system"], "by": scores.name, "human": is_human}
                rows.append({**key, **row})
        return rows


def compare(
    systems: Mapping[str, Sequence[str]] | str | PathLike[str],
    references: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    metrics: MetricLike | Sequence[MetricLike] = "chrf",
    *,
    human: Mapping[str, Scores | Mapping[str, Scores]] | Sequence[str] | str | None = None,
    documents: Sequence[str] | None = None,
    sources: Sequence[str] | None = None,
    level: float = 0.05,
    draws: int = DRAWS,
    seed: int = 0,
    unit: str | int = "auto",
    correction: Correction = "none",
) -> ComparedSystems:
    """Which system is best, how sure that is, and which metric to believe, as ``discorank compare`` says it.

    Args:
        systems: the texts of each system by its name, one per segment, also as a data frame with a column each; or a
            systems file, or ``examples:NAME``.
        references: the references of the segments, or several by name; None for metrics that read none.
        metrics: a metric, its name or signature, or several.
        human: people's scores of each system, one per segment or None; or these by dimension, whose name may end in
            ":lower" where lower is better ({"mqm:lower": {"A": [...], "B": [...]}}). Of a file, their keys there.
        documents: the document of each segment; None if every segment is one of its own.
        sources: the source texts of the segments.
        level: of significance; intervals cover 1 - level.
        draws: of the randomisation and the bootstrap.
        seed: of the draws.
        unit: what draws take: "document", "segment", how many successive segments of a document, or "auto", documents
            unless these are so few that nothing could be significant.
        correction: of p-values over the pairs of systems: "none", "holm" or "fdr".

    Raises:
        InputError: texts that are not aligned, a metric given twice, settings out of range.
    """
    several = isinstance(metrics, Sequence) and not isinstance(metrics, str)
    specs: Sequence[Any] = metrics if several else [metrics]  # type: ignore[assignment]
    loaded = [load_metric(spec) for spec in specs]
    if isinstance(systems, str | PathLike):
        columns = {"references": references, "sources": sources, "documents": documents}
        outputs = _of_file(systems, human, columns)
        input_name, ids_unknown = str(systems), False
    else:
        outputs = _of_texts(systems, references, human, sources, documents)
        input_name, ids_unknown = "texts in Python", documents is None
    keys = _keys(human)
    taken = _unit(unit, ids_unknown, len(outputs), level)
    comparison = compare_systems(
        [fitted_to_references(metric, outputs) for metric in loaded],
        outputs,
        human_dimensions(outputs, keys),
        input=input_name,
        draws=draws,
        seed=seed,
        level=level,
        unit=taken,
        correction=correction,
    )
    if ids_unknown:
        comparison = replace(comparison, settings={**comparison.settings, "ids_unknown": True})
    return ComparedSystems(comparison)


def _of_texts(
    systems: Any, references: Any, human: Any, sources: Any, documents: Any
) -> list[DocumentOutputs]:
    """The documents that columns of texts make."""
    given = {name: plain_value(systems[name]) for name in systems}
    if isinstance(human, str) or not isinstance(human, Mapping | None):
        fix = 'Give scores by system: {"mqm:lower": {"A": [...], "B": [...]}}'
        raise InputError(f"found {excerpt(human)}", where="human", fix=fix)
    by_dimension, keys = _human(plain_value(human or {}))
    named = _named(plain_value(references))
    columns = TextsInMemory(
        given, named, plain_value(sources), plain_value(documents), by_dimension
    )
    source = DocumentRows("compare", columns.rows())
    return list(read_documents(source, SystemsOptions(keys)))


def _of_file(
    path: str | PathLike[str], human: Any, columns: Mapping[str, Any]
) -> list[DocumentOutputs]:
    """The documents of a systems file; raises InputError for what stands beside it."""
    for name, column in columns.items():
        if column is not None:
            fix = "Leave it out: the file has it"
            raise InputError("stands beside a systems file", where=name, fix=fix)
    source = open_documents(bundled(fspath(path)))
    outputs = list(read_documents(source, SystemsOptions(_keys(human))))
    if not outputs:
        raise InputError("no documents", where=str(path), fix="Give at least one line")
    return outputs


def _keys(human: Any) -> tuple[HumanKey, ...]:
    """The keys of human scores, of their names in a file or of scores by name."""
    if human is None:
        return ()
    if isinstance(human, Mapping):
        return _human(human)[1]
    return tuple(map(HumanKey.read, [human] if isinstance(human, str) else human))


def _named(references: Any) -> Mapping[str, Sequence[str]]:
    """References by name."""
    if references is None:
        return {}
    return references if isinstance(references, Mapping) else {"reference": references}


def _human(human: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[HumanKey, ...]]:
    """People's scores by dimension and system, and the directions of the dimensions."""
    if not human:
        return {}, ()
    if not all(isinstance(scores, Mapping) for scores in human.values()):
        human = {"human": human}
    keys = tuple(map(HumanKey.read, human))
    return dict(zip((key.name for key in keys), human.values(), strict=True)), keys


def _unit(unit: str | int, ids_unknown: bool, number: int, level: float) -> str | int:
    """The unit of draws: segments where they are all that is known."""
    if ids_unknown and unit in ("auto", "document"):
        return "segment"
    return unit_of(unit, number, level)
