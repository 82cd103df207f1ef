"""Folders of models, looked at before torch is imported: every form of what is no file, every number that is none."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from discorank import (
    InputError,
    ModelLoadError,
    load_metric,
    read_trees,
    use_limits,
)
from discorank.cli.commands.cite import signatures_in
from discorank.metrics.errors import ResourceError
from discorank.metrics.neural.models import pretrained as loading
from discorank.metrics.neural.models.files.folder_checks import check_model, num_in_header
from discorank.metrics.neural.models.files.torch_checkpoint import check_torch_checkpoint
from discorank.metrics.neural.models.pretrained import pretrained
from discorank.metrics.rst.parser.weights import load as load_parser
from discorank.metrics.sescore2.training.edits import stop_words
from discorank.metrics.storage.bounded_files import check_archive
from discorank.metrics.storage.checksums import check_file
from discorank.metrics.storage.json_and_yaml import read_small_json, read_yaml
from discorank.metrics.storage.limits import Limits, limits
from discorank.rerank.prior import load_prior

MODELS = Path(__file__).parents[4] / "golden" / "docmetrics" / "models"
REFUSED = (InputError, ModelLoadError)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a model."""
    copy = tmp_path / "model"
    shutil.copytree(MODELS / "tiny-bert", copy)
    return copy


def configured(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# What is no file: how it is made.


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nothing")


def listening(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def terabyte(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 40)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "device": device,
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "loop": loop,
    "dangling": dangling,
    "socket": listening,
}
IN_A_FOLDER = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "chat_template.jinja",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "source.spm",
    "hparams.yaml",
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "sescore2.json",
]
ALONE: dict[str, Callable[[Path], object]] = {
    "a combination": lambda path: load_metric("combination", model=str(path)),
    "a prior": load_prior,
    "a YAML file": read_yaml,
    "a metric in YAML": lambda path: load_metric(path.rename(path.with_suffix(".yaml"))),
    "a run file": lambda path: signatures_in(str(path.rename(path.with_suffix(".json")))),
    "a JSON file": lambda path: read_small_json(path, ""),
    "a model": check_model,
    "a model that is one file": lambda path: load_metric("comet", model=str(path)).signature(),
    "a checkpoint": check_torch_checkpoint,
    "a file of tensors": num_in_header,
    "stop words": lambda path: stop_words(str(path), ()),
    "texts to count": lambda path: check_file(str(path)),
    "trees": read_trees,
    "packed trees": lambda path: read_trees(path.rename(path.with_suffix(".gz"))),
    "a parser": load_parser,
}


IN_FOLDERS_INSIDE = ["checkpoints/model.ckpt", "additional_chat_templates/a.jinja"]


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_in_a_folder_is_refused(folder: Path, kind: str) -> None:
    for name in IN_A_FOLDER if kind != "folder" else ["config.json", "model.safetensors"]:
        path = folder / name
        kept = path.rename(folder / "kept.log") if path.exists() else None
        NO_FILES[kind](path)
        with pytest.raises(ModelLoadError, match=name):
            load_metric("bertscore", model=str(folder), layer=1).signature()
        path.rmdir() if kind == "folder" else path.unlink()
        if kept:
            kept.rename(path)


@pytest.mark.parametrize("name", IN_FOLDERS_INSIDE)
def test_pipes_in_a_folder_inside_are_refused(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir()
    os.mkfifo(folder / name)
    with pytest.raises(ModelLoadError, match=Path(name).name):
        check_model(folder)


def test_other_things_in_a_folder_are_its_own(folder: Path) -> None:
    for name in ("tokenizer", "vocab", "onnx", ".git"):
        (folder / name).mkdir()
    os.mkfifo(folder / "log")
    terabyte(folder / "data.jsonl")
    (folder / "data_config.json").write_text("[1]")  # as the training data of MiniLM are listed
    check_model(folder)


@pytest.mark.parametrize("kind", [kind for kind in NO_FILES if kind != "folder"])
@pytest.mark.parametrize("form", ALONE)
def test_what_is_no_file_is_refused_everywhere(tmp_path: Path, form: str, kind: str) -> None:
    if "rename" in ALONE[form].__code__.co_names and kind == "loop":
        pytest.skip("a loop under another name leads to nothing")
    path = tmp_path / "f"
    NO_FILES[kind](path)
    with pytest.raises(REFUSED):
        ALONE[form](path)


def test_what_is_too_large_in_a_folder_is_refused(folder: Path) -> None:
    for name in IN_A_FOLDER:
        if not name.endswith((".bin", ".safetensors")):
            path = folder / name
            data = path.read_bytes() if path.exists() else None
            terabyte(path)
            with pytest.raises(ModelLoadError, match=f"{name}.*(--max|larger)"):
                check_model(folder)
            path.unlink() if data is None else path.write_bytes(data)


@pytest.mark.parametrize(
    "form", [form for form in ALONE if "model" not in form and "count" not in form]
)
def test_what_is_too_large_is_refused(tmp_path: Path, form: str) -> None:
    path = tmp_path / "f"
    terabyte(path)
    with pytest.raises(REFUSED):
        ALONE[form](path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "sescore2.json"])
