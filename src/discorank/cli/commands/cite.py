"""``discorank cite METRIC ...``: the papers of metrics as BibTeX, and a sentence for the methods section.

It reads signatures and imports no code that they name: what is not built in has no papers here. Papers are entries of
papers.bib; a metric names their keys in `Info.papers`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from ...metrics.combination import Combination
from ...metrics.errors import DiscorankError, InputError
from ...metrics.quoted_signature import quoted
from ...metrics.registry import Spec, papers_of
from ...metrics.spec.checked_settings import settings
from ...metrics.spec.signature import Call, parse, portable
from ...rerank.runs.run_file import read_run_file
from ...tables import escaped
from ..options import command
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
        tests: whether the tests between systems of compare are cited too.
    """

    metrics: tuple[str, ...] = ()
    tests: bool = False


@command(
    "Write BibTeX of metrics and a sentence to paste, as LaTeX.",
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
    signatures = [signature for name in options.metrics for signature in signatures_in(name)]
    if not signatures:
        fix = "Give metrics by name or signature, or a .run.json"
        raise InputError("no metrics", where="METRICS", fix=fix)
    cited: dict[str, tuple[str, ...]] = {}
    for signature in signatures:
        for call in _calls(signature):
            known = papers_of(call.name, call.settings)
            if known is None:
                say(f"{call.name}: not one of discorank's metrics; look up its paper")
            elif not known:
                say(f"{call.name}: has no paper of its own; look up that of its model")
            before = cited.get(call.name, ())
            cited[call.name] = tuple(dict.fromkeys((*before, *(known or ()))))
    tests = OF_TESTS if options.tests else ()
    all_papers = [paper for papers in cited.values() for paper in papers]
    sentence = _sentence(signatures, cited, tests)
    if any(map(is_diverse, options.metrics)):
        all_papers += OF_DIVERSE
        sentence += f" Lists of several texts were chosen to be diverse{_citation(OF_DIVERSE)}."
    sys.stdout.write(f"{sentence}\n\n{_quotable(signatures)}\n{bibtex(all_papers)}")
    if tests:
        sys.stdout.write("\n" + bibtex(tests))


def _quotable(signatures: Sequence[str]) -> str:
    """The signatures in the style of sacrebleu, long and short, as lines of comments."""
    from ... import __version__

    forms = (False, True)  # long, short
    lines = [quoted(own, __version__, short=short) for own in signatures for short in forms]
    return "".join(f"% {line}\n" for line in dict.fromkeys(lines))


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


def _sentence(
    signatures: Sequence[str], cited: Mapping[str, Sequence[str]], tests: Sequence[str]
) -> str:
    """The sentence for the methods section, in LaTeX."""
    from ... import __version__

    metrics = [f"{escaped(name)}{_citation(papers)}" for name, papers in cited.items()]
    exact = [escaped(portable(signature)) for signature in dict.fromkeys(signatures)]
    typeset = "; ".join(rf"\texttt{{{signature}}}" for signature in exact)
    rest = ""
    if tests:
        rest = (
            f" Systems were compared by paired approximate randomisation{_citation(tests[:1])} and bootstrap resampling"
            f"{_citation(tests[1:])} over documents."
        )
    return (
        f"We computed {_listed(metrics)} with discorank {__version__} "
        f"(signatures: {typeset}).{rest}"
    )


def _citation(papers: Sequence[str]) -> str:
    return rf" \citep{{{','.join(papers)}}}" if papers else ""


def _listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) <= 1:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


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
