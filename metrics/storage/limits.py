"""How much is read at most: every bound by name, with its default. What is larger is refused before it costs anything.

A bound is raised, or lowered, with ``--max NAME=VALUE`` on the command line, ``max: [NAME=VALUE]`` in a config
file, and ``with discorank.use_limits(NAME=VALUE)`` in Python. No bound changes what comes out for what is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import InputError, excerpt, unknown

MiB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The bounds on what is read.

    Args:
        candidates: candidates, pseudo-references or references of one list.
        systems: systems of a document, a prior or a comparison.
        sentences: sentences of one text, lists of one document that is chosen whole.
        segments: segments of a test set that is read whole.
        metrics: metrics of a sum, features of a combination, or of a reranker.
        line_bytes: bytes of one line of text, and of one list that takes several lines.
        batch_bytes: bytes of the rows of a Parquet or Arrow file that are in memory at once, unpacked.
        json_values: values in one line of JSON, and in one JSON file.
        json_bytes: bytes of a JSON file: a combination, a prior, a run file, a model's settings, an index of
            weights; of a text that `vote` reads as JSON.
        yaml_bytes: bytes of a YAML file.
        text_bytes: bytes of a text that is read whole: trees, stop words, sentences to count tokens in, baselines.
        array_bytes: bytes of all arrays of one .npz file, unpacked.
        tokenizer_bytes: bytes of one file of a tokenizer, such as a vocabulary, and of the header of a GGUF file.
        pickle_bytes: bytes of the structure of a torch checkpoint, its weights left out.
        matrix_bytes: bytes of the saved utilities of one list; 10,000 distinct texts have 1 GiB.
        comparison_bytes: bytes of what a saved comparison says of whole systems.
        documents_bytes: bytes of the documents of a saved comparison.
        reply_bytes: bytes of one reply of a server.
        request_bytes: bytes of one request to `discorank serve`.
        open_bytes: bytes of memory that all requests to it may take together: four for each of theirs and of the
            replies they get, eight where texts are not ASCII, and 256 for each value of their JSON.
        members: members of one archive, entries in the header of a GGUF file.
        tensors: tensors in one file of weights.
        layers: layers of a model.
        heads: attention heads of a layer.
        experts: experts of a layer.
        width: numbers in a hidden state of a model.
        vocabulary: tokens that a model knows, items in the arrays of a GGUF file.
        positions: the longest sequence that a model has positions for.
        labels: labels of a classifier.

    Raises:
        InputError: one is no whole number from 1.
    """

    candidates: int = 32_768
    systems: int = 1_024
    sentences: int = 100_000
    segments: int = 1_000_000
    metrics: int = 1_024
    line_bytes: int = 32 * MiB
    batch_bytes: int = 256 * MiB
    json_values: int = 1_000_000
    json_bytes: int = 16 * MiB
    yaml_bytes: int = 64 << 10
    text_bytes: int = 64 * MiB
    array_bytes: int = 256 * MiB
    tokenizer_bytes: int = 128 * MiB
    pickle_bytes: int = 64 * MiB
    matrix_bytes: int = 1024 * MiB
    comparison_bytes: int = 256 * MiB
    documents_bytes: int = 2048 * MiB
    reply_bytes: int = 64 * MiB
    request_bytes: int = 16 * MiB
    open_bytes: int = 256 * MiB
    members: int = 100_000
    tensors: int = 100_000
    layers: int = 1_024
    heads: int = 4_096
    experts: int = 4_096
    width: int = 1 << 18
    vocabulary: int = 1 << 22
    positions: int = 1 << 24
    labels: int = 1 << 16

    def __post_init__(self) -> None:
        for name, bound in asdict(self).items():
            if type(bound) is not int or bound < 1:
                raise InputError(
                    f"{name} = {excerpt(bound)}, expected a whole number from 1",
                    where="limits",
                    fix=f"Give {name}={getattr(Limits, name)}, which it is by itself, or more",
                )

    def check(self, name: str, count: int, where: str = "") -> None:
        """Raises InputError if there is more of something than its bound."""
        bound = getattr(self, name)
        if count > bound:
            raise InputError(
                f"{count} {name}, at most {bound} are read", where=where, fix=more(name)
            )


NAMES = tuple(field.name for field in fields(Limits))
# Of this process: workers of Ray are handed those of the driver.
_in_force = Limits()


def limits() -> Limits:
    """The bounds in force."""
    return _in_force


def set_limits(bounds: Limits) -> None:
    """Puts bounds in force in this process."""
    global _in_force
    _in_force = bounds


@contextmanager
def use_limits(**bounds: int) -> Iterator[Limits]:
    """Other bounds on what is read inside a ``with``: those named here, the others as they are.

    Raises:
        InputError: there is no such bound, or it is no whole number from 1.
    """
    for name in bounds:
        if name not in NAMES:
            raise unknown("limit", name, NAMES, where="limits")
    before = _in_force
    chosen = Limits(**{**asdict(before), **bounds})
    set_limits(chosen)
    try:
        yield chosen
    finally:
        set_limits(before)


def limits_of(assignments: Iterable[str]) -> Limits:
    """The bounds that ``NAME=VALUE`` assignments make, the others at their defaults; the last of a name counts.

    >>> limits_of(["candidates=100000", "line-bytes=1000"]).line_bytes
    1000

    Raises:
        InputError: there is no such bound, or it is no whole number from 1.
    """
    bounds: dict[str, Any] = {}
    for assignment in assignments:
        name, _, text = assignment.partition("=")
        name = name.strip().replace("-", "_")
        if name not in NAMES:
            raise unknown("limit", name, NAMES, where="--max")
        text = text.strip()
        is_number = text.isascii() and text.isdecimal() and len(text) < 19
        if not is_number or int(text) < 1:
            raise InputError(
                f"found {assignment!r:.60}, expected a whole number from 1 to 10^18",
                where="--max",
                fix=f"Write {name}={getattr(Limits(), name)}",
            )
        bounds[name] = int(text)
    return Limits(**bounds)


def more(name: str) -> str:
    """The advice where a bound is passed.

    >>> more("candidates")
    'Is this the right file? If so: --max candidates=NUMBER'
    """
    return f"Is this the right file? If so: --max {name}=NUMBER"