def test_settings_that_are_no_object(folder: Path, name: str) -> None:
    large = json.dumps({"a": [0] * 1_100_000})
    for content in ("[" * 200_000, '{"a":' * 200_000, "{", "[]", "3", "\xff", large):
        (folder / name).write_bytes(content.encode("latin-1"))
        with pytest.raises(ModelLoadError, match=name):
            check_model(folder)


# Numbers.

NO_SIZES = [-1, 2.0, 1e300, "2", True, False]
# Keys that bert reads, and those of other families.
SIZES = ["num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size"]
SIZES += ["vocab_size", "type_vocab_size", "max_position_embeddings"]
REPEATED = ["num_hidden_layers", "n_layer", "decoder_layers", "mtp_layers", "num_attention_heads"]
REPEATED += ["num_key_value_heads", "num_local_experts"]


@pytest.mark.parametrize("key", [*REPEATED, "num_labels"])
@pytest.mark.parametrize("value", [10**9, 10**30, -1])
def test_a_number_of_repeated_parts_out_of_bounds(folder: Path, key: str, value: int) -> None:
    configured(folder, **{key: value})
    limit = "entries" if key == "num_labels" else "layers"
    with pytest.raises(ModelLoadError, match=rf"{key}.*--max {limit}="):
        check_model(folder)


@pytest.mark.parametrize("key", SIZES)
@pytest.mark.parametrize("value", [*NO_SIZES, 10**9, 10**30])
def test_a_size_that_cannot_be(folder: Path, key: str, value: Any) -> None:
    configured(folder, **{key: value})
    with pytest.raises(ModelLoadError):
        load_metric("bertscore", model=str(folder), layer=1).pairwise(["a"], ["b"])


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"text_config": {"inner": {"num_hidden_layers": 200_000}}}, "text_config.inner.*200000"),
        ({"num_attention_heads": [64, 10**9]}, "num_attention_heads.*1000000000"),
        ({"max_position_embeddings": -1}, "max_position_embeddings: found -1"),
        ({"depths": [2, 10**9]}, "depths.*1000000000"),
        ({"attention_types": [[["global", "local"], 10**9]]}, "attention_types.*1000000000"),
    ],
)
def test_sizes_inside_parts_and_of_every_layer(
    folder: Path, changes: dict[str, Any], found: str
) -> None:
    configured(folder, **changes)
    with pytest.raises(ModelLoadError, match=found):
        check_model(folder)


def test_weights_that_are_missing(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelLoadError, match="weights"):
        check_model(folder)
    check_model(folder, weights=False)


@pytest.mark.parametrize(
    "changes",
    [
        {"intermediate_size": 100_000},
        {"intermediate_size": 50_000, "dtype": "bfloat16"},
        {"intermediate_size": 100_000, "quantization_config": {"quant_method": "gptq", "bits": 2}},
        {"num_hidden_layers": 1000, "intermediate_size": 4000},
        {"num_hidden_layers": 2, "vocab_size": 1 << 22},
    ],
)
def test_a_configuration_of_more_than_its_weights(folder: Path, changes: dict[str, Any]) -> None:
    configured(folder, **changes)
    with pytest.raises(ModelLoadError, match="more than its files hold"):
        pretrained(folder)


