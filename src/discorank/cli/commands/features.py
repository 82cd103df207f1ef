"""``discorank features SYSTEMS --human KEY``: discourse features of references, good and bad texts, with tests.

What is compared, and how, `rerank/selection/discourse_features.py` says. The figure has a panel for each part: foci
against references, shares of relations, densities of roles.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import numpy as np

from ...integrations.formats.human_scores import HumanKey
from ...integrations.formats.open_lists import open_documents, open_lists
from ...integrations.formats.readers.systems import SystemsOptions, read_documents
from ...metrics.discourse.coherence.cohesion import Cohesion
from ...metrics.discourse.roles.pdd import PDD
from ...metrics.errors import InputError
from ...metrics.rst.metric import DR, ParserName, TreeSource
from ...metrics.spec.checked_settings import Field, Rare, settings
from ...metrics.text.texts import Document, Text
from ...report.plots import label, plot_package
from ...rerank.lists import CandidateList, finite
from ...rerank.selection.discourse_features import (
    REFERENCE,
    FocusRow,
    Groups,
    JudgedTexts,
    LabelRow,
    RoleDensities,
    TreeComparison,
    focus_rows,
    grouped,
    has_roles,
    role_densities,
    tree_comparison,
)
from ...rerank.selection.statistics import DRAWS
from ...rerank.selection.system_scores import DocumentOutputs
from ...tables import Column, Format, Row, Table, decimals, printed, whole, words
from ..options import Options, needed
from ..running import check_not_input, check_writable, complete_or_absent
from ..terminal.console import Counted, say

Part = Literal["foci", "relations", "roles"]
PARTS: tuple[Part, ...] = ("foci", "relations", "roles")


@settings
class FeaturesOptions:
    """What is read and shown.

    Args:
        input: a systems file, a document per line, or candidate lists (--from jsonl).
        input_format: systems or jsonl.
        human: the key of human scores, such as mqm:lower, by which texts are good and bad; of candidate lists a field.
        top: how many systems, or texts of a document, are good, and how many bad.
        by: whether systems are good or bad by their mean score, or the texts of every document by their own.
        show: foci, relations, roles; what the input allows if not given.
        nouns: who finds the nouns that foci are, as in ds-focus.
        sentences: who splits plain texts: rule, pysbd:LANGUAGE, or your own module:function.
        parser: who parses texts without discourse trees: english, isanlp, none.
        role_model: a classifier of roles; texts bring theirs if not given.
        bins: positional bins of role densities.
        draws: of the tests by randomisation.
        seed: of the draws.
        format: what is printed.
        plot: a file for the figure, svg, png or pdf by its name.
    """

    input: str | None = None
    input_format: Literal["systems", "jsonl"] = "systems"
    human: str | None = None
    top: Annotated[int, Field(ge=1)] = 2
    by: Literal["system", "text"] = "system"
    show: tuple[Part, ...] = ()
    nouns: str = "hanta:en"
    sentences: str = "rule"
    parser: ParserName = "english"
    role_model: str | None = None
    bins: Annotated[int, Field(ge=1, le=1000)] = 5
    draws: Annotated[int, Field(ge=1), Rare()] = DRAWS
    seed: Annotated[int, Field(ge=0), Rare()] = 0
    format: Format = "table"
    plot: str | None = None


OPTIONS = Options(
    "features",
    "Show discourse features of references, good and bad texts: how often foci come back and how connected sentences "
    "are, shares of discourse relations and nuclei, densities of discourse roles; with tests, as tables and a plot.",
    [FeaturesOptions],
    positional={"input": "?"},
    first=["input", "human", "show", "by", "top", "plot"],
    examples=[
        "features examples:systems.jsonl --human mqm:lower",
        "features examples:systems.jsonl --human mqm:lower --show foci --format markdown",
        "features examples:systems.jsonl --human mqm:lower --by text --top 3",
    ],
)


def run(arguments: Sequence[str]) -> int:
    """Shows the features; returns the exit code."""
    values = OPTIONS.parse(arguments)
    path, plot = needed(values, "input", "SYSTEMS"), values["plot"]
    if plot is not None:
        _check_plot(plot, path)
    documents = _documents(path, values)
    if not documents:
        raise InputError("no documents", where=path, fix="Give at least one line")
    try:
        groups = grouped(documents, values["top"], values["by"] == "system")
        tables, figures = _compared(groups, values)
    except InputError as error:
        raise error.inside(path) from None
    if plot is not None:
        with complete_or_absent(plot) as file:
            write_figure(feature_figure(**figures), file, Path(plot).suffix.lower())
    sys.stdout.write(printed(tables, values["format"]))
    if values["human"] is None:
        say(
            "without --human no texts are good or bad: all are held against the references",
            values["quiet"],
        )
    return 0


def _check_plot(plot: str, path: str) -> None:
    """Raises InputError for a name that is no figure's, or a file that cannot be written."""
    if Path(plot).suffix.lower() not in SUFFIXES:
        fix = f"Name it {' or '.join(f'PLOT{suffix}' for suffix in SUFFIXES)}"
        raise InputError("is no name of a figure", where=plot, fix=fix)
    check_not_input(plot, [path])
    check_writable(plot)


