"""Malformed test sets end in our error, which names the file, and in nothing else; the fuzzing is seeded."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discorank.integrations.formats.mtme.eval_set_folder import (
    EvalSetOptions,
    read_eval_set,
    read_ratings,
)
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.errors import InputError

from .formats.test_documents import SUMMARY, XML
from .test_hostile_inputs import dumped, mutated, spoiled

TOY = Path(__file__).parents[1] / "golden" / "mtme" / "evalset" / "toy"
RATED = {
    **SUMMARY,
    "model_id": "M2",
    "expert_annotations": [{"fluency": 5}],
    "turker_annotations": [{"fluency": 1}],
}
SEGMENT = {
    "doc_id": "d",
    "domain": "news",
    "source": "s",
    "refs": {"refA": {"ref": "r"}, "refB": "q"},
    "tgt_text": {"A": "x", "B": "é🚀"},
}
VALUES: dict[str, list[Any]] = {"summeval": [SUMMARY, RATED], "wmt-jsonl": [SEGMENT, SEGMENT]}
FOLDER_FILES = (
    "documents/he-en.docs",
    "sources/he-en.txt",
    "references/he-en.refA.txt",
    "system-outputs/he-en/zeta.txt",
    "human-scores/he-en.mqm.seg.score",
    "human-scores/he-en.mqm.domain.score",
    "human-scores/he-en.mqm.merged.seg.rating",
    "metric-scores/he-en/Good-refA.doc.score",
)


def broken(form: str, case: int) -> bytes:
    """The bytes of one malformed file."""
    draw = random.Random(f"{form} {case}")
    if form == "wmt-xml":
        return mutated(XML.encode(), draw)
    values = [spoiled(value, draw) if draw.random() < 0.6 else value for value in VALUES[form]]
    data = "".join(dumped(value) + "\n" for value in values).encode(errors="surrogatepass")
    return mutated(data, draw) if draw.random() < 0.5 else data


def read_all(path: Path, form: str) -> tuple[int, InputError | None]:
    """How many lists a file gives until its end, or until it is refused."""
    num_records = 0
    try:
        with open_lists(path, form) as lists:
            for entry in lists:
                num_records += entry.record is not None
    except InputError as error:
        return num_records, error
    return num_records, None


@pytest.mark.filterwarnings("ignore::discorank.integrations.formats.rated_texts.LeftOutWarning")
@pytest.mark.parametrize("form", ["wmt-xml", *VALUES])
def test_no_malformed_test_set_raises_anything_but_our_errors(tmp_path: Path, form: str) -> None:
    refused = records = 0
    for case in range(600):
        path = tmp_path / f"case{case}"
        path.write_bytes(broken(form, case))
        try:
            num_records, error = read_all(path, form)
        except Exception as raised:
            raise AssertionError(f"broken({form!r}, {case})") from raised
        assert error is None or str(path) in error.where, f"broken({form!r}, {case})"
        records += num_records
        refused += error is not None
        path.unlink()
    assert refused > 100
    assert records > 50


def refusal(read: Callable[[], Any]) -> InputError | None:
    try:
        read()
    except InputError as error:
        return error
    return None


def test_no_malformed_folder_raises_anything_but_our_errors(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    shutil.copytree(TOY, folder)
    zeros = EvalSetOptions(missing="zeros")
    whole = read_eval_set(folder, "he-en", zeros)
    refused = 0
    for name in FOLDER_FILES:
        path = folder / name
        good = path.read_bytes()
        for case in range(25):
            path.write_bytes(mutated(good, random.Random(f"{name} {case}")))

            def read(is_rating: bool = name.endswith(".rating")) -> None:
                read_ratings(folder, whole) if is_rating else read_eval_set(folder, "he-en", zeros)

            try:
                error = refusal(read)
            except Exception as raised:
                raise AssertionError(f"{name}, case {case}") from raised
            assert error is None or str(folder) in error.where
            refused += error is not None
        path.write_bytes(good)
    assert refused > 50