def test_buffers_that_a_configuration_asks_for_are_counted(folder: Path) -> None:
    config = {"model_type": "gpt_neo", "num_layers": 1, "hidden_size": 8, "num_heads": 1}
    config |= {"vocab_size": 10, "attention_types": [[["global"], 1]]}
    # a mask of so many positions squared, which is in no file
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 60_000}))
    with pytest.raises(ModelLoadError, match="far more than its files hold"):
        pretrained(folder, "AutoModelForCausalLM", weights=False)
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 50}))
    pretrained(folder, "AutoModelForCausalLM", weights=False)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_model_that_is_refused_while_it_is_built_takes_no_memory(tmp_path: Path) -> None:
    """One of billions of numbers, and one of a file or a folder that does not say its sizes."""
    gguf = tmp_path / "model.gguf"
    header = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1)
    key, value = b"general.architecture", b"llama"
    gguf.write_bytes(header + struct.pack("<Q20sIQ5s", len(key), key, 8, len(value), value))
    paths = [gguf]
    for changes in ({}, {"vocab_size": 10**9}, {"num_hidden_layers": 4096, "hidden_size": 1200}):
        paths.append(Path(shutil.copytree(MODELS / "tiny-bert", tmp_path / str(len(paths)))))
        (paths[-1] / "config.json").write_text(json.dumps({"model_type": "bert", **changes}))
    code = (
        "import pathlib, re, sys, discorank\n"
        "from discorank.metrics.neural.models.pretrained import pretrained\n"
        "for path in sys.argv[1:]:\n"
        "    try: pretrained(pathlib.Path(path))\n"
        "    except discorank.ModelLoadError as error: print(error.problem)\n"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])\n"
    )
    words = [sys.executable, "-W", "ignore", "-c", code, *map(str, paths)]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    *problems, kilobytes = shown.splitlines()
    assert len(problems) == len(paths)
    assert all("more than its files hold" in problem for problem in problems), problems
    assert int(kilobytes) < 1_000_000


