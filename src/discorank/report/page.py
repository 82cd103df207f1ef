"""The page: templates filled in, with a policy that lets nothing but its own script and style run.

Texts from outside reach the page in two ways only: escaped by the templates, or as data that the script shows as text.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import Any, NamedTuple

from ..metrics.registry import as_typed
from ..rerank.selection.comparison import MetaEvaluation, SystemComparison
from ..rerank.selection.significance import Verdicts
from ..tables import Table
from . import plots
from .choices import (
    ChosenRun,
    as_data,
    as_island,
    cautions,
    counted,
    documents,
    finite_gaps,
    has_marks,
    story,
    systems_table,
)
from .comparison_tables import (
    agreement_tables,
    baseline_tables,
    pairs_table,
    people_tables,
    ranking_tables,
    scores_table,
)
from .differences import Differences
from .plots import Plot, template_package
from .summary_text import believed, lead, plain, summary, with_noun

SCRIPTS = ("words.js", "showing.js", "documents.js", "lists.js")
WIDEST = 1_000  # columns of letters: the page scrolls a wide table, so it is one
MAX_PAIRS = 40  # systems of whose pairs a table is shown; the heat map shows all


class Figure(NamedTuple):
    """A plot with its caption."""

    plot: Plot
    caption: str


class Section(NamedTuple):
    """The view of a metric, or of a dimension of human scores."""

    name: str
    figures: list[Figure]
    tables: list[Table]
    is_open: bool = False


def rendered(
    comparison: SystemComparison | None,
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
    environment, as_markup = _template_environment()
    style, script = _asset("page.css"), "\n".join(map(_asset, SCRIPTS))
    values: dict[str, Any] = {
        "title": title,
        "version": version("discorank"),
        "comparison": None,
        "chosen": None,
    }
    if comparison is not None:
        all_optimised = [*optimised, *(chosen.signatures if chosen else ())]
        values["comparison"] = _comparison_values(comparison, all_optimised, as_markup)
    if chosen is not None:
        values["chosen"] = {
            "path": chosen.path,
            "story": story(chosen),
            "warnings": cautions(chosen),
            "figures": _chosen_figures(chosen),
            "systems": systems_table(chosen),
            "counts": counted(chosen),
            "settings": chosen.settings,
            "signatures": chosen.signatures,
            "versions": chosen.head.versions,
            "errors": chosen.errors,
            "all_errors": chosen.counts.get("errors", 0),
            "shown": len(chosen.lists),
            "has_marks": has_marks(chosen),
            "meanings": chosen.meanings,
            "all_lists": len(chosen.rows),
            "data": as_markup(as_island(as_data(chosen))),
        }
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    template = environment.get_template("page.html")
    page = template.render(values, policy=policy, style=as_markup(style), script=as_markup(script))
    return str(page)


def differences_page(two_runs: Differences, title: str, limit: int) -> str:
    """The page of the choices in which two runs differ, at most `limit`; errors as `rendered`."""
    environment, as_markup = _template_environment()
    style = _asset("page.css")
    shown = [
        {"id": one.id, "source": one.source, "before": one.before, "parts": one.parts}
        for one in two_runs.differing[:limit]
    ]
    values = {
        "title": title,
        "headline": two_runs.headline,
        "names": two_runs.names,
        "shown": shown,
        "more": len(two_runs.differing) - len(shown),
    }
    policy = f"default-src 'none'; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    template = environment.get_template("differences.html")
    return str(template.render(values, policy=policy, style=as_markup(style)))


def _template_environment() -> tuple[Any, Any]:
    """jinja2's environment, which escapes every value, and what marks a text as markup of ours."""
    package = template_package()
    environment = package.Environment(
        loader=package.PackageLoader("discorank.report", "templates"),
        autoescape=True,
        undefined=package.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = plain
    environment.globals |= {"with_noun": with_noun}
    return environment, package.utils.markupsafe.Markup


def _asset(name: str) -> str:
    return (files("discorank.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _comparison_values(
    comparison: SystemComparison, optimised: Sequence[str], as_markup: Any
) -> dict[str, Any]:
    """The view of a comparison for the templates."""
    judge = lead(comparison)
    trusted = believed(comparison.human[0]) if comparison.human else None
    first_metric = trusted.metric if trusted else comparison.metrics[0].name
    first_systems = [judge.systems[s] for s in judge.order[:2]]
    return {
        "summary": summary(comparison, optimised),
        "picture": _score_figures(judge, comparison)[0],
        "ranking": ranking_tables(comparison, WIDEST),
        "differences": baseline_tables(comparison),
        "metrics": [
            _metric_section(comparison, m, scores.name == first_metric)
            for m, scores in enumerate(comparison.metrics)
        ],
        "human": [_human_section(comparison, human) for human in comparison.human],
        "people": people_tables(comparison),
        "has_marks": any(document.ratings for document in comparison.documents),
        "counts": {
            "systems": len(comparison.systems),
            "documents": len(comparison.documents),
            "segments": sum(comparison.scores.sizes),
        },
        "settings": comparison.settings,
        "versions": comparison.versions,
        "cuts": [(as_typed(scores.name), scores.cuts) for scores in comparison.metrics],
        "level": comparison.level,
        "data": as_markup(as_island(documents(comparison, first_systems, first_metric))),
    }


def _metric_section(comparison: SystemComparison, m: int, is_open: bool) -> Section:
    """The figures of metric `m`, and its table of pairs where that is not too large."""
    scores = comparison.metrics[m]
    bars, *others = _score_figures(scores, comparison)
    unit, values = plots.unit_values(comparison.scores, m)
    spread_parts = "the middle half, the median, and the range of 90 %"
    spread = Figure(
        plots.distributions(scores, values, unit), f"Scores of single {unit}s: {spread_parts}."
    )
    tables = [scores_table(scores, comparison.level, "metric")]
    if 1 < len(scores.systems) <= MAX_PAIRS:
        tables.append(pairs_table(scores, comparison.level))
    return Section(as_typed(scores.name), [bars, spread, *others], tables, is_open)


def _score_figures(scores: Verdicts, comparison: SystemComparison) -> list[Figure]:
    """Scores of systems and their tests by pair."""
    level = comparison.level
    by_people = "" if scores in comparison.metrics else "People's scores. "
    has_lines = len({scores.clusters[s] for s in scores.order}) > 1
    lines = "; dashed lines part the ranks" if has_lines else ""
    caption = f"{by_people}Scores with {100 * (1 - level):g} % intervals{lines}."
    figures = [Figure(plots.bars(scores, level), caption)]
    if len(scores.systems) > 1:
        told_apart = f"The row against the column: + better, − worse at p < {level:g}"
        colours = "the stronger the colour the smaller p; white: not told apart"
        figures.append(
            Figure(plots.heat_map(scores, level), f"{by_people}{told_apart}, {colours}.")
        )
    return figures


def _human_section(comparison: SystemComparison, human: MetaEvaluation) -> Section:
    """The figures and tables of a dimension of human scores."""
    figures = _score_figures(human.scores, comparison)
    accuracies = [agreement.systems.pairwise_accuracy for agreement in human.agreement]
    if any(accuracy is not None for accuracy in accuracies):
        caption = "How often a metric orders two systems as people do; dashed: by chance."
        figures.insert(0, Figure(plots.agreement(human), caption))
    unnamed = "; too many systems for names" if len(human.scores.systems) > plots.MAX_NAMES else ""
    legend = f"better is right and up; bars are intervals{unnamed}"
    for metric in comparison.metrics:
        caption = f"{as_typed(metric.name)} against people; {legend}."
        figures.append(Figure(plots.against_people(metric, human), caption))
    tables = [scores_table(human.scores, comparison.level, "human"), *agreement_tables(human)]
    return Section(human.scores.name, figures, tables)


def _chosen_figures(run: ChosenRun) -> list[Figure]:
    """Histograms of the winners' lead and of their places in the lists."""
    figures = []
    gaps = finite_gaps(run)
    if gaps:
        plot = plots.histogram(gaps, "how far the winner is ahead of the runner-up")
        caption = "Near 0 the choice hardly matters, or the utility cannot tell."
        figures.append(Figure(plot, caption))
    indices = [float(row.index) for row in run.rows.values()]
    if indices:
        plot = plots.histogram(indices, "number of the chosen candidate in its list", whole=True)
        caption = "Candidates are counted from 0, in the order of the input."
        figures.append(Figure(plot, caption))
    return figures
