"""Files of a model that change under a process: what scores is what the signature says, or there is an error."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from discorank import DiscorankError, MBRDecoder, Metric, ModelLoadError, load_metric
from discorank.metrics.lexical.nist import NIST
from discorank.metrics.neural.models.files import model_files
from discorank.metrics.rst.metric import DR
from discorank.metrics.rst.parser import parser as rst_parser
from discorank.metrics.storage import checksums
from discorank.metrics.storage.checksums import digest_of
from discorank.rerank.engines.local import LocalEngine

MODELS = Path(__file__).parents[4] / "golden" / "docmetrics" / "models"
TEXTS = ["the old mill", "a mill", "the mill turns near the river", "rivers"]
Replace = Callable[[Path], None]


def other(file: Path) -> bytes:
    """As many bytes: those of the second half, numbers of four bytes in a model, stand 64 places further."""
    data = file.read_bytes()
    middle = len(data) - len(data) // 8 * 4
    half = data[middle:]
    return data[:middle] + half[-64:] + half[:-64]


def renamed(file: Path) -> None:
    """Another file of the same size and time takes the place of this one."""
    status = file.stat()
    draft = file.with_name("draft")
    draft.write_bytes(other(file))
    os.utime(draft, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(draft, file)


def overwritten(file: Path) -> None:
    """This file gets other bytes, as many, and the time it had."""
    status = file.stat()
    data = other(file)
    with open(file, "r+b") as opened:
        opened.write(data)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


both_ways = pytest.mark.parametrize("replace", [renamed, overwritten])


@pytest.fixture(params=["young", "settled"])
def weights(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The weights of an encoder; digests of settled files are remembered, of young ones not."""
    folder = tmp_path / "encoder"
    shutil.copytree(MODELS / "tiny-bert", folder)
    if request.param == "settled":
        monkeypatch.setattr(checksums, "SETTLED_NS", 0)
    time.sleep(0.02)  # a tick of the file system's clock
    yield folder / "model.safetensors"
    checksums.settled_digest.cache_clear()


def encoder_of(weights: Path) -> Metric:
    metric = load_metric("bertscore", model=str(weights.parent), layer=2)
    assert isinstance(metric, Metric)
    return metric


def values(metric: Metric) -> bytes:
    return metric.pairwise(TEXTS, TEXTS).tobytes()


@both_ways
def test_what_was_loaded_scores_under_its_digest(replace: Replace, weights: Path) -> None:
    before = encoder_of(weights)
    signature, expected = before.signature(), values(before)
    replace(weights)
    assert (before.signature(), values(before)) == (signature, expected)
    after = encoder_of(weights)
    assert values(after) != expected
    assert after.signature() != signature
    with pytest.raises(DiscorankError, match="has the digest"):
        load_metric(signature)


@both_ways
def test_what_changed_before_it_was_loaded_is_refused(replace: Replace, weights: Path) -> None:
    metric = encoder_of(weights)
    assert metric.signature()
    replace(weights)
    for _ in range(2):
        with pytest.raises(ModelLoadError, match="the files have changed: digest"):
            values(metric)


@both_ways
def test_what_changes_while_it_is_loaded_is_refused(
    replace: Replace, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = encoder_of(weights)
    load = type(metric).load

    def slow(self: Metric) -> object:
        scorer = load(self)
        replace(weights)
        return scorer

    monkeypatch.setattr(type(metric), "load", slow)
    for _ in range(2):
        with pytest.raises(ModelLoadError, match="the files have changed: digest"):
            values(metric)


@both_ways
def test_an_engine_tells_equal_metrics_with_other_files_apart(
    replace: Replace, weights: Path
) -> None:
    engine, lists = LocalEngine(), [{"id": "x", "candidates": TEXTS}]
    before = encoder_of(weights)
    (first,) = MBRDecoder(before).decode(lists, engine)
    replace(weights)
    after = encoder_of(weights)
    assert after == before
    (second,) = MBRDecoder(after).decode(lists, engine)
    (alone,) = MBRDecoder(after).decode(lists, LocalEngine())
    (again,) = MBRDecoder(before).decode(lists, engine)
    assert second.utility == alone.utility != first.utility
    assert again.utility == first.utility


def test_a_file_that_changes_while_its_digest_is_made_is_refused(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "SETTLED_NS", 0)
    read = digest_of

    def slow(file: Path) -> bytes:
        digest = read(file)
        renamed(file)
        return digest

    monkeypatch.setattr(checksums, "digest_of", slow)
    with pytest.raises(ModelLoadError, match=r"model\.safetensors"):
        checksums.remembered_digest(weights)


def test_settled_files_are_read_once(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "SETTLED_NS", 0)
    reads = []
    read = digest_of

    def counted(file: Path) -> bytes:
        reads.append(file)
        return read(file)

    monkeypatch.setattr(checksums, "digest_of", counted)
    for _ in range(3):
        model_files.digest(weights)
    assert reads == [weights]


TREE = "( Root (span 1 1) ( Nucleus (leaf 1) (rel2par span) (text _!the mill_!) ) )\n"
OTHER_FILES: dict[str, tuple[Callable[[str], Metric], bytes]] = {
    "texts": (
        lambda file: NIST(information=file),
        "".join(f"the mill number {n} turns\n" for n in range(200)).encode(),
    ),
    "trees.dis": (lambda file: DR(trees=file), (TREE + " " * 3000 + "\n").encode()),
    "english.npz": (lambda file: DR(weights=file), rst_parser.SHIPPED.read_bytes()),
}


@both_ways
@pytest.mark.parametrize("name", OTHER_FILES)
def test_other_files_that_change_are_refused(replace: Replace, name: str, tmp_path: Path) -> None:
    made, content = OTHER_FILES[name]
    file = tmp_path / name
    file.write_bytes(content)
    late = made(str(file))
    replace(file)
    with pytest.raises(DiscorankError):
        values(late)
