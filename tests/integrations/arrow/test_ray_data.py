"""Choosing inside Ray Data: loaded metrics are kept, error records stay, columns are the same in every batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discorank import BatchDecider, MBRDecoder, Reranker
from discorank.metrics.errors import InputError

pa = pytest.importorskip("pyarrow")
MODELS = Path(__file__).parents[2] / "golden" / "docmetrics" / "models"
ROWS = [
    {"id": f"l{i}", "candidates": [f"the cat {i}", f"a cat {i} sat", f"the cat {i} sat"]}
    for i in range(12)
]
FAULTY: list[dict[str, Any]] = [{**row} for row in ROWS]
FAULTY[5]["candidates"] = []
FAULTY[7]["id"] = None


def chosen(rows: list[dict[str, Any]]) -> list[str]:
    return [ranking.text for ranking in MBRDecoder(utility="chrf").decode(rows)]  # type: ignore[misc]


def test_a_batch_is_decided_row_by_row() -> None:
    decide = BatchDecider(MBRDecoder(utility="chrf"))
    made = decide(pa.Table.from_pylist(ROWS))
    assert made["text"].to_pylist() == chosen(ROWS)
    assert made["error"].to_pylist() == [None] * 12
    assert made["ranking"][0].as_py()[0]["index"] == made["index"][0].as_py()


def test_error_records_stay() -> None:
    made = BatchDecider(MBRDecoder(utility="chrf"))(pa.Table.from_pylist(FAULTY))
    errors = made["error"].to_pylist()
    assert errors[5] == "candidates: no candidates, expected at least one"
    assert errors[7] == "id: found nothing, expected a text or a whole number"
    assert [i for i, error in enumerate(errors) if error] == [5, 7]
    good = [i for i in range(12) if i not in (5, 7)]
    texts = made["text"].to_pylist()
    assert [texts[i] for i in good] == chosen([ROWS[i] for i in good])


def test_columns_are_kept_and_named() -> None:
    table = pa.table({"pid": ["a"], "out": [["x y", "x"]], "lps": [[-2.0, -1.0]], "k": [7]})
    names = ["id=pid", "candidates=out", "candidates.logprob=lps"]
    decide = BatchDecider(Reranker(features={"logprob": 1.0}), columns=names, keep=["k", "pid"])
    [row] = decide(table).to_pylist()
    assert (row["id"], row["text"], row["index"], row["k"], row["pid"]) == ("a", "x", 1, 7, "a")


def test_every_batch_has_the_same_columns() -> None:
    decide = BatchDecider(MBRDecoder(utility="chrf"))
    good = decide(pa.Table.from_pylist(ROWS[:1]))
    bad = decide(pa.Table.from_pylist([{"id": "a", "candidates": [None]}]))
    assert good.schema == bad.schema
    documents = decide(pa.Table.from_pylist([{"id": "a", "candidates": [["A b.", "C."], ["A."]]}]))
    assert documents["text"].type == pa.list_(pa.string())


def test_a_column_that_is_needed_is_asked_for() -> None:
    decide = BatchDecider(MBRDecoder(utility="chrf"))
    with pytest.raises(InputError, match=r"no column candidates or text.*pid, out.*text=COLUMN"):
        decide(pa.table({"pid": ["a"], "out": [["x", "y"]]}))
    with pytest.raises(InputError, match=r"a row is a candidate \(text\).*Group the rows"):
        decide(pa.table({"id": ["a", "a"], "text": ["x", "y"]}))


def test_context_and_other_batches_are_refused() -> None:
    metric = f'doc-bertscore(model="{MODELS}/tiny-bert",layer=2)'
    with pytest.raises(InputError, match="read preceding sentences"):
        BatchDecider(MBRDecoder(utility=metric))
    with pytest.raises(InputError, match="keep: there is no column 'nothing'"):
        BatchDecider(MBRDecoder(utility="chrf"), keep=["nothing"])(pa.Table.from_pylist(ROWS))
    with pytest.raises(InputError, match=r'batch_format="pyarrow"'):
        BatchDecider(MBRDecoder(utility="chrf"))({"id": ["a"]})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
    )
    yield ray
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")  # of Ray Data's own
def test_ray_data_keeps_metrics_and_rows(cluster: Any) -> None:
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    dataset = ray.data.from_arrow(pa.Table.from_pylist(FAULTY)).repartition(3)
    made = dataset.map_batches(
        BatchDecider,
        fn_constructor_args=[MBRDecoder(utility="chrf")],
        batch_format="pyarrow",
        batch_size=4,
        compute=ray.data.ActorPoolStrategy(size=1),
    ).take_all()
    by_id = {row["id"]: row for row in made}
    assert len(made) == len(FAULTY)
    assert sum(row["error"] is not None for row in made) == 2
    good = [row for i, row in enumerate(ROWS) if i not in (5, 7)]
    assert [by_id[row["id"]]["text"] for row in good] == chosen(good)
