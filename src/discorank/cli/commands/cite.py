"""``discorank cite METRIC ...``: the papers of metrics as BibTeX, with the signatures to quote.

It reads signatures and imports no code that they name: what is not built in has no papers here. Papers are entries of
papers.bib; a metric names their keys in `Info.papers`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from ...metrics.combination import Combination
from ...metrics.errors import DiscorankError, InputError
from ...metrics.quoted_signature import quoted
from ...metrics.registry import Spec, papers_of
from ...metrics.spec.checked_settings import settings
from ...metrics.spec.signature import Call, parse
from ...rerank.runs.run_file import read_run_file
from ..options import command, needed
from ..terminal.console import say

OF_DIVERSE = ("jinnai2024diverse",)  # of diverse k-best lists
_RUN_FILE = "Give the .run.json of a run"
OF_TESTS = ("riezler2005pitfalls", "koehn2004statistical")  # of the tests of ``compare``


class Paper(NamedTuple):
    """One entry, as it stands in the file; authors are joined by " and "."""

    key: str
    entry: str
    fields: Mapping[str, str]


@cache
def papers() -> Mapping[str, Paper]:
    """All papers by their keys."""
    text = files("discorank.metrics").joinpath("papers.bib").read_text(encoding="utf-8")
    entries = {}
    for entry in re.split(r"\n(?=@)", text):
        key = entry[entry.index("{") + 1 : entry.index(",")]
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", entry, re.MULTILINE))
        entries[key] = Paper(key, entry, fields)
    return entries


def bibtex(keys: Iterable[str]) -> str:
    """The entries of these keys, each once."""
    return "\n".join(papers()[key].entry for key in dict.fromkeys(keys))


@settings
class CiteOptions:
    """What is cited.

    Args:
        metrics: metrics by name or signature, or the .run.json files of runs.
        tests: also cite the significance tests of compare.
    """

    metrics: tuple[str, ...] = ()
    tests: bool = False


@command(
    "Write BibTeX of metrics, after comments with their signatures and the keys of their papers.",
    positional={"metrics": "*"},
    first=["metrics", "tests"],
    examples=[
        "cite chrf",
        "cite doc-comet bleu --tests",
        "cite chosen.jsonl.run.json",
    ],
)
def cite(options: CiteOptions) -> None:
    """Cites."""
    from ... import __version__

    names = needed(options.metrics, "metrics", "METRICS")
    signatures = dict.fromkeys(signature for name in names for signature in signatures_in(name))
    cited: dict[str, dict[str, None]] = {}
    for call in (call for signature in signatures for call in _calls(signature)):
        keys = papers_of(call.name, call.settings)
        if not keys:
            say(f"{call.name}: no paper is known; look up that of its model or its author")
        cited.setdefault(call.name, {}).update(dict.fromkeys(keys or ()))
    if options.tests:
        cited["significance tests"] = dict.fromkeys(OF_TESTS)
    if any(map(is_diverse, names)):
        cited["diverse lists"] = dict.fromkeys(OF_DIVERSE)
    quotes = [
        quoted(one, __version__, short=short) for one in signatures for short in (False, True)
    ]
    quotes += [f"{name}: {', '.join(keys)}" for name, keys in cited.items() if keys]
    comments = "".join(f"% {line}\n" for line in dict.fromkeys(quotes))
    entries = bibtex(key for keys in cited.values() for key in keys)
    sys.stdout.write(f"{comments}\n{entries}")


def _calls(signature: str) -> Iterator[Call]:
    """The terms of a signature, a combination followed by the metrics it is made of."""
    for call in (call for term in parse(signature) for call in term.every):
        if call.inner and not papers_of(call.name, call.settings):
            continue
        yield call
        if call.name != Combination.name:
            continue
        try:
            signatures = Combination.signatures(call.settings)
        except DiscorankError as error:
            say(f"combination: its metrics are not cited ({error}); name them too")
            continue
        for part in signatures:
            yield from parse(part)


def signatures_in(name: str) -> list[str]:
    """The name itself as a signature, or the signatures in the file of a run.

    Raises:
        InputError: it is a JSON file, but not that of a run, or is damaged.
    """
    if os.path.exists(f"{name}.run.json"):
        raise InputError("is the output of a run", where=name, fix=f"Give {name}.run.json")
    if not name.endswith(".json"):
        spec = Spec.parse(name)
        spec.check_names()
        return [spec.text]
    return signatures_of(read_run_file(name, _RUN_FILE), name)


def is_diverse(name: str) -> bool:
    """Whether this is the file of a run that chose diverse lists."""
    if not name.endswith(".json"):
        return False
    saved = read_run_file(name, _RUN_FILE).get("settings")
    return isinstance(saved, Mapping) and "diverse" in saved


def signatures_of(values: Mapping[str, Any], name: str) -> list[str]:
    """The signatures in the values of a run file.

    Raises:
        InputError: there are none.
    """
    entry = values.get("signature")
    signatures = [entry] if isinstance(entry, str) else entry
    if not isinstance(signatures, list) or not all(
        isinstance(signature, str) for signature in signatures
    ):
        raise InputError("no signature in it", where=name, fix=_RUN_FILE)
    return signatures
