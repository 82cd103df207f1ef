"""Files of models: where they are, their digests, and what a metric does when they are not those of its signature."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from discorank import InputError, Metric, ModelLoadError
from discorank.metrics.neural.models.files import model_files
from discorank.metrics.registry import load_metric as load_any
from discorank.metrics.spec.signature import portable

MODELS = Path(__file__).parents[4] / "golden" / "docmetrics" / "models"
BERT = {"model": str(MODELS / "tiny-bert"), "layer": 2}
COMET = {"model": str(MODELS / "tiny-comet-ref"), "encoder_path": str(MODELS / "tiny-xlmr")}
CONTEXT = {"context": 2, "compat": "reference", "max_tokens": 128, "dtype": "bfloat16"}
SIGNATURES = [
    ("bertscore", BERT, 'bertscore(model="@sha256:2162f708afb7ed95",layer=2)'),
    (
        "bertscore",
        {**BERT, **CONTEXT, "aggregate": "P", "match": "sentence", "context_from": "hypothesis"},
        'bertscore(model="@sha256:2162f708afb7ed95",max_tokens=128,compat="reference",dtype="bfloat16",context=2,'
        'layer=2,match="sentence",aggregate="P",context_from="hypothesis")',
    ),
    (
        "bertscore",
        {**BERT, "rescale": True, "baseline": str(MODELS / "baseline_tiny.tsv")},
        'bertscore(model="@sha256:2162f708afb7ed95",layer=2,rescale=true,baseline="@sha256:17bd4fc73451ed59")',
    ),
    (
        "comet",
        COMET,
        'comet(model="@sha256:d0efe56455cbdf42",encoder_path="@sha256:9026ac1908ab09ae")',
    ),
    (
        "doc-comet-qe",
        {**COMET, "model": str(MODELS / "tiny-comet-qe"), "truncation": "reference"},
        'comet-qe(model="@sha256:22b1728478801dd4",context=2,truncation="reference",'
        'encoder_path="@sha256:9026ac1908ab09ae")',
    ),
]


def load_metric(name: str, **settings: Any) -> Metric:
    metric = load_any(name, **settings)
    assert isinstance(metric, Metric)
    return metric


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What was asked of the hub, which is not there."""
    asked: list[tuple[Any, ...]] = []

    def fetch(name: str, **settings: Any) -> str:
        asked.append((name, settings))
        raise ConnectionError("no network\nmore of it")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    return asked


@pytest.mark.parametrize(("name", "settings", "wanted"), SIGNATURES)
def test_signatures_are_frozen(name: str, settings: dict[str, Any], wanted: str) -> None:
    metric = load_metric(name, **settings)
    assert portable(metric.signature()) == wanted
    assert load_metric(metric.signature()) == metric
    assert load_metric(metric.signature()).signature() == metric.signature()
    assert hash(load_metric(metric.signature())) == hash(metric)


def test_device_and_batches_do_not_stand_in_a_signature() -> None:
    plain, other = (
        load_metric("comet", **COMET),
        load_metric("comet", **COMET, device="cpu", batch_tokens=7),
    )
    assert plain == other
    assert hash(plain) == hash(other)
    assert plain.signature() == other.signature()
    assert load_metric("comet", **COMET, dtype="bfloat16") != plain


def copied(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(MODELS / name, tmp_path / name))


@pytest.mark.parametrize(
    "file", ["config.json", "model.safetensors", "tokenizer.json", "vocab.txt"]
)
def test_a_changed_file_is_refused(file: str, tmp_path: Path) -> None:
    folder = copied("tiny-bert", tmp_path)
    metric = load_metric("bertscore", model=str(folder), layer=2)
    signature = metric.signature()
    assert portable(signature) == SIGNATURES[0][2], "a moved model is the same model"
    data = (folder / file).read_bytes()
    is_weights = file.endswith(".safetensors")
    changed = data[:-1] + bytes([data[-1] ^ 1]) if is_weights else data + b"\n"
    (folder / file).write_bytes(changed)
    with pytest.raises(InputError, match="2162f708afb7ed95"):
        load_metric(signature)
    with pytest.raises(ModelLoadError, match="2162f708afb7ed95"):
        metric.scorer  # noqa: B018
    assert load_metric("bertscore", model=str(folder), layer=2).signature() != signature


def test_a_file_that_changes_on_the_way_to_another_process_is_refused(tmp_path: Path) -> None:
    folder = copied("tiny-comet-ref", tmp_path)
    metric = load_metric("comet", model=str(folder), encoder_path=COMET["encoder_path"])
    metric.signature()
    sent = pickle.dumps(metric)
    with open(folder / "hparams.yaml", "a") as out:
        out.write("# more\n")
    with pytest.raises(ModelLoadError, match="the files have changed"):
        pickle.loads(sent).scorer  # noqa: B018


@pytest.mark.parametrize("file", ["README.md", ".gitattributes", "training.log", "optimizer.pt"])
def test_other_files_do_not_count(file: str, tmp_path: Path) -> None:
    folder = copied("tiny-bert", tmp_path)
    before = model_files.digest(folder)
    (folder / file).write_text("x")
    assert model_files.digest(folder) == before


