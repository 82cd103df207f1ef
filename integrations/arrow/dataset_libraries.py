"""Choices as a dataset of Hugging Face."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...metrics.optional_packages import require
from ...rerank.choice import Ranking
from ...rerank.runs.run import json_row
from ...rerank.runs.table_files import table_of

if TYPE_CHECKING:
    from datasets import Dataset


def to_dataset(rankings: Iterable[Ranking]) -> Dataset:
    """Rankings as a dataset in memory: id, index, text, utility, gap, ranking, and the other keys of the lists.

    Raises:
        ModelLoadError: the packages datasets and pyarrow are not installed.
        DiscorankError: what `rankings` raises.
    """
    where = "to_dataset"
    require(where, "pyarrow", "datasets")
    from datasets import Dataset
    from datasets.table import InMemoryTable

    rows = (json.loads(json_row(ranking)) for ranking in rankings)
    return Dataset(InMemoryTable(table_of(rows)))
