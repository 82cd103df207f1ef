"""Sets of system outputs that people judged: systems files of translations with MQM, and of summaries.

``mt_mqm_<set>.<pair>.jsonl.gz`` (a list of segments per system, MQM, lower is better) and ``summ_<set>.jsonl.gz``
(whole texts, several dimensions, higher is better), read as `discorank compare` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from discorank.integrations.formats.document_outputs import read_documents
from discorank.integrations.formats.human_scores import HumanKey
from discorank.integrations.formats.readers.systems import SystemsOptions
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.selection.system_scores import DocumentOutputs, with_references

MT, SUMMARIES = "mt_mqm_", "summ_"
REFERENCES = {"ted.zh-en": ("refB",)}  # its refA was judged worse than every system
INTO_ENGLISH, FROM_ENGLISH, SUMMARIES_OF = "into English", "out of English", "summaries"


class JudgedSet(NamedTuple):
    """One file.

    Args:
        name: without prefix and ending, ``ted.zh-en``.
        language: of the systems' texts.
        whole: whether texts are whole, without segments.
        lower: whether lower human scores are better.
        documents: all, or the first.
        key: of the bytes read, the references taken and the documents kept.
    """

    name: str
    language: str
    whole: bool
    lower: bool
    documents: list[DocumentOutputs]
    key: str

    @property
    def group(self) -> str:
        """The part of the table where it stands."""
        if self.whole:
            return SUMMARIES_OF
        return INTO_ENGLISH if self.language == "en" else FROM_ENGLISH

    @property
    def dimensions(self) -> list[str]:
        """What people judged, by name."""
        return list(dict.fromkeys(name for document in self.documents for name in document.human))

    @property
    def references(self) -> list[str]:
        """The names of the references."""
        return list(self.documents[0].references)

    def judged_segments(self) -> int:
        """How many segments (or whole texts) have a score of a system."""
        return sum(_judged(document) for document in self.documents)


def _judged(document: DocumentOutputs) -> int:
    scores_of_systems = [
        scores[name]
        for scores in document.human.values()
        for name in document.systems
        if name in scores
    ]
    rows = [
        score if isinstance(score, tuple) else (score,) * document.segments
        for score in scores_of_systems
    ]
    return sum(any(score is not None for score in column) for column in zip(*rows, strict=True))


def paths(folder: Path, names: Sequence[str] = ()) -> Iterator[Path]:
    """The files of a folder in the order of the table, only those of some names if there are any."""
    path_of = {
        _name(path): path
        for path in [*folder.glob(f"{MT}*.jsonl.gz"), *folder.glob(f"{SUMMARIES}*.jsonl.gz")]
    }
    if missing := [name for name in names if name not in path_of]:
        raise SystemExit(
            f"no set {missing[0]!r} in {folder}, expected some of {', '.join(sorted(path_of))}"
        )
    order = ("ted", "newstest", "wmt", "bio")  # others come last
    places = {
        name: next((i for i, start in enumerate(order) if name.startswith(start)), len(order))
        for name in path_of
    }
    yield from (
        path_of[name] for name in sorted(names or path_of, key=lambda name: (places[name], name))
    )


def _name(path: Path) -> str:
    return path.name.removesuffix(".jsonl.gz").removeprefix(MT).removeprefix(SUMMARIES)


def read_set(path: Path, most: int | None = None) -> JudgedSet:
    """The set of a file; only the first documents that have `most` segments together, if it is larger."""
    name, is_mt = _name(path), path.name.startswith(MT)
    human = HumanKey("mqm", True) if is_mt else HumanKey("human")
    documents = list(read_documents(LineSource(path), SystemsOptions((human,))))
    if most is not None:
        before = accumulate((document.segments for document in documents), initial=0)
        documents = [document for document, n in zip(documents, before, strict=False) if n < most]
    names = REFERENCES.get(name, ())
    documents = with_references(documents, names) if names else documents
    key = sha256(path.read_bytes() + repr((names, len(documents))).encode()).hexdigest()[:16]
    return JudgedSet(
        name, name.rpartition("-")[2] if is_mt else "en", not is_mt, is_mt, documents, key
    )