def test_what_a_digest_is_made_of(tmp_path: Path) -> None:
    folder = copied("tiny-bert", tmp_path)
    whole, light = model_files.digest(folder), model_files.digest(folder, weights=False)
    (folder / "pytorch_model.bin").write_bytes(
        b"the other kind of weights, not read where the first is"
    )
    assert model_files.digest(folder) == whole
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-1] + b"x")
    assert model_files.digest(folder) != whole
    assert model_files.digest(folder, weights=False) == light
    (folder / "model.safetensors").write_bytes(weights)
    assert model_files.digest(folder) == whole
    (folder / "vocab.txt").rename(folder / "vocab.json")
    assert model_files.digest(folder) != whole, "names count"


def test_a_file_of_the_same_size_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "idf.txt"
    path.write_text("one\n")
    os.utime(path, ns=(1, 1))
    before = model_files.digest(path)
    path.write_text("two\n")
    os.utime(path, ns=(2, 2))
    assert model_files.digest(path) != before


def test_a_checkpoint_by_its_folder_and_by_its_file() -> None:
    folder = MODELS / "tiny-comet-ref"
    by_file = load_metric("comet", **{**COMET, "model": str(folder / "checkpoints" / "model.ckpt")})
    by_folder = load_metric("comet", **COMET)
    pair = ["a cat"], ["the dog"], "ein Hund"
    assert by_file.pairwise(*pair).tobytes() == by_folder.pairwise(*pair).tobytes()
    assert load_metric(by_file.signature()) == by_file


def test_the_settings_beside_a_checkpoint_count(tmp_path: Path) -> None:
    folder = copied("tiny-comet-ref", tmp_path)
    file = folder / "checkpoints" / "model.ckpt"
    before = model_files.digest(file)
    with open(folder / "hparams.yaml", "a") as out:
        out.write("# more\n")
    assert model_files.digest(file) != before


@pytest.mark.parametrize(
    "model", ["/no/such/folder", "./none", "~/none-such", "a/b/c", "none\\such", "none.gguf"]
)
def test_a_path_that_is_not_there_is_not_asked_of_the_hub(model: str, no_hub: list[Any]) -> None:
    with pytest.raises(ModelLoadError, match="no such file"):
        load_metric("bertscore", model=model, layer=1).signature()
    assert not no_hub


@pytest.mark.parametrize("name", ["bertscore", "comet", "embedding"])
def test_a_hub_that_is_not_there(name: str, no_hub: list[Any]) -> None:
    metric = load_metric(name, model="some/model", revision="v2")
    with pytest.raises(ModelLoadError, match=r"'some/model'.*HF_HOME"):
        metric.scorer  # noqa: B018
    assert [(asked, more["revision"]) for asked, more in no_hub] == [("some/model", "v2")]


@pytest.mark.parametrize(
    ("model", "meant"),
    [("gemma3", "gemma3-270m"), ("SmolLM2-135M", "smollm2"), ("MiniLM-L6", "minilm")],
)
def test_a_name_near_that_of_a_bundled_model(model: str, meant: str, no_hub: list[Any]) -> None:
    with pytest.raises(ModelLoadError, match=f"Did you mean '{meant}'"):
        model_files.locate(model)
    assert no_hub


def test_what_is_fetched_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sharded model needs its index; an encoder's weights stand in the checkpoint."""
    asked: dict[str, list[str]] = {}

    def fetch(name: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked[name] = allow_patterns
        return COMET["encoder_path"]

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    load_metric("bertscore", model="some/sharded-encoder", layer=1).signature()
    assert any(
        pattern.endswith("index.json") or pattern == "*.json"
        for pattern in asked["some/sharded-encoder"]
    )
    load_metric("comet", model=COMET["model"], encoder_path="some/large-encoder").signature()
    assert not set(asked["some/large-encoder"]) & set(model_files.WEIGHTS), "gigabytes for nothing"


def test_a_name_is_the_same_with_its_digest() -> None:
    plain = load_metric("bertscore", **BERT)
    named = replace(plain, model=f"{BERT['model']}@sha256:2162f708afb7ed95")  # type: ignore[call-arg]
    assert named == plain
    with pytest.raises(InputError, match="expected 0000000000000000"):
        load_metric("bertscore", layer=2, model=f"{BERT['model']}@sha256:0000000000000000")


def test_models_are_what_the_golden_values_were_made_with() -> None:
    from hashlib import sha256

    golden = MODELS.parent
    wanted = json.loads((golden / "cases.json").read_text(encoding="utf-8"))["sha256"]
    digests = {
        name: sha256((golden / name).read_bytes()).hexdigest()
        for name in wanted
        if (golden / name).is_file()
    }
    assert len(digests) > 30
    assert digests == {name: wanted[name] for name in digests}


@pytest.mark.parametrize(
    ("kind", "fact"),
    [
        ("LocalEntryNotFoundError", "cannot be reached"),
        ("OfflineModeIsEnabled", "cannot be reached"),
        ("GatedRepoError", "HF_TOKEN"),
        ("RepositoryNotFoundError", "no model"),
        ("SomethingElse", "SomethingElse"),
    ],
)
def test_errors_of_the_hub_are_one_line(
    monkeypatch: pytest.MonkeyPatch, kind: str, fact: str
) -> None:
    def fetch(*_: Any, **__: Any) -> None:
        raise type(kind, (OSError,), {})("so\n it is")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    with pytest.raises(ModelLoadError, match=fact) as caught:
        load_metric("comet", model=f"some/{kind}").scorer  # noqa: B018
    assert "\n" not in str(caught.value)
