"""The page of ``discorank report``: templates filled in with tables, and a figure of the scores under each metric.

Texts from outside reach the page in two ways only: escaped by the templates, or as data that the script shows as text.
The page's policy lets nothing but its own script and style run. A figure is an image of its own, drawn by matplotlib as
SVG in a data URL: nothing in it can reach the page, whatever systems are called.
"""

from __future__ import annotations

import io
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from warnings import catch_warnings, filterwarnings

from ..metrics.optional_packages import imported
from ..metrics.registry import as_typed
from ..rerank.selection.comparison import MetaEvaluation, SystemComparison
from ..rerank.selection.significance import Verdicts
from ..tables import Table
from .choices import ChosenRun, as_data, as_island, cautions, documents, has_marks, story
from .comparison_tables import (
    agreement_tables,
    baseline_tables,
    pairs_table,
    people_tables,
    ranking_tables,
    scores_table,
)
from .summary_text import believed, cut, lead, plain, summary, with_noun

SCRIPTS = ("words.js", "showing.js", "documents.js", "lists.js")
WIDEST = 1_000  # columns of letters: the page scrolls a wide table, so it is one
MAX_PAIRS = 40  # systems of whose pairs a table is shown
WIDTH_INCHES, ROW_INCHES = 4.4, 0.2  # of a figure, and of a system in it
NAME_LETTERS, AXIS_LETTERS = 22, 48  # of names next to a row, and under the axis
MARK, SPAN, MUTED = "#14518c", "#7ba7d7", "#6b7280"
DASHED = (0, (3, 2))
SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "discorank",  # ids inside the SVG are the same in every run
    "text.parse_math": False,  # a $ in a name is a $
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "grid.color": "#e2e5ea",
}
_UNNAMED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Figure(NamedTuple):
    """A figure as an image.

    Args:
        source: a data URL.
        about: read out instead of the image.
        caption: under the image.
    """

    source: str
    about: str
    caption: str


class Section(NamedTuple):
    """The view of a metric, or of a dimension of human scores."""

    name: str
    figure: Figure
    tables: list[Table]
    is_open: bool = False


def template_package() -> Any:
    """jinja2; raises ModelLoadError where it is missing."""
    return imported("jinja2", "report")


def plot_package() -> Any:
    """matplotlib with its figures, without a screen; raises ModelLoadError where it is missing."""
    imported("matplotlib.figure", "report")
    return imported("matplotlib", "report")


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
    """The figure and the tables of a metric."""
    tables = _score_tables(comparison, scores, "metric")
    return Section(as_typed(scores.name), _score_figure(scores, comparison), tables, is_open)


def _human_section(comparison: SystemComparison, human: MetaEvaluation) -> Section:
    """The figure and the tables of a dimension of human scores."""
    tables = [*_score_tables(comparison, human.scores, "human"), *agreement_tables(human)]
    return Section(human.scores.name, _score_figure(human.scores, comparison), tables)


def _score_tables(comparison: SystemComparison, scores: Verdicts, key: str) -> list[Table]:
    """The scores of systems, and p of their pairs where that table is not too large."""
    tables = [scores_table(scores, comparison.level, key)]
    if 1 < len(scores.systems) <= MAX_PAIRS:
        tables.append(pairs_table(scores, comparison.level))
    return tables


def _score_figure(scores: Verdicts, comparison: SystemComparison) -> Figure:
    """A forest plot: the scores of systems with their intervals, best on top."""
    order = scores.order
    intervals = f"{100 * (1 - comparison.level):g} % intervals"
    by_people = "" if scores in comparison.metrics else "People's scores. "
    has_lines = len({scores.clusters[s] for s in order}) > 1
    lines = "; dashed lines part the ranks" if has_lines else ""
    about = f"{scores.name}: scores of {len(order)} systems with {intervals}, best first"
    with _drawing() as package:
        figure, axes = _rows_figure(package, [scores.systems[s] for s in order])
        for row, s in enumerate(order):
            score, low, high = scores.scores[s], scores.low[s], scores.high[s]
            if low is not None and high is not None:
                axes.plot([low, high], [row, row], color=SPAN, linewidth=3.2)
            if score is not None:
                axes.plot([score], [row], "o", color=MARK, markersize=4)
            if row and scores.clusters[s] != scores.clusters[order[row - 1]]:
                axes.axhline(row - 0.5, color=MUTED, linewidth=0.6, linestyle=DASHED)
        direction = "" if scores.higher_is_better else " (lower is better)"
        axes.set_xlabel(f"{_label(scores.name, AXIS_LETTERS)}{direction}")
        caption = f"{by_people}Scores with {intervals}{lines}."
        return Figure(image(figure), _UNNAMED.sub(" ", about), caption)


@contextmanager
def _drawing() -> Iterator[Any]:
    """matplotlib with the settings of the page's figures, whatever the user's own are."""
    package = plot_package()
    with package.rc_context(), catch_warnings():
        package.rcdefaults()
        package.rcParams.update(SETTINGS)
        filterwarnings("ignore", message=r"(?s).*[Gg]lyph")  # the page's reader has other fonts
        yield package


def _rows_figure(package: Any, names: Sequence[str]) -> tuple[Any, Any]:
    """A figure with a row per name, the first on top, and its axes."""
    n = max(1, len(names))
    figure = package.figure.Figure((WIDTH_INCHES, n * ROW_INCHES + 0.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set_ylim(n - 0.4, -0.6)
    axes.set_yticks(range(len(names)), [_label(name, NAME_LETTERS) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    return figure, axes


def _label(text: str, longest: int) -> str:
    """A name as a figure can show it: on one line, without control characters, not too long."""
    return cut(_UNNAMED.sub(" ", text), longest)


def image(figure: Any) -> str:
    """A figure as SVG in a data URL."""
    written = io.BytesIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{b64encode(written.getvalue()).decode()}"
