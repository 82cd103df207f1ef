"""``discorank compare SYSTEMS -m METRIC ...``: which system is best, how sure that is, which metrics to believe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ..integrations.humanscores import HumanKey
from ..integrations.source import LineSource
from ..integrations.systems import SystemsOptions, read_documents
from ..metrics.errors import InputError
from ..metrics.mixture import Utility
from ..metrics.settings import settings
from ..rerank.selection.comparing import SystemComparison, compare_systems
from ..rerank.selection.folder import check_folder, kept, save
from ..rerank.selection.outputs import DocumentOutputs, with_references
from ..rerank.selection.testing import DRAWS
from .compare_report import document_rows, rendered, score_file, segment_rows
from .console import Progress, say
from .inputs import cache_in, check_model, metric_in
from .options import Options, needed
from .running import check_not_input, complete_or_absent


@settings
class CompareOptions:
    """What is compared.

    Args:
        input: the systems file, a document per line.
        metric: metrics by name or signature.
        human: keys that hold human scores, such as mqm:lower.
        references: the references that metrics read, by name; all if not given.
        as_systems: references to treat as systems.
        include: further keys that hold systems.
        draws: how many times the randomisation and the bootstrap draw.
        seed: of the draws.
        level: of significance; intervals cover the rest.
        segment_scores: a file for a row per segment and system, CSV if its name ends so, else JSONL.
        document_scores: the same for documents.
        save: a folder for texts, scores and tests, from which discorank report makes a page.
        format: what is printed.
    """

    input: str | None = None
    metric: tuple[str, ...] = ()
    human: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    as_systems: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    draws: Annotated[int, Field(ge=1)] = DRAWS
    seed: Annotated[int, Field(ge=0)] = 0
    level: Annotated[float, Field(gt=0, lt=1)] = 0.05
    segment_scores: str | None = None
    document_scores: str | None = None
    save: str | None = None
    format: Literal["table", "markdown", "latex", "csv", "json"] = "table"


OPTIONS = Options(
    "compare",
    "Compare whole systems. Tables go to stdout.",
    [CompareOptions],
    positional={"input": "?"},
    short={"metric": "m"},
)


def run(arguments: Sequence[str]) -> int:
    """Compares; returns the exit code."""
    values = OPTIONS.parse(arguments)
    path = needed(values, "input", "SYSTEMS")
    metrics = [metric_in(values, spec) for spec in needed(values, "metric", "--metric")]
    check_model(values, metrics)
    if twice := [m.signature() for i, m in enumerate(metrics) if m in metrics[:i]]:
        raise InputError(f"{twice[0]} is given twice", where="--metric", fix="Give each metric once")
    outputs = [values["segment_scores"], values["document_scores"]]
    for output in outputs:
        check_not_input(output, [path])
    if None not in outputs and outputs[0] == outputs[1]:
        raise InputError("is named twice", where=outputs[0], fix="Give segments and documents a file each")
    if values["save"]:
        check_folder(Path(values["save"]))
    keys = tuple(map(HumanKey.read, values["human"]))
    documents = _documents(path, values, keys)
    found = _compared([_fitted(metric, documents) for metric in metrics], documents, keys, values)
    for scored in found.scored:
        if scored.cuts:
            say(f"{scored.name}: {scored.cuts} texts were too long, and not all of them was read", values["quiet"])
    _write(values["segment_scores"], segment_rows, found)
    _write(values["document_scores"], document_rows, found)
    if values["save"]:
        settings = {name: values[name] for name in ("input", "level", "draws", "seed")}
        save(kept(found, settings), values["save"])
    sys.stdout.write(rendered(found, values["format"], values["level"]))
    return 0


def _documents(path: str, values: Mapping[str, Any], keys: tuple[HumanKey, ...]) -> list[DocumentOutputs]:
    options = SystemsOptions(keys, tuple(values["as_systems"]), tuple(values["include"]))
    source = LineSource(path)
    documents = list(read_documents(source, options))
    if not documents:
        raise InputError("no documents", where=source.name, fix="Give at least one line")
    return with_references(documents, values["references"]) if values["references"] else documents


def _compared(
    metrics: Sequence[Utility],
    documents: Sequence[DocumentOutputs],
    keys: Sequence[HumanKey],
    values: Mapping[str, Any],
) -> SystemComparison:
    human, quiet, draws = _dimensions(documents, keys), values["quiet"], values["draws"]
    to_read = len(documents) * sum(len(metric.parts) for metric in metrics)
    with _counted("documents", to_read, quiet) as read, _counted("draws", draws * len(metrics), quiet) as drawn:
        return compare_systems(
            metrics,
            documents,
            human,
            draws=draws,
            seed=values["seed"],
            level=values["level"],
            cache=cache_in(values),
            reading=read.more,
            drawing=drawn.more,
        )


class _Counted(Progress):
    """Progress towards a known number."""

    def __init__(self, unit: str, total: int, quiet: bool) -> None:
        self.done, self.whole = 0, total
        super().__init__(unit, lambda: self.done / self.whole if self.done else None, quiet)

    def more(self, n: int) -> None:
        """Shows that n more are done."""
        self.done = min(self.whole, self.done + n)
        self(self.done)


def _counted(unit: str, total: int, quiet: bool) -> _Counted:
    return _Counted(unit, total, quiet)


def _dimensions(documents: Sequence[DocumentOutputs], keys: Sequence[HumanKey]) -> list[tuple[str, bool]]:
    """All dimensions of human scores in order of appearance, with whether lower is better."""
    lower = {key.name: key.lower for key in keys}
    found = dict.fromkeys(name for document in documents for name in document.human)
    rest = {key.lower for key in keys if key.name not in found}
    if len(rest) > 1 and set(found) - set(lower):
        raise InputError(
            f"do all of {', '.join(set(found) - set(lower))} have one direction?",
            where="--human",
            fix="Name the dimensions, each with its direction",
        )
    return [(name, lower.get(name, True in rest)) for name in found]


def _fitted(metric: Utility, documents: Sequence[DocumentOutputs]) -> Utility:
    """The metric with what it learns from a corpus, here all references."""
    if not any(part.unfitted for _, part in metric.parts):
        return metric
    return metric.fit([text for d in documents for texts in d.references.values() for text in texts])


def _write(
    path: str | None, rows: Callable[[SystemComparison], Iterator[dict[str, Any]]], found: SystemComparison
) -> None:
    if path is None:
        return
    with complete_or_absent(path) as file:
        file.writelines(score_file(rows(found), path.endswith(".csv")))
