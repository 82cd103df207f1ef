"""The card of an export: what the rows are, where they come from, how many there are, and what to be wary of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .exported_rows import Export, Figures

_FORMS = {
    "pairs": "preference pairs: `prompt`, `chosen`, `rejected`",
    "sft": "prompts with the chosen text: `prompt`, `completion`",
    "kto": "texts with a label: `prompt`, `completion`, `label`",
    "ranking": "rankings: `prompt`, `completions` from the best to the worst, and their `utilities`",
}
CAUTION = (
    "These rows say what a metric prefers, not what people prefer. A metric that was optimised is biased: after "
    "training on its choices it will report a gain of which a part is its own taste (longer texts, certain words). "
    "Judge what was trained by metrics that played no part in the choice, and by people."
)


def card(export: Export, run: Mapping[str, Any], name: str) -> str:
    """The card as Markdown.

    Args:
        export: the export, after its last row.
        run: what the card tells of the run, by name.
        name: of the file of rows.
    """
    lines = [
        f"# {name}",
        "",
        f"JSON lines with {_FORMS[export.kind]}; beside them the `id` of the list, the signature `utility` of what "
        "decided, values and gaps.",
        "",
        "```python",
        f'datasets.load_dataset("json", data_files="{name}", split="train")',
        "```",
        "",
        CAUTION,
        "",
        "| from | |",
        "|---|---|",
        *(f"| {key} | {_cell(value)} |" for key, value in run.items()),
        *(f"| {key} | {_cell(value)} |" for key, value in export.as_settings().items()),
        "",
        "| counted | |",
        "|---|---|",
        *(f"| {key} | {count} |" for key, count in export.figures.counts.items()),
        *(f"| {key} | {mean:.4g} |" for key, mean in means(export.figures).items()),
    ]
    return "\n".join(lines) + "\n"


def means(figures: Figures) -> dict[str, float]:
    """The mean of everything that was added up over pairs."""
    num_pairs = figures.counts.get("pairs", 0)
    return {f"mean {name}": total / num_pairs for name, total in figures.sums.items()}


def _cell(value: Any) -> str:
    """A value in a cell of a table."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "\\n")
    return f"`{escaped}`"
