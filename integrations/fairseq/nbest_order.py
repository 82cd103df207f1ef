"""Puts n-best lists into the order of a decider: by expected utility, or by a weighted sum of features.

Needs neither fairseq nor tensors: lists go in, indices come out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...metrics.errors import InputError
from ...metrics.registry import load_metric
from ...metrics.storage.json_and_yaml import read_yaml
from ...rerank.choice import Ranking
from ...rerank.engines.interface import Engine
from ...rerank.engines.local import LocalEngine
from ...rerank.lists import CandidateList
from ...rerank.mbr_decoder import MBRDecoder
from ...rerank.reranker import Reranker


def read_decider(
    utility: str | None, config: str | None, allow_code: Sequence[str] = ()
) -> MBRDecoder | Reranker:
    """The decider that two options name: a utility, or a YAML file with the settings of a decoder or reranker.

    `allow_code` is that of `load_metric`.

    Raises:
        InputError: not exactly one of them is given, or it cannot be read.
    """
    if (utility is None) == (config is None):
        raise InputError("give one of them", where="--discorank-utility, --discorank-config")
    settings: dict[str, Any] = {"utility": utility}
    if config is not None:
        settings = read_yaml(Path(config))
    if "utility" in settings:
        settings["utility"] = load_metric(settings["utility"], allow_code=allow_code)
    if "features" in settings:
        return Reranker(**settings)
    return MBRDecoder(**settings)


class Chooser:
    """Orders candidates.

    Args:
        decider: the decoder or reranker whose order is taken.
        keep: how many distinct texts are kept of each list; all candidates if not given, copies too.
        engine: computes the utilities; one in this process if not given.

    Raises:
        InputError: the decider needs the context of documents, or `keep` is below 1.
    """

    def __init__(
        self,
        decider: MBRDecoder | Reranker,
        keep: int | None = None,
        engine: Engine | None = None,
    ) -> None:
        if decider.width:
            raise InputError(
                "a metric with context, but fairseq sorts sentences by length",
                where="utility",
                fix="Decode the log: discorank decode LOG --from fairseq --documents FILE",
            )
        if keep is not None and keep < 1:
            raise InputError(f"found {keep}, expected at least 1", where="keep")
        self._decider = replace(decider, nbest=None)
        self._engine = engine or LocalEngine()
        self._keep = keep

    def order(self, lists: Sequence[CandidateList]) -> Iterator[list[int]]:
        """Of every list, the indices of its candidates, best first; of equal texts the first in the list comes first.

        Raises:
            DiscorankError: a list that cannot be decided.
        """
        for ranking in self._decider.decode(lists, self._engine):
            if self._keep is not None:
                yield [place.index for place in ranking.ranking[: self._keep]]
            else:
                yield _all_indices(ranking)


def _all_indices(ranking: Ranking) -> list[int]:
    """Every candidate in the order of its text; texts that a shortlist left out come last, in the order given."""
    rank_of_text = {place.text: rank for rank, place in enumerate(ranking.ranking)}
    last = len(rank_of_text)
    ranks = [rank_of_text.get(candidate.text, last) for candidate in ranking.candidates]
    # the sort is stable, so that copies keep their order
    return sorted(range(len(ranks)), key=ranks.__getitem__)
