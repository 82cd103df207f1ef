"""Candidate lists as Python gives them: texts alone, or the JSON form without an id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..metrics.errors import InputError, excerpt
from ..metrics.text.texts import Document
from .lists import CandidateList, read_list


def list_of(data: Any, number: int) -> CandidateList:
    """A candidate list of any form; one without an id has its number.

    Args:
        data: a `CandidateList`, its JSON form, or the candidates alone (texts, `Candidate` objects or their JSON form).
        number: which list it is, from 0.

    Raises:
        InputError: as `read_list`, and for a text in the place of a list of them.
    """
    if isinstance(data, CandidateList):
        return data
    if isinstance(data, Mapping):
        return read_list(data if "id" in data else {"id": str(number), **data})
    return read_list({"id": str(number), "candidates": candidates_of(data)})


def candidates_of(texts: Any) -> list[Any]:
    """The candidates of a list given as them alone.

    Raises:
        InputError: they are no sequence, or one is a list of strings: in Python a document is a `Document`.
    """
    if isinstance(texts, str | Document) or not isinstance(texts, Sequence):
        fix = "Give a list of texts"
        raise InputError(f"found {excerpt(texts)}", where="candidates", fix=fix)
    refuse_plain_documents(texts, "candidates")
    return list(texts)


def refuse_plain_documents(texts: Any, name: str) -> None:
    """Raises InputError for a list of strings in the place of a text: in Python a document is a `Document`."""
    if not isinstance(texts, list | tuple):
        return
    for i, text in enumerate(texts):
        if isinstance(text, list | tuple):
            fix = "A document is written discorank.Document([...])"
            raise InputError(f"found {excerpt(text)}", where=f"{name}[{i}]", fix=fix)
