"""The page: templates filled in, with a policy that lets nothing but its own script and style run.

Texts from outside reach the page in two ways only: escaped by the templates, or as data that the script shows as text.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
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
    documents,
    finite_gaps,
    has_marks,
    story,
)
from .comparison_tables import (
    agreement_tables,
    baseline_tables,
    pairs_table,
    people_tables,
    ranking_tables,
    scores_table,
)
from .plots import Plot, template_package
from .summary_text import believed, lead, plain, summary, with_noun

SCRIPTS = ("words.js", "showing.js", "documents.js", "lists.js")
WIDEST = 1_000  # columns of letters: the page scrolls a wide table, so it is one
MAX_PAIRS = 40  # systems of whose pairs a table is shown


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


def rendered(comparison: SystemComparison | None, chosen: ChosenRun | None) -> str:
    """The whole page, of compared systems, a decoder's choices, or both.

    Raises:
        ModelLoadError: jinja2 or matplotlib is missing.
    """
    environment, as_markup = _template_environment()
    style, script = _asset("page.css"), "\n".join(map(_asset, SCRIPTS))
    values: dict[str, Any] = {
        "title": _title(comparison, chosen),
        "version": version("discorank"),
        "comparison": None,
        "chosen": None,
    }
    if comparison is not None:
        values["comparison"] = _comparison_values(comparison, as_markup)
    if chosen is not None:
        values["chosen"] = {
            "run": chosen,
            "story": story(chosen),
            "warnings": cautions(chosen),
            "figures": _chosen_figures(chosen),
            "has_marks": has_marks(chosen),
            "data": as_markup(as_island(as_data(chosen))),
        }
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    template = environment.get_template("page.html")
    page = template.render(values, policy=policy, style=as_markup(style), script=as_markup(script))
    return str(page)


def _title(comparison: SystemComparison | None, chosen: ChosenRun | None) -> str:
    if comparison is not None:
        systems = with_noun(len(comparison.systems), "system", "systems")
        documents = with_noun(len(comparison.documents), "document", "documents")
        return f"Comparison of {systems} on {documents}"
    return f"What was chosen: {Path(chosen.path).name}" if chosen else "Report"


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


def _comparison_values(comparison: SystemComparison, as_markup: Any) -> dict[str, Any]:
    """The view of a comparison for the templates."""
    judge = lead(comparison)
    trusted = believed(comparison.human[0]) if comparison.human else None
    first_metric = trusted.metric if trusted else comparison.metrics[0].name
    first_systems = [judge.systems[s] for s in judge.order[:2]]
    return {
        "summary": summary(comparison),
        "picture": _score_figure(judge, comparison),
        "ranking": ranking_tables(comparison, WIDEST),
        "differences": baseline_tables(comparison),
        "metrics": [
            _metric_section(comparison, scores, scores.name == first_metric)
            for scores in comparison.metrics
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


def _metric_section(comparison: SystemComparison, scores: Verdicts, is_open: bool) -> Section:
    """The figure of a metric, its scores, and its table of pairs where that is not too large."""
    tables = [scores_table(scores, comparison.level, "metric")]
    if 1 < len(scores.systems) <= MAX_PAIRS:
        tables.append(pairs_table(scores, comparison.level))
    return Section(as_typed(scores.name), [_score_figure(scores, comparison)], tables, is_open)


def _score_figure(scores: Verdicts, comparison: SystemComparison) -> Figure:
    """The scores of systems with their intervals."""
    level = comparison.level
    by_people = "" if scores in comparison.metrics else "People's scores. "
    has_lines = len({scores.clusters[s] for s in scores.order}) > 1
    lines = "; dashed lines part the ranks" if has_lines else ""
    caption = f"{by_people}Scores with {100 * (1 - level):g} % intervals{lines}."
    return Figure(plots.bars(scores, level), caption)


def _human_section(comparison: SystemComparison, human: MetaEvaluation) -> Section:
    """The figures and tables of a dimension of human scores."""
    figures = [_score_figure(human.scores, comparison)]
    unnamed = "; too many systems for names" if len(human.scores.systems) > plots.MAX_NAMES else ""
    legend = f"better is right and up; bars are intervals{unnamed}"
    for metric in comparison.metrics:
        caption = f"{as_typed(metric.name)} against people; {legend}."
        figures.append(Figure(plots.against_people(metric, human), caption))
    tables = [scores_table(human.scores, comparison.level, "human")]
    if 1 < len(human.scores.systems) <= MAX_PAIRS:
        tables.append(pairs_table(human.scores, comparison.level))
    return Section(human.scores.name, figures, [*tables, *agreement_tables(human)])


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
