"""Choosing inside Ray Data, and what was chosen as a Hugging Face dataset.

    dataset.map_batches(BatchDecider, fn_constructor_args=[MBRDecoder(utility="chrf")],
                        batch_format="pyarrow", compute=ray.data.ActorPoolStrategy(size=2))
Its workers load their metrics once. Every row in is a row out: of a list that cannot be read or decided, one whose
``error`` says why. Ray is not imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...metrics.errors import DiscorankError, InputError, excerpt
from ...metrics.optional_packages import require
from ...rerank.choice import Ranking
from ...rerank.decider import Decider
from ...rerank.engines.local import LocalEngine
from ...rerank.lists import CandidateList, plain, read_list
from ...rerank.runs.run import json_row
from ...rerank.runs.table_files import table_of
from ...rerank.scheduler import Outcome
from .columns import ColumnNames, FittedColumns
from .table_process import check_type, rows_of

if TYPE_CHECKING:
    from datasets import Dataset


NAME = "batch"
Read = tuple[str | None, CandidateList | DiscorankError]  # the id of a row, and its list or error


class BatchDecider:
    """Decides the lists of a batch, a row each.

    Args:
        decider: an MBRDecoder or a Reranker.
        columns: which columns are which keys, as for ``--columns``.
        keep: columns of the input that stand in the output too.

    Raises:
        InputError: the metrics read preceding sentences, which a batch of Ray Data does not have.
        ModelLoadError: a metric cannot be loaded.
    """

    def __init__(
        self, decider: Decider, columns: Sequence[str] = (), keep: Sequence[str] = ()
    ) -> None:
        require(type(self).__name__, "pyarrow")
        if decider.width:
            problem = (
                "the metrics read preceding sentences, and Ray Data cuts documents into batches"
            )
            fix = "Use discorank decode --engine ray, which keeps documents in order"
            raise InputError(problem, where="decider", fix=fix)
        self._decider = decider
        self._names = ColumnNames.read(columns)
        self._keep = tuple(keep)
        self._engine = LocalEngine()
        self._engine.load(decider.metrics)

    def __call__(self, batch: Any) -> Any:
        """The decisions of a batch (a pyarrow.Table), as one: id, index, text, utility, gap, ranking, flags, error.

        Raises:
            InputError: the batch is no table, has other columns, or a row that is not as Arrow has it.
            ResourceError: memory or a server is gone; Ray tries the batch again.
        """
        import pyarrow as pa

        if not isinstance(batch, pa.Table):
            problem = f"found a batch of the type {type(batch).__name__}, expected a pyarrow.Table"
            raise InputError(problem, where=NAME, fix='Give batch_format="pyarrow" to map_batches')
        for name in self._keep:
            if name not in batch.column_names:
                raise InputError(f"there is no column {name!r:.80}", where="keep")
        read = list(self._read(batch))
        outcomes = self._decider.outcomes(read, self._engine)
        rows = [_row(identity, outcome) for identity, outcome in outcomes]
        made = _table(rows)
        for name in self._keep:
            made = made.append_column(batch.schema.field(name), batch.column(name))
        return made

    def _read(self, batch: Any) -> Iterator[Read]:
        """Every row as a list, or what is wrong with it."""
        fitted = self._names.fitted(batch.column_names, NAME, "list")
        if fitted.is_flat:
            problem = "a row is a candidate (text), and Ray Data cuts lists into batches"
            fix = "Group the rows of a list first, or use discorank decode"
            raise InputError(problem, where=NAME, fix=fix)
        for column in fitted.read:
            check_type(batch.schema.field(column).type, f"{NAME}, column {column!r:.80}")
        number = 1
        for part in batch.select(fitted.read).combine_chunks().to_batches():
            for at, row in rows_of(part, number, lambda at: f"{NAME}, row {at - 1}"):
                yield _list(fitted, row, at)
            number += len(part)


def _list(fitted: FittedColumns, row: dict[str, Any], number: int) -> Read:
    """The list of a row."""
    data = fitted.keyed(row, number)
    identity = data.get("id") if isinstance(data.get("id"), str) else None
    try:
        return identity, read_list(data)
    except InputError as error:
        return identity, error


def _row(identity: str | None, outcome: Outcome) -> dict[str, Any]:
    """The row of a decision, of an error, or of a list that only lends context."""
    if isinstance(outcome, DiscorankError):
        return {"id": identity, "error": str(outcome)}
    if outcome is None:
        return {"id": identity}
    ranking = [
        {"index": ranked.index, "count": ranked.count, "utility": ranked.utility}
        for ranked in outcome.ranking
    ]
    return {
        "id": outcome.id,
        "index": outcome.index,
        "text": plain(outcome.text),
        "utility": outcome.utility,
        "gap": outcome.gap,
        "ranking": ranking,
        "flags": list(outcome.flags),
    }


def _table(rows: Sequence[dict[str, Any]]) -> Any:
    """Rows as a table of the same columns whatever is in them, so that Ray can put tables together."""
    import pyarrow as pa

    has_documents = any(isinstance(row.get("text"), list) for row in rows)
    has_texts = any(isinstance(row.get("text"), str) for row in rows)
    if has_documents and has_texts:
        text = next(row["text"] for row in rows if isinstance(row.get("text"), list))
        problem = f"chosen texts of one batch are strings and documents ({excerpt(text)})"
        raise InputError(problem, where=NAME, fix="Give every dataset texts of one kind")
    kind = pa.list_(pa.string()) if has_documents else pa.string()
    place = pa.struct([("index", pa.int64()), ("count", pa.int64()), ("utility", pa.float64())])
    fields = [
        ("id", pa.string()),
        ("index", pa.int64()),
        ("text", kind),
        ("utility", pa.float64()),
        ("gap", pa.float64()),
        ("ranking", pa.list_(place)),
        ("flags", pa.list_(pa.string())),
        ("error", pa.string()),
    ]
    return pa.Table.from_pylist(list(rows), schema=pa.schema(fields))


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
