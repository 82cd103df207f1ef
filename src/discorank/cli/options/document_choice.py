"""What is chosen: a text from every list, or one system (one sample) for all lists of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import settings
from ...rerank.decider import Decider
from ...rerank.whole_documents import Choice, WholeDocuments

# what is of single lists
_OF_LISTS = {
    "utilities": "they are of single lists",
    "save_utilities": "they would be of documents, and are read back list by list",
    "budget_audit": "single lists are audited",
}


@settings
class DocumentChoiceOptions:
    """What is chosen.

    Args:
        choice: segment: from every list its best text; document: for all lists of a document the sentences of one
            system, or of one sample.
    """

    choice: Choice = "segment"


def check_choice(values: Mapping[str, Any]) -> None:
    """Raises InputError for options that whole documents cannot be chosen with."""
    if values["choice"] == "segment":
        return
    for name, reason in _OF_LISTS.items():
        if values.get(name):
            where = f"--{name.replace('_', '-')}"
            problem = f"stands beside --choice document: {reason}"
            raise InputError(problem, where=where, fix="Leave one of them out")


def of_choice(values: Mapping[str, Any], decider: Decider) -> Decider:
    """What decides the input, as the options say what is chosen."""
    return WholeDocuments(decider) if values["choice"] == "document" else decider
