"""One list decoded in one call: `discorank.decode`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..metrics.errors import InputError, excerpt
from ..metrics.registry import MetricLike
from ..metrics.text.texts import Document
from .choice import Ranking
from .lists import CandidateList
from .mbr_decoder import MBRDecoder

OF_LIST = (
    "source",
    "pseudo_references",
    "references",
    "document",
)  # keys of a list, not of the decoder


def decode(
    candidates: Sequence[Any] | CandidateList | Mapping[str, Any],
    utility: MetricLike,
    **settings: Any,
) -> Ranking:
    """The decision for one list, with all its places.

    Args:
        candidates: texts, `Candidate` objects or their JSON form; or a whole list as `CandidateList` or mapping.
        utility: as for `MBRDecoder`.
        settings: of `MBRDecoder`, or of the list (``source=...``, ``pseudo_references=[...]``).

    Raises:
        InputError: settings or candidates that cannot be used.
    """
    list_keys = {key: settings.pop(key) for key in OF_LIST if key in settings}
    decoder = MBRDecoder(**{"utility": utility, "nbest": None, **settings})
    if isinstance(candidates, CandidateList | Mapping):
        return next(decoder.decode([candidates]))
    if isinstance(candidates, str | Document) or not isinstance(candidates, Sequence):
        fix = "Give a list of texts"
        raise InputError(f"found {excerpt(candidates)}", where="candidates", fix=fix)
    _refuse_plain_lists(candidates, "candidates")
    for name, value in list_keys.items():
        _refuse_plain_lists([value] if name == "source" else value, name)
    record = {"id": "list", "candidates": list(candidates), **list_keys}
    return next(decoder.decode([record]))


def _refuse_plain_lists(texts: Any, name: str) -> None:
    """Raises InputError for a list of strings in the place of a text: in Python a document is a `Document`."""
    if not isinstance(texts, list | tuple):
        return
    for i, text in enumerate(texts):
        if isinstance(text, list | tuple):
            fix = "A document is written discorank.Document([...])"
            raise InputError(f"found {excerpt(text)}", where=f"{name}[{i}]", fix=fix)
