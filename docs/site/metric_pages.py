"""The pages of metrics: what the code declares of each, its equation and settings, an example, agreement with people.

Names of one class share a page, as `comet` and `doc-comet` do. What the code does not say stands in metric_facts.yaml.
"""

from __future__ import annotations

import csv
import inspect
import json
import re
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import yaml
from api_page import documentation

from discorank.cli.commands.cite import papers
from discorank.cli.commands.guide import setting_rows
from discorank.metrics.names import BUILT_IN
from discorank.metrics.registry import metric_class, papers_of
from discorank.metrics.scorer import Info

ROOT = Path(__file__).resolve().parents[2]
FACTS = Path(__file__).with_name("metric_facts.yaml")
AGREEMENT = ROOT / "benchmarks" / "results" / "metrics-and-people.tsv"
KINDS = ("into English", "out of English", "summaries")


@cache
def facts() -> dict[str, Any]:
    """metric_facts.yaml."""
    return dict(yaml.safe_load(FACTS.read_text(encoding="utf-8")))


def facts_of(name: str) -> dict[str, Any]:
    """What is said of a page beside what the code declares: the texts, then the room's facts, then its own."""
    name = first_of(name)
    return {
        **facts()["texts"],
        **facts()["rooms"][room_of(name)],
        **facts()["metrics"].get(name, {}),
        "value": facts()["values"].get(name),
    }


def room_of(name: str) -> str:
    """The folder of the package that a metric stands in."""
    _, top, folder, *_ = re.split(r"[.:]", BUILT_IN[name].target)
    return folder if top == "metrics" else top


@cache
def names_by_page() -> dict[str, tuple[str, ...]]:
    """The names of each page, by the first of them: those of one class."""
    by_class: dict[str, list[str]] = {}
    for name, registration in BUILT_IN.items():
        by_class.setdefault(registration.target, []).append(name)
    return {names[0]: tuple(names) for names in by_class.values()}


def first_of(name: str) -> str:
    """The first name on the page of a metric."""
    return next(first for first, names in names_by_page().items() if name in names)


def page_of(name: str) -> str | None:
    """Where a metric's page stands in the site; None for what is no metric."""
    return f"metrics/{first_of(name)}.md" if name in BUILT_IN else None


def navigation() -> list[dict[str, list[dict[str, str]]]]:
    """The pages by room, as mkdocs.yml would have them."""
    rooms: dict[str, list[dict[str, str]]] = {}
    for first, names in names_by_page().items():
        title = facts()["rooms"][room_of(first)]["title"]
        rooms.setdefault(title, []).append({", ".join(titled(names)): f"metrics/{first}.md"})
    return [{title: pages} for title, pages in rooms.items()]


def metric_names() -> dict[str, tuple[str, ...]]:
    """The names in the title of every page, by where it stands in the site."""
    return {f"metrics/{first}.md": titled(names) for first, names in names_by_page().items()}


