"""The page: templates filled in, with a policy that lets nothing but its own script and style run.

Texts from outside reach the page in two ways only: escaped by the templates, or as data that the script shows as text.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import Any, NamedTuple

from ..rerank.selection.comparison_folder import KeptComparison, KeptHuman, KeptScores
from ..tables import Table
from . import comparison_tables as tables
from . import plots
from .choices import ChosenRun, as_data, cautions, counted, finite_gaps, story
from .extra import template_package
from .island import as_island, documents
from .summary_text import Summary, believed, lead, plain, several, summary

SCRIPTS = ("words.js", "showing.js", "documents.js", "lists.js")
MAX_PAIRS = 40  # systems of whose pairs a table is shown; the heat map shows all


class Figure(NamedTuple):
    """A plot with what stands below it."""

    svg: Any
    caption: str


class MetricPart(NamedTuple):
    """What is shown of one metric."""

    name: str
    is_open: bool
    figures: list[Figure]
    pairs: Table | None


class HumanPart(NamedTuple):
    """What is shown of one dimension of human scores."""

    name: str
    figures: list[Figure]
    tables: list[Table]


def rendered(
    comparison: KeptComparison | None,
    chosen: ChosenRun | None,
    title: str,
    optimised: Sequence[str] = (),
) -> str:
    """The whole page.

    Args:
        comparison: systems, or None.
        chosen: a decoder's choices, or None.
        title: of the page.
        optimised: metrics that a system was optimised for; those of `chosen` are added.

    Raises:
        ModelLoadError: jinja2 or matplotlib is missing.
    """
    package = template_package()
    environment = package.Environment(
        loader=package.PackageLoader("discorank.report", "templates"),
        autoescape=True,
        undefined=package.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = plain
    environment.globals |= {"of_words": tables.of_words, "several": several}
    mark = package.utils.markupsafe.Markup
    style, script = _asset("page.css"), "\n".join(map(_asset, SCRIPTS))
    values: dict[str, Any] = {
        "title": title,
        "version": version("discorank"),
        "comparison": None,
        "chosen": None,
    }
    if comparison is not None:
        flattered = [*optimised, *(chosen.signatures if chosen else ())]
        values["comparison"] = _comparison(comparison, flattered, mark)
    if chosen is not None:
        values["chosen"] = _chosen(chosen, mark)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    template = environment.get_template("page.html")
    return str(template.render(values, policy=policy, style=mark(style), script=mark(script)))


def _asset(name: str) -> str:
    return (files("discorank.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _comparison(found: KeptComparison, optimised: Sequence[str], mark: Any) -> dict[str, Any]:
    first = lead(found)
    trusted = believed(found.human[0]) if found.human else None
    score = trusted.metric if trusted else found.metrics[0].name
    said: Summary = summary(found, optimised)
    start = [first.systems[s] for s in first.order[:2]]
    return {
        "summary": said,
        "systems": tables.systems(found, first),
        "metrics": [
            _metric(found, one, one.name == score, i, mark) for i, one in enumerate(found.metrics)
        ],
        "human": [_human(found, one, i, mark) for i, one in enumerate(found.human)],
        "choosers": found.choosers,
        "counts": _counts(found),
        "settings": found.settings,
        "versions": found.versions,
        "cuts": [(one.name, one.cuts) for one in found.metrics],
        "level": found.level,
        "data": mark(as_island(documents(found, start, score))),
    }


def _counts(found: KeptComparison) -> dict[str, int]:
    segments = sum(len(next(iter(document.systems.values()))) for document in found.documents)
    return {"systems": len(found.systems), "documents": len(found.documents), "segments": segments}


def _metric(
    found: KeptComparison, one: KeptScores, is_open: bool, number: int, mark: Any
) -> MetricPart:
    unit, values = plots.unit_values(found, one)
    shown = [
        Figure(mark(svg), caption)
        for svg, caption in _judged_figures(one, found.level, f"metric{number}")
    ]
    spread = plots.distributions(one, values, unit, f"metric{number}-spread")
    shown.insert(
        1,
        Figure(
            mark(spread),
            f"Scores of single {unit}s: the middle half, the median, and the range of 90 %.",
        ),
    )
    table = tables.pairs(one, found.level) if 1 < len(one.systems) <= MAX_PAIRS else None
    return MetricPart(one.name, is_open, shown, table)


def _judged_figures(one: KeptScores, level: float, name: str) -> Iterator[tuple[str, str]]:
    yield (
        plots.bars(one, level, f"{name}-bars"),
        f"Scores with {100 * (1 - level):g} % intervals; dashed lines part the ranks.",
    )
    if len(one.systems) > 1:
        yield (
            plots.heat_map(one, level, f"{name}-pairs"),
            f"The row against the column: + better, − worse at p < {level:g}, the stronger the colour the smaller p; "
            "grey: not told apart.",
        )


def _human(found: KeptComparison, one: KeptHuman, number: int, mark: Any) -> HumanPart:
    name = f"human{number}"
    shown = [
        Figure(mark(svg), f"People's scores. {text}")
        for svg, text in _judged_figures(one.scores, found.level, name)
    ]
    if any(a.systems.get("pairwise_accuracy") is not None for a in one.agreement):
        about = "How often a metric orders two systems as people do."
        shown.insert(0, Figure(mark(plots.agreement(one, f"{name}-agreement")), about))
    unnamed = "; too many systems for names" if len(one.scores.systems) > plots.MAX_NAMES else ""
    for i, metric in enumerate(found.metrics):
        svg = plots.against_people(metric, one, f"{name}-against{i}")
        shown.append(
            Figure(
                mark(svg),
                f"{metric.name} against people; better is right and up; bars are intervals{unnamed}.",
            )
        )
    return HumanPart(
        one.scores.name,
        shown,
        [tables.agreement(one), *([tables.metric_tests(one)] if one.tests else [])],
    )


def _chosen(run: ChosenRun, mark: Any) -> dict[str, Any]:
    gaps = finite_gaps(run)
    figures = []
    if gaps:
        svg = plots.histogram(gaps, "how far the winner is ahead of the runner-up", "gaps")
        figures.append(
            Figure(mark(svg), "Near 0 the choice hardly matters, or the utility cannot tell.")
        )
    indices = [float(row.index) for row in run.rows.values()]
    if indices:
        svg = plots.histogram(
            indices, "number of the chosen candidate in its list", "indices", whole=True
        )
        figures.append(
            Figure(mark(svg), "Candidates are counted from 0, in the order of the input.")
        )
    return {
        "path": run.path,
        "story": story(run),
        "warnings": cautions(run),
        "figures": figures,
        "counts": counted(run),
        "settings": run.settings,
        "signatures": run.signatures,
        "versions": run.head.versions,
        "errors": run.errors,
        "all_errors": run.counts.get("errors", 0),
        "shown": len(run.lists),
        "all_lists": len(run.rows),
        "data": mark(as_island(as_data(run))),
    }