def _documents(path: str, values: dict[str, Any]) -> list[JudgedTexts]:
    """The documents of the input."""
    key = None if values["human"] is None else HumanKey.read(values["human"])
    if values["input_format"] == "jsonl":
        with open_lists(path, "jsonl") as lists:
            records = []
            for entry in lists:
                if entry.error is not None:
                    raise entry.error
                if entry.record is not None:
                    records.append(entry.record)
        return [_of_list(record, key) for record in records if not record.context_only]
    options = SystemsOptions(() if key is None else (key,), (), ())
    documents = read_documents(open_documents(path, "systems"), options)
    return [_of_document(document, key) for document in documents]


def _of_document(document: DocumentOutputs, key: HumanKey | None) -> JudgedTexts:
    """A document of a systems file."""

    def text(segments: tuple[str, ...]) -> Text:
        return segments[0] if document.whole else Document(segments)

    human = {}
    if key is not None:
        for name, scores in document.human.get(key.name, {}).items():
            own = (
                [scores]
                if isinstance(scores, float | int)
                else [s for s in scores if s is not None]
            )
            if own:
                human[name] = sum(own) / len(own) * (-1 if key.lower else 1)
    return JudgedTexts(
        document.id,
        tuple(map(text, document.references.values())),
        {name: text(segments) for name, segments in document.systems.items()},
        human,
    )


def _of_list(record: CandidateList, key: HumanKey | None) -> JudgedTexts:
    """A candidate list; a candidate is its system's, or stands for itself."""
    systems: dict[str, Text] = {}
    human: dict[str, float] = {}
    for number, candidate in enumerate(record.candidates):
        name = str(candidate.fields.get("system", number))
        if name in systems:
            problem = f"two candidates of the system {name!r:.80}"
            raise InputError(problem, where=f"list {record.id!r:.80}", fix="Leave one out")
        systems[name] = candidate.text
        score = None if key is None else finite(candidate.fields.get(key.name))
        if key is not None and score is not None:
            human[name] = -score if key.lower else score
    return JudgedTexts(record.id, record.references, systems, human)


def _compared(
    groups: Sequence[Groups], values: dict[str, Any]
) -> tuple[list[Table], dict[str, Any]]:
    """The tables, and what the figure shows."""
    tables: list[Table] = []
    figures: dict[str, Any] = {}
    drawn = {"draws": values["draws"], "seed": values["seed"]}
    has_references = any(own[REFERENCE] for own in groups)
    shown = values["show"] or _possible(groups, values, has_references)
    with Counted("documents", len(groups) * len({*shown} - {"roles"}), values["quiet"]) as counted:
        if "foci" in shown:
            if not has_references:
                raise InputError("no references", where="--show foci", fix="Give references")
            rows = focus_rows(groups, _foci(values), **drawn, progress=counted.more)
            tables.append(focus_table([row._asdict() for row in rows]))
            figures["foci"] = rows
        if "relations" in shown:
            source = TreeSource(None, _parser(values))
            trees = tree_comparison(groups, source, **drawn, progress=counted.more)
            tables += tree_tables(trees)
            figures["trees"] = trees
    if "roles" in shown:
        metric = PDD(bins=values["bins"], model=values["role_model"], sentences=values["sentences"])
        densities = role_densities(groups, metric, **drawn)
        tables += role_tables(densities)
        figures["roles"] = densities
    return tables, figures


def _foci(values: dict[str, Any]) -> Cohesion:
    """How foci are found."""
    metric = Cohesion(nouns=values["nouns"], sentences=values["sentences"])
    return metric.for_language(values["lang"]) if values["lang"] else metric


