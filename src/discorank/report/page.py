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

from ..metrics.registry import as_typed
from ..rerank.selection.comparison import Comparison, MetaEvaluation
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
from .plots import heat_map, template_package
from .summary_text import believed, lead, plain, summary, with_noun

SCRIPTS = ("words.js", "showing.js", "documents.js", "lists.js")
WIDEST = 1_000  # columns of letters: the page scrolls a wide table, so it is one
MAX_PAIRS = 40  # systems of whose pairs a table is shown; the heat map shows all


class Figure(NamedTuple):
    """A plot with what stands below it."""

    svg: Any
    caption: str


class MetricPart(NamedTuple):
    """The view of one metric."""

    name: str
    is_open: bool
    figures: list[Figure]
    tables: list[Table]


class HumanPart(NamedTuple):
    """The view of one dimension of human scores."""

    name: str
    figures: list[Figure]
    tables: list[Table]


def rendered(
    comparison: Comparison | None,
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
            "figures": _chosen_figures(chosen, as_markup),
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
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
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
    comparison: Comparison, optimised: Sequence[str], as_markup: Any
) -> dict[str, Any]:
    """The view of a comparison for the templates."""
    judge = lead(comparison)
    trusted = believed(comparison.human[0]) if comparison.human else None
    first_metric = trusted.metric if trusted else comparison.metrics[0].name
    first_systems = [judge.systems[s] for s in judge.order[:2]]
    metrics = []
    for i, scores in enumerate(comparison.metrics):
        is_open = scores.name == first_metric
        metrics.append(_metric_part(comparison, scores, is_open, i, as_markup))
    return {
        "summary": summary(comparison, optimised),
        "picture": _picture(comparison, judge, as_markup),
        "ranking": ranking_tables(comparison, WIDEST),
        "differences": baseline_tables(comparison),
        "metrics": metrics,
        "human": [
            _human_part(comparison, human, i, as_markup) for i, human in enumerate(comparison.human)
        ],
        "people": people_tables(comparison),
        "has_marks": any(document.ratings for document in comparison.documents),
        "counts": _counts(comparison),
        "settings": comparison.settings,
        "versions": comparison.versions,
        "cuts": [(as_typed(scores.name), scores.cuts) for scores in comparison.metrics],
        "level": comparison.level,
        "data": as_markup(as_island(documents(comparison, first_systems, first_metric))),
    }


def _picture(comparison: Comparison, judge: Verdicts, as_markup: Any) -> Figure:
    """Scores beside the answer, which say which system comes first."""
    svg, caption = next(_score_figures(judge, comparison.level, "answer"))
    is_people = judge not in comparison.metrics
    return Figure(as_markup(svg), f"People's scores. {caption}" if is_people else caption)


def _counts(comparison: Comparison) -> dict[str, int]:
    return {
        "systems": len(comparison.systems),
        "documents": len(comparison.documents),
        "segments": sum(comparison.scores.sizes),
    }


def _metric_part(
    comparison: Comparison, scores: Verdicts, is_open: bool, i: int, as_markup: Any
) -> MetricPart:
    """The figures of the comparison's metric `i`, and its table of pairs where that is not too large."""
    name = f"metric{i}"
    (bars, bars_caption), *others = _score_figures(scores, comparison.level, name)
    unit, values = plots.unit_values(comparison.scores, i)
    spread = plots.distributions(scores, values, unit, f"{name}-spread")
    spread_parts = "the middle half, the median, and the range of 90 %"
    spread_caption = f"Scores of single {unit}s: {spread_parts}."
    figures = [
        Figure(as_markup(bars), bars_caption),
        Figure(as_markup(spread), spread_caption),
        *(Figure(as_markup(svg), caption) for svg, caption in others),
    ]
    shown = [scores_table(scores, comparison.level, "metric")]
    if 1 < len(scores.systems) <= MAX_PAIRS:
        shown.append(pairs_table(scores, comparison.level))
    return MetricPart(as_typed(scores.name), is_open, figures, shown)


def _score_figures(scores: Verdicts, level: float, name: str) -> Iterator[tuple[str, str]]:
    """Scores of systems and their tests by pair, each as SVG and caption."""
    has_lines = len({scores.clusters[s] for s in scores.order}) > 1
    lines = "; dashed lines part the ranks" if has_lines else ""
    caption = f"Scores with {100 * (1 - level):g} % intervals{lines}."
    yield plots.bars(scores, level, f"{name}-bars"), caption
    if len(scores.systems) > 1:
        yield (
            heat_map(scores, level, f"{name}-pairs"),
            f"The row against the column: + better, − worse at p < {level:g}, the stronger the colour the smaller p; "
            "grey: not told apart.",
        )


def _human_part(comparison: Comparison, human: MetaEvaluation, i: int, as_markup: Any) -> HumanPart:
    """The figures and tables of the comparison's dimension `i` of human scores."""
    name = f"human{i}"
    figures = [
        Figure(as_markup(svg), f"People's scores. {caption}")
        for svg, caption in _score_figures(human.scores, comparison.level, name)
    ]
    accuracies = [agreement.systems.pairwise_accuracy for agreement in human.agreement]
    if any(accuracy is not None for accuracy in accuracies):
        svg = plots.agreement(human, f"{name}-agreement")
        caption = "How often a metric orders two systems as people do; dashed: by chance."
        figures.insert(0, Figure(as_markup(svg), caption))
    unnamed = "; too many systems for names" if len(human.scores.systems) > plots.MAX_NAMES else ""
    for m, metric in enumerate(comparison.metrics):
        svg = plots.against_people(metric, human, f"{name}-against{m}")
        legend = f"better is right and up; bars are intervals{unnamed}"
        caption = f"{as_typed(metric.name)} against people; {legend}."
        figures.append(Figure(as_markup(svg), caption))
    shown = [scores_table(human.scores, comparison.level, "human"), *agreement_tables(human)]
    return HumanPart(human.scores.name, figures, shown)


def _chosen_figures(run: ChosenRun, as_markup: Any) -> list[Figure]:
    """Histograms of the winners' lead and of their places in the lists."""
    figures = []
    gaps = finite_gaps(run)
    if gaps:
        svg = plots.histogram(gaps, "how far the winner is ahead of the runner-up", "gaps")
        caption = "Near 0 the choice hardly matters, or the utility cannot tell."
        figures.append(Figure(as_markup(svg), caption))
    indices = [float(row.index) for row in run.rows.values()]
    if indices:
        about = "number of the chosen candidate in its list"
        svg = plots.histogram(indices, about, "indices", whole=True)
        caption = "Candidates are counted from 0, in the order of the input."
        figures.append(Figure(as_markup(svg), caption))
    return figures