def titled(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names that the title of their page has: without those in context, such as doc-comet."""
    return tuple(name for name in names if not name.startswith("doc-"))


def metric_pages() -> dict[str, str]:
    """Every page, by where it stands in the site."""
    return {f"metrics/{first}.md": metric_page(first) for first in names_by_page()}


def metric_page(first: str) -> str:
    """The page of a class of metrics, whose first name is given."""
    names = names_by_page()[first]
    cls = metric_class(first)
    parts = [
        f"# {', '.join(titled(names))}\n",
        f"{cls.info.summary[0].upper()}{cls.info.summary[1:]}.\n",
        table([["", ""], *fact_rows(first)]),
        f"## Example\n\n{example_of(first)}",
        f"## Equation\n\n{documentation(inspect.getmodule(cls))}",
    ]
    rows = [[f"`{name}`", f"`{value}`", about] for name, value, about in setting_rows(first)]
    if rows:
        parts.append(f"## Settings\n\n{table([['setting', 'default', 'what it does'], *rows])}")
    agreement = [row for name in names for row in agreement_of(name)]
    if agreement:
        head = ["metric", "texts", "accuracy of pairs of systems", "Pearson", "Kendall's tau-b"]
        parts.append(
            f"## Agreement with people\n\n{table([head, *agreement])}\n"
            "Means over sets of translations and summaries that people judged; 0.5, 0 and 0 are chance.\n"
            "[How they were measured, and what to believe](../results/metrics-and-people.md).\n"
        )
    return "\n".join(parts)


def fact_rows(first: str) -> list[list[str]]:
    """What to know before one takes a metric, as rows."""
    cls: Any = metric_class(first)
    info, own = cls.info, facts_of(first)
    direction = "higher" if info.higher_is_better else "lower"
    rows = [
        ["Names", "; ".join(map(_named, names_by_page()[first]))],
        ["Reads", ", ".join(inputs_of(info))],
        ["Value", f"of a {info.unit}, {range_of(*info.bounds)}, {direction} is better"],
        ["Languages", own["languages"]],
        ["Cost of N candidates", own.get("cost") or cost_of(info, room_of(first))],
    ]
    if getattr(cls, "default_model", None):
        rows.append(["Model", f"`{cls.default_model}`, or another by `model`"])
    needs = f'`pip install "discorank[{own["extras"]}]"`' if "extras" in own else "nothing more"
    rows.append(["Needs", needs])
    if "equal" in own:
        rows.append(["Equal to", own["equal"]])
    keys = dict.fromkeys(
        key for name in names_by_page()[first] for key in papers_of(name, {}) or ()
    )
    rows.append(["Papers", "; ".join(map(cited, keys)) or "that of its model"])
    return [*rows, ["Guide", f"[{_title(own['guide'])}](../{own['guide']})"]]


def _named(name: str) -> str:
    """A name, and the settings that it fixes."""
    fixed = BUILT_IN[name].settings
    listed = ", ".join(f"{key}={json.dumps(value)}" for key, value in fixed.items())
    return f"`{name}`, with `{listed}`" if fixed else f"`{name}`"


def _title(page: str) -> str:
    """The heading of a page of the guide."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return next(line[2:] for line in text.splitlines() if line.startswith("# "))


def inputs_of(info: Info) -> list[str]:
    """What a metric reads."""
    inputs = ["hypothesis"]
    inputs += ["reference"] * info.needs_references
    inputs += ["source"] * info.needs_source
    return inputs + ["source (if given)"] * info.takes_source


def cost_of(info: Info, room: str) -> str:
    """What choosing among N candidates takes, as the metric declares it."""
    if room == "integrations":
        return "N² requests to a server" if info.needs_references else "N requests to a server"
    read = "N passes of a model" if info.bucketed else "N readings without a model"
    if not info.needs_references:
        return f"{read}, no pairs"
    if info.linear:
        return f"{read}, and a sum in place of pairs"
    if info.costly_pairs:
        return (
            "about N² passes of a model: a pair is read together"
            if info.bucketed
            else f"{read}, N² searches"
        )
    return f"{read}, N² quick comparisons"


def range_of(low: float, high: float) -> str:
    """The bounds of a value in words."""
    if low > -inf and high < inf:
        return f"{low:g} to {high:g}"
    return f"at least {low:g}" if low > -inf else f"at most {high:g}" if high < inf else "unbounded"


def example_of(first: str) -> str:
    """A call of `discorank.score` and its value, where it is known."""
    own, info = facts_of(first), metric_class(first).info
    columns = ["hypothesis"]
    columns += ["reference"] * info.needs_references + ["source"] * info.needs_source
    lines = ["import discorank\n"]
    for column in columns:
        sentences = re.split(r"(?<=\. )", own[column])
        lines.append(f"{column} = (")
        lines += [f"    {json.dumps(sentence, ensure_ascii=False)}" for sentence in sentences]
        lines.append(")")
    given = [f"{column}s=[{column}]" for column in columns[1:]]
    spec = own.get("example", first)
    metric = f"metrics='{spec}'" if '"' in spec else f'metrics="{spec}"'
    lines.append(f"scores = discorank.score({', '.join(['[hypothesis]', *given, metric])})")
    lines.append("print(round(scores.corpus, 4))")
    code = "\n".join(lines)
    shown = f"```python\n{code}\n```\n"
    return f"{shown}\n```text\n{own['value']}\n```\n" if own["value"] else shown


@cache
def _agreement() -> list[dict[str, str]]:
    with open(AGREEMENT, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def agreement_of(name: str) -> list[list[str]]:
    """Rows of a metric's agreement with people; none where it was not measured."""
    rows = []
    for row in _agreement():
        metric, _, texts = row["setting"].partition("; ")
        kind = re.sub(r" \(\d+\)$", "", texts)
        figures = row["value"].split(" / ")
        if (
            row["study"].endswith("means")
            and metric == name
            and kind in KINDS
            and len(figures) == 3
        ):
            rows.append([f"`{name}`", texts, *figures])
    return rows


def cited(key: str) -> str:
    """Surnames of one or two authors, or of the first of more, and the year, linked where the paper has an address."""
    fields = papers()[key].fields
    surnames = [author.partition(",")[0] for author in fields["author"].split(" and ")]
    authors = " and ".join(surnames) if len(surnames) <= 2 else f"{surnames[0]} et al."
    for latex, letter in ((r"{\'c}", "ć"), (r"{\'a}", "á"), (r"{\"u}", "ü")):
        authors = authors.replace(latex, letter)
    words = f"{authors} {fields['year']}"
    return f"[{words}](https://doi.org/{fields['doi']})" if "doi" in fields else words


def table(rows: list[list[str]]) -> str:
    """Rows as a Markdown table; the first is the head."""
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    escaped = ([re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)
