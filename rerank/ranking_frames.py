"""Rankings as a pandas data frame: `discorank.to_pandas`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..metrics.optional_packages import imported
from .choice import Ranking
from .lists import plain

if TYPE_CHECKING:
    from pandas import DataFrame

CHOICES = ("id", "index", "text", "utility", "gap", "flags")
PLACES = ("id", "place", "index", "count", "utility", "text")


def to_pandas(rankings: Iterable[Ranking] | Ranking, *, places: bool = False) -> DataFrame:
    """Rankings as a data frame, a row per list in the order given.

    Args:
        rankings: of `MBRDecoder.decode` or `Reranker.decode`, or the one of `discorank.decode`.
        places: a row per place of every ranking instead, from 1.

    Returns:
        columns id, index, text, utility, gap, flags and the other keys of the lists; or id, place, index, count,
        utility, text. The text of a document is a list of its sentences.

    Raises:
        ModelLoadError: the package pandas is not installed.
        DiscorankError: what `rankings` raises.
    """
    pandas = imported("pandas", "to_pandas")
    if isinstance(rankings, Ranking):
        rankings = [rankings]
    if places:
        by_place = [row for ranking in rankings for row in _places(ranking)]
        return pandas.DataFrame(by_place, columns=list(PLACES))
    rows = [_choice(ranking) for ranking in rankings]
    extra = dict.fromkeys(key for row in rows for key in row if key not in CHOICES)
    return pandas.DataFrame(rows, columns=[*CHOICES, *extra])


def _choice(ranking: Ranking) -> dict[str, Any]:
    row = {**ranking.to_dict(), "flags": list(ranking.flags)}
    del row["ranking"]
    return row


def _places(ranking: Ranking) -> Iterator[tuple[Any, ...]]:
    for number, place in enumerate(ranking.ranking, start=1):
        yield ranking.id, number, place.index, place.count, place.utility, plain(place.text)
