"""One list decoded in one call: `discorank.decode`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from ..metrics.registry import MetricLike
from .choice import Ranking
from .lists import CandidateList
from .mbr_decoder import MBRDecoder
from .plain_lists import candidates_of, refuse_plain_documents

# keys of a list, not of the decoder
OF_LIST = ("source", "pseudo_references", "references", "document")


@overload
def decode(candidates: Sequence[str], utility: MetricLike, **settings: Any) -> Ranking[str]: ...


@overload
def decode(
    candidates: Sequence[Any] | CandidateList | Mapping[str, Any],
    utility: MetricLike,
    **settings: Any,
) -> Ranking: ...


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
    for name, value in list_keys.items():
        refuse_plain_documents([value] if name == "source" else value, name)
    record = {"id": "list", "candidates": candidates_of(candidates), **list_keys}
    return next(decoder.decode([record]))