def _parser(values: dict[str, Any]) -> ParserName:
    """The parser; none but for English."""
    trees = DR(parser=values["parser"])
    return trees.for_language(values["lang"]).parser if values["lang"] else trees.parser


def _possible(
    groups: Sequence[Groups], values: dict[str, Any], has_references: bool
) -> tuple[Part, ...]:
    """The parts that the input allows."""
    allowed: dict[Part, bool] = {
        "foci": has_references,
        "relations": True,
        "roles": values["role_model"] is not None or has_roles(groups),
    }
    return tuple(part for part in PARTS if allowed[part])


def _percent(head: str, name: str) -> Column:
    return Column(head, (name,), lambda share: "-" if share is None else f"{100 * share:.1f}")


def focus_table(rows: Sequence[Row]) -> Table:
    """Features of foci beside those of references."""
    columns = [
        words("feature", "feature"),
        words("texts", "group"),
        decimals("mean, references", "reference", 3),
        decimals("mean", "mean", 3),
        _percent("reference lower % (Eq. 4)", "lower"),
        _percent("equal %", "equal"),
        _percent("reference higher %", "higher"),
        decimals("p", "p"),
        whole("pairs", "pairs"),
    ]
    return Table("foci of texts and references", columns, rows, "foci", ("feature", "group"))


def tree_tables(trees: TreeComparison) -> list[Table]:
    """Relations, nuclearity, and how far groups are from the references."""
    tables = [
        _label_table("discourse relations, share of all in %", "relations", trees.relations),
        _label_table("nuclearity, share of all in %", "nuclearity", trees.nuclearity),
    ]
    rows = [
        {
            "group": group,
            "kl_relations": trees.divergence[group],
            "f1_edus": trees.edu_f1[group],
            "rmse_depth": trees.depth_rmse[group],
        }
        for group in trees.divergence
    ]
    if rows:
        columns = [
            words("texts", "group"),
            decimals("KL of relations from references", "kl_relations"),
            decimals("F1 of EDUs", "f1_edus", 3),
            decimals("RMSE of depth", "rmse_depth", 3),
        ]
        tables.append(
            Table("discourse trees against references", columns, rows, "trees", ("group",))
        )
    return tables


def _label_table(title: str, name: str, labels: Sequence[LabelRow]) -> Table:
    """A row for every label."""
    groups = list(dict.fromkeys(group for label in labels for group in label.shares))
    compared = list(dict.fromkeys(group for label in labels for group in label.f1))
    columns = [words("label", "label"), whole("instances", "count")]
    columns += [_percent(group, f"share_{group}") for group in groups]
    columns += [_percent(f"F1 {group}", f"f1_{group}") for group in compared]
    if any(label.test for label in labels):
        columns += [_percent("good less bad", "difference"), decimals("p", "p")]
    rows = []
    for own in labels:
        row: dict[str, Any] = {"label": own.label, "count": own.count}
        row |= {f"share_{group}": own.shares.get(group) for group in groups}
        row |= {f"f1_{group}": own.f1[group] for group in compared}
        if own.test:
            row |= {"difference": own.test.difference, "p": own.test.p}
        rows.append(row)
    return Table(title, columns, rows, name, ("label",))


def role_tables(densities: RoleDensities) -> list[Table]:
    """A table for every group, and one of good less bad with p."""
    tables = []
    for group, density in densities.density.items():
        rows: list[Row] = [
            {"group": group, "bin": number, **dict(zip(densities.roles, shares, strict=True))}
            for number, shares in enumerate(density.tolist(), 1)
        ]
        tables.append(
            _role_table(f"roles of {group} texts by bin, in %", "roles", densities.roles, rows)
        )
    if densities.tests is not None:
        lines = [
            {
                "bin": number,
                "role": role,
                "difference": test.difference,
                "p": test.p,
            }
            for number, tests in enumerate(densities.tests, 1)
            for role, test in zip(densities.roles, tests, strict=True)
        ]
        columns = [
            whole("bin", "bin"),
            words("role", "role"),
            _percent("good less bad, points", "difference"),
            decimals("p", "p"),
        ]
        title = "roles of good texts against bad ones"
        tables.append(Table(title, columns, lines, "role_tests", ("bin", "role")))
    return tables


