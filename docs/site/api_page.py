"""The page of the site on what can be imported: signatures and docstrings of the public names, as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from inspect import Parameter, Signature, cleandoc
from typing import Any, ForwardRef

import discorank
from discorank import functions

GROUPS = {
    "A function for each command": (
        "decode",
        "rerank",
        "explain",
        "Explanation",
        "score",
        "MetricScores",
        "compare",
        "generate",
        "read",
        "metrics",
    ),
    "Choosing": (
        "MBRDecoder",
        "Pool",
        "Estimator",
        "Choice",
        "Order",
        "Reranker",
        "Budget",
        "StoppingRule",
        "LocalEngine",
    ),
    "Lists and rankings": (
        "Candidate",
        "CandidateList",
        "Ranking",
        "to_pandas",
        "to_dataset",
    ),
    "Metrics": ("load_metric", "Metric", "Scorer", "Info", "Reading", "settings", "Cache"),
    "Texts": ("Document", "Context", "Item", "RSTTree", "read_trees"),
    "Contrastive test sets": ("contrastive_accuracy",),
    "Rewards and scores over HTTP": ("reward", "group_reward", "Scores"),
    "Bounds and errors": (
        "use_limits",
        "DiscorankError",
        "InputError",
        "MetricError",
        "ModelLoadError",
        "ResumeError",
        "TruncationWarning",
    ),
}
HEAD = """# Python reference

Everything that `import discorank` gives, from its docstrings. The [quick start](quick-start.md) shows it in use.
Settings of metrics are on the [page of each](metrics.md), and `discorank metrics NAME` prints them.
"""
STARS: dict[object, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
SECTION = re.compile(r"^(Args|Raises|Returns|Yields)( \([^)]*\))?:$")
ENTRY = re.compile(r"^ {4}(\*{0,2}\w[\w, ]*): (.+)$")


def api_page() -> str:
    """The whole page.

    Raises:
        ValueError: a public name is in no group, or a group names what is not public.
    """
    named = sorted(name for names in GROUPS.values() for name in names)
    if named != sorted(dir(discorank)):
        raise ValueError(f"GROUPS and __init__.pyi differ: {set(named) ^ set(dir(discorank))}")
    parts = [HEAD]
    for group, names in GROUPS.items():
        parts.append(f"## {group}\n")
        # a function that has the name of a package stands in `functions`
        parts += [
            _public(name, getattr(functions, name, None) or getattr(discorank, name))
            for name in names
        ]
    return "\n".join(parts)


def _public(name: str, value: Any) -> str:
    """One public name."""
    lines = [f"### {name}\n", _signature(f"discorank.{name}", value), documentation(value)]
    if inspect.isclass(value):
        lines += [_member(name, *member) for member in _members(value)]
    return "\n".join(lines)


def _members(owner: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that a class of ours declares, in the order of declaration."""
    seen = set()
    for base in owner.__mro__:
        if not base.__module__.startswith("discorank"):
            continue
        for name, value in vars(base).items():
            is_member = inspect.isroutine(value) or isinstance(value, property | cached_property)
            is_field = name in getattr(owner, "_fields", ())
            if is_member and not is_field and not name.startswith("_") and name not in seen:
                seen.add(name)
                if _docstring(value):
                    yield name, value


def _member(owner: str, name: str, value: Any) -> str:
    """A method under a heading of its own; a property in one paragraph."""
    if isinstance(value, property | cached_property):
        return f"`{owner}.{name}`: {documentation(value)}"
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    text = documentation(value)
    return (
        f"#### {owner}.{name}\n\n{_signature(name, function, is_method=function is value)}\n{text}"
    )


def _signature(name: str, value: Any, is_method: bool = False) -> str:
    """A call in a block of code, on one line where it fits; nothing where Python knows no signature."""
    if isinstance(value, type) and issubclass(value, Exception):
        return ""
    signature: Signature = inspect.signature(value)
    parameters = list(signature.parameters.values())[is_method:]
    words, kind = [], None
    for parameter in parameters:
        if parameter.kind is Parameter.KEYWORD_ONLY and kind not in (
            Parameter.KEYWORD_ONLY,
            Parameter.VAR_POSITIONAL,
        ):
            words.append("*")
        if kind is Parameter.POSITIONAL_ONLY and parameter.kind is not kind:
            words.append("/")
        kind = parameter.kind
        words.append(_parameter(parameter))
    returned = ""
    if not isinstance(value, type) and signature.return_annotation is not Signature.empty:
        returned = f" -> {_written(signature.return_annotation)}"
    line = f"{name}({', '.join(words)}){returned}"
    if len(line) > 88:
        line = "".join([f"{name}(\n", *(f"    {word},\n" for word in words), f"){returned}"])
    return f"```python\n{line}\n```\n"


def _parameter(parameter: Parameter) -> str:
    """A parameter with its type and default."""
    text = f"{STARS.get(parameter.kind, '')}{parameter.name}"
    if parameter.annotation is not Parameter.empty:
        text += f": {_written(parameter.annotation)}"
    if parameter.default is Parameter.empty:
        return text
    default = parameter.default
    shown = getattr(default, "__name__", None) if callable(default) else repr(default)
    # what a dataclass makes anew for every instance has no value to show
    return f"{text} = {'...' if shown is None or shown.startswith('<') else shown}"


def _written(annotation: Any) -> str:
    """A type as its source has it."""
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _docstring(value: Any) -> str:
    """The docstring of its own; those that dataclasses and named tuples write are none."""
    text = getattr(value, "__doc__", None) or ""
    name = getattr(value, "__name__", "")
    return "" if text.startswith(f"{name}(") else cleandoc(text)


def documentation(value: Any) -> str:
    """A docstring as Markdown: sections as tables, examples as code."""
    lines = _docstring(value).splitlines()
    written: list[str] = []
    at = 0
    while at < len(lines):
        section = SECTION.match(lines[at])
        if section:
            end = _end_of_indented(lines, at + 1)
            written += _table(section[0].rstrip(":"), lines[at + 1 : end])
            at = end
        elif lines[at].lstrip().startswith(">>> "):
            end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
            written += ["", "```pycon", *(cleandoc("\n".join(lines[at:end])).splitlines()), "```"]
            at = end
        else:
            written.append(lines[at])
            at += 1
    return "\n".join(written) + "\n"


def _end_of_indented(lines: list[str], start: int) -> int:
    """The first line from `start` on that stands at the margin again."""
    indented = (i for i in range(start, len(lines)) if lines[i] and not lines[i].startswith(" "))
    return next(indented, len(lines))


def _table(title: str, lines: list[str]) -> list[str]:
    """The entries of a section as rows; text without entries as it is."""
    rows: list[list[str]] = []
    for line in lines:
        entry = ENTRY.match(line)
        if entry:
            rows.append([entry[1], entry[2]])
        elif rows and line.strip():
            rows[-1][1] += f" {line.strip()}"
    if not rows:
        return ["", f"**{title}**: {' '.join(' '.join(lines).split())}", ""]
    head = ["", f"| {title} | |", "|---|---|"]
    return [
        *head,
        *(f"| `{name}` | {text.replace('|', chr(92) + '|')} |" for name, text in rows),
        "",
    ]