def test_two_threads_may_build_models_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is built, and refused, while the other registers a weight."""
    large = Path(shutil.copytree(folder, folder.parent / "large"))
    configured(large, intermediate_size=100_000)
    refused: list[Any] = []

    def meanwhile() -> Limits:
        if threading.current_thread() is threading.main_thread() and not refused:
            with ThreadPoolExecutor() as pool:
                refused.append(pool.submit(pretrained, large).exception())
        return limits()

    monkeypatch.setattr(loading, "limits", meanwhile)
    pretrained(folder)
    assert isinstance(refused[0], ModelLoadError)


def test_memory_that_runs_out_while_a_model_is_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    def loads(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")

    monkeypatch.setattr(transformers.BertModel, "from_pretrained", loads)
    with pytest.raises(ResourceError, match="out of memory while it is loaded") as caught:
        pretrained(folder)
    assert caught.value.exit_code == 5


def test_what_is_usual_passes(folder: Path) -> None:
    configured(
        folder,
        num_key_value_heads=None,
        n_inner=None,
        intermediate_size=[64, 64],
        share_decoder_layers=False,
        id2label={"0": "a"},
        rope_parameters={"rope_theta": 10**8, "factor": 8.0},
        layer_types=["full_attention"] * 2,
        mlp_only_layers=[],
        vision_feature_layer=-2,
    )
    check_model(folder)


def test_a_bound_of_a_model_can_be_raised(folder: Path) -> None:
    with use_limits(layers=1):
        with pytest.raises(ModelLoadError, match=r"expected 0 to 1\b.*--max layers="):
            check_model(folder)
        with use_limits(layers=4):
            check_model(folder)


# Weights.


def header(path: Path, about: Any, room: int = 0, length: int | None = None) -> Path:
    text = about if isinstance(about, bytes) else json.dumps(about).encode()
    length = len(text) if length is None else length
    path.write_bytes(struct.pack("<Q", length) + text + bytes(room))
    return path


def tensor(shape: Any = (2, 2), offsets: Any = (0, 16), dtype: str = "F32") -> dict[str, Any]:
    return {"t": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(
    "about",
    [
        tensor(offsets=(0, 1 << 40)),
        tensor(shape=(1 << 40, 1 << 40)),
        tensor(shape=(1 << 30, 4)),
        tensor(shape=(-2, -2)),
        tensor(shape=(2.0, 2)),
        tensor(shape=("2", 2)),
        tensor(shape=(True, 4)),
        tensor(shape=4),
        tensor(shape=None),
        tensor(offsets=(16, 0)),
        tensor(offsets=(0,)),
        tensor(offsets=None),
        tensor(dtype="F64"),
        {"t": 3},
        [],
        b"{",
        b'{"a":' * 100_000,
    ],
)
def test_a_header_that_cannot_be(tmp_path: Path, about: Any) -> None:
    with pytest.raises(InputError, match=r"m\.safetensors"):
        num_in_header(header(tmp_path / "m.safetensors", about, 16))


@pytest.mark.parametrize("length", [1 << 63, 1 << 30, 1 << 20, None])
def test_a_header_of_another_length(tmp_path: Path, length: int | None) -> None:
    path = header(tmp_path / "m.safetensors", tensor(), 16, length)
    if length is None:
        assert num_in_header(path) == 4
        path.write_bytes(b"\0\0")
    os.truncate(path, 1 << 31 if length == 1 << 30 else path.stat().st_size)
    with pytest.raises(InputError, match=r"m\.safetensors"):
        num_in_header(path)


def test_too_many_tensors(tmp_path: Path) -> None:
    nothing = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    path = header(tmp_path / "m.safetensors", {"a": nothing, "b": nothing, "__metadata__": {}})
    with use_limits(entries=1), pytest.raises(InputError, match="2 tensors, at most 1 are read"):
        num_in_header(path)
    assert num_in_header(path) == 0


@pytest.mark.parametrize("name", ["../x", "/dev/zero", "", "..", 3, None])
def test_an_index_that_leads_elsewhere(folder: Path, name: Any) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(ModelLoadError, match=r"index\.json"):
        check_model(folder)


# Archives.


def zipped(path: Path, members: int, comment: bytes = b"") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(members):
            archive.writestr(f"archive/data/{i}", b"")
        archive.comment = comment
    return path


@pytest.mark.parametrize("comment", [b"", b"PK\5\6", b"x" * 1000])
def test_members_are_counted_before_they_are_read(tmp_path: Path, comment: bytes) -> None:
    path = zipped(tmp_path / "m.ckpt", 20, comment)
    with use_limits(entries=19):
        for look in (check_archive, check_model, check_torch_checkpoint):
            with pytest.raises(REFUSED, match="19 members"):
                look(path)
    with use_limits(entries=20):
        check_archive(path)


def test_members_of_an_archive_that_says_it_has_few(tmp_path: Path) -> None:
    path = zipped(tmp_path / "m.ckpt", 20)
    data = bytearray(path.read_bytes())
    # the counts; zipfile goes by the bytes of the directory
    data[-14:-10] = struct.pack("<HH", 1, 1)
    path.write_bytes(b"a prefix" + bytes(data))
    with use_limits(entries=19), pytest.raises(InputError, match="more than 19 members"):
        check_archive(path)


def test_members_of_a_64_bit_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 10)
    path = zipped(tmp_path / "m.ckpt", 20)
    data = path.read_bytes()
    assert b"PK\6\6" in data
    # the bytes stand in the 64-bit form alone
    path.write_bytes(data[:-10] + b"\xff" * 8 + data[-2:])
    check_archive(path)
    with use_limits(entries=19), pytest.raises(InputError, match="more than 19 members"):
        check_archive(path)


def test_arrays_of_a_parser() -> None:
    from discorank.metrics.rst.parser.parser import SHIPPED

    with use_limits(memory_bytes=10), pytest.raises(ModelLoadError, match="at most 10"):
        load_parser(SHIPPED)


def test_an_array_that_says_it_is_larger(tmp_path: Path) -> None:
    about = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000,), }"
    array = b"\x93NUMPY\1\0" + struct.pack("<H", len(about)) + about
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
        archive.writestr("about.npy", array)
    with pytest.raises(ModelLoadError, match="1000000000000"):
        load_parser(tmp_path / "p.npz")


# Stages of training.