def _role_table(title: str, name: str, roles: Sequence[str], rows: Sequence[Row]) -> Table:
    columns = [whole("bin", "bin"), *(_percent(role, role) for role in roles)]
    return Table(title, columns, rows, name, ("group", "bin"))


SUFFIXES = (".svg", ".png", ".pdf")
WIDTH, PANEL_HEIGHT = 8.0, 3.2  # inches
MAX_RELATIONS = 10  # as in Figure 7 of Joty et al. 2017
BAR = 0.8  # of the room of a label


def feature_figure(
    foci: Sequence[FocusRow] = (),
    trees: TreeComparison | None = None,
    roles: RoleDensities | None = None,
) -> Any:
    """A matplotlib figure with a panel for each part that is given.

    Raises:
        ModelLoadError: matplotlib is not installed.
    """
    package = plot_package()
    panels = bool(foci) + (trees is not None) + (roles is not None)
    with package.rc_context():
        package.rcdefaults()
        package.rcParams.update({"text.parse_math": False})
        figure = package.figure.Figure((WIDTH, PANEL_HEIGHT * max(1, panels)), layout="constrained")
        grid = figure.add_gridspec(max(1, panels), 1)
        place = 0
        if foci:
            _draw_foci(figure.add_subplot(grid[place]), foci)
            place += 1
        if trees is not None:
            _draw_relations(figure.add_subplot(grid[place]), trees)
            place += 1
        if roles is not None:
            _draw_roles(figure, grid[place], roles)
        return figure


def write_figure(figure: Any, file: BinaryIO, suffix: str) -> None:
    """Writes a figure in the form of a suffix; the same figure gives the same bytes."""
    package = plot_package()
    metadata = (
        {"Date": None} if suffix == ".svg" else {"CreationDate": None} if suffix == ".pdf" else {}
    )
    with package.rc_context({"svg.fonttype": "none", "svg.hashsalt": "features"}):
        figure.savefig(file, format=suffix[1:], metadata=metadata)


def _draw_foci(axes: Any, rows: Sequence[FocusRow]) -> None:
    """The shares of pairs whose reference has less of a feature, and more, side by side."""
    names = [f"{row.feature}, {row.group}" for row in rows]
    places = np.arange(len(rows))
    kinds = (("lower", "reference lower"), ("equal", "equal"), ("higher", "reference higher"))
    below = np.zeros(len(rows))
    for name, about in kinds:
        shares = np.array([100 * getattr(row, name) for row in rows])
        axes.bar(places, shares, BAR, bottom=below, label=about)
        below += shares
    axes.set_xticks(places, names, rotation=30, ha="right", fontsize="small")
    axes.set_ylabel("% of pairs")
    axes.legend(fontsize="small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))


def _draw_relations(axes: Any, trees: TreeComparison) -> None:
    """The most frequent relations, a bar for each group."""
    rows = trees.relations[:MAX_RELATIONS]
    groups = list(dict.fromkeys(group for row in rows for group in row.shares))
    places = np.arange(len(rows))
    width = BAR / max(1, len(groups))
    for number, group in enumerate(groups):
        shares = [100 * row.shares.get(group, 0.0) for row in rows]
        axes.bar(places + number * width, shares, width, label=group)
    middle = (len(groups) - 1) * width / 2
    names = [label(row.label) for row in rows]
    axes.set_xticks(places + middle, names, rotation=30, ha="right", fontsize="small")
    axes.set_ylabel("% of relations")
    axes.legend(fontsize="small")


def _draw_roles(figure: Any, place: Any, roles: RoleDensities) -> None:
    """A panel for each group: the shares of roles in every bin, one above the other."""
    inner = place.subgridspec(1, len(roles.density))
    first = None
    for number, (group, density) in enumerate(roles.density.items()):
        axes = figure.add_subplot(inner[number], sharey=first)
        bins = np.arange(1, len(density) + 1)
        below = np.zeros(len(density))
        for column, role in enumerate(roles.roles):
            axes.bar(bins, 100 * density[:, column], BAR, bottom=below, label=label(role))
            below += 100 * density[:, column]
        axes.set_title(group, fontsize="medium")
        axes.set_xlabel("bin")
        if first is None:
            axes.set_ylabel("% of sentences")
            first = axes
    if first is not None:
        handles, names = first.get_legend_handles_labels()
        figure.legend(handles, names, fontsize="small", ncols=4, loc="outside lower center")
