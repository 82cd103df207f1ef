"""The dimensions of human scores that documents have, each with its direction."""

from __future__ import annotations

from collections.abc import Sequence

from ...metrics.errors import InputError
from ...rerank.selection.document_outputs import DocumentOutputs
from .human_scores import HumanKey


def human_dimensions(
    documents: Sequence[DocumentOutputs], keys: Sequence[HumanKey]
) -> list[tuple[str, bool]]:
    """All dimensions of human scores in order of appearance, with whether lower is better."""
    lower_by_key = {key.name: key.lower for key in keys}
    names = dict.fromkeys(name for document in documents for name in document.human)
    # keys that are no dimension hold several dimensions, or no score
    rest = {key.name: key.lower for key in keys if key.name not in names}
    unnamed = [name for name in names if name not in lower_by_key]
    if rest and not unnamed:
        raise InputError(
            "no system has a score", where=f"human.{next(iter(rest))}", fix="Leave the key out"
        )
    if len(set(rest.values())) > 1:
        raise InputError(
            f"do all of {', '.join(unnamed)} have one direction?",
            where="--human",
            fix="Name the dimensions, each with its direction",
        )
    lower_of_unnamed = True in rest.values()
    return [(name, lower_by_key.get(name, lower_of_unnamed)) for name in names]
